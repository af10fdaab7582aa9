package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/testkit"
)

// scanned are the offsets that a scan hands over, by partition, and where it says
// that each range ends.
func scanned(t *testing.T, cfg kafka.Config, limit int, ranges ...kafka.Range) (offsets map[int32][]int64, next map[int32]int64) {
	t.Helper()
	offsets, next = map[int32][]int64{}, map[int32]int64{}
	err := kafka.Scan(t.Context(), cfg, testkit.Log(t), cfg.Topic(kafka.Raw), ranges, limit, func(c kafka.Chunk) error {
		if c.Len() > limit {
			t.Errorf("a chunk of %d records, want %d at most", c.Len(), limit)
		}
		counts := map[int32]int64{}
		scratch := make([]event.Header, 0, 4)
		for i := range c.Len() {
			r, own := c.Record(i, scratch[:0]), c.Record(i, nil)
			if string(r.Value) != fmt.Sprint(r.Partition, "/", r.Offset) || len(r.Headers) != 1 || r.Headers[0].Name != "n" || !slices.EqualFunc(r.Headers, own.Headers,
				func(a, b event.Header) bool { return a.Name == b.Name && string(a.Value) == string(b.Value) }) {
				t.Errorf("partition %d, offset %d is %q, headers %v", r.Partition, r.Offset, r.Value, r.Headers)
			}
			offsets[r.Partition] = append(offsets[r.Partition], r.Offset)
			counts[r.Partition]++
		}
		for p, n := range c.Counts() {
			if counts[p] != n {
				t.Errorf("it counts %d records of partition %d, and holds %d", n, p, counts[p])
			}
		}
		for p, at := range c.Next {
			if at < next[p] {
				t.Errorf("partition %d goes on at %d after %d", p, at, next[p])
			}
			next[p] = at
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return offsets, next
}

// between are the offsets from one on and before another.
func between(from, before int64) (offsets []int64) {
	for at := from; at < before; at++ {
		offsets = append(offsets, at)
	}
	return offsets
}

// numbered writes n records to each partition, from an offset on.
func numbered(t *testing.T, cl *kgo.Client, cfg kafka.Config, partitions int32, from, n int) {
	t.Helper()
	var records []*kgo.Record
	for p := range partitions {
		for i := from; i < from+n; i++ {
			records = append(records, &kgo.Record{Topic: cfg.Topic(kafka.Raw), Partition: p, Value: fmt.Append(nil, p, "/", i), Headers: []kgo.RecordHeader{{Key: "n", Value: []byte{1}}}})
		}
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func TestAScanBringsEachRangeWholeAndEndsWithTheLast(t *testing.T) {
	cfg := testkit.Kafka(t, 3)
	cl := testkit.Client(t, cfg, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	numbered(t, cl, cfg, 3, 0, 500)
	got, next := scanned(t, cfg, 64, kafka.Range{Partition: 0, From: 0, Before: 500}, kafka.Range{Partition: 1, From: 123, Before: 321}, kafka.Range{Partition: 2, From: 7, Before: 7})
	if !slices.Equal(got[0], between(0, 500)) || !slices.Equal(got[1], between(123, 321)) || len(got[2]) != 0 || next[0] != 500 || next[1] != 321 {
		t.Errorf("read %v, up to %v", got, next)
	}
	// Part of it is gone, then all of it.
	adm := kadm.NewClient(cl)
	for _, gone := range []int64{200, 500} {
		offsets := kadm.Offsets{}
		offsets.AddOffset(cfg.Topic(kafka.Raw), 0, gone, -1)
		if _, err := adm.DeleteRecords(t.Context(), offsets); err != nil {
			t.Fatal(err)
		}
		if got, next := scanned(t, cfg, 1000, kafka.Range{Partition: 0, From: 100, Before: 400}); !slices.Equal(got[0], between(min(gone, 400), 400)) || next[0] != 400 {
			t.Errorf("what began before %d is gone: read %v, up to %d", gone, got[0], next[0])
		}
	}
	if got, next := scanned(t, cfg, 1000, kafka.Range{Partition: 1, From: 490, Before: 900}); !slices.Equal(got[1], between(490, 500)) || next[1] != 900 {
		t.Errorf("a log that was cut off: read %v, up to %d", got[1], next[1])
	}
}

func TestAScanEndsBehindTransactionsThatWereAborted(t *testing.T) {
	cfg := testkit.Kafka(t, 1)
	numbered(t, testkit.Client(t, cfg, kgo.RecordPartitioner(kgo.ManualPartitioner())), cfg, 1, 0, 10)
	tx := testkit.Client(t, cfg, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(cfg.Topic("scan")))
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	numbered(t, tx, cfg, 1, 10, 5)
	if err := tx.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	// 10 to 14 were aborted, 15 is the marker.
	for _, before := range []int64{12, 16} {
		if got, next := scanned(t, cfg, 100, kafka.Range{Partition: 0, From: 3, Before: before}); !slices.Equal(got[0], between(3, 10)) || next[0] != before {
			t.Errorf("before %d: read %v, up to %d", before, got[0], next[0])
		}
	}
}

func TestAScanEndsWithItsOwnersErrorOrContext(t *testing.T) {
	cfg := testkit.Kafka(t, 1)
	numbered(t, testkit.Client(t, cfg, kgo.RecordPartitioner(kgo.ManualPartitioner())), cfg, 1, 0, 10)
	enough := errors.New("enough")
	all := []kafka.Range{{Partition: 0, From: 0, Before: 10}}
	if err := kafka.Scan(t.Context(), cfg, testkit.Log(t), cfg.Topic(kafka.Raw), all, 5, func(kafka.Chunk) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("ended with %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := kafka.Scan(ctx, cfg, testkit.Log(t), cfg.Topic(kafka.Raw), all, 5, func(kafka.Chunk) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

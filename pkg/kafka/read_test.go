package kafka_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/kafka"
	"sluice/pkg/testkit"
)

// A range that ends with the marker of a transaction ends too, and aborted records
// are not handed over.
func TestARangeIsReadToItsEndWhateverLiesThere(t *testing.T) {
	cfg := testkit.Kafka(t, 1)
	topic := cfg.Topic(kafka.Raw)
	cl := testkit.Client(t, cfg, kgo.TransactionalID(topic))
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("a")}, &kgo.Record{Topic: topic, Value: []byte("b")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := cl.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, c := range []struct {
		from, before int64
		want         []int64
	}{{0, 6, []int64{0, 1}}, {0, 3, []int64{0, 1}}, {1, 2, []int64{1}}, {3, 6, nil}, {2, 2, nil}} {
		var got []int64
		err := kafka.Read(ctx, cfg, testkit.Log(t), topic, []kafka.Range{{From: c.from, Before: c.before}}, func(r kafka.Record) bool {
			got = append(got, r.Offset)
			return true
		})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("offsets %d to %d: got %v, %v; want %v", c.from, c.before, got, err, c.want)
		}
	}
	offsets, err := kafka.NewOffsets(ctx, cfg, testkit.Log(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	defer offsets.Close()
	if at, err := offsets.At(ctx, time.Now().Add(time.Hour)); err != nil || at[0] != 6 {
		t.Errorf("the offset of the first record of the next hour is %v, %v; want the end, 6", at, err)
	}
}

func TestAKeysPartitionIsTheProducers(t *testing.T) {
	cfg := testkit.Kafka(t, 5)
	cl := testkit.Client(t, cfg)
	for _, key := range []string{"evt_1", "evt_2", "order 3", "é", "evt_1PqRs2"} {
		r, err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: cfg.Topic(kafka.Raw), Key: []byte(key), Value: []byte("x")}).First()
		if err != nil {
			t.Fatal(err)
		}
		if p := kafka.PartitionOf([]byte(key), 5); p != r.Partition {
			t.Errorf("key %q lies in partition %d, not %d", key, r.Partition, p)
		}
	}
}

package kafka_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/pkg/kafka"
	"sluice/pkg/testkit"
)

func newPublisher(t testing.TB, cfg kafka.Config) *kafka.Publisher {
	t.Helper()
	p, err := kafka.NewPublisher(t.Context(), cfg, testkit.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// statusBatch has n records of ten keys; their values tell their places.
func statusBatch(cfg kafka.Config, n int) []kafka.Record {
	rs := make([]kafka.Record, n)
	for i := range rs {
		rs[i] = kafka.Record{Topic: cfg.Topic(kafka.Status), Key: fmt.Append(nil, "order-", i%10), Value: fmt.Append(nil, i)}
	}
	return rs
}

// readValues reads n records and says whether each key's places ascend.
func readValues(t *testing.T, cfg kafka.Config, n int) (values []string) {
	t.Helper()
	cl := testkit.Client(t, cfg, kgo.ConsumeTopics(cfg.Topic(kafka.Status)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	last := map[string]int{}
	for len(values) < n && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			values = append(values, string(r.Value))
			var place int
			if _, err := fmt.Sscan(string(r.Value), &place); err != nil {
				return
			}
			if at, ok := last[string(r.Key)]; ok && place <= at {
				t.Errorf("key %s: %d came after %d", r.Key, place, at)
			}
			last[string(r.Key)] = place
		})
	}
	if len(values) != n {
		t.Fatalf("read %d records, want %d", len(values), n)
	}
	return values
}

func TestAPublishedBatchIsThereInOrder(t *testing.T) {
	cfg := testkit.Kafka(t, 0)
	if err := newPublisher(t, cfg).Publish(t.Context(), statusBatch(cfg, 5000)); err != nil {
		t.Fatal(err)
	}
	readValues(t, cfg, 5000)
}

// O32: what the client itself can refuse, and what only the broker does, is found
// among its neighbours, which go out in order.
func TestARecordThatIsRefusedTakesNoHostages(t *testing.T) {
	for name, limit := range map[string]string{"by the client": "5000000", "by the broker": "200000"} {
		t.Run(name, func(t *testing.T) {
			cfg := testkit.Kafka(t, 0)
			adm, topic := testkit.Admin(t, cfg), cfg.Topic(kafka.Status)
			if _, err := adm.DeleteTopic(t.Context(), topic); err != nil {
				t.Fatal(err)
			}
			if _, err := adm.CreateTopic(t.Context(), 6, 1, map[string]*string{"max.message.bytes": &limit}, topic); err != nil {
				t.Fatal(err)
			}
			batch := statusBatch(cfg, 500)
			size := 2 << 20 // beyond the client's batch
			if limit == "200000" {
				size = 300_000
			}
			for _, at := range []int{100, 101, 333} {
				batch[at].Value = make([]byte, size) // incompressible
				_, _ = rand.Read(batch[at].Value)
			}
			err := newPublisher(t, cfg).Publish(t.Context(), batch)
			var part *kafka.PublishError
			if !errors.As(err, &part) {
				t.Fatalf("publish: %v, want a *PublishError", err)
			}
			if !slices.Equal(part.Refused, []int{100, 101, 333}) || len(part.Failed) > 0 {
				t.Errorf("refused %v, failed %v", part.Refused, part.Failed)
			}
			if !errors.Is(err, kerr.MessageTooLarge) {
				t.Errorf("the reason is %v", err)
			}
			readValues(t, cfg, 497)
		})
	}
}

// O39: an error names exactly the records without acknowledgement, in order.
func TestAPartitionThatFailsFailsItsRecordsOnly(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(6, kafka.Status))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cfg := kafka.Config{Brokers: c.ListenAddrs()}
	p := newPublisher(t, cfg)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: kafka.Status, Partitions: []int32{0, 1, 2}, Err: kerr.UnknownServerError, Count: -1})
	batch := statusBatch(cfg, 200)
	var part *kafka.PublishError
	if err := p.Publish(t.Context(), batch); !errors.As(err, &part) {
		t.Fatalf("publish: %v, want a *PublishError", err)
	}
	if len(part.Failed) == 0 || len(part.Refused) > 0 || !slices.IsSorted(part.Failed) {
		t.Fatalf("failed %d, refused %d", len(part.Failed), len(part.Refused))
	}
	got := readValues(t, cfg, 200-len(part.Failed))
	for _, at := range part.Failed {
		if slices.ContainsFunc(got, func(v string) bool { return bytes.Equal([]byte(v), batch[at].Value) }) {
			t.Fatalf("record %d is said to have failed and is there", at)
		}
	}
}

func TestPublishWaitsForABrokerThatIsAwayAsLongAsItsContextLives(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(6, kafka.Status))
	if err != nil {
		t.Fatal(err)
	}
	// Its client goes on for a moment after its Close, and must not write to t then.
	p, err := kafka.NewPublisher(t.Context(), kafka.Config{Brokers: c.ListenAddrs()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	cfg := kafka.Config{Brokers: c.ListenAddrs()}
	c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Publish(ctx, statusBatch(cfg, 10)) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("publish: %v, want the context's error", err)
	}
}

// BenchmarkPublish compares compressions on batches of status messages.
func BenchmarkPublish(b *testing.B) {
	cfg := testkit.Kafka(b, 0)
	const n = 8192
	value := func(i int) []byte {
		return fmt.Appendf(nil, `{"specversion":"1.0","id":"ord_%d.2","source":"sluice","type":"order.status_changed","subject":"ord_%d","time":"2026-11-30T17:00:00.%06dZ",`+
			`"datacontenttype":"application/json","data":{"order_id":"ord_%d","version":2,"status":"paid","previous_status":"pending","amount":{"value":%d,"currency":"EUR"},`+
			`"paid":%d,"refunded":0,"dispute":"none","cause":{"source":"stripe-eu","event_id":"evt_%x"},"occurred_at":"2026-11-30T16:59:59Z","correction":false}}`,
			i, i, i, i, i*7, i*7, i*0x9e3779b97f4a7c)
	}
	for name, codec := range map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()} {
		b.Run(name, func(b *testing.B) {
			cl := testkit.Client(b, cfg, kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(50_000))
			for b.Loop() {
				for i := range n {
					cl.Produce(b.Context(), &kgo.Record{Topic: cfg.Topic(kafka.Status), Key: fmt.Append(nil, "ord_", i), Value: value(i)}, nil)
				}
				if err := cl.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

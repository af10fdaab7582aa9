package relay

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/testkit"
)

// BenchmarkDrain publishes a backlog.
func BenchmarkDrain(b *testing.B) {
	const rows = 200_000
	cfg := config()
	cfg.Batch, cfg.LeaseTTL = 8192, 5*time.Second
	for b.Loop() {
		b.StopTimer()
		w := newWorld(b, testkit.Kafka(b, 0))
		w.write(1, 20_000, 1, rows/20_000)
		w.exec(`ANALYZE order_transitions`)
		b.StartTimer()
		began := time.Now()
		_, stop := w.start("a", cfg, w.broker())
		w.until("all is marked", func() bool { return w.number(`SELECT min(cursor) FROM relay_shards`) >= rows })
		b.ReportMetric(rows/time.Since(began).Seconds(), "rows/s")
		if err := stop(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLatency commits a version every millisecond, whatever the answer, and
// tells how long after the commit it is on the topic.
func BenchmarkLatency(b *testing.B) {
	const rows = 5000
	w := newWorld(b, testkit.Kafka(b, 0))
	cfg := config()
	cfg.Batch, cfg.LeaseTTL, cfg.PollInterval = 8192, 5*time.Second, 100*time.Millisecond
	w.start("a", cfg, w.broker())
	cl := testkit.Client(b, w.kafka, kgo.ConsumeTopics(w.kafka.Topic("orders.status.v1")), kgo.FetchMaxWait(time.Second),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()

	arrived, committed, took := make([]time.Time, rows+1), make([]time.Time, rows+1), make([]time.Duration, rows)
	var writing []time.Duration
	var mu sync.Mutex
	var writers sync.WaitGroup
	go func() {
		next := time.NewTicker(time.Millisecond)
		defer next.Stop()
		for i := 1; i <= rows; i++ {
			<-next.C
			writers.Go(func() {
				tx, err := w.db.BeginTx(ctx, nil)
				if err != nil {
					b.Error(err)
					return
				}
				begun := time.Now()
				if _, err = tx.ExecContext(ctx, insert, i, i, 1, 1); err == nil {
					err = tx.Commit()
				}
				mu.Lock()
				committed[i] = time.Now()
				writing = append(writing, time.Since(begun))
				mu.Unlock()
				if err != nil {
					b.Error(err)
				}
				_ = w.store.WakeRelays(ctx)
			})
		}
	}()
	came := 0
	for came < rows && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			i, err := strconv.Atoi(string(r.Key[len("order-"):]))
			if err != nil {
				b.Fatal(err)
			}
			arrived[i] = time.Now()
			came++
		})
	}
	writers.Wait()
	if came < rows {
		b.Fatalf("%d of %d came", came, rows)
	}
	for i := range took {
		took[i] = max(0, arrived[i+1].Sub(committed[i+1]))
	}
	slices.Sort(writing)
	b.ReportMetric(float64(writing[rows/2].Microseconds())/1000, "write-p50-ms")
	slices.Sort(took)
	for name, at := range map[string]int{"p50-ms": rows / 2, "p99-ms": rows * 99 / 100} {
		b.ReportMetric(float64(took[at].Microseconds())/1000, name)
	}
	b.ReportMetric(0, "ns/op")
}

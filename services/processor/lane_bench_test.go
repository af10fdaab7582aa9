package processor

import (
	"bytes"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// BenchmarkReplay reads b.N records of 1 KiB again that are all known, and says what
// a record costs this process. Run it with -benchtime=300000x.
func BenchmarkReplay(b *testing.B) {
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			if b.N < 1000 {
				return // the trial run
			}
			w := newWorld(b, 6)
			w.know(b.N)
			b.ResetTimer()
			used := cpu(b)
			p, stop := w.start(Config{Workers: workers, Batch: 2000, Chores: time.Hour}, w.deps())
			again := p.metrics.again.WithLabelValues("known")
			first, began := 0.0, time.Now()
			w.until("all is read again", func() bool {
				n := testutil.ToFloat64(again)
				if first == 0 {
					first, began = n, time.Now()
				}
				return n == float64(b.N)
			})
			took := time.Since(began)
			b.StopTimer()
			b.ReportMetric((float64(b.N)-first)/took.Seconds(), "records/s")
			b.ReportMetric(float64((cpu(b)-used).Microseconds())/float64(b.N), "CPU-µs/record")
			stop()
		})
	}
}

// know fills the topic with n events, one a millisecond, that are all taken over.
func (w *world) know(n int) {
	w.Helper()
	conn, err := pgx.Connect(w.Context(), w.database.URL)
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = conn.Close(w.Context()) }()
	// As ingress does: uncompressed.
	client := testkit.Client(w, w.kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	begin := now.Add(-time.Hour - time.Duration(n)*time.Millisecond)
	offsets := map[int32]int64{}
	for at := 0; at < n; {
		var rows [][]any
		var records []*kgo.Record
		for range min(10_000, n-at) {
			e := stated{id: fmt.Sprintf("evt_%024d", at), order: fmt.Sprintf("order-%08d", at/4), payment: fmt.Sprintf("pi_%024d", at/4),
				kind: order.KindPaid, amount: 1000, at: begin.Add(time.Duration(at) * time.Millisecond), pad: 1024}.event()
			key := e.Key()
			rows = append(rows, []any{key, postgres.Fingerprint(e.Fingerprint())})
			p := int32(at*7919%6+at/6) % 6
			records = append(records, w.record(e, p))
			offsets[p]++
			at++
		}
		if err := client.ProduceSync(w.Context(), records...).FirstErr(); err != nil {
			w.Fatal(err)
		}
		if _, err := conn.CopyFrom(w.Context(), pgx.Identifier{"processed_events"}, []string{"key", "body_fingerprint"}, pgx.CopyFromRows(rows)); err != nil {
			w.Fatal(err)
		}
	}
	w.exec(`ANALYZE processed_events`)
	topic := w.topicID()
	for p, next := range offsets {
		w.exec(`INSERT INTO partitions (topic_id, partition, topic, owner, epoch, applied_offset) VALUES ($1, $2, '', '', 0, $3)`,
			fmt.Sprintf("%x", bytes.Clone(topic[:])), p, next-1)
	}
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

package processor

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// BenchmarkProcessor reads b.N records from a full topic: 1 KiB bodies, 30 %
// duplicates, four events an order. Run it with -benchtime=200000x.
func BenchmarkProcessor(b *testing.B) {
	for _, batch := range []int{1000, 2000} {
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("workers=%d/batch=%d", workers, batch), func(b *testing.B) {
				benchmark(b, Config{Workers: workers, Batch: batch, Chores: time.Hour})
			})
		}
	}
	// Beside the one before it: what the journal costs.
	b.Run("workers=2/batch=2000/journal", func(b *testing.B) {
		benchmark(b, Config{Workers: 2, Batch: 2000, Chores: time.Hour, KeepBodies: 1})
	})
}

func benchmark(b *testing.B, cfg Config) {
	if b.N < 1000 {
		return // the trial run
	}
	w := newWorld(b, 6)
	fill(w, b.N)
	b.ResetTimer()
	began := time.Now()
	_, stop := w.start(cfg, w.deps())
	w.until("all is applied", func() bool {
		return w.number(`SELECT coalesce(sum(applied_offset + 1), 0) FROM partitions`) == int64(b.N)
	})
	took := time.Since(began)
	b.StopTimer()
	stop()
	b.ReportMetric(float64(b.N)/took.Seconds(), "records/s")
	b.ReportMetric(float64(w.booked(order.Applied))/float64(b.N), "applied/record")
	// How far apart the consumer meets what lay close together.
	b.ReportMetric(float64(w.number(`SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'held_events'`))/float64(b.N), "held/record")
}

// fill registers orders and puts n records about them into the topic.
func fill(w *world, n int) {
	fresh := n * 7 / 10
	ids := make([]string, (fresh+3)/4)
	for i := range ids {
		ids[i] = fmt.Sprintf("order-%08d", i)
	}
	w.register(1000, ids...)
	// An order's events lie up to 4,000 places apart, a duplicate up to 20,000
	// behind its event.
	random := rand.New(rand.NewPCG(1, 2))
	places := make([][]*kgo.Record, fresh+36_000)
	add := func(at int, r *kgo.Record) {
		places[min(at, len(places)-1)] = append(places[min(at, len(places)-1)], r)
	}
	at, repeats := 0, n-fresh
	for i := range fresh {
		o := i / 4
		if i%4 == 0 {
			at = i
		}
		s := stated{id: fmt.Sprintf("evt_%024d", i), order: ids[o], payment: fmt.Sprintf("pi_%024d", o), at: now.Add(time.Duration(at/1000)*time.Second - time.Hour), pad: 1024}
		switch i % 4 {
		case 0:
			s.kind, s.amount = order.KindFailed, 1000
		case 1:
			s.kind, s.amount = order.KindPaid, 1000
		default:
			s.kind, s.amount, s.object = order.KindRefund, 400, fmt.Sprintf("re_%d", i)
		}
		r := w.record(s.event(), random.Int32N(6))
		add(at, r)
		if left := fresh - i; random.IntN(left) < repeats {
			again := *r
			add(at+1+random.IntN(20_000), &again)
			repeats--
		}
		at += 1 + random.IntN(4_000)
	}
	var records []*kgo.Record
	for _, here := range places {
		records = append(records, here...)
	}
	for len(records) > 0 {
		k := min(10_000, len(records))
		w.produce(records[:k]...)
		records = records[k:]
	}
}

// BenchmarkDryRun looks at b.N records, 1 KiB bodies, in chunks of 10,000: all of them
// known, and with one in ten new, four events an order. Run it with -benchtime=200000x.
func BenchmarkDryRun(b *testing.B) {
	for _, newInTen := range []int{0, 1} {
		b.Run(fmt.Sprintf("new=%d%%", 10*newInTen), func(b *testing.B) {
			if b.N < 1000 {
				return // the trial run
			}
			s := newStage(b)
			if _, err := s.store.EnsurePartitions(b.Context(), now); err != nil {
				b.Fatal(err)
			}
			var ids []string
			var records []kafka.Record
			var seen []postgres.Seen
			for i := range b.N {
				o := i / 4
				id := fmt.Sprintf("order-%08d", o)
				one := stated{id: fmt.Sprintf("evt_%024d", i), order: id, payment: fmt.Sprintf("pi_%024d", o), object: fmt.Sprintf("re_%d", i),
					at: now.Add(time.Duration(i/1000)*time.Second - time.Hour), pad: 1024}
				switch i % 4 {
				case 0:
					one.kind, one.amount = order.KindFailed, 1000
				case 1:
					one.kind, one.amount = order.KindPaid, 1000
				default:
					one.kind, one.amount = order.KindRefund, 400
				}
				e := one.event()
				records = append(records, s.recordOf(e))
				if o%10 >= newInTen {
					seen = append(seen, postgres.Seen{Key: e.Key(), Fingerprint: postgres.Fingerprint(e.Fingerprint())})
				} else if i%4 == 0 {
					ids = append(ids, id)
				}
			}
			s.register(1000, ids...)
			for part := range slices.Chunk(seen, 10_000) {
				err := s.store.InTx(b.Context(), func(tx postgres.Tx) error {
					_, err := tx.TakeProcessedEvents(b.Context(), part, false)
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			if _, err := s.db.Exec(`VACUUM ANALYZE`); err != nil {
				b.Fatal(err)
			}
			d := s.dryRun(s.store.WithEffects(s.effects), 0, nil)
			d.ground.applied = nil
			s.put(records...)
			b.ResetTimer()
			for part := range slices.Chunk(records, 10_000) {
				if err := d.Add(b.Context(), s.topicID, part); err != nil {
					b.Fatal(err)
				}
			}
			o := d.Report()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			if o.Duplicates != int64(len(seen)) || o.Orders != int64(len(ids)) || o.New != int64(b.N-len(seen)) {
				b.Fatalf("it says:\n%s", text(o))
			}
		})
	}
}

// BenchmarkReadingAnew reads b.N applied records anew: on the live orders, where every
// reading is the same and nothing is written, and into a shadow, which copies the
// orders first. Run it with -benchtime=100000x.
func BenchmarkReadingAnew(b *testing.B) {
	for _, where := range []string{"live", "shadow"} {
		b.Run(where, func(b *testing.B) {
			if b.N < 1000 {
				return // the trial run
			}
			w := newWorld(b, 6)
			fill(w, b.N)
			_, stop := w.start(Config{Workers: 2, Batch: 2000, Chores: time.Hour}, w.deps())
			w.until("all is applied", func() bool {
				return w.number(`SELECT coalesce(sum(applied_offset + 1), 0) FROM partitions`) == int64(b.N)
			})
			stop()
			topicID, records := w.raw()
			deps := AgainDeps{Store: w.store, Endpoints: w.endpoints, Mode: event.Live, Log: slog.New(slog.DiscardHandler), Now: time.Now,
				Window: w.store.WindowAt(time.Now()), Anew: &Anew{}}
			if where == "shadow" {
				shadow, err := postgres.OpenShadow(b.Context(), w.database, 3)
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = shadow.Close(context.Background()) }()
				deps.Store, deps.Scratch, deps.Before = shadow.Store, true, shadow.Bring
			}
			a := NewAgain(deps)
			b.ResetTimer()
			for some := range slices.Chunk(records, 2000) {
				if err := a.Look(b.Context(), topicID, some); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			if c := a.Counts(); c.Mended+c.Entered+c.New != 0 {
				b.Fatalf("something changed: %+v", c)
			}
		})
	}
}

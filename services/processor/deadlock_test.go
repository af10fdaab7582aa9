package processor

import (
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/order"
)

// The nightly run (make nightly): for ten minutes.
var long = flag.Bool("long", false, "let four processors compete for the same orders for ten minutes")

// O38: four processors, 200 hot orders, batches in opposite orders, and the same
// events in several partitions. Deadlocks would be survived; there are none.
func TestFourProcessorsOnTheSameOrdersNeverWaitForEachOtherInACircle(t *testing.T) {
	const (
		partitions = 4
		hot        = 200
		rounds     = 12 // then other orders are hot, so that sets stay as small as they are
	)
	lasts := 8 * time.Second
	if *long {
		lasts = 10 * time.Minute
	}
	w := newWorld(t, partitions)
	var stops []func()
	for range partitions {
		_, stop := w.start(Config{Workers: 1, Batch: 300, Chores: time.Hour}, w.deps())
		stops = append(stops, stop)
	}
	sent, generations := int64(0), int64(0)
	for end := time.Now().Add(lasts); time.Now().Before(end); generations++ {
		ids := make([]string, hot)
		for i := range ids {
			ids[i] = fmt.Sprintf("ord_%d_%d", generations, i)
		}
		var producing sync.WaitGroup
		for p := range int32(partitions) {
			var records []*kgo.Record
			for r := range rounds {
				var round []*kgo.Record
				for _, id := range ids {
					s := stated{id: fmt.Sprintf("%s/%d/%d", id, p, r), payment: "pi_" + id, kind: order.KindRefund, amount: 1, at: now.Add(time.Duration(r) * time.Second)}
					s.object = s.id
					switch {
					case r == 0 && p == 0:
						s.kind, s.order, s.amount = order.KindPaid, id, 1000
					case r == 0 && p == 1:
						s.kind, s.order, s.payment = order.KindFailed, id, "pj_"+id
					case r%2 == 1: // the others lead to their order by the payment
						s.order = id
					}
					round = append(round, w.record(s.event(), p))
					if r%3 == 0 { // and in another partition
						round = append(round, w.record(s.event(), (p+1)%partitions))
					}
				}
				if p%2 == 1 {
					slices.Reverse(round)
				}
				records = append(records, round...)
			}
			sent += int64(len(records))
			producing.Go(func() { w.produce(records...) })
		}
		w.register(1000, ids...)
		producing.Wait()
		w.caughtUp()
	}
	for _, stop := range stops {
		stop()
	}
	w.store.Close() // its connections report what happened to them when they end
	for query, want := range map[string]int64{
		`SELECT count(*) FROM orders`: generations * hot,
		fmt.Sprintf(`SELECT count(*) FROM orders WHERE status = %d AND paid = 1000 AND refunded = %d AND n_held = 0`, order.PartiallyRefunded, partitions*rounds-2): generations * hot,
		`SELECT sum(events)::bigint FROM books`:                                     sent,
		`SELECT count(*) FROM processed_events`:                                     generations * hot * partitions * rounds,
		`SELECT count(*) FROM review_items`:                                         0,
		`SELECT count(*) FROM dead_letters`:                                         0,
		`SELECT count(*) FROM held_events`:                                          0,
		`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`: 0,
	} {
		if got := w.number(query); got != want {
			t.Errorf("%s is %d, want %d", query, got, want)
		}
	}
	t.Logf("%d records about %d orders", sent, generations*hot)
}

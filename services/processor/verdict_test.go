package processor

import (
	"crypto/sha256"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

func TestAPaidOrderIsPaidOnceHoweverOftenItIsSaid(t *testing.T) {
	w := newWorld(t, 1)
	w.register(1000, "ord_1")
	paid := stated{id: "evt_1", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000}
	w.send(paid, paid, paid)
	w.start(small(), w.deps())
	w.caughtUp()
	w.send(paid)
	w.caughtUp()
	if got := w.history("ord_1"); got != "pending paid" {
		t.Errorf("history is %q", got)
	}
	if a, d := w.booked(order.Applied), w.booked(order.Duplicate); a != 1 || d != 3 {
		t.Errorf("books: %d applied, %d duplicates; want 1 and 3", a, d)
	}
}

// O10
func TestAnEventOfTheOtherModeChangesNothingAndIsNoDuplicateOfTheRealOne(t *testing.T) {
	w := newWorld(t, 1)
	w.register(1000, "ord_live1")
	s := stated{id: "evt_m1", order: "ord_live1", payment: "pi_1", kind: order.KindPaid, amount: 1000, mode: event.Test}
	w.start(small(), w.deps())
	w.send(s)
	w.caughtUp()
	if got := w.status("ord_live1"); got != order.Pending {
		t.Errorf("a test event made the order %v", got)
	}
	if n := w.booked(order.NoChange); n != 1 {
		t.Errorf("%d events without change in the books, want 1", n)
	}
	s.mode = event.Live
	w.send(s)
	w.caughtUp()
	if got := w.status("ord_live1"); got != order.Paid {
		t.Errorf("the live event with the same id left the order %v", got)
	}
}

// O11
func TestUnknownEventTypesChangeNothing(t *testing.T) {
	w := newWorld(t, 1)
	w.register(1000, "ord_1")
	var records []stated
	for i := range 5 {
		records = append(records, stated{id: fmt.Sprintf("evt_t%d", i), order: "ord_1", payment: "pi", kind: order.KindNone})
	}
	w.send(records...)
	w.start(small(), w.deps())
	w.caughtUp()
	if n := w.booked(order.NoChange); n != 5 {
		t.Errorf("%d events without change, want 5", n)
	}
	if got := w.history("ord_1"); got != "pending" {
		t.Errorf("history is %q", got)
	}
}

// O15
func TestIdentifiersAndAmountsAboveTwoToThe53StayExact(t *testing.T) {
	const amount = 9007199254740993
	w := newWorld(t, 1)
	w.register(amount, "9007199254740992", "9007199254740993", "1152921506151679042")
	w.register(math.MaxInt64, "max")
	for i, id := range []string{"9007199254740992", "9007199254740993", "1152921506151679042"} {
		w.send(stated{id: fmt.Sprint(9007199254740992 + i), order: id, payment: fmt.Sprintf("pi_%d", i), kind: order.KindPaid, amount: amount})
	}
	w.send(stated{id: "max", order: "max", payment: "pi_max", kind: order.KindPaid, amount: math.MaxInt64})
	w.start(small(), w.deps())
	w.caughtUp()
	if n := w.number(`SELECT count(*) FROM orders WHERE paid = $1`, int64(amount)); n != 3 {
		t.Errorf("%d orders are paid exactly, want 3", n)
	}
	if n := w.number(`SELECT paid FROM orders WHERE order_id = 'max'`); n != math.MaxInt64 {
		t.Errorf("the greatest amount became %d", n)
	}
	if n := w.number(`SELECT count(*) FROM order_events WHERE event_id IN ('9007199254740992', '9007199254740993', '9007199254740994')`); n != 3 {
		t.Errorf("%d event ids are exact, want 3", n)
	}
}

// O17
func TestNulAndLoneSurrogatesCostOneEventAtMost(t *testing.T) {
	w := newWorld(t, 1)
	w.register(1000, "ord_ok1", "ord_ok2", "ord_nul", "ord_sur", "ord_key", "ord_text")
	at := func(id, ord, extra string) stated {
		return stated{id: id, order: ord, payment: "pi_" + ord, kind: order.KindPaid, amount: 1000, extra: extra}
	}
	w.send(at("evt_ok1", "ord_ok1", ""), at("evt_nul", "ord_nul", `,"note":"a\u0000b"`), at("evt_sur", "ord_sur", `,"note":"\ud800"`),
		at("evt_key", "ord_key", `,"k\u0000":1`), at("evt_text", "ord_text", `,"note":"\\u0000"`))
	// A reference that PostgreSQL could not store, past everything before it.
	bad := at("evt_bad", "ord_x", "").event()
	bad.Body = []byte(strings.Replace(string(bad.Body), "ord_x", `ord\u0000x`, 1))
	bad.BodySHA256 = [32]byte{}
	w.produce(w.record(bad, 0))
	w.send(at("evt_ok2", "ord_ok2", ""))
	w.start(small(), w.deps())
	w.caughtUp()
	for _, id := range []string{"ord_ok1", "ord_ok2", "ord_nul", "ord_sur", "ord_key", "ord_text"} {
		if got := w.status(id); got != order.Paid {
			t.Errorf("%s is %v", id, got)
		}
	}
	if n := w.number(`SELECT count(*) FROM dead_letters`); n != 1 {
		t.Errorf("%d dead letters, want 1: the event whose order reference holds NUL", n)
	}
}

// O23
func TestFiftyCopiesAtOnceAreAppliedOnceByTwoConsumers(t *testing.T) {
	w := newWorld(t, 6)
	w.register(1000, "ord_1", "ord_2")
	w.start(small(), w.deps())
	w.start(small(), w.deps())
	paid := stated{id: "evt_1", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000}
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() { w.produce(w.record(paid.event(), int32(i%6))) })
	}
	for i := range 3 { // three events of one payment
		s := paid
		s.id, s.order, s.payment = fmt.Sprintf("evt_p%d", i), "ord_2", "pi_2"
		all.Go(func() { w.produce(w.record(s.event(), int32(2*i))) })
	}
	all.Wait()
	w.caughtUp()
	for _, id := range []string{"ord_1", "ord_2"} {
		if got := w.history(id); got != "pending paid" {
			t.Errorf("history of %s is %q", id, got)
		}
	}
	if n := w.number(`SELECT count(*) FROM processed_events`); n != 4 {
		t.Errorf("%d processed events, want 4", n)
	}
}

// O25
func TestTheSameEventIdOfTwoSourcesIsTwoEvents(t *testing.T) {
	w := newWorld(t, 1)
	w.register(1000, "ord_1", "ord_2")
	w.send(stated{id: "evt_1", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000, endpoint: "stripe-eu"},
		stated{id: "evt_1", order: "ord_2", payment: "pi_1", kind: order.KindPaid, amount: 1000, endpoint: "stripe-us"})
	w.start(small(), w.deps())
	w.caughtUp()
	if a, b := w.status("ord_1"), w.status("ord_2"); a != order.Paid || b != order.Paid {
		t.Errorf("orders are %v and %v", a, b)
	}
}

// O26, the processor's part: what counts as another reading.
func TestAChangedBodyIsADuplicateIfItSaysTheSameAndForReviewIfNot(t *testing.T) {
	w := newWorld(t, 1)
	w.register(1000, "ord_1")
	s := stated{id: "evt_d", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000}
	spaced, counter, other := s, s, s
	spaced.extra, counter.extra = "  ", `,"pending_webhooks":1`
	other.amount = 999
	w.start(small(), w.deps())
	w.send(s, spaced) // in one batch
	w.caughtUp()
	w.send(counter)
	w.caughtUp()
	if n := w.number(`SELECT count(*) FROM review_items`); n != 0 {
		t.Errorf("%d review items for bodies that say the same", n)
	}
	w.send(other)
	w.send(other)
	w.caughtUp()
	if n := w.number(`SELECT count(*) FROM review_items WHERE kind = 'body_changed'`); n != 1 {
		t.Errorf("%d review items for the changed amount, want 1", n)
	}
	for _, body := range [][]byte{s.event().Body, other.event().Body} { // the conflict shows both
		sum := sha256.Sum256(body)
		if n := w.number(`SELECT count(*) FROM review_items i JOIN orders o USING (order_no) WHERE o.order_id = 'ord_1' AND detail LIKE $1`,
			fmt.Sprintf("%%%x%%", sum[:8])); n != 1 {
			t.Errorf("the review item lacks a body's hash, or the order")
		}
	}
	if got := w.history("ord_1"); got != "pending paid" {
		t.Errorf("history is %q", got)
	}
}

// O27
func TestEventsOfOneSecondEndInOneStateWhateverTheirOrder(t *testing.T) {
	w := newWorld(t, 1)
	w.start(small(), w.deps())
	events := []stated{
		{id: "a", payment: "pi", kind: order.KindFailed, amount: 1000},
		{id: "b", payment: "pi", kind: order.KindPaid, amount: 1000},
		{id: "c", payment: "pi", kind: order.KindRefund, object: "re", amount: 1000},
	}
	for n, p := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		for _, oneBatch := range []bool{true, false} {
			id := fmt.Sprintf("ord_%d_%t", n, oneBatch)
			w.register(1000, id)
			for _, i := range p {
				s := events[i]
				s.id, s.order, s.payment = s.id+id, id, "pi"+id
				w.send(s)
				if !oneBatch {
					w.caughtUp()
				}
			}
			w.caughtUp()
			if got := w.status(id); got != order.Refunded {
				t.Errorf("order of arrival %v: %s is %v (%s)", p, id, got, w.history(id))
			}
		}
	}
}

// O28
func TestALateFailureOfAnEarlierAttemptLeavesThePaidOrderPaid(t *testing.T) {
	w := newWorld(t, 1)
	w.register(1000, "ord_1", "ord_2")
	w.start(small(), w.deps())
	w.send(stated{id: "evt_2", order: "ord_1", payment: "pi_2", kind: order.KindPaid, amount: 1000, at: now})
	w.caughtUp()
	w.send(stated{id: "evt_1", order: "ord_1", payment: "pi_1", kind: order.KindFailed, amount: 1000, at: now.Add(-time.Minute)},
		stated{id: "evt_3", order: "ord_1", payment: "pi_2", kind: order.KindFailed, amount: 1000, at: now.Add(-time.Minute)},
		stated{id: "evt_4", order: "ord_2", payment: "pi_4", kind: order.KindFailed, amount: 1000, at: now.Add(-time.Minute)})
	w.caughtUp()
	w.send(stated{id: "evt_5", order: "ord_2", payment: "pi_5", kind: order.KindPaid, amount: 1000, at: now})
	w.caughtUp()
	if got := w.history("ord_1"); strings.Contains(got, "failed") || w.status("ord_1") != order.Paid {
		t.Errorf("history of the paid order is %q", got)
	}
	if got := w.history("ord_2"); got != "pending failed paid" {
		t.Errorf("failed is not the end: history is %q", got)
	}
}

// O29
func TestAnEventBeforeItsOrderIsHeldAndAppliedByItselfWhenTheOrderComes(t *testing.T) {
	w := newWorld(t, 1)
	w.register(1000, "ord_other")
	var ahead atomic.Int64
	deps := w.deps()
	deps.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	p, _ := w.start(small(), deps)
	w.send(stated{id: "evt_new", order: "ord_new", payment: "pi_new", kind: order.KindPaid, amount: 1000},
		stated{id: "evt_never", order: "ord_never", payment: "pi_never", kind: order.KindPaid, amount: 1000},
		stated{id: "evt_other", order: "ord_other", payment: "pi_other", kind: order.KindPaid, amount: 1000})
	w.caughtUp()
	if got := w.status("ord_other"); got != order.Paid {
		t.Errorf("another order waited: %v", got)
	}
	if held := w.booked(order.Held); held != 2 || w.history("ord_new") != "" {
		t.Errorf("%d held, history %q; want 2 and nothing published", held, w.history("ord_new"))
	}
	w.register(1000, "ord_new")
	if got := w.history("ord_new"); got != "pending paid" {
		t.Errorf("history after registration is %q", got)
	}
	if held, applied := w.booked(order.Held), w.booked(order.Applied); held != 1 || applied != 2 {
		t.Errorf("books: %d held, %d applied; want 1 and 2", held, applied)
	}
	// The grace of the other one ends: one review item, however often one looks.
	p.chore(t.Context())
	if n := w.number(`SELECT count(*) FROM review_items`); n != 0 {
		t.Errorf("%d review items before the grace ended", n)
	}
	ahead.Store(int64(30 * time.Minute))
	p.chore(t.Context())
	p.chore(t.Context())
	if n := w.number(`SELECT count(*) FROM review_items WHERE kind = 'held'`); n != 1 {
		t.Errorf("%d review items for the order that never came, want 1", n)
	}
	// It comes after all: nobody needs to look any more.
	w.register(1000, "ord_never")
	if n := w.number(`SELECT count(*) FROM review_items WHERE settled_at IS NULL`) + w.number(`SELECT count(*) FROM held_events`); n != 0 {
		t.Errorf("%d things still wait for a person", n)
	}
}

func TestAnEventDatedAheadOfTheClockCountsAsUndatedAndIsNoted(t *testing.T) {
	w := newWorld(t, 1)
	w.register(1000, "ord_1")
	w.send(stated{id: "evt_1", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000, at: now.Add(72 * time.Hour)})
	w.start(small(), w.deps())
	w.caughtUp()
	if n := w.number(`SELECT count(*) FROM review_items WHERE kind = 'future_time'`); n != 1 || w.status("ord_1") != order.Paid {
		t.Errorf("%d notes, order %v; want 1 and paid", n, w.status("ord_1"))
	}
	if n := w.number(`SELECT occurred_at FROM order_events WHERE event_id = 'evt_1'`); n != 0 {
		t.Errorf("it is dated %d", n)
	}
}

func TestAnEventOlderThanTheWindowIsAppliedIfItsOrderExistsAndHeldIfNot(t *testing.T) {
	w := newWorld(t, 1)
	w.register(1000, "ord_1")
	old := stated{id: "evt_1", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000, at: now.AddDate(-2, 0, 0)}
	nobody := old
	nobody.id, nobody.order, nobody.payment = "evt_2", "ord_2", "pi_2"
	w.send(old, old, nobody)
	w.start(small(), w.deps())
	w.caughtUp()
	w.send(old, nobody)
	w.caughtUp()
	if got := w.history("ord_1"); got != "pending paid" {
		t.Errorf("history is %q", got)
	}
	if n := w.number(`SELECT reason FROM order_events WHERE event_id = 'evt_2'`); order.Reason(n) != order.OutsideWindow {
		t.Errorf("it is held for %v", order.Reason(n))
	}
	if n := w.number(`SELECT count(*) FROM processed_events`); n != 0 {
		t.Errorf("%d processed events", n)
	}
	if a, d, h := w.booked(order.Applied), w.booked(order.Duplicate), w.booked(order.Held); a != 1 || d != 3 || h != 1 {
		t.Errorf("books: %d applied, %d duplicates, %d held", a, d, h)
	}
}

func TestAPaymentNamedWithTwoOrdersIsForAPerson(t *testing.T) {
	w := newWorld(t, 2)
	w.register(1000, "ord_1", "ord_2")
	w.start(small(), w.deps())
	w.send(stated{id: "evt_1", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000, at: now})
	w.caughtUp()
	second := stated{id: "evt_2", order: "ord_2", payment: "pi_1", kind: order.KindPaid, amount: 1000, at: now}
	w.send(second, second)
	w.caughtUp()
	if w.status("ord_1") != order.Paid || w.status("ord_2") != order.Paid {
		t.Errorf("the orders are %v and %v; each event counts in the order it names", w.status("ord_1"), w.status("ord_2"))
	}
	if n := w.number(`SELECT count(*) FROM review_items WHERE kind = 'payment_crossed' AND settled_at IS NULL`); n != 1 {
		t.Errorf("%d review items, want 1", n)
	}
}

package processor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/event"
	"sluice/pkg/lookup"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
	"sluice/pkg/webhook"
)

// hint is the same webhook, of which nobody has signed what decides.
func (s stated) hint() event.Event {
	e := s.event()
	e.Trust = event.Hint
	return e
}

// lookedUp is what a reconciler learns of it at the provider.
func (w *world) lookedUp(s stated) event.Event {
	w.Helper()
	e := s.event()
	body, err := lookup.Encode(webhook.Reading{Subject: s.payment, Time: e.Time, Mode: e.Mode, Order: s.order, Payment: s.payment,
		Object: s.object, Fact: s.kind, Amount: s.amount, Currency: "EUR"})
	if err != nil {
		w.Fatal(err)
	}
	r, err := lookup.Decode(body)
	if err != nil {
		w.Fatal(err)
	}
	e.ID, e.Type, e.Trust, e.Body, e.ContentType, e.SecretName, e.Signature = r.ID, r.Type, event.LookedUp, body, lookup.ContentType, "", nil
	return e
}

func (w *world) sendEvents(events ...event.Event) {
	w.Helper()
	records := make([]*kgo.Record, len(events))
	for i, e := range events {
		records[i] = w.record(e, 0)
	}
	w.produce(records...)
	w.caughtUp()
}

func (w *world) claim(owner string, in time.Duration) []postgres.Lookup {
	w.Helper()
	claimed, err := testkit.ClaimLookups(w.Context(), w.store, time.Now().Add(in), owner, "stripe-eu", 100)
	if err != nil {
		w.Fatal(err)
	}
	return claimed
}

func (w *world) answer(l postgres.Lookup) int {
	w.Helper()
	n, err := w.store.AnswerLookup(w.Context(), time.Now(), l)
	if err != nil {
		w.Fatal(err)
	}
	return n
}

// adds holds the books to what each verdict should be, and to Kafka.
func (w *world) adds(when string, want map[order.Verdict]int64) {
	w.Helper()
	for v := order.Applied; v <= order.Duplicate; v++ {
		if n := w.booked(v); n != want[v] {
			w.Errorf("%s: %d are booked as %s, want %d", when, n, v, want[v])
		}
	}
	if b := w.figure(w.auditor()); b.Unaccounted() != 0 || b.InFlight != 0 {
		w.Errorf("%s: %d are unaccounted for: %+v", when, b.Unaccounted(), b)
	}
}

const (
	openLookups  = `SELECT count(*) FROM lookups WHERE answered < armed`
	waitingHints = `SELECT count(*) FROM hints WHERE settled_at IS NULL`
)

func TestAForgedHintDoesNotMakeTheRealEventADuplicate(t *testing.T) {
	w := newWorld(t, 1)
	w.register(1000, "ord_1")
	w.start(small(), w.deps())
	paid := stated{id: "evt_1", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000}
	w.sendEvents(paid.hint())
	if w.status("ord_1") != order.Pending || w.number(`SELECT count(*) FROM processed_events`) != 0 || w.number(`SELECT count(*) FROM order_events WHERE kind <> 0`) > 1 {
		t.Error("a hint was believed")
	}
	w.adds("after the hint", map[order.Verdict]int64{order.Held: 1})
	w.sendEvents(paid.event())
	if got := w.history("ord_1"); got != "pending paid" {
		t.Errorf("after the real event the order went %q", got)
	}
	w.adds("after the real event", map[order.Verdict]int64{order.Held: 1, order.Applied: 1})
	claimed := w.claim("a", 0)
	if len(claimed) != 1 || claimed[0].Object != "pi_1" || claimed[0].Order != "ord_1" || claimed[0].Payment != "pi_1" || claimed[0].Endpoint != "stripe-eu" ||
		claimed[0].Amount != 1000 || claimed[0].Attempt != 1 {
		t.Fatalf("claimed %+v", claimed)
	}
	w.sendEvents(w.lookedUp(paid)) // the provider says the same
	w.answer(claimed[0])
	if got := w.history("ord_1"); got != "pending paid" {
		t.Errorf("after the answer the order went %q", got)
	}
	// The one fact was told twice by two events of which one counts.
	w.adds("after the answer", map[order.Verdict]int64{order.Applied: 1, order.NoChange: 2})
	if n := w.number(openLookups) + w.number(waitingHints); n != 0 {
		t.Errorf("%d look-ups or hints are still open", n)
	}
}

func TestAHintIsHeldUntilALookUpAnswersThatBeganAfterIt(t *testing.T) {
	w := newWorld(t, 1)
	w.start(small(), w.deps())
	hint := stated{id: "evt_1", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000}
	later := hint
	later.id = "evt_2"
	w.sendEvents(hint.hint())
	first := w.claim("a", 0)
	w.sendEvents(later.hint(), hint.hint()) // while the look-up runs
	w.adds("during the look-up", map[order.Verdict]int64{order.Held: 2, order.Duplicate: 1})
	if n := w.answer(first[0]); n != 1 {
		t.Errorf("the first answer settled %d hints, want 1", n)
	}
	w.adds("after the first answer", map[order.Verdict]int64{order.Held: 1, order.NoChange: 1, order.Duplicate: 1})
	if n := w.answer(first[0]); n != 0 || w.number(openLookups) != 1 {
		t.Error("an old answer answered a newer question")
	}
	second := w.claim("b", 10*time.Second)
	if len(second) != 1 || w.answer(second[0]) != 1 || w.number(openLookups) != 0 {
		t.Fatalf("the second look-up: %+v", second)
	}
	w.adds("after the second answer", map[order.Verdict]int64{order.NoChange: 2, order.Duplicate: 1})

	// A hint that comes again after its answer is asked about again: it may be the
	// provider's, about a later state.
	w.sendEvents(hint.hint())
	w.adds("after the hint came again", map[order.Verdict]int64{order.Held: 1, order.NoChange: 2, order.Duplicate: 1})
	if n := w.number(openLookups); n != 1 {
		t.Errorf("%d look-ups are open, want 1", n)
	}
}

func TestAHintThatIsOlderThanTheLastAnswerNeedsNoLookUp(t *testing.T) {
	w := newWorld(t, 1)
	w.byTheHour()
	w.start(small(), w.deps())
	hint := stated{id: "evt_1", payment: "pi_1", kind: order.KindPaid, amount: 1000}
	w.sendEvents(hint.hint())
	w.answer(w.claim("a", 0)[0])
	for i, c := range []struct {
		age  time.Duration
		want map[order.Verdict]int64
	}{
		{10 * time.Minute, map[order.Verdict]int64{order.NoChange: 2}},
		{0, map[order.Verdict]int64{order.NoChange: 2, order.Held: 1}}, // clocks differ: only what is older by far is older
	} {
		hint.id = fmt.Sprintf("evt_late_%d", i)
		r := w.record(hint.hint(), 0)
		r.Timestamp = time.Now().Add(-c.age)
		w.produce(r)
		w.caughtUp()
		w.adds(fmt.Sprintf("a hint %v old", c.age), c.want)
	}
}

func TestACrashBetweenWhatWasLearntAndItsAnswerRepeatsBothAndChangesNothing(t *testing.T) {
	w := newWorld(t, 1)
	w.register(1000, "ord_1")
	w.start(small(), w.deps())
	paid := stated{id: "evt_1", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000}
	w.sendEvents(paid.hint())
	w.claim("dies", 0)
	w.sendEvents(w.lookedUp(paid)) // and here it dies
	w.adds("after the crash", map[order.Verdict]int64{order.Held: 1, order.Applied: 1})
	if again, err := testkit.ClaimLookups(t.Context(), w.store, time.Now(), "b", "stripe-eu", 10); err != nil || len(again) != 0 {
		t.Errorf("within the lease another got %v, %v", again, err)
	}
	again, err := testkit.ClaimLookups(t.Context(), w.store, time.Now().Add(3*time.Minute), "b", "stripe-eu", 10)
	if err != nil || len(again) != 1 || again[0].Attempt != 2 {
		t.Fatalf("after the lease: %+v, %v", again, err)
	}
	w.sendEvents(w.lookedUp(paid))
	w.answer(again[0])
	w.adds("after the repeat", map[order.Verdict]int64{order.NoChange: 1, order.Applied: 1, order.Duplicate: 1})
	if got := w.history("ord_1"); got != "pending paid" {
		t.Errorf("the order went %q", got)
	}
}

func TestAReplayOverHintsCountsNothingAndAsksNothingAgain(t *testing.T) {
	w := newWorld(t, 1)
	answered := stated{id: "evt_1", payment: "pi_1", kind: order.KindPaid, amount: 1000}
	waiting := stated{id: "evt_2", payment: "pi_2", kind: order.KindPaid, amount: 1000}
	_, stop := w.start(small(), w.deps())
	w.sendEvents(answered.hint())
	w.answer(w.claim("a", 0)[0])
	w.sendEvents(waiting.hint(), waiting.hint(), stated{id: "evt_3", payment: "pi_3", kind: order.KindPaid, amount: 1, mode: event.Test}.hint())
	want := map[order.Verdict]int64{order.NoChange: 2, order.Held: 1, order.Duplicate: 1}
	w.adds("before the replay", want)
	stop()
	w.exec(`UPDATE lookups SET begun = armed WHERE object = 'pi_2'`) // a look-up runs, so that arming would show
	before := w.number(`SELECT sum(armed) * 1000 + count(*) FROM lookups`)
	w.rewind()
	p, _ := w.start(small(), w.deps())
	w.caughtUp()
	w.adds("after the replay", want)
	if after := w.number(`SELECT sum(armed) * 1000 + count(*) FROM lookups`); after != before || w.number(openLookups) != 1 {
		t.Errorf("the replay armed look-ups: %d is %d now", before, after)
	}
	if n := testutil.ToFloat64(p.metrics.again.WithLabelValues("taken")); n != 0 {
		t.Errorf("%v hints that are no dead letters went through a transaction", n)
	}
}

func TestAFloodOfOneForgedHintIsOneRowAndOneLookUp(t *testing.T) {
	w := newWorld(t, 1)
	forged := stated{id: "evt_1", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000}.hint()
	w.start(Config{Workers: 1, Batch: 50, Chores: time.Hour}, w.deps())
	w.sendEvents(forged)
	writes := `SELECT (xmin::text || ctid::text) = $1 FROM lookups`
	var row string
	if err := w.db.QueryRow(`SELECT xmin::text || ctid::text FROM lookups`).Scan(&row); err != nil {
		t.Fatal(err)
	}
	w.sendEvents(slices.Repeat([]event.Event{forged}, 500)...)
	var same bool
	if err := w.db.QueryRow(writes, row).Scan(&same); err != nil || !same {
		t.Errorf("500 copies wrote to the look-up's row: %v", err)
	}
	if n := w.number(`SELECT count(*) FROM lookups`) + w.number(`SELECT count(*) FROM hints`); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
	w.adds("after the flood", map[order.Verdict]int64{order.Held: 1, order.Duplicate: 500})
	w.claim("a", 0)
	w.sendEvents(slices.Repeat([]event.Event{forged}, 500)...)
	if n := w.number(`SELECT armed FROM lookups`); n != 2 {
		t.Errorf("500 copies during one look-up armed %d times, want once", n-1)
	}
}

// O35: what nobody can read is a dead letter, whoever signed it.
func TestAHintOrALookUpThatCannotBeReadIsADeadLetter(t *testing.T) {
	w := newWorld(t, 1)
	w.start(small(), w.deps())
	hint := stated{id: "evt_1", payment: "pi_1", kind: order.KindPaid, amount: 1000}.hint()
	hint.Body = []byte("not JSON")
	looked := w.lookedUp(stated{id: "evt_2", payment: "pi_2", kind: order.KindPaid, amount: 1000})
	looked.Body = stated{id: "evt_2", payment: "pi_2", kind: order.KindPaid, amount: 1000}.event().Body // the provider's form, not ours
	w.sendEvents(hint, looked)
	w.adds("both", map[order.Verdict]int64{order.Dead: 2})
	if n := w.number(`SELECT count(*) FROM dead_letters WHERE reason = 'body'`); n != 2 {
		t.Errorf("%d dead letters, want 2", n)
	}
}

func TestAHintThatWasADeadLetterIsHeldByAReplayAfterTheFix(t *testing.T) {
	w := newWorld(t, 1)
	deps := w.deps()
	deps.Endpoints = testEmpty
	_, stop := w.start(small(), deps)
	w.sendEvents(stated{id: "evt_1", payment: "pi_1", kind: order.KindPaid, amount: 1000}.hint(),
		stated{id: "evt_2", payment: "pi_2", kind: order.KindPaid, amount: 1000, mode: event.Test}.hint())
	w.adds("without the endpoint", map[order.Verdict]int64{order.Dead: 2})
	stop()
	for range 2 {
		w.rewind()
		_, stop = w.start(small(), w.deps())
		w.caughtUp()
		stop()
		w.adds("with the endpoint", map[order.Verdict]int64{order.Held: 1, order.NoChange: 1})
	}
	if n := w.number(openLookups); n != 1 {
		t.Errorf("%d look-ups are open, want 1", n)
	}
}

// O45: no answer decides nothing; a person is asked, once, and it goes on.
func TestALookUpWithoutAnAnswerIsForAPersonAndDecidesNothing(t *testing.T) {
	w := newWorld(t, 1)
	w.register(1000, "ord_1")
	deps := w.deps()
	var ahead atomic.Int64 // chores of its own run meanwhile
	deps.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	p, _ := w.start(small(), deps)
	hint := stated{id: "evt_1", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000}
	w.sendEvents(hint.hint())
	items := func(at time.Duration) int {
		t.Helper()
		ahead.Store(int64(at))
		p.chore(t.Context())
		open, err := w.store.ListReviewItems(t.Context(), time.Now(), postgres.ReviewLookup, false, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(open)
	}
	l := w.claim("a", 0)[0]
	if err := w.store.RetryLookup(t.Context(), l, time.Now().Add(time.Minute), postgres.LookupUnknown); err != nil {
		t.Fatal(err)
	}
	if n := items(14 * time.Minute); n != 0 {
		t.Errorf("%d review items before the grace is over", n)
	}
	for range 2 {
		if n := items(16 * time.Minute); n != 1 {
			t.Errorf("%d review items after the grace, want 1", n)
		}
	}
	w.adds("without an answer", map[order.Verdict]int64{order.Held: 1})
	if got := w.status("ord_1"); got != order.Pending {
		t.Errorf("without an answer the order is %v", got)
	}
	if r, _ := w.hours(w.auditor()); len(r.Lookups) != 1 || r.Lookups[0].Source != "stripe-eu" || r.Lookups[0].Open != 1 || r.Lookups[0].Since.IsZero() {
		t.Errorf("the audit shows the open look-ups %+v", r.Lookups)
	}
	p.countLookups(t.Context())
	if open, age := testutil.ToFloat64(p.metrics.lookups.WithLabelValues("stripe-eu")), testutil.ToFloat64(p.metrics.lookupAge.WithLabelValues("stripe-eu")); open != 1 || age < 15*60 {
		t.Errorf("the metrics show %v open look-ups, the oldest %v s old", open, age)
	}
	l = w.claim("b", 2*time.Minute)[0]
	if l.Attempt != 2 {
		t.Errorf("attempt %d, want 2", l.Attempt)
	}
	w.sendEvents(w.lookedUp(hint))
	w.answer(l)
	if n := items(17 * time.Minute); n != 0 {
		t.Error("the item is open after the answer")
	}
	w.adds("after the answer", map[order.Verdict]int64{order.NoChange: 1, order.Applied: 1})
}

// The final state is the same whatever comes first: the hint, what was looked up,
// or the signed event.
func TestHintsAnswersAndSignedEventsConvergeWhateverTheirOrder(t *testing.T) {
	w := newWorld(t, 1)
	w.start(small(), w.deps())
	var all [][]int
	permute([]int{0, 1, 2, 3}, 0, func(p []int) { all = append(all, slices.Clone(p)) })
	var ids []string
	for i := range all {
		ids = append(ids, fmt.Sprintf("ord_%d", i))
	}
	w.register(1000, ids...)
	var records []*kgo.Record
	for i, p := range all {
		payment := fmt.Sprintf("pi_%d", i)
		paid := stated{id: fmt.Sprintf("evt_%d", i), order: ids[i], payment: payment, kind: order.KindPaid, amount: 1000}
		refund := stated{id: "?", order: ids[i], payment: payment, object: fmt.Sprintf("re_%d", i), kind: order.KindRefund, amount: 300, at: now.Add(time.Second)}
		events := []event.Event{paid.hint(), paid.event(), w.lookedUp(paid), w.lookedUp(refund)}
		for _, j := range p {
			records = append(records, w.record(events[j], 0))
		}
	}
	w.produce(records...)
	w.caughtUp()
	for _, l := range w.claim("a", 0) {
		w.answer(l)
	}
	if n := w.number(`SELECT count(*) FROM orders WHERE status = $1 AND paid = 1000 AND refunded = 300 AND n_held = 0`, int(order.PartiallyRefunded)); n != int64(len(all)) {
		t.Errorf("%d of %d orders are partially refunded", n, len(all))
	}
	n := int64(len(all))
	w.adds("at the end", map[order.Verdict]int64{order.Applied: 2 * n, order.NoChange: 2 * n})
}

func permute(p []int, k int, do func([]int)) {
	if k == len(p) {
		do(p)
		return
	}
	for i := k; i < len(p); i++ {
		p[k], p[i] = p[i], p[k]
		permute(p, k+1, do)
		p[k], p[i] = p[i], p[k]
	}
}

// The whole answers or nothing: a transaction that fails leaves no half of it.
func TestAnAnswerThatCannotBeBookedIsNoAnswer(t *testing.T) {
	w := newWorld(t, 1)
	w.start(small(), w.deps())
	w.sendEvents(stated{id: "evt_1", payment: "pi_1", kind: order.KindPaid, amount: 1000}.hint())
	l := w.claim("a", 0)[0]
	w.exec(`ALTER TABLE books ADD CONSTRAINT nobody CHECK (partition <> -2)`)
	if _, err := w.store.AnswerLookup(t.Context(), time.Now(), l); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("the answer was taken: %v", err)
	}
	if w.number(openLookups) != 1 || w.number(waitingHints) != 1 {
		t.Error("half of the answer is there")
	}
	w.adds("after a failed answer", map[order.Verdict]int64{order.Held: 1})
}

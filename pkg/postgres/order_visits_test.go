package postgres_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// visit visits every order that was registered before a time, for source psp.
func (d desk) visit(before time.Time, byOrder bool) (hanging int) {
	d.Helper()
	f := d.Frontier()
	visible, _, err := f.Advance(d.Context())
	if err != nil {
		d.Fatal(err)
	}
	for {
		v, err := d.VisitOrders(d.Context(), time.Now(), postgres.Visit{Source: "psp", Endpoint: "psp", Frontier: visible, RegisteredBefore: before,
			ByOrder: byOrder, ReviewAt: time.Now().Add(time.Hour), Limit: 3})
		if err != nil {
			d.Fatal(err)
		}
		if hanging += v.Hanging; !v.More {
			return hanging
		}
	}
}

func (d desk) register(ids ...string) {
	d.Helper()
	for _, id := range ids {
		if _, err := d.Register(d.Context(), time.Now(), postgres.Registration{OrderID: id, Amount: 1000, Currency: "EUR"}); err != nil {
			d.Fatal(err)
		}
	}
}

func objects(ls []postgres.Lookup) (out []string) {
	for _, l := range ls {
		out = append(out, l.Object)
	}
	slices.Sort(out)
	return out
}

// hangingItems brings what hangs before people, and settles what does no more.
func (d desk) hangingItems(now time.Time) []postgres.ReviewSummary {
	d.Helper()
	d.unanswered(now)
	if err := d.InTx(d.Context(), func(tx postgres.Tx) error {
		_, err := tx.SettleHangingOrders(d.Context(), now, 100)
		return err
	}); err != nil {
		d.Fatal(err)
	}
	items, err := d.ListReviewItems(d.Context(), now, postgres.ReviewHanging, false, 1000)
	if err != nil {
		d.Fatal(err)
	}
	return items
}

func soon() time.Time { return time.Now().Add(time.Minute) }

func TestAnOrderIsVisitedOnceWhenItIsOldEnoughAndAskedAboutByItsPayments(t *testing.T) {
	d := newDesk(t)
	d.register("pending", "paid", "elsewhere", "nothing", "two")
	d.apply(fact("e1", "pending", "p1", order.KindPending, 1000, 1), fact("e2", "paid", "p2", order.KindPaid, 1000, 1),
		fact("e4", "two", "p4", order.KindPending, 1000, 1), fact("e5", "two", "p5", order.KindPending, 1000, 2),
		fact("e6", "stub", "p6", order.KindPending, 1000, 2))
	other := fact("e3", "elsewhere", "p3", order.KindPending, 1000, 1)
	other.Source = "other"
	d.apply(other)
	if n := d.visit(time.Now().Add(-time.Minute), true); n != 0 {
		t.Errorf("%d orders were asked about that are too young", n)
	}
	if n := d.visit(soon(), true); n != 3 {
		t.Errorf("%d orders hang, want pending, nothing and two", n)
	}
	if got := objects(d.claimed(soon(), "a")); !slices.Equal(got, []string{"nothing", "p1", "p4", "p5"}) {
		t.Errorf("asked about %v", got)
	}
	if n := d.visit(soon(), true); n != 0 {
		t.Errorf("%d orders were visited again", n)
	}
	d.register("stub") // known from an event until now
	if n := d.visit(soon(), false); n != 1 {
		t.Errorf("the order that was registered late was not visited")
	}
	if got := objects(d.claimed(soon(), "a")); !slices.Equal(got, []string{"p6"}) {
		t.Errorf("asked about %v", got)
	}
}

func TestWithoutAPaymentAnOrderIsAskedAboutOnlyWhereItsNameLeadsToOne(t *testing.T) {
	d := newDesk(t)
	d.register("o")
	if n := d.visit(soon(), false); n != 0 {
		t.Error("an order was asked about by a name that leads nowhere")
	}
}

func TestAnOrderThatMovesOnIsNotAskedAbout(t *testing.T) {
	d := newDesk(t)
	d.register("o1", "o2", "hinted")
	for i, id := range []string{"o1", "o2", "hinted"} {
		d.apply(fact("e"+id, id, fmt.Sprint("p", i), order.KindPending, 1000, 1))
	}
	d.visit(soon(), false)
	h := hint("h", "p2", time.Now())
	h.Order = "hinted"
	d.hold(time.Now(), h)
	for i, id := range []string{"o1", "o2", "hinted"} {
		if id != "o2" {
			d.apply(fact("paid"+id, id, fmt.Sprint("p", i), order.KindPaid, 1000, 2))
		}
	}
	ls := d.claimed(soon(), "a")
	if got := objects(ls); !slices.Equal(got, []string{"p1", "p2"}) {
		t.Errorf("asked about %v; want that of o2, which hangs, and that for which a hint waits", got)
	}
	if n := d.number(`SELECT count(*) FROM lookups WHERE answered < armed`); n != 2 {
		t.Errorf("%d are open, want 2", n)
	}
	for _, l := range ls {
		d.answer(l)
	}
	if n := d.number(`SELECT count(*) FROM lookups WHERE answered < armed OR order_no IS NOT NULL`); n != 0 {
		t.Errorf("%d are open after the answers, or for an order", n)
	}
}

func TestAHangingOrderIsForAPersonAtTheDeadlineAndSettlesItself(t *testing.T) {
	d := newDesk(t)
	d.register("o", "unpaid", "dead")
	d.apply(fact("e", "o", "p", order.KindPending, 1000, 1), fact("f", "dead", "q", order.KindPending, 1000, 1))
	d.visit(soon(), true)
	for _, l := range d.claimed(soon(), "a") {
		if err := d.RetryLookup(t.Context(), l, soon().Add(time.Hour), postgres.LookupUnknown); err != nil {
			t.Fatal(err)
		}
	}
	if items := d.hangingItems(time.Now().Add(59 * time.Minute)); len(items) != 0 {
		t.Errorf("before the deadline: %+v", items)
	}
	after := time.Now().Add(61 * time.Minute)
	items := d.hangingItems(after)
	if len(items) != 2 || items[0].Order != "o" && items[1].Order != "o" { // unpaid: nobody knows of a payment
		t.Fatalf("%+v; want those of o and dead", items)
	}
	if got := objects(d.claimed(soon().Add(2*time.Hour), "a")); !slices.Equal(got, []string{"p", "q", "unpaid"}) {
		t.Errorf("asked on about %v", got)
	}
	d.apply(fact("paid", "o", "p", order.KindPaid, 1000, 2))
	items = d.hangingItems(after)
	if len(items) != 1 || items[0].Order != "dead" {
		t.Fatalf("after o moved on: %+v", items)
	}
	d.decideLate(items[0].ID, postgres.Dismiss)
	if n := d.number(`SELECT count(*) FROM lookups WHERE answered < armed AND object = 'q'`); n != 0 {
		t.Error("it was given up and is open")
	}
}

func TestSeveralReconcilersVisitEveryOrderOnce(t *testing.T) {
	d := newDesk(t)
	const n = 100
	for i := range n {
		id := fmt.Sprint("o", i)
		d.register(id)
		d.apply(fact("e"+id, id, "p"+id, order.KindPending, 1000, 1))
	}
	var visits sync.WaitGroup
	for range 4 {
		visits.Go(func() {
			for d.number(`SELECT COALESCE(max(transition_id), 0) FROM order_visits`) < d.number(`SELECT max(id) FROM order_transitions`) {
				d.visit(soon(), false)
			}
		})
	}
	visits.Wait()
	if got := d.number(`SELECT count(*) FROM lookups WHERE lane = 1 AND armed = 1 AND order_no IS NOT NULL`); got != n {
		t.Errorf("%d look-ups of %d orders", got, n)
	}
}

func TestAProviderIsAskedAboutAHeldEventBeforeAPersonIs(t *testing.T) {
	d := newDesk(t)
	d.register("o")
	now := time.Now()
	if err := d.InTx(t.Context(), func(tx postgres.Tx) error {
		_, err := tx.Apply(t.Context(), now, []postgres.Fact{fact("refund", "o", "p", order.KindRefund, 400, 5), fact("x", "unknown", "q", order.KindPaid, 400, 5)})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	ask := func(in time.Duration, want int) {
		t.Helper()
		n, _, err := d.AskAboutHeldEvents(t.Context(), now.Add(in), "psp", 100)
		if err != nil || n != want {
			t.Errorf("after %v: asked about %d, %v; want %d", in, n, err, want)
		}
	}
	ask(7*time.Minute, 0)
	ask(8*time.Minute, 2)
	ask(9*time.Minute, 0)
	ls := d.claimed(now.Add(9*time.Minute), "a")
	if got := objects(ls); !slices.Equal(got, []string{"p", "q"}) || !ls[0].Hanging || ls[0].Lane != postgres.LaneHanging {
		t.Fatalf("%+v", ls)
	}
	for _, l := range ls {
		if err := d.RetryLookup(t.Context(), l, now.Add(9*time.Minute), postgres.LookupUnavailable); err != nil {
			t.Fatal(err)
		}
	}
	d.apply(fact("paid", "o", "p", order.KindPaid, 1000, 1)) // the webhook comes after all
	if got := objects(d.claimed(now.Add(10*time.Minute), "a")); !slices.Equal(got, []string{"q"}) {
		t.Errorf("asked on about %v", got)
	}
	d.wants("o", order.PartiallyRefunded, "pending paid partially_refunded")
}

func TestHintsOfWhatWeKnowAreInALaneOfTheirOwn(t *testing.T) {
	d := newDesk(t)
	d.register("known")
	d.apply(fact("e", "known", "p", order.KindPending, 1000, 1))
	named := func(id, payment, order string) postgres.Hint {
		h := hint(id, payment, time.Now())
		h.Order = order
		return h
	}
	hints := []postgres.Hint{named("a", "p", ""), named("b", "stranger", "nobody's")}
	for i := range 10 { // by somebody who knows the name of one order
		hints = append(hints, named(fmt.Sprint("c", i), fmt.Sprint("forged", i), "known"))
	}
	d.hold(time.Now(), hints...)
	d.hold(time.Now(), named("late", "forged late", "known"))
	in := func(lane postgres.Lane) []postgres.Lookup {
		ls, _, err := d.ClaimLookups(t.Context(), soon(), postgres.LookupClaim{Owner: "a", Source: "psp", Lane: lane, Limit: 100, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return ls
	}
	if ls := in(postgres.LaneHint); len(ls) != 4 || !slices.Contains(objects(ls), "p") {
		t.Errorf("%v are taken for known; want p and the first three that name the order", objects(ls))
	}
	strangers := in(postgres.LaneStranger)
	if len(strangers) != 9 {
		t.Errorf("%d strangers, want 9", len(strangers))
	}
	for _, l := range strangers {
		problem := postgres.LookupUnavailable
		if l.Object == "stranger" {
			problem = postgres.LookupUnknown
		}
		if err := d.RetryLookup(t.Context(), l, time.Now(), problem); err != nil {
			t.Fatal(err)
		}
	}
	if got := objects(in(postgres.LaneRetry)); !slices.Equal(got, []string{"stranger"}) {
		t.Errorf("%v wait with those that the provider does not know", got)
	}
}

func TestAPaymentUnderWayHangsOnceNoHintWaitsForIt(t *testing.T) {
	d := newDesk(t)
	d.register("o", "done")
	d.apply(fact("paid", "done", "q", order.KindPaid, 1000, 1))
	now := time.Now()
	d.hold(now, hint("h", "p", now), hint("i", "q", now), hint("j", "r", now))
	orders := map[string][]string{"p": {"o"}, "q": {"done"}, "r": {"not registered"}}
	for _, l := range d.claimed(now, "a") {
		n, err := d.AnswerUndecided(t.Context(), now, l, postgres.Undecided{Orders: orders[l.Object], At: now.Add(time.Minute), ReviewAt: now.Add(time.Hour)})
		if err != nil || n != 1 {
			t.Errorf("%s settled %d hints: %v", l.Object, n, err)
		}
	}
	if ls := d.claimed(now.Add(59*time.Second), "a"); len(ls) != 0 {
		t.Errorf("asked again at once: %+v", ls)
	}
	ls := d.claimed(now.Add(2*time.Minute), "a")
	if len(ls) != 1 || ls[0].Object != "p" || !ls[0].Hanging || ls[0].Lane != postgres.LaneHanging || ls[0].Attempt != 1 {
		t.Fatalf("%+v; want that of the order that is pending", ls)
	}
	d.answer(ls[0])
	if n := d.number(`SELECT count(*) FROM lookups WHERE answered < armed`); n != 0 {
		t.Errorf("%d are open after its end", n)
	}
}

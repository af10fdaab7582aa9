package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// desk is a store with people in front of it.
type desk struct {
	*testing.T
	*postgres.Store
	cfg postgres.Config
}

func newDesk(t *testing.T) desk {
	t.Helper()
	cfg := testkit.Database(t)
	s, err := postgres.Open(t.Context(), cfg, 24)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return desk{t, s, cfg}
}

// number is the result of a query for one number.
func (d desk) number(query string, args ...any) (n int64) {
	d.Helper()
	c, err := pgx.Connect(d.Context(), d.cfg.URL)
	if err != nil {
		d.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	if err := c.QueryRow(d.Context(), query, args...).Scan(&n); err != nil {
		d.Fatalf("%s: %v", query, err)
	}
	return n
}

// apply applies facts, and books them as a processor does.
func (d desk) apply(facts ...postgres.Fact) {
	d.Helper()
	err := d.InTx(d.Context(), func(tx postgres.Tx) error {
		a, err := tx.Apply(d.Context(), at, facts)
		if err != nil {
			return err
		}
		for i, v := range a.Verdicts {
			if facts[i].Kind != order.KindRegistered {
				a.Moved.Add(facts[i].AppendedAt, facts[i].Endpoint, v.Verdict, 1)
			}
		}
		return tx.AddToBooks(d.Context(), [16]byte{1}, 0, a.Moved)
	})
	if err != nil {
		d.Fatal(err)
	}
}

// review brings what is held before people, a day later.
func (d desk) review() (items []postgres.ReviewSummary) {
	d.Helper()
	err := d.InTx(d.Context(), func(tx postgres.Tx) error {
		_, err := tx.ReviewDueHeldEvents(d.Context(), later.Add(time.Hour), 1000)
		return err
	})
	if err == nil {
		items, err = d.ListReviewItems(d.Context(), later, "", false, 1000)
	}
	if err != nil {
		d.Fatal(err)
	}
	return items
}

var later = at.Add(24 * time.Hour)

func (d desk) claim(id int64, who string) {
	d.Helper()
	if err := d.ClaimReviewItem(d.Context(), later, id, who); err != nil {
		d.Fatal(err)
	}
}

// decide claims an item and decides on it.
func (d desk) decide(id int64, v postgres.Decision) postgres.Decided {
	d.Helper()
	v.Item, v.Who, v.Reason = id, "anna", "talked to the provider"
	d.claim(id, v.Who)
	done, err := d.Decide(d.Context(), later, v)
	if err != nil {
		d.Fatal(err)
	}
	again, err := d.Decide(d.Context(), later, v)
	if err != nil || !again.Repeated {
		d.Errorf("the same decision again: %+v, %v", again, err)
	}
	return done
}

// one is the only open item.
func (d desk) one() postgres.ReviewSummary {
	d.Helper()
	items := d.review()
	if len(items) != 1 {
		d.Fatalf("%d open review items, want 1: %+v", len(items), items)
	}
	return items[0]
}

func (d desk) wants(id string, want order.Status, wantSteps string) {
	d.Helper()
	if got, steps := statusOf(d.T, d.Store, id); got != want || strings.TrimSpace(steps) != wantSteps {
		d.Errorf("order %s is %v (%s), want %v (%s)", id, got, strings.TrimSpace(steps), want, wantSteps)
	}
}

// booked are the books of provider events by verdict; what is not named is 0.
func (d desk) booked(want map[order.Verdict]int64) {
	d.Helper()
	books, err := d.BooksSince(d.Context(), time.Unix(0, 0))
	if err != nil {
		d.Fatal(err)
	}
	got := map[order.Verdict]int64{}
	for k, n := range books {
		got[k.Verdict] += n
	}
	for v := order.Applied; v <= order.Duplicate; v++ {
		if got[v] != want[v] {
			d.Errorf("books: %d %v, want %d", got[v], v, want[v])
		}
	}
}

func TestAPersonAppliesAHeldEventAnyway(t *testing.T) {
	d := newDesk(t)
	d.apply(registered("o", 1000), fact("e", "o", "p", order.KindPaid, 900, 1))
	item := d.one()
	c, err := d.ReviewCase(t.Context(), later, item.ID)
	if err != nil {
		t.Fatal(err)
	}
	if c.OrderNow == nil || c.OrderNow.Reason != order.AmountMismatch || c.Event == nil || c.Event.Amount != 900 || c.Bytes.Kept != 2 {
		t.Errorf("the case is %+v", c)
	}
	if p := c.OnAccept; p.Verdict != order.Applied || len(p.Changes) != 1 || p.Changes[0].To != order.Paid || p.Changes[0].Paid != 900 {
		t.Errorf("the preview is %+v", p)
	}
	done := d.decide(item.ID, postgres.Decision{Action: postgres.Accept})
	if done.Changes != 1 || done.After.Verdict != order.Applied || done.After.Paid != 900 {
		t.Errorf("it did %+v: %+v", done, done.After)
	}
	d.wants("o", order.Paid, "pending paid")
	d.booked(map[order.Verdict]int64{order.Applied: 1})
	if n := d.number(`SELECT count(*) FROM held_events`); n != 0 {
		t.Errorf("%d events are still held", n)
	}
	if n := d.number(`SELECT count(*) FROM audit_log WHERE who = 'anna' AND action = 'review.accept' AND reason = 'talked to the provider'
		AND before->>'status' = 'pending' AND after->>'status' = 'paid'`); n != 1 {
		t.Errorf("%d lines in the audit log, want 1", n)
	}
	// What comes later folds with the decision, and never undoes it.
	d.apply(fact("f", "o", "x", order.KindFailed, 0, 0))
	d.apply(fact("e", "o", "p", order.KindPaid, 900, 1))
	if got, _ := statusOf(t, d.Store, "o"); got != order.Paid {
		t.Errorf("a late fact undid the decision: %v", got)
	}
}

func TestAPersonAppliesAHeldEventForAnotherAmount(t *testing.T) {
	d := newDesk(t)
	d.apply(registered("o", 1000), fact("e", "o", "p", order.KindPaid, 900, 1))
	amount := int64(1000)
	done := d.decide(d.one().ID, postgres.Decision{Action: postgres.Accept, Amount: &amount})
	if done.After.Paid != 1000 {
		t.Errorf("paid %d, want what the person said", done.After.Paid)
	}
}

func TestACaseSaysThatOnlyTwoClocksDecided(t *testing.T) {
	d := newDesk(t)
	second := fact("late", "o", "q", order.KindPaid, 1000, 3)
	second.Source = "other"
	d.apply(registered("o", 1000), fact("early", "o", "p", order.KindPaid, 1000, 1), second)
	c, err := d.ReviewCase(t.Context(), later, d.one().ID)
	if err != nil || c.LostTo == nil || c.LostTo.ID != "early" {
		t.Errorf("it lost to %+v, %v", c.LostTo, err)
	}
}

func TestADismissedEventCountsForNothingAndIsNotHeld(t *testing.T) {
	d := newDesk(t)
	d.apply(registered("o", 1000), fact("e", "o", "p", order.KindPaid, 900, 1), fact("n", "nowhere", "q", order.KindPaid, 5, 1))
	for _, item := range d.review() { // also of an order that never came
		if done := d.decide(item.ID, postgres.Decision{Action: postgres.Dismiss}); done.After.Reason != order.Dismissed || done.Changes != 0 {
			t.Errorf("it did %+v", done)
		}
	}
	d.wants("o", order.Pending, "pending")
	d.booked(map[order.Verdict]int64{order.NoChange: 2})
	d.apply(fact("e", "o", "p", order.KindPaid, 900, 1), registered("nowhere", 5))
	d.wants("nowhere", order.Pending, "pending")
	if items := d.review(); len(items) != 0 {
		t.Errorf("still open: %+v", items)
	}
}

func TestAnEventIsLinkedToTheOrderItBelongsTo(t *testing.T) {
	d := newDesk(t)
	d.apply(registered("typo", 50), registered("right", 1000), fact("e", "typo", "p", order.KindPaid, 1000, 1))
	d.apply(fact("r", "", "p", order.KindRefund, 300, 2))
	items := d.review()
	if len(items) != 2 {
		t.Fatalf("%d items, want 2", len(items))
	}
	done := d.decide(items[0].ID, postgres.Decision{Action: postgres.Link, OrderID: "right"})
	if done.After.Order != "right" || done.Before.Order != "typo" {
		t.Errorf("it did %+v, %+v", done.Before, done.After)
	}
	d.wants("typo", order.Pending, "pending")
	d.wants("right", order.PartiallyRefunded, "pending paid partially_refunded")
	d.booked(map[order.Verdict]int64{order.Applied: 2})
	// The payment leads to its new order, and repeats change nothing anywhere.
	d.apply(fact("r2", "", "p", order.KindRefund, 700, 3), fact("e", "typo", "p", order.KindPaid, 1000, 1), fact("r", "", "p", order.KindRefund, 300, 2))
	d.wants("typo", order.Pending, "pending")
	d.wants("right", order.Refunded, "pending paid partially_refunded refunded")
	if items := d.review(); len(items) != 0 {
		t.Errorf("still open: %+v", items)
	}
}

func TestAPaymentNobodyKnowsIsLinkedToAnOrder(t *testing.T) {
	d := newDesk(t)
	d.apply(registered("o", 1000), fact("e", "", "p", order.KindPaid, 1000, 1))
	d.decide(d.one().ID, postgres.Decision{Action: postgres.Link, OrderID: "o"})
	d.wants("o", order.Paid, "pending paid")
	d.booked(map[order.Verdict]int64{order.Applied: 1})
	if n := d.number(`SELECT count(*) FROM orders`); n != 1 {
		t.Errorf("%d orders, want 1: the stub is gone", n)
	}
}

func TestAnItemFollowsItsEventWhenItsOrderBecomesKnown(t *testing.T) {
	d := newDesk(t)
	d.apply(registered("o", 1000), fact("e", "", "p", order.KindPaid, 900, 1))
	item := d.one()
	d.apply(fact("f", "o", "p", order.KindFailed, 0, 0)) // it names both
	c, err := d.ReviewCase(t.Context(), later, item.ID)
	if err != nil || c.Order != "o" || c.Event == nil || c.Event.Reason != order.AmountMismatch {
		t.Errorf("the case is %+v, %v", c, err)
	}
	d.decide(item.ID, postgres.Decision{Action: postgres.Accept})
	d.wants("o", order.Paid, "pending failed paid")
}

func TestAnEventThatWasLinkedMayBeHeldInItsNewOrder(t *testing.T) {
	d := newDesk(t)
	d.apply(registered("a", 1), registered("b", 2), fact("e", "a", "p", order.KindPaid, 1000, 1))
	d.decide(d.one().ID, postgres.Decision{Action: postgres.Link, OrderID: "b"})
	d.booked(map[order.Verdict]int64{order.Held: 1})
	item := d.one()
	if item.Order != "b" {
		t.Errorf("the item is about %q", item.Order)
	}
	c, err := d.ReviewCase(t.Context(), later, item.ID)
	if err != nil || c.Bytes.Kept != 2 {
		t.Errorf("its bytes went lost: %+v, %v", c.Bytes, err)
	}
	d.decide(item.ID, postgres.Decision{Action: postgres.Accept})
	d.wants("b", order.Paid, "pending paid")
	d.booked(map[order.Verdict]int64{order.Applied: 1})
}

func TestTheProviderIsAskedAndTheEventStaysHeld(t *testing.T) {
	d := newDesk(t)
	d.apply(registered("o", 1000), fact("e", "o", "p", order.KindPaid, 900, 1))
	done := d.decide(d.one().ID, postgres.Decision{Action: postgres.Refetch})
	if done.After.Verdict != order.Held || done.After.Reason != order.AwaitingProvider {
		t.Errorf("it did %+v", done.After)
	}
	if n := d.number(`SELECT count(*) FROM lookups l JOIN names n ON n.name_no = l.source_no WHERE n.name = 'psp' AND object = 'p' AND answered_at IS NULL`); n != 1 {
		t.Errorf("%d look-ups armed, want 1", n)
	}
	ls := d.claimed(later, "r") // at once, and as the event says
	if len(ls) != 1 || ls[0].Object != "p" || ls[0].Order != "o" || ls[0].Payment != "p" || ls[0].Amount != 900 {
		t.Errorf("the reconciler gets %+v", ls)
	}
	d.apply(fact("f", "o", "x", order.KindFailed, 0, 2)) // its order changes, and it still waits for the provider
	if n := d.number(`SELECT reason FROM held_events`); order.Reason(n) != order.AwaitingProvider {
		t.Errorf("it is held for %v", order.Reason(n))
	}
	// A person is asked again when the provider's grace is over.
	if n := d.number(`SELECT count(*) FROM held_events WHERE due_at > $1`, later); n != 1 {
		t.Errorf("%d events are due once more, want 1", n)
	}
	d.apply(fact("e2", "o", "p", order.KindPaid, 1000, 3)) // the answer pays the order
	d.answer(ls[0])
	d.wants("o", order.Paid, "pending failed paid")
	d.booked(map[order.Verdict]int64{order.Applied: 2, order.NoChange: 1})
	if n := d.number(`SELECT count(*) FROM lookups WHERE answered < armed`); n != 0 {
		t.Errorf("%d look-ups are open after the answer", n)
	}
}

func TestWhatIsNotHeldAnyMoreSettlesItsItemAndIsAskedAboutAgainWhenItIs(t *testing.T) {
	d := newDesk(t)
	d.apply(registered("o", 1000), fact("e", "o", "p", order.KindPaid, 900, 1))
	item := d.one()
	if _, err := d.Register(t.Context(), later, postgres.Registration{OrderID: "o", Amount: 900, Currency: "EUR"}); err != nil {
		t.Fatal(err)
	}
	c, err := d.ReviewCase(t.Context(), later, item.ID)
	if err != nil || c.Decision != postgres.NoLongerHeld || c.SettledBy != "" {
		t.Errorf("the item is %+v, %v", c.ReviewSummary, err)
	}
	if err := d.ClaimReviewItem(t.Context(), later, item.ID, "anna"); !errors.Is(err, postgres.ErrSettled) {
		t.Errorf("it can be claimed: %v", err)
	}
	// An earlier payment comes late: the one that counted is a second one now.
	d.apply(fact("e0", "o", "p0", order.KindPaid, 900, 0))
	if item := d.one(); item.SettledAt != nil || item.ClaimedBy != "" {
		t.Errorf("the item is %+v", item)
	}
}

func TestADecisionIsRefusedWithTheReasonAndDoesNothing(t *testing.T) {
	d := newDesk(t)
	d.apply(registered("o", 1000), registered("other", 5), fact("e", "o", "p", order.KindPaid, 900, 1), fact("n", "nowhere", "q", order.KindPaid, 5, 1))
	ids := map[string]int64{}
	for _, item := range d.review() {
		ids[item.Order] = item.ID
	}
	negative := int64(-1)
	good := postgres.Decision{Item: ids["o"], Action: postgres.Accept, Who: "anna", Reason: "why"}
	for name, c := range map[string]struct {
		change func(*postgres.Decision)
		want   error
	}{
		"no reason":           {func(v *postgres.Decision) { v.Reason = " \t" }, postgres.ErrDecision},
		"nobody":              {func(v *postgres.Decision) { v.Who = "" }, postgres.ErrDecision},
		"no such action":      {func(v *postgres.Decision) { v.Action = "retry" }, postgres.ErrDecision},
		"nothing to link to":  {func(v *postgres.Decision) { v.Action = postgres.Link }, postgres.ErrDecision},
		"a negative amount":   {func(v *postgres.Decision) { v.Amount = &negative }, postgres.ErrDecision},
		"no such order":       {func(v *postgres.Decision) { v.Action, v.OrderID = postgres.Link, "nowhere" }, postgres.ErrNoOrder},
		"its own order":       {func(v *postgres.Decision) { v.Action, v.OrderID = postgres.Link, "o" }, postgres.ErrDecision},
		"no such item":        {func(v *postgres.Decision) { v.Item = 1 << 40 }, postgres.ErrNoReviewItem},
		"claimed by somebody": {func(v *postgres.Decision) { v.Who = "bo" }, postgres.ErrClaimed},
		"cannot be applied":   {func(v *postgres.Decision) { v.Item = ids["nowhere"] }, postgres.ErrStillHeld},
	} {
		d.claim(ids["o"], "anna")
		d.claim(ids["nowhere"], "anna")
		v := good
		c.change(&v)
		if done, err := d.Decide(t.Context(), later, v); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v, want %v", name, done, err, c.want)
		}
	}
	if _, err := d.Decide(t.Context(), later.Add(postgres.ClaimLease), good); !errors.Is(err, postgres.ErrNotClaimed) {
		t.Errorf("after its lease a claim still counts: %v", err)
	}
	if err := d.ClaimReviewItem(t.Context(), later, ids["o"], " "); !errors.Is(err, postgres.ErrDecision) {
		t.Errorf("nobody claimed it: %v", err)
	}
	if err := d.ClaimReviewItem(t.Context(), later, ids["o"], "bo"); !errors.Is(err, postgres.ErrClaimed) {
		t.Errorf("two people claimed it: %v", err)
	}
	d.apply(fact("f", "o", "x", order.KindFailed, 0, 1))
	if _, err := d.Decide(t.Context(), later, good); !errors.Is(err, postgres.ErrOutdated) || !strings.Contains(err.Error(), "order o is failed") {
		t.Errorf("it decided on an order that had changed: %v", err)
	}
	if n := d.number(`SELECT count(*) FROM audit_log`) + d.number(`SELECT count(*) FROM order_events WHERE kind >= $1`, int(order.KindAccept)); n != 0 {
		t.Errorf("%d traces of refused decisions", n)
	}
	if err := d.ClaimReviewItem(t.Context(), later.Add(postgres.ClaimLease), ids["o"], "bo"); err != nil {
		t.Errorf("a claim that has run out keeps others away: %v", err)
	}
}

func TestItemsThatAreNoHeldEventsCanOnlyBeDismissed(t *testing.T) {
	d := newDesk(t)
	kinds := []postgres.ReviewKind{postgres.ReviewDeadLetter, postgres.ReviewBodyChanged, postgres.ReviewOffsetGap, postgres.ReviewFutureTime, postgres.ReviewRefused}
	for _, k := range kinds {
		err := d.InTx(t.Context(), func(tx postgres.Tx) error {
			_, err := tx.AddReviewItem(t.Context(), postgres.ReviewItem{Kind: k, Subject: "raw/0/1", Detail: "d"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	items := d.review()
	if len(items) != len(kinds) {
		t.Fatalf("%d items", len(items))
	}
	for _, item := range items {
		d.claim(item.ID, "anna")
		_, err := d.Decide(t.Context(), later, postgres.Decision{Item: item.ID, Action: postgres.Accept, Who: "anna", Reason: "why"})
		if !errors.Is(err, postgres.ErrDecision) {
			t.Errorf("%s was accepted: %v", item.Kind, err)
		}
		d.decide(item.ID, postgres.Decision{Action: postgres.Dismiss})
	}
	if n := d.number(`SELECT count(*) FROM audit_log WHERE action = 'review.dismiss'`); n != int64(len(kinds)) {
		t.Errorf("%d lines in the audit log", n)
	}
}

// O46, the store's part: one action, one line in the audit log.
func TestTwentyPeopleWhoDecideAtOnceDecideOnce(t *testing.T) {
	d := newDesk(t)
	for round := range 5 {
		id := fmt.Sprintf("o%d", round)
		d.apply(registered(id, 1000), fact("e"+id, id, "p"+id, order.KindPaid, 900, 1))
		item := d.one().ID
		var all sync.WaitGroup
		var mu sync.Mutex
		claimed, done, repeated := 0, 0, 0
		for n := range 20 {
			all.Go(func() {
				who := []string{"anna", "bo"}[n%2]
				action := []postgres.ReviewDecision{postgres.Accept, postgres.Accept, postgres.Dismiss}[n%3]
				err := d.ClaimReviewItem(t.Context(), later, item, who)
				v, derr := d.Decide(t.Context(), later, postgres.Decision{Item: item, Action: action, Who: who, Reason: "why"})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					claimed++
				}
				switch {
				case derr == nil && v.Repeated:
					repeated++
				case derr == nil:
					done++
				case !errors.Is(derr, postgres.ErrClaimed) && !errors.Is(derr, postgres.ErrSettled) && !errors.Is(derr, postgres.ErrNotClaimed):
					t.Error(derr)
				}
			})
		}
		all.Wait()
		if done != 1 || claimed == 0 {
			t.Errorf("%d decided, %d repeated, %d claimed; want one decision", done, repeated, claimed)
		}
		if n := d.number(`SELECT count(*) FROM audit_log`); n != int64(round+1) {
			t.Errorf("%d lines in the audit log, want %d", n, round+1)
		}
	}
	if n := d.number(`SELECT count(*) FROM order_events WHERE kind >= $1`, int(order.KindAccept)); n != 5 {
		t.Errorf("%d decisions in the sets, want 5", n)
	}
}

// People and events at once: nothing is lost, no decision twice, no deadlock.
func TestDecisionsAndEventsRace(t *testing.T) {
	const orders = 30
	d := newDesk(t)
	var facts []postgres.Fact
	for i := range orders {
		id, other := fmt.Sprintf("o%d", i), fmt.Sprintf("o%d", (i+1)%orders)
		facts = append(facts, registered(id, 1000), fact("wrong"+id, id, "w"+id, order.KindPaid, 900, 1),
			fact("r"+id, "", "w"+other, order.KindRefund, 100, 3), fact("stub"+id, "", "s"+id, order.KindPaid, 1000, 5))
	}
	d.apply(facts...)
	items := d.review()
	var all sync.WaitGroup
	for n := range 3 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 5))
			who := fmt.Sprintf("person %d", n)
			for _, at := range random.Perm(len(items)) {
				v := postgres.Decision{Item: items[at].ID, Who: who, Reason: "why", Action: []postgres.ReviewDecision{postgres.Accept, postgres.Dismiss,
					postgres.Link, postgres.Refetch}[random.IntN(4)]}
				if v.Action == postgres.Link {
					v.OrderID = fmt.Sprintf("o%d", random.IntN(orders))
				}
				if d.ClaimReviewItem(t.Context(), later, v.Item, who) != nil {
					continue
				}
				_, err := d.Decide(t.Context(), later, v)
				for _, known := range []error{nil, postgres.ErrSettled, postgres.ErrClaimed, postgres.ErrNotClaimed, postgres.ErrOutdated, postgres.ErrDecision, postgres.ErrStillHeld} {
					if errors.Is(err, known) {
						err = nil
					}
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		random := rand.New(rand.NewPCG(9, 5))
		for round := range 60 {
			i := random.IntN(orders)
			id := fmt.Sprintf("o%d", i)
			d.apply(fact(fmt.Sprintf("f%d", round), id, "x", order.KindFailed, 0, 2), fact(fmt.Sprintf("late%d", round), "", "s"+id, order.KindRefund, 1, 6),
				fact(fmt.Sprintf("names%d", round), id, "s"+id, order.KindRefund, 1, 7))
		}
	})
	all.Wait()
	if n := d.number(`SELECT count(*) FROM (SELECT 1 FROM order_events WHERE kind >= $1 GROUP BY order_no, object_id HAVING count(*) > 1) twice`, int(order.KindAccept)); n != 0 {
		t.Errorf("%d events were decided twice", n)
	}
	heldWrong := d.number(`SELECT count(*) FROM (SELECT order_no, event_hash FROM order_events WHERE verdict = $1
		EXCEPT SELECT order_no, event_hash FROM held_events) x`, int(order.Held)) +
		d.number(`SELECT count(*) FROM held_events h WHERE NOT EXISTS (SELECT 1 FROM order_events e WHERE e.order_no = h.order_no AND e.event_hash = h.event_hash AND e.verdict = $1)`, int(order.Held))
	if heldWrong != 0 {
		t.Errorf("%d rows of held_events differ from the sets", heldWrong)
	}
	books, err := d.BooksSince(t.Context(), time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	var total, negative int64
	for _, n := range books {
		total += n
		negative += min(n, 0)
	}
	if want := int64(orders*3 + 60*3); total != want || negative != 0 {
		t.Errorf("the books hold %d events (%d negative), want %d", total, negative, want)
	}
	if events := d.number(`SELECT count(DISTINCT event_hash) FROM order_events WHERE kind NOT IN ($1, $2, $3)`,
		int(order.KindRegistered), int(order.KindAccept), int(order.KindDismiss)); events != total {
		t.Errorf("%d events in the sets, %d in the books", events, total)
	}
	d.Close() // its connections report what happened to them when they end
	if n := d.number(`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

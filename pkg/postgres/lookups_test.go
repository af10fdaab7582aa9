package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// hint is one that states a payment of an order.
func hint(id, payment string, appended time.Time) postgres.Hint {
	h := postgres.Hint{Source: "psp", EventID: id, Endpoint: "psp", AppendedAt: appended,
		Target: postgres.Target{Object: payment, Type: "paid", Order: "o", Payment: payment, Amount: 1000, Currency: "EUR"}}
	copy(h.Event[:], id)
	return h
}

// hold holds hints in one transaction, and books them as a processor does.
func (d desk) hold(now time.Time, hints ...postgres.Hint) (verdicts []order.Verdict) {
	d.Helper()
	err := d.InTx(d.Context(), func(tx postgres.Tx) (err error) {
		if verdicts, err = tx.HoldHints(d.Context(), now, hints); err != nil {
			return err
		}
		books := postgres.Books{}
		for i, v := range verdicts {
			books.Add(hints[i].AppendedAt, hints[i].Endpoint, v, 1)
		}
		return tx.AddToBooks(d.Context(), [16]byte{1}, 0, books)
	})
	if err != nil {
		d.Fatal(err)
	}
	return verdicts
}

func (d desk) claimed(now time.Time, owner string) []postgres.Lookup {
	d.Helper()
	ls, err := testkit.ClaimLookups(d.Context(), d.Store, now, owner, "psp", 100)
	if err != nil {
		d.Fatal(err)
	}
	return ls
}

func (d desk) answer(l postgres.Lookup) int {
	d.Helper()
	n, err := d.AnswerLookup(d.Context(), l.BeganAt.Add(time.Second), l)
	if err != nil {
		d.Fatal(err)
	}
	return n
}

// unanswered brings look-ups before people, as a chore does.
func (d desk) unanswered(now time.Time) []postgres.ReviewSummary {
	d.Helper()
	err := d.InTx(d.Context(), func(tx postgres.Tx) error {
		_, err := tx.ReviewUnansweredLookups(d.Context(), now, 1000)
		return err
	})
	if err != nil {
		d.Fatal(err)
	}
	items, err := d.ListReviewItems(d.Context(), now, postgres.ReviewLookup, false, 1000)
	if err != nil {
		d.Fatal(err)
	}
	return items
}

func TestALookUpIsClaimedByOneReconcilerAtATime(t *testing.T) {
	d := newDesk(t)
	const n = 60
	var hints []postgres.Hint
	for i := range n {
		hints = append(hints, hint(fmt.Sprintf("e%d", i), fmt.Sprintf("p%d", i), at))
	}
	d.hold(at, hints...)
	var mu sync.Mutex
	var all sync.WaitGroup
	got := map[string]int{}
	for r := range 4 {
		all.Go(func() {
			for range 2 * n / 5 {
				ls, err := testkit.ClaimLookups(t.Context(), d.Store, at, fmt.Sprint("r", r), "psp", 5)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				for _, l := range ls {
					got[l.Object]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(got) != n {
		t.Errorf("%d of %d look-ups were claimed", len(got), n)
	}
	for object, times := range got {
		if times != 1 {
			t.Errorf("%s was claimed %d times", object, times)
		}
	}
	if ls := d.claimed(at.Add(2*time.Minute), "later"); len(ls) != n || ls[0].Attempt != 2 {
		t.Errorf("%d are due again after the lease, want %d", len(ls), n)
	}
	if ls, err := testkit.ClaimLookups(t.Context(), d.Store, at.Add(time.Hour), "r", "other", 5); err != nil || len(ls) != 0 {
		t.Errorf("another source has %v, %v", ls, err)
	}
}

func TestAnAnswerAfterItsLeaseCountsAndALateRetryDoesNot(t *testing.T) {
	d := newDesk(t)
	d.hold(at, hint("e", "p", at))
	slow := d.claimed(at, "slow")[0]
	quick := d.claimed(at.Add(2*time.Minute), "quick")[0]
	if err := d.RetryLookup(t.Context(), slow, at.Add(24*time.Hour), postgres.LookupUnavailable); err != nil {
		t.Fatal(err)
	}
	if ls := d.claimed(at.Add(4*time.Minute), "third"); len(ls) != 1 || ls[0].Attempt != 3 {
		t.Fatalf("a retry without the lease moved the look-up: %+v", ls)
	}
	if d.answer(slow) != 1 || d.answer(quick) != 0 || d.number(`SELECT count(*) FROM lookups WHERE answered < armed`) != 0 {
		t.Error("the slow answer did not count, or the second one did too")
	}
	if err := d.RetryLookup(t.Context(), quick, at, postgres.LookupUnavailable); err != nil || len(d.claimed(at.Add(time.Hour), "x")) != 0 {
		t.Errorf("a retry after the answer opened it again: %v", err)
	}
}

// A hint whose transaction was under way while an older look-up of its object was
// claimed is not settled by that one: its lease was of an earlier arming.
func TestAnOldLeaseNeverAnswersANewHint(t *testing.T) {
	d := newDesk(t)
	d.hold(at, hint("e1", "p", at))
	old := d.claimed(at, "old")[0]
	again := d.claimed(at.Add(2*time.Minute), "again")[0]
	if err := d.RetryLookup(t.Context(), again, at.Add(3*time.Minute), postgres.LookupUnavailable); err != nil {
		t.Fatal(err)
	}
	d.hold(at.Add(2*time.Minute), hint("e2", "p", at.Add(2*time.Minute)))
	if n := d.answer(old); n != 1 {
		t.Errorf("the old look-up settled %d hints, want the first", n)
	}
	if n := d.number(`SELECT count(*) FROM hints WHERE settled_at IS NULL`); n != 1 {
		t.Errorf("%d hints wait, want the second", n)
	}
	l := d.claimed(at.Add(5*time.Minute), "new")
	if len(l) != 1 || l[0].Attempt != 1 || !l[0].ArmedAt.Equal(old.BeganAt) {
		t.Errorf("open since %v, want since the old look-up began", l)
	}
}

// No look-up begins while a hint about its object is being held, or its answer might
// come before the hint could be seen.
func TestALookUpIsNotClaimedWhileAHintAboutItIsBeingHeld(t *testing.T) {
	d := newDesk(t)
	d.hold(at, hint("e1", "p", at))
	err := d.InTx(t.Context(), func(tx postgres.Tx) error {
		if _, err := tx.HoldHints(t.Context(), at, []postgres.Hint{hint("e2", "p", at)}); err != nil {
			return err
		}
		if n := len(d.claimed(at, "a")); n != 0 {
			t.Error("it was claimed")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := d.answer(d.claimed(at, "a")[0]); n != 2 {
		t.Errorf("the answer settled %d hints, want both", n)
	}
}

func TestThereIsAPauseBetweenTheLookUpsOfOneObject(t *testing.T) {
	d := newDesk(t)
	d.hold(at, hint("e1", "p", at))
	d.answer(d.claimed(at, "a")[0])
	d.hold(at.Add(time.Second), hint("e2", "p", at.Add(time.Second)))
	if n := len(d.claimed(at.Add(4*time.Second), "a")); n != 0 {
		t.Error("it is asked about again at once")
	}
	if n := len(d.claimed(at.Add(5*time.Second), "a")); n != 1 {
		t.Error("it is not asked about after the pause")
	}
}

// Somebody may forge a hint about a payment before there is one.
func TestANewHintDoesNotWaitForTheNextAttemptOfAnOldOne(t *testing.T) {
	for _, during := range []bool{false, true} {
		d := newDesk(t)
		d.hold(at, hint("forged", "p", at))
		l := d.claimed(at, "a")[0]
		retry := func() {
			if err := d.RetryLookup(t.Context(), l, at.Add(12*time.Hour), postgres.LookupUnknown); err != nil {
				t.Fatal(err)
			}
		}
		if !during {
			retry()
		}
		if n := len(d.claimed(at.Add(10*time.Second), "a")); n != 0 {
			t.Error("without a new hint it is asked about again")
		}
		d.hold(at.Add(time.Second), hint("real", "p", at.Add(time.Second)))
		if during {
			retry()
		}
		if n := len(d.claimed(at.Add(4*time.Second), "a")); n != 0 {
			t.Error("it is asked about again without a pause")
		}
		if n := len(d.claimed(at.Add(5*time.Second), "a")); n != 1 {
			t.Errorf("the new hint waits for the attempt of the old one (it came during the look-up: %v)", during)
		}
	}
}

// The latest hint says how to ask; the row is written only if that differs.
func TestTheLatestHintSaysHowToAsk(t *testing.T) {
	d := newDesk(t)
	d.hold(at, hint("e1", "p", at))
	other := hint("e2", "p", at)
	other.Type, other.Subject, other.Amount, other.Time = "refund", "re_1", 300, at
	d.hold(at, other)
	l := d.claimed(at, "a")[0]
	if l.Type != "refund" || l.Subject != "re_1" || l.Amount != 300 || !l.Time.Equal(at) {
		t.Errorf("it is asked about as %+v", l.Target)
	}
	if n := d.answer(l); n != 2 {
		t.Errorf("%d hints are settled, want both", n)
	}
}

// O45
func TestAPersonGivesUpALookUpOrHasItTriedAtOnce(t *testing.T) {
	d := newDesk(t)
	d.hold(at, hint("e1", "p 1", at))
	l := d.claimed(at, "a")[0]
	if err := d.RetryLookup(t.Context(), l, at.Add(100*time.Hour), postgres.LookupUnknown); err != nil {
		t.Fatal(err)
	}
	items := d.unanswered(later)
	if len(items) != 1 || items[0].Detail != `no answer about "p 1" of source "psp" since `+at.UTC().Format(time.RFC3339)+`: the provider knows no such object (attempt 1)` {
		t.Fatalf("the items are %+v", items)
	}
	d.claim(items[0].ID, "anna")
	_, err := d.Decide(t.Context(), later, postgres.Decision{Item: items[0].ID, Action: postgres.Accept, Who: "anna", Reason: "r"})
	if !errors.Is(err, postgres.ErrDecision) {
		t.Errorf("accepting a look-up: %v", err)
	}
	d.decide(items[0].ID, postgres.Decision{Action: postgres.Refetch})
	if len(d.unanswered(later)) != 0 {
		t.Error("the item is open again at once")
	}
	if ls := d.claimed(later, "b"); len(ls) != 1 || ls[0].Attempt != 2 {
		t.Errorf("it is not tried at once: %+v", ls)
	}
	items = d.unanswered(later.Add(time.Hour)) // and the person is asked once more
	if len(items) != 1 {
		t.Fatalf("%d items after another grace, want 1", len(items))
	}
	d.decideLate(items[0].ID, postgres.Dismiss)
	if n := d.number(`SELECT count(*) FROM lookups WHERE answered < armed`) + d.number(`SELECT count(*) FROM hints WHERE settled_at IS NULL`); n != 0 {
		t.Errorf("%d are still open after it was given up", n)
	}
	d.booked(map[order.Verdict]int64{order.NoChange: 1})
	// What comes later is asked about.
	if v := d.hold(later, hint("e2", "p 1", later)); v[0] != order.Held {
		t.Errorf("a later hint is %s", v[0])
	}
}

// decideLate decides after an hour.
func (d desk) decideLate(id int64, action postgres.ReviewDecision) {
	d.Helper()
	now := later.Add(time.Hour)
	if err := d.ClaimReviewItem(d.Context(), now, id, "bob"); err != nil {
		d.Fatal(err)
	}
	if _, err := d.Decide(d.Context(), now, postgres.Decision{Item: id, Action: action, Who: "bob", Reason: "forged"}); err != nil {
		d.Fatal(err)
	}
}

// What nobody will ever confirm must not keep an order from being paid for good.
func TestAGivenUpLookUpReservesNoOrder(t *testing.T) {
	d := newDesk(t)
	for _, id := range []string{"o", "other"} {
		if _, err := d.Register(t.Context(), at, postgres.Registration{OrderID: id, Amount: 1000, Currency: "EUR"}); err != nil {
			t.Fatal(err)
		}
	}
	d.hold(at, hint("77:1", "p 1", at))
	err := d.InTx(t.Context(), func(tx postgres.Tx) error {
		for id, payment := range map[string]string{"o": "77", "other": "78"} {
			c, found, err := tx.LockCheckout(t.Context(), at, id, "psp")
			if err != nil || !found {
				return fmt.Errorf("lock order %s: %v, %w", id, found, err)
			}
			if err := tx.Reserve(t.Context(), c.OrderNo, postgres.Reservation{Source: "psp", Payment: payment, At: at}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	reserved := func(id string) bool {
		r, err := d.Reservation(t.Context(), later, id)
		if err != nil {
			t.Fatal(err)
		}
		return r != nil
	}
	item := d.unanswered(later)[0]
	if !reserved("o") {
		t.Fatal("released before anybody decided")
	}
	d.decide(item.ID, postgres.Decision{Action: postgres.Dismiss})
	if reserved("o") || !reserved("other") {
		t.Errorf("reserved after it was given up: %v, and another's order: %v", reserved("o"), reserved("other"))
	}
}

func TestAFloodOfForgedObjectsIsNotAFloodOfReviewItems(t *testing.T) {
	d := newDesk(t)
	var hints []postgres.Hint
	for i := range 500 {
		hints = append(hints, hint(fmt.Sprintf("e%d", i), fmt.Sprintf("p%d", i), at))
	}
	d.hold(at, hints...)
	items := d.unanswered(later)
	if len(items) != 201 {
		t.Fatalf("%d review items, want 200 and one for the rest", len(items))
	}
	last := items[len(items)-1]
	if last.Subject != postgres.LookupSubject("psp", "") {
		t.Errorf("the last item is about %q", last.Subject)
	}
	d.decide(last.ID, postgres.Decision{Action: postgres.Dismiss})
	d.booked(map[order.Verdict]int64{order.Held: 500})
}

// What does not exist is asked about again and again. New hints do not wait for that.
func TestANewHintComesBeforeTheRetriesOfAFlood(t *testing.T) {
	d := newDesk(t)
	var flood []postgres.Hint
	for i := range 50 {
		flood = append(flood, hint(fmt.Sprintf("e%d", i), fmt.Sprintf("forged%d", i), at))
	}
	d.hold(at, flood...)
	for _, l := range d.claimed(at, "a") {
		if err := d.RetryLookup(t.Context(), l, at.Add(10*time.Second), postgres.LookupUnknown); err != nil {
			t.Fatal(err)
		}
	}
	d.hold(at.Add(time.Minute), hint("real", "p", at.Add(time.Minute)))
	ls, err := testkit.ClaimLookups(t.Context(), d.Store, at.Add(2*time.Minute), "a", "psp", 1)
	if err != nil || len(ls) != 1 || ls[0].Object != "p" {
		t.Errorf("%+v, %v; want that of p", ls, err)
	}
}

// Processors that hold hints and reconcilers that answer race; at the end every
// hint is settled, by a look-up that was claimed after its transaction, and the books
// add up.
func TestHintsAndAnswersRaceAndNothingIsLeftBehind(t *testing.T) {
	d := newDesk(t)
	const writers, rounds, objects = 4, 40, 3
	ctx, stop := context.WithCancel(t.Context())
	var holding, answering sync.WaitGroup
	sent := int64(0)
	for w := range writers {
		sent += rounds * 2
		holding.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(w))) //nolint:gosec // a test's dice
			for i := range rounds {
				d.hold(at, hint(fmt.Sprintf("e%d-%d", w, i), fmt.Sprint("p", rnd.IntN(objects)), later),
					hint("same", fmt.Sprint("p", rnd.IntN(objects)), later))
			}
		})
	}
	for r := range 3 {
		answering.Go(func() {
			for now := at; ; now = now.Add(6 * time.Second) {
				ls, err := testkit.ClaimLookups(t.Context(), d.Store, now, fmt.Sprint("r", r), "psp", 2)
				for _, l := range ls {
					if _, err := d.AnswerLookup(t.Context(), now, l); err != nil {
						t.Error(err)
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
				if len(ls) == 0 && ctx.Err() != nil {
					return
				}
			}
		})
	}
	holding.Wait()
	stop()
	answering.Wait()
	for _, l := range d.claimed(later, "last") {
		d.answer(l)
	}
	if n := d.number(`SELECT count(*) FROM hints WHERE settled_at IS NULL`); n != 0 {
		t.Errorf("%d hints wait for ever", n)
	}
	if n := d.number(`SELECT sum(events) FROM books`); n != sent {
		t.Errorf("the books count %d, want %d", n, sent)
	}
	if n := d.number(`SELECT coalesce(sum(events), 0) FROM books WHERE verdict = $1`, int(order.Held)); n != 0 {
		t.Errorf("%d are booked as held", n)
	}
}

// A payment that hangs is asked about ever more rarely. A hint about it is news.
func TestAHintAboutAPaymentThatHangsIsAskedAboutAtOnce(t *testing.T) {
	d := newDesk(t)
	d.register("o")
	now := time.Now()
	d.hold(now, hint("e1", "p", now))
	l := d.claimed(now, "a")[0]
	_, err := d.AnswerUndecided(t.Context(), now.Add(time.Second), l, postgres.Undecided{Orders: []string{"o"}, At: now.Add(6 * time.Hour), ReviewAt: now.Add(24 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if ls := d.claimed(now.Add(time.Hour), "a"); len(ls) != 0 {
		t.Fatalf("asked about before its time: %+v", ls)
	}
	news := now.Add(2 * time.Hour)
	if v := d.hold(news, hint("e2", "p", news)); v[0] != order.Held {
		t.Fatalf("the hint is %v", v[0])
	}
	ls, _, err := d.ClaimLookups(t.Context(), news.Add(5*time.Second), postgres.LookupClaim{Owner: "a", Source: "psp", Lane: postgres.LaneHint, Limit: 9, Lease: time.Minute})
	if err != nil || len(ls) != 1 {
		t.Fatalf("the provider is not asked about the hint: %+v, %v", ls, err)
	}
	if n := d.answer(ls[0]); n != 1 {
		t.Errorf("%d hints were settled", n)
	}
}

// refundOf is a fact about refund re of payment p, that is asked about after half an hour.
func refundOf(id string, kind order.Kind, re string, second int) postgres.Fact {
	f := fact(id, "", "p", kind, 300, second)
	f.Object, f.AskAfter = re, 30*time.Minute
	return f
}

// O45: a refund that is under way for longer than the limit, and of whose end no
// webhook ever tells.
func TestARefundUnderWayIsAskedAboutUntilItIsDecided(t *testing.T) {
	d := newDesk(t)
	d.apply(registered("o", 1000), fact("paid", "o", "p", order.KindPaid, 1000, 5))
	d.apply(refundOf("r1", order.KindPending, "re_1", 6), refundOf("r2", order.KindPending, "re_2", 7))
	d.wants("o", order.Paid, "pending paid")
	began := at
	if ls := d.claimed(began.Add(29*time.Minute), "a"); len(ls) != 0 {
		t.Fatalf("asked about before its time: %+v", ls)
	}
	ls := d.claimed(began.Add(31*time.Minute), "a")
	if len(ls) != 1 || ls[0].Payment != "p" || !ls[0].Hanging {
		t.Fatalf("asked about are %+v", ls)
	}
	// Still under way: it goes on, since when it did.
	u := postgres.Undecided{At: began.Add(time.Hour), ReviewAt: began.Add(24 * time.Hour), Refund: &postgres.Said{Payment: "p", Object: "re_1"}}
	if _, err := d.AnswerHanging(t.Context(), began.Add(31*time.Minute), ls[0], u); err != nil {
		t.Fatal(err)
	}
	if items := d.unanswered(began.Add(23 * time.Hour)); len(items) != 0 {
		t.Errorf("a person is asked before the deadline: %+v", items)
	}
	if ls := d.claimed(began.Add(59*time.Minute), "a"); len(ls) != 0 {
		t.Errorf("asked about again at once: %+v", ls)
	}
	// One of the two ends; the other is still asked about.
	d.apply(refundOf("r1 ended", order.KindRefund, "re_1", 8))
	if ls = d.claimed(began.Add(2*time.Hour), "a"); len(ls) != 1 || ls[0].Attempt != 2 {
		t.Fatalf("asked about are %+v", ls)
	}
	if err := d.RetryLookup(t.Context(), ls[0], began.Add(48*time.Hour), postgres.LookupUnavailable); err != nil {
		t.Fatal(err)
	}
	if items := d.unanswered(began.Add(25 * time.Hour)); len(items) != 1 {
		t.Errorf("at the deadline a person is asked %+v", items)
	}
	d.apply(refundOf("r2 ended", order.KindRefundFailed, "re_2", 9))
	if ls := d.claimed(began.Add(26*time.Hour), "a"); len(ls) != 0 || d.number(`SELECT count(*) FROM lookups WHERE answered < armed`) != 0 {
		t.Errorf("all is decided, and asked about are %+v", ls)
	}
	if items := d.unanswered(began.Add(26 * time.Hour)); len(items) != 0 {
		t.Errorf("all is decided, and open is %+v", items)
	}
	d.apply(refundOf("r1", order.KindPending, "re_1", 6)) // repeated late
	if n := d.number(`SELECT count(*) FROM lookups WHERE answered < armed`); n != 0 {
		t.Errorf("%d look-ups are open after a repeat", n)
	}
	d.wants("o", order.PartiallyRefunded, "pending paid partially_refunded")
}

// The refund may be told of before its payment, which leads to another order then.
func TestARefundUnderWayThatCameBeforeItsPaymentIsAskedAbout(t *testing.T) {
	d := newDesk(t)
	d.apply(refundOf("r1", order.KindPending, "re_1", 6))
	d.apply(registered("o", 1000), fact("paid", "o", "p", order.KindPaid, 1000, 5))
	if ls := d.claimed(at.Add(31*time.Minute), "a"); len(ls) != 1 || !ls[0].Refund {
		t.Errorf("asked about are %+v", ls)
	}
}

// Some count a refund in their total before it is decided.
func TestARefundUnderWayIsNoContradiction(t *testing.T) {
	d := newDesk(t)
	paid, done, begun := fact("paid", "o", "p", order.KindPaid, 1000, 5), refundOf("r1", order.KindRefund, "re_1", 6), refundOf("r2", order.KindPending, "re_2", 7)
	d.apply(registered("o", 1000), paid, fact("t", "o", "p", order.KindRefundTotal, 600, 8), done, begun)
	d.answered(at, paid, done, begun)
	d.compare(at.Add(time.Hour))
	if n := d.number(`SELECT count(*) FROM comparisons`); n != 0 || len(d.contradictions()) != 0 {
		t.Errorf("%d are asked about again: %+v", n, d.contradictions())
	}
}

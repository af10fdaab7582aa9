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
	"unicode/utf8"

	"sluice/pkg/effect"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// declared are effects by the text of their file's list.
func declared(t testing.TB, list string) effect.Set {
	t.Helper()
	set, err := effect.LoadWithoutSecrets("effects.yaml", func(string) ([]byte, error) { return []byte("effects:\n" + list), nil })
	if err != nil {
		t.Fatal(err)
	}
	return set
}

const fulfil = `
  - {name: fulfil, on: {to: paid}, url: "https://fulfilment.example/orders", secret: env:FULFIL_SECRET}
`

var lease = 30 * time.Second

func claimFulfil(t *testing.T, s *postgres.Store, now time.Time, n int) []postgres.Effect {
	t.Helper()
	claimed, err := s.ClaimEffects(t.Context(), now, "test", postgres.Wanted{Name: "fulfil", N: n, Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	return claimed
}

func finish(t *testing.T, s *postgres.Store, now time.Time, a postgres.Attempt) bool {
	t.Helper()
	if a.StartedAt.IsZero() {
		a.StartedAt = now
	}
	stands, err := s.FinishEffects(t.Context(), now, a)
	if err != nil {
		t.Fatal(err)
	}
	return stands[0]
}

func TestAPaidOrderCausesItsEffectOnceHoweverOftenItIsSaid(t *testing.T) { // O44
	s := testkit.Store(t).WithEffects(declared(t, fulfil))
	paid := fact("e1", "o", "pi", order.KindPaid, 1000, 1)
	a := apply(t, s, registered("o", 1000), paid)
	if a.Effects != 1 {
		t.Fatalf("%d effects were caused, want 1", a.Effects)
	}
	again := fact("e2", "o", "pi", order.KindPaid, 1000, 2) // another event, the same fact
	if n := apply(t, s, paid, again).Effects; n != 0 {
		t.Errorf("saying it again caused %d effects", n)
	}
	claimed := claimFulfil(t, s, at, 10)
	if len(claimed) != 1 || claimed[0].OrderID != "o" || claimed[0].Attempt != 1 || claimed[0].Try != 1 {
		t.Fatalf("claimed %+v", claimed)
	}
	e := claimed[0]
	if !strings.HasPrefix(e.IdempotencyKey(), "fulfil_") || !strings.Contains(string(e.Body), `"id":"`+e.IdempotencyKey()+`"`) {
		t.Errorf("the key %s is not the body's: %s", e.IdempotencyKey(), e.Body)
	}
	if more := claimFulfil(t, s, at, 10); len(more) != 0 {
		t.Errorf("a claimed effect was claimed again: %+v", more)
	}
	if !finish(t, s, at, postgres.Attempt{Effect: e, Outcome: postgres.AttemptDone, Status: 200}) {
		t.Error("what its owner finished does not stand")
	}
	if more := claimFulfil(t, s, at.Add(time.Hour), 10); len(more) != 0 {
		t.Errorf("a done effect was claimed again: %+v", more)
	}
}

// A dispatcher that slept past its lease: another one has the effect. (O41)
func TestAnAttemptWhoseLeaseIsOverDecidesNothingButThatItIsDone(t *testing.T) {
	s := testkit.Store(t).WithEffects(declared(t, fulfil))
	apply(t, s, registered("o", 1000), fact("e1", "o", "pi", order.KindPaid, 1000, 1))
	first := claimFulfil(t, s, at, 1)[0]
	if early := claimFulfil(t, s, at.Add(lease-time.Second), 1); len(early) != 0 {
		t.Fatal("claimed within another's lease")
	}
	second := claimFulfil(t, s, at.Add(lease), 1)[0]
	if second.Attempt != 2 || second.IdempotencyKey() != first.IdempotencyKey() || string(second.Body) != string(first.Body) {
		t.Errorf("the second attempt is %+v, the first was %+v", second, first)
	}
	if finish(t, s, at, postgres.Attempt{Effect: first, Outcome: postgres.AttemptFailed, Class: "timeout"}) {
		t.Error("a fenced attempt made the effect fail")
	}
	if !finish(t, s, at, postgres.Attempt{Effect: second, Outcome: postgres.AttemptRetry, RetryAt: at.Add(time.Hour), Status: 503, Class: "status"}) {
		t.Error("the second attempt does not stand")
	}
	if early := claimFulfil(t, s, at.Add(59*time.Minute), 1); len(early) != 0 {
		t.Error("claimed before it is due")
	}
	third := claimFulfil(t, s, at.Add(time.Hour), 1)[0]
	if !finish(t, s, at, postgres.Attempt{Effect: first, Outcome: postgres.AttemptDone, Status: 200}) {
		t.Error("what was done late is not done")
	}
	if finish(t, s, at, postgres.Attempt{Effect: third, Outcome: postgres.AttemptFailed}) {
		t.Error("what is done failed")
	}
	if again := claimFulfil(t, s, at.Add(100*time.Hour), 1); len(again) != 0 {
		t.Error("what is done is attempted again")
	}
}

func TestTheDelayIsWaitedFor(t *testing.T) {
	s := testkit.Store(t).WithEffects(declared(t, strings.Replace(fulfil, "name: fulfil,", "name: fulfil, delay: 30s,", 1)))
	apply(t, s, registered("o", 1000), fact("e1", "o", "pi", order.KindPaid, 1000, 1))
	if early := claimFulfil(t, s, at.Add(29*time.Second), 1); len(early) != 0 {
		t.Error("claimed within the delay")
	}
	if due := claimFulfil(t, s, at.Add(30*time.Second), 1); len(due) != 1 {
		t.Error("not due after the delay")
	}
}

func ruled(t *testing.T, s *postgres.Store, kind order.Kind, about string, second int) postgres.Applied {
	t.Helper()
	target := fact(about, "o", "pi", order.KindPaid, 1000, 1)
	f := fact(about+kind.String()+time.Duration(second).String(), "o", "", kind, 0, second)
	f.Source, f.Currency, f.Target = postgres.Review, "", target.Hash
	return apply(t, s, f)
}

func TestPaidCorrectedPaidActsOnce(t *testing.T) {
	s := testkit.Store(t).WithEffects(declared(t, fulfil))
	apply(t, s, registered("o", 1000), fact("e1", "o", "pi", order.KindPaid, 1000, 1))
	ruled(t, s, order.KindDismiss, "e1", 10)
	if none := claimFulfil(t, s, at, 1); len(none) != 0 {
		t.Fatal("a withdrawn effect is due")
	}
	if n := ruled(t, s, order.KindAccept, "e1", 20).Effects; n != 1 {
		t.Fatalf("implied again, %d effects are due", n)
	}
	e := claimFulfil(t, s, at, 1)[0]
	finish(t, s, at, postgres.Attempt{Effect: e, Outcome: postgres.AttemptDone, Status: 200})
	ruled(t, s, order.KindDismiss, "e1", 30)
	open := reviews(t, s, postgres.ReviewEffectOutdated)
	if len(open) != 1 || open[0].Subject != e.IdempotencyKey() || open[0].Order != "o" {
		t.Fatalf("the review items are %+v", open)
	}
	ruled(t, s, order.KindAccept, "e1", 40)
	if again := claimFulfil(t, s, at.Add(time.Hour), 1); len(again) != 0 {
		t.Error("what was done is done again")
	}
	if open := reviews(t, s, postgres.ReviewEffectOutdated); len(open) != 0 {
		t.Errorf("implied again, it is still asked about: %+v", open)
	}
}

func reviews(t *testing.T, s *postgres.Store, kind postgres.ReviewKind) []postgres.ReviewSummary {
	t.Helper()
	open, err := s.ListReviewItems(context.Background(), at, kind, false, 10)
	if err != nil {
		t.Fatal(err)
	}
	return open
}

func effectsOf(t *testing.T, s *postgres.Store, id string) []postgres.EffectSummary {
	t.Helper()
	found, err := s.ListEffects(context.Background(), postgres.EffectFilter{Order: id, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// The dispatcher that had it died, and meanwhile its order was corrected: nobody knows
// whether it was called, and nobody calls it now.
func TestACorrectionDuringAnAttemptThatIsLostEndsTheEffect(t *testing.T) {
	s := testkit.Store(t).WithEffects(declared(t, fulfil))
	apply(t, s, registered("o", 1000), fact("e1", "o", "pi", order.KindPaid, 1000, 1))
	lost := claimFulfil(t, s, at, 1)[0]
	ruled(t, s, order.KindDismiss, "e1", 10)
	if again := claimFulfil(t, s, at.Add(lease), 1); len(again) != 0 {
		t.Fatalf("what is not wanted any more is attempted: %+v", again)
	}
	if all := effectsOf(t, s, "o"); len(all) != 1 || all[0].State != effect.Withdrawn || !all[0].Outdated {
		t.Errorf("the order has the effects %+v", all)
	}
	if c, err := s.EffectCase(t.Context(), lost.Key); err != nil || len(c.Log) != 1 || c.Log[0].Class != "lost" {
		t.Errorf("the lost attempt: %+v, %v", c.Log, err)
	}
	ruled(t, s, order.KindAccept, "e1", 20)
	if again := claimFulfil(t, s, at.Add(lease), 1); len(again) != 1 || again[0].IdempotencyKey() != lost.IdempotencyKey() || again[0].Attempt != 2 {
		t.Errorf("implied again, it is attempted %+v", again)
	}
}

// Two payments of one order whose events crossed: which of them counts changes, what
// is published does not, and the goods go out once.
func TestAPaymentThatGivesWayToAnEarlierOneIsNotFulfilledAgain(t *testing.T) {
	s := testkit.Store(t).WithEffects(declared(t, fulfil))
	apply(t, s, registered("o", 1000), fact("late", "o", "second", order.KindPaid, 1000, 9))
	apply(t, s, registered("p", 1000), fact("late p", "p", "second p", order.KindPaid, 1000, 9))
	for _, e := range claimFulfil(t, s, at, 10) {
		if e.OrderID == "o" {
			finish(t, s, at, postgres.Attempt{Effect: e, Outcome: postgres.AttemptDone, Status: 200})
		} else {
			finish(t, s, at, postgres.Attempt{Effect: e, Outcome: postgres.AttemptUnmade, RetryAt: at})
		}
	}
	apply(t, s, fact("early", "o", "first", order.KindPaid, 1000, 1))
	if all := effectsOf(t, s, "o"); len(all) != 1 || all[0].State != effect.Done || all[0].Outdated {
		t.Errorf("the order has the effects %+v", all)
	}
	if open := reviews(t, s, postgres.ReviewEffectOutdated); len(open) != 0 {
		t.Errorf("a person is asked %+v", open)
	}
}

// An effect that is not declared (any more, or not yet in this role) is nothing that a
// correction can judge: its rows are neither taken back nor asked about.
func TestACorrectionLeavesEffectsAloneThatAreNotDeclared(t *testing.T) {
	s := testkit.Store(t).WithEffects(declared(t, fulfil+`
  - {name: crm, on: {to: paid}, url: "https://crm.example", secret: env:S}
  - {name: mail, on: {to: paid}, url: "https://mail.example", secret: env:S}
`))
	apply(t, s, registered("o", 1000), fact("late", "o", "second", order.KindPaid, 1000, 9))
	claimed, err := s.ClaimEffects(t.Context(), at, "test", postgres.Wanted{Name: "crm", N: 1, Lease: lease})
	if err != nil || len(claimed) != 1 {
		t.Fatalf("claimed %+v, %v", claimed, err)
	}
	finish(t, s, at, postgres.Attempt{Effect: claimed[0], Outcome: postgres.AttemptDone, Status: 200})
	s.WithEffects(declared(t, fulfil))
	apply(t, s, fact("early", "o", "first", order.KindPaid, 1000, 1))
	for _, e := range effectsOf(t, s, "o") {
		if want := map[string]effect.State{"crm": effect.Done, "mail": effect.Pending}; e.Effect != "fulfil" && (e.State != want[e.Effect] || e.Outdated) {
			t.Errorf("%s is %s, outdated: %v", e.Effect, e.State, e.Outdated)
		}
	}
	if open := reviews(t, s, postgres.ReviewEffectOutdated); len(open) != 0 {
		t.Errorf("a person is asked %+v", open)
	}
}

// A refund that was told of gave way to another one, for which its row stood. When it
// counts again beside that, the other is told of too.
func TestAFactThatCountsAgainBesideTheOtherLeavesThatItsOwnEffect(t *testing.T) {
	s := testkit.Store(t).WithEffects(declared(t, `
  - {name: fulfil, on: [{to: partially_refunded}, {from: partially_refunded, to: partially_refunded}], url: "https://a.example", secret: env:S}
`))
	refund := func(object string, second int) postgres.Fact {
		f := fact("e-"+object, "o", "pi", order.KindRefund, 100, second)
		f.Object = object
		return f
	}
	dismissed := fact("gone", "o", "", order.KindDismiss, 0, 20)
	dismissed.Source, dismissed.Currency, dismissed.Target = postgres.Review, "", refund("r1", 5).Hash
	accepted := fact("back", "o", "", order.KindAccept, 0, 30)
	accepted.Source, accepted.Currency, accepted.Target = postgres.Review, "", refund("r1", 5).Hash
	apply(t, s, registered("o", 1000), fact("paid", "o", "pi", order.KindPaid, 1000, 1), refund("r1", 5))
	finish(t, s, at, postgres.Attempt{Effect: claimFulfil(t, s, at, 1)[0], Outcome: postgres.AttemptDone, Status: 200})
	apply(t, s, dismissed, refund("r2", 6))
	apply(t, s, accepted)
	if due := claimFulfil(t, s, at, 10); len(due) != 1 || !strings.Contains(string(due[0].Body), `"object":"r2"`) {
		t.Errorf("due is %+v", due)
	}
}

// A call is under way when its order is corrected: it cannot be taken back, and if it
// failed it is not tried again.
func TestACorrectionDuringAnAttemptEndsTheEffectWithIt(t *testing.T) {
	for name, outcome := range map[effect.State]postgres.AttemptOutcome{effect.Done: postgres.AttemptDone, effect.Withdrawn: postgres.AttemptRetry} {
		s := testkit.Store(t).WithEffects(declared(t, fulfil))
		apply(t, s, registered("o", 1000), fact("e1", "o", "pi", order.KindPaid, 1000, 1))
		e := claimFulfil(t, s, at, 1)[0]
		ruled(t, s, order.KindDismiss, "e1", 10)
		if open := reviews(t, s, postgres.ReviewEffectOutdated); len(open) != 1 {
			t.Errorf("a person is asked %+v", open)
		}
		finish(t, s, at, postgres.Attempt{Effect: e, Outcome: outcome, RetryAt: at, Status: 200})
		if all := effectsOf(t, s, "o"); len(all) != 1 || all[0].State != name || !all[0].Outdated {
			t.Errorf("%v: the order has the effects %+v", name, all)
		}
		if again := claimFulfil(t, s, at.Add(time.Hour), 1); len(again) != 0 {
			t.Errorf("%v: it is attempted again", name)
		}
	}
}

// The provider corrects an event in place: it is another payment's.
func TestAnotherReadingOfAnEventIsAnotherFact(t *testing.T) {
	for kind, to := range map[order.Kind]string{order.KindPaid: "paid", order.KindFailed: "failed"} {
		s := testkit.Store(t).WithEffects(declared(t, strings.Replace(fulfil, "to: paid", "to: "+to, 1)))
		e := fact("e1", "o", "pi", kind, 1000, 1)
		apply(t, s, registered("o", 1000), e)
		e.Payment, e.Replaces, e.ReadingHash = "other", true, e.ReadingHash+1
		apply(t, s, e)
		claimed := claimFulfil(t, s, at, 10)
		if len(claimed) != 1 || !strings.Contains(string(claimed[0].Body), `"payment":"other"`) {
			t.Errorf("%v: claimed %+v", kind, claimed)
		}
	}
}

func TestOfTwoAttemptsThatAreFinishedAtOnceTheSecondSeesTheFirst(t *testing.T) {
	s := testkit.Store(t).WithEffects(declared(t, fulfil))
	apply(t, s, registered("o", 1000), fact("e1", "o", "pi", order.KindPaid, 1000, 1))
	first, second := claimFulfil(t, s, at, 1)[0], claimFulfil(t, s, at.Add(lease), 1)[0]
	stands, err := s.FinishEffects(t.Context(), at, postgres.Attempt{Effect: first, Outcome: postgres.AttemptDone, StartedAt: at},
		postgres.Attempt{Effect: second, Outcome: postgres.AttemptFailed, StartedAt: at, Class: "status"})
	if err != nil || !stands[0] || stands[1] {
		t.Errorf("%v stand, %v", stands, err)
	}
	if all := effectsOf(t, s, "o"); all[0].State != effect.Done || len(reviews(t, s, postgres.ReviewEffectFailed)) != 0 {
		t.Errorf("it is %+v", all)
	}
}

func TestOnlyWhatCorrectionsCauseIsLeftOutWhereTheyDoNotCount(t *testing.T) {
	rule := strings.Replace(fulfil, "{to: paid}", "[{to: paid, corrections: false}, {to: refunded}]", 1)
	s := testkit.Store(t).WithEffects(declared(t, rule))
	apply(t, s, registered("o", 1000), fact("e0", "o", "pi", order.KindPaid, 900, 1))
	ruled(t, s, order.KindAccept, "e0", 10) // the amount is wrong, and a person accepts it
	if n := len(effectsOf(t, s, "o")); n != 1 {
		t.Errorf("what fits by a decision caused %d effects, want 1", n)
	}
	apply(t, s, registered("q", 1000), fact("x", "q", "pq", order.KindCancelled, 0, 2))
	apply(t, s, fact("y", "q", "pq", order.KindPaid, 1000, 1)) // it came late: a correction
	if all := effectsOf(t, s, "q"); len(all) != 0 {
		t.Errorf("a correction caused %+v", all)
	}
}

func TestWhatFailedIsSentAgainUnderItsKeyByWhoSaysWhy(t *testing.T) {
	s := testkit.Store(t).WithEffects(declared(t, fulfil))
	apply(t, s, registered("o", 1000), fact("e1", "o", "pi", order.KindPaid, 1000, 1))
	e := claimFulfil(t, s, at, 1)[0]
	if err := s.SendEffectAgain(t.Context(), at, e.Key, "anna", "because"); !errors.Is(err, postgres.ErrNotFailed) {
		t.Errorf("what did not fail: %v", err)
	}
	finish(t, s, at, postgres.Attempt{Effect: e, Outcome: postgres.AttemptFailed, Status: 422, Class: "status", Latency: 30 * time.Millisecond,
		Answer: "no\x00\x1b[31m such\r\n" + strings.Repeat("é", 400) + "\xff"})
	open := reviews(t, s, postgres.ReviewEffectFailed)
	if len(open) != 1 || open[0].Subject != e.IdempotencyKey() || open[0].Order != "o" || !strings.Contains(open[0].Detail, "HTTP 422") {
		t.Fatalf("a person is asked %+v", open)
	}
	if none := claimFulfil(t, s, at.Add(time.Hour), 1); len(none) != 0 {
		t.Fatal("what failed is attempted by itself")
	}
	for _, who := range []string{"", " "} {
		if err := s.SendEffectAgain(t.Context(), at, e.Key, who, "because"); !errors.Is(err, postgres.ErrDecision) {
			t.Errorf("nobody: %v", err)
		}
	}
	if err := s.ClaimReviewItem(t.Context(), at, open[0].ID, "bert"); err != nil {
		t.Fatal(err)
	}
	if err := s.SendEffectAgain(t.Context(), at, e.Key, "anna", "because"); !errors.Is(err, postgres.ErrClaimed) {
		t.Errorf("another's item: %v", err)
	}
	if err := s.SendEffectAgain(t.Context(), at, e.Key, "bert", "the receiver is mended"); err != nil {
		t.Fatal(err)
	}
	again := claimFulfil(t, s, at, 1)[0]
	if again.IdempotencyKey() != e.IdempotencyKey() || string(again.Body) != string(e.Body) || again.Attempt != 2 || again.Try != 1 {
		t.Errorf("sent again: %+v", again)
	}
	finish(t, s, at, postgres.Attempt{Effect: again, Outcome: postgres.AttemptFailed, Class: "timeout"})
	if open := reviews(t, s, postgres.ReviewEffectFailed); len(open) != 1 || open[0].ClaimedBy != "" {
		t.Errorf("it failed again, and a person is asked %+v", open)
	}
	c, err := s.EffectCase(t.Context(), e.Key)
	if err != nil || len(c.Log) != 2 || c.Log[0].Status != 422 || c.Log[0].LatencyMS != 30 || c.Log[1].Class != "timeout" || c.State != effect.Failed {
		t.Fatalf("the case is %+v, %v", c, err)
	}
	if a := c.Log[0].Answer; !strings.HasPrefix(a, "no[31m such  é") || len(a) > postgres.MaxAnswer || !utf8.ValidString(a) {
		t.Errorf("the answer is kept as %q", a)
	}
	story, err := s.Story(t.Context(), "o")
	if err != nil || len(story.Effects) != 1 || len(story.Acts) != 1 || story.Acts[0].Who != "bert" {
		t.Errorf("the story tells %+v, %+v, %v", story.Effects, story.Acts, err)
	}
}

func TestABacklogOfOneEffectHidesNoOther(t *testing.T) {
	s := testkit.Store(t).WithEffects(declared(t, fulfil+`
  - {name: mail, on: {to: paid}, url: "https://b.example", secret: env:S}
`))
	for _, id := range []string{"o1", "o2", "o3"} {
		apply(t, s, registered(id, 1000), fact("e"+id, id, "pi"+id, order.KindPaid, 1000, 1))
	}
	claimed, err := s.ClaimEffects(t.Context(), at, "test", postgres.Wanted{Name: "fulfil", N: 2, Lease: lease}, postgres.Wanted{Name: "mail", N: 2, Lease: lease},
		postgres.Wanted{Name: "no more declared", N: 5, Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]int{}
	for _, e := range claimed {
		of[e.Name]++
	}
	if of["fulfil"] != 2 || of["mail"] != 2 {
		t.Errorf("claimed %v", of)
	}
	counts, err := s.CountEffects(t.Context(), at)
	if err != nil || len(counts) != 2 || counts[0].Due+counts[1].Due != 2 {
		t.Errorf("counted %+v, %v", counts, err)
	}
}

func TestRolesWithOtherEffectsAreFound(t *testing.T) {
	s := testkit.Store(t).WithEffects(declared(t, fulfil))
	others, err := s.DeclareEffects(t.Context(), at, "processor")
	if err != nil || len(others) != 0 {
		t.Fatalf("the first finds %v, %v", others, err)
	}
	s.WithEffects(effect.Set{})
	if others, err = s.DeclareEffects(t.Context(), at, "merchant"); err != nil || len(others) != 1 || others[0] != "processor" {
		t.Errorf("one without effects finds %v, %v", others, err)
	}
	s.WithEffects(declared(t, strings.Replace(fulfil, "fulfilment.example", "elsewhere.example", 1)))
	if others, err = s.DeclareEffects(t.Context(), at, "merchant"); err != nil || len(others) != 0 {
		t.Errorf("one that calls another address finds %v, %v", others, err)
	}
}

// Corrections back and forth while dispatchers claim and finish: nothing deadlocks,
// nothing is done twice, and in the end what is implied and not done is due.
func TestDispatchersAndCorrectionsAtOnce(t *testing.T) {
	const orders, rounds = 20, 12
	s := testkit.Store(t).WithEffects(declared(t, fulfil))
	var mu sync.Mutex
	done := map[string]int{}
	ctx, stop := context.WithCancel(t.Context())
	var dispatchers, writers sync.WaitGroup
	for n := range 3 {
		dispatchers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 3))
			for ctx.Err() == nil {
				claimed, err := s.ClaimEffects(context.Background(), at, "test", postgres.Wanted{Name: "fulfil", N: 5, Lease: time.Hour})
				if err != nil {
					t.Error(err)
					return
				}
				var made []postgres.Attempt
				for _, e := range claimed {
					made = append(made, postgres.Attempt{Effect: e, Outcome: postgres.AttemptOutcome(random.IntN(4)), StartedAt: at, RetryAt: at, Class: "status"})
				}
				random.Shuffle(len(made), func(i, j int) { made[i], made[j] = made[j], made[i] })
				if _, err := s.FinishEffects(context.Background(), at, made...); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, a := range made {
					if a.Outcome == postgres.AttemptDone {
						done[a.Effect.IdempotencyKey()]++
					}
				}
				mu.Unlock()
			}
		})
	}
	for n := range 2 { // each writes all orders, in batches of its own order
		writers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 4))
			for round := range rounds {
				var batch []postgres.Fact
				for i := range orders {
					id := fmt.Sprintf("o%d", i)
					paid := fact("e"+id, id, "pi"+id, order.KindPaid, 1000, 1)
					kind := []order.Kind{order.KindDismiss, order.KindAccept}[round%2]
					ruling := fact(fmt.Sprintf("%s/%d/%d", id, round, n), id, "", kind, 0, 10+round)
					ruling.Source, ruling.Currency, ruling.Target = postgres.Review, "", paid.Hash
					batch = append(batch, registered(id, 1000), paid, ruling)
				}
				random.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
				apply(t, s, batch...)
			}
		})
	}
	writers.Wait()
	stop()
	dispatchers.Wait()
	for key, n := range done {
		if n != 1 {
			t.Errorf("%s was done %d times", key, n)
		}
	}
	for i := range orders {
		all := effectsOf(t, s, fmt.Sprintf("o%d", i)) // the last decision accepts
		if len(all) != 1 || all[0].Outdated || all[0].State == effect.Withdrawn || all[0].State == effect.Leased {
			t.Errorf("o%d has %+v", i, all)
		}
		if (all[0].State == effect.Done) != (done[all[0].Key] == 1) {
			t.Errorf("o%d: done %d times, and its state is %s", i, done[all[0].Key], all[0].State)
		}
	}
	if open := reviews(t, s, postgres.ReviewEffectOutdated); len(open) != 0 {
		t.Errorf("nothing is outdated in the end, and people are asked %+v", open)
	}
}

func TestWhatIsOldOfEffectsGoesAndTheirKeysStay(t *testing.T) {
	s := testkit.Store(t).WithEffects(declared(t, fulfil))
	for _, id := range []string{"old", "failed", "new"} {
		apply(t, s, registered(id, 1000), fact("e"+id, id, "pi"+id, order.KindPaid, 1000, 1))
	}
	keys := map[string]effect.Key{}
	for _, e := range claimFulfil(t, s, at, 3) {
		now, outcome := at, postgres.AttemptDone
		switch e.OrderID {
		case "failed":
			outcome = postgres.AttemptFailed
		case "new":
			now = at.Add(24 * time.Hour)
		}
		keys[e.OrderID] = e.Key
		finish(t, s, now, postgres.Attempt{Effect: e, Outcome: outcome, Status: 200})
	}
	attempts, bodies, later, err := s.ForgetEffects(t.Context(), at.Add(25*time.Hour), 24*time.Hour)
	if err != nil || attempts != 1 || bodies != 1 || later {
		t.Errorf("forgot %d attempts and %d bodies, later %v, %v; want one of each", attempts, bodies, later, err)
	}
	for id, want := range map[string]bool{"old": false, "failed": true, "new": true} {
		c, err := s.EffectCase(t.Context(), keys[id])
		if err != nil || (len(c.Log) == 1) != want || (c.Body != "") != want {
			t.Errorf("%s: %+v, %v", id, c, err)
		}
	}
	ruled := fact("dismissed", "old", "", order.KindDismiss, 0, 10)
	ruled.Source, ruled.Currency, ruled.Target = postgres.Review, "", fact("eold", "old", "piold", order.KindPaid, 1000, 1).Hash
	apply(t, s, ruled)
	ruled.Hash, ruled.Kind, ruled.Time, ruled.EventID = fact("x", "", "", 0, 0, 0).Hash, order.KindAccept, ruled.Time+1000, "x"
	apply(t, s, ruled)
	if again := claimFulfil(t, s, at.Add(1000*time.Hour), 3); len(again) != 0 {
		t.Errorf("what was done long ago is done again: %+v", again)
	}
}

package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

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

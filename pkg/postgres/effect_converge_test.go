package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/pkg/effect"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

const everyStep = `
  - {name: fulfil, on: {to: paid}, url: "https://a.example", secret: env:S}
  - {name: refund-mail, on: [{to: partially_refunded}, {from: partially_refunded, to: partially_refunded}, {to: refunded}], url: "https://a.example", secret: env:S}
  - {name: bad-news, on: [{to: failed}, {to: cancelled}, {dispute: open}, {from: refunded, to: paid}], url: "https://a.example", secret: env:S}
  - {name: welcome, on: {to: pending}, url: "https://a.example", secret: env:S}
`

// implied are the keys that an order's story implies, in order.
func implied(set effect.Set, h *history) (keys []string) {
	for _, i := range set.Implied(h.id, h.want.Steps, func(hash [16]byte) (order.Entry, bool) {
		i := slices.IndexFunc(h.facts, func(e order.Entry) bool { return e.Hash == hash })
		if i < 0 {
			return order.Entry{}, false
		}
		return h.facts[i], true
	}) {
		keys = append(keys, i.Key.Text(i.Name))
	}
	slices.Sort(keys)
	return keys
}

// standing are the keys of the order's effects that were neither withdrawn nor
// outdated, in order, and how many of each name.
func standing(t *rapid.T, s *postgres.Store, id string) (keys []string, of map[string]int) {
	effects, err := s.ListEffects(context.Background(), postgres.EffectFilter{Order: id, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	of = map[string]int{}
	for _, e := range effects {
		if e.State != effect.Withdrawn && !e.Outdated {
			keys = append(keys, e.Key)
			of[e.Effect]++
		}
	}
	slices.Sort(keys)
	return keys, of
}

// arrive delivers a history in a random order, cut at random places, with repeats,
// and calls between after each batch.
func arrive(t *rapid.T, s *postgres.Store, h *history, between func()) {
	arrival := rapid.Permutation(append(slices.Clone(h.told), rapid.SliceOfN(rapid.SampledFrom(h.told), 0, 3).Draw(t, "repeats")...)).Draw(t, "arrival")
	for i := 0; i < len(arrival); {
		end := min(len(arrival), i+rapid.IntRange(1, 4).Draw(t, "cut"))
		if err := deliver(context.Background(), s, 0, arrival[i:end]); err != nil {
			t.Fatal(err)
		}
		i = end
		between()
	}
}

// As long as nothing was attempted, the effects that stand are those that the fold of
// the whole set implies, under the same keys: whatever the arrival, the cuts, the
// repeats, the readings and the decisions. (O44, O34)
func TestEffectsFollowFromTheSetAndNotFromTheArrival(t *testing.T) {
	set := declared(t, everyStep)
	s := testkit.Store(t).WithEffects(set)
	var n atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t, fmt.Sprintf("o%d", n.Add(1)))
		arrive(t, s, &h, func() {})
		if got, _ := standing(t, s, h.id); !slices.Equal(got, implied(set, &h)) {
			t.Errorf("effects %v stand, the fold implies %v: %v", got, implied(set, &h), h.want.Steps)
		}
	})
}

// Attempted at any moment, an effect that the story implies once stands once: another
// fact that says the same does not send it again.
func TestWhatTheStoryImpliesOnceIsDoneOnce(t *testing.T) {
	set := declared(t, everyStep)
	s := testkit.Store(t).WithEffects(set)
	var n atomic.Int64
	names := []postgres.Wanted{}
	for _, d := range set.All() {
		names = append(names, postgres.Wanted{Name: d.Name, N: 100, Lease: time.Hour})
	}
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t, fmt.Sprintf("o%d", n.Add(1)))
		sent := map[string]int{}
		attempt := func() {
			if rapid.IntRange(0, 1).Draw(t, "dispatch") == 0 {
				return
			}
			claimed, err := s.ClaimEffects(context.Background(), at, "test", names...)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range claimed {
				a := postgres.Attempt{Effect: e, StartedAt: at, RetryAt: at, Outcome: postgres.AttemptOutcome(rapid.IntRange(0, 2).Draw(t, "outcome"))}
				if _, err := s.FinishEffects(context.Background(), at, a); err != nil {
					t.Fatal(err)
				}
				if a.Outcome == postgres.AttemptDone {
					sent[e.IdempotencyKey()]++
				}
			}
		}
		arrive(t, s, &h, attempt)
		for key, n := range sent {
			if n != 1 {
				t.Errorf("%s was done %d times", key, n)
			}
		}
		want := map[string]int{}
		for _, key := range implied(set, &h) {
			want[key[:len(key)-33]]++
		}
		if got, of := standing(t, s, h.id); fmt.Sprint(of) != fmt.Sprint(want) {
			t.Errorf("effects %v stand (%v), the fold implies %v: %v", of, got, want, h.want.Steps)
		}
	})
}

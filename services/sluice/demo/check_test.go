package demo

import (
	"testing"

	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/status"
)

func TestEveryWayAnOrderCanEndWronglyIsSeen(t *testing.T) {
	s := story{want: want{status: order.Refunded, refunded: 500, dispute: order.DisputeWon, held: []order.Reason{order.SecondPayment}}}
	right := func() (postgres.Story, []seen) {
		return postgres.Story{Status: order.Refunded, Refunded: 500, Dispute: order.DisputeWon, Version: 3,
				Events: []postgres.StoryEvent{{Verdict: order.Applied}, {Verdict: order.Held, Reason: order.SecondPayment}}},
			[]seen{
				{Message: status.Message{Version: 1, Status: order.Pending}},
				{Message: status.Message{Version: 2, Previous: order.Pending, Status: order.Paid}},
				{Message: status.Message{Version: 3, Previous: order.Paid, Status: order.Refunded}},
			}
	}
	if end, messages := right(); s.problem(end, messages) != "" {
		t.Fatalf("a right end is called wrong: %s", s.problem(end, messages))
	}
	for name, spoil := range map[string]func(*postgres.Story, []seen) []seen{
		"status":         func(e *postgres.Story, m []seen) []seen { e.Status = order.Paid; return m },
		"refunded":       func(e *postgres.Story, m []seen) []seen { e.Refunded = 499; return m },
		"dispute":        func(e *postgres.Story, m []seen) []seen { e.Dispute = order.DisputeLost; return m },
		"nothing held":   func(e *postgres.Story, m []seen) []seen { e.Events = e.Events[:1]; return m },
		"another reason": func(e *postgres.Story, m []seen) []seen { e.Events[1].Reason = order.OverRefund; return m },
		"no message":     func(*postgres.Story, []seen) []seen { return nil },
		"a gap":          func(_ *postgres.Story, m []seen) []seen { return []seen{m[0], m[2]} },
		"last missing":   func(_ *postgres.Story, m []seen) []seen { return m[:2] },
		"a broken chain": func(_ *postgres.Story, m []seen) []seen { m[2].Previous = order.Failed; return m },
	} {
		end, messages := right()
		messages = spoil(&end, messages)
		if s.problem(end, messages) == "" {
			t.Errorf("%s: not seen", name)
		}
	}
}

func TestTheDayTellsWhatItPromises(t *testing.T) {
	var late, first, last, forged, other, five, held int
	ids := map[string]bool{}
	for _, s := range day("run") {
		if s.late {
			late++
		}
		held += len(s.want.held)
		for _, h := range s.events {
			if ids[h.fact.ID] {
				t.Errorf("event id %s is used twice", h.fact.ID)
			}
			ids[h.fact.ID] = true
			for n, is := range map[*int]bool{&first: h.first, &last: h.last, &forged: h.forged, &other: h.other, &five: h.copies >= 5} {
				if is {
					*n++
				}
			}
		}
	}
	for what, n := range map[string]int{"late registration": late, "refund first": first, "failure last": last, "forged": forged, "other mode": other, "five times": five, "held": held} {
		if n == 0 {
			t.Errorf("no %s in the day", what)
		}
	}
}

package explain

import (
	"encoding/hex"
	"slices"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/status"
)

// orderOf tells an order's story; asked is the hash of the event that was asked
// for, or zero.
func orderOf(s *postgres.Story, asked [16]byte) *Order {
	outcome, entries := s.Fold()
	o := &Order{ID: s.OrderID, Now: stateOf(outcome), Version: s.Version, Events: []Entry{}, Steps: []Step{}, Messages: []Message{}}
	if s.Registered {
		o.Registered = &Registered{At: s.RegisteredAt.UTC(), Amount: s.Amount, Currency: s.Currency, Reference: s.Reference}
	}
	f := outcome.State
	o.Agrees = f.Status == s.Status && f.Paid == s.Paid && f.Refunded == s.Refunded && f.Dispute == s.Dispute
	ids := map[[16]byte]string{}
	place := map[[16]byte]int{} // in the order of the fold; registrations first
	for i, e := range entries {
		place[e.Hash] = i + 1
	}
	events := make([]*postgres.StoryEvent, len(s.Events))
	for i := range s.Events {
		events[i] = &s.Events[i]
		ids[s.Events[i].Hash] = s.Events[i].ID
	}
	arrival := slices.Clone(events)
	slices.SortStableFunc(arrival, func(a, b *postgres.StoryEvent) int { return a.AppendedAt.Compare(b.AppendedAt) })
	slices.SortStableFunc(events, func(a, b *postgres.StoryEvent) int { return place[a.Hash] - place[b.Hash] })
	for _, e := range events {
		o.Events = append(o.Events, Entry{
			Source: e.Source, ID: e.ID, Type: e.Type, Fact: e.Kind, Amount: e.Amount, Currency: e.Currency, Payment: e.Payment,
			OccurredAt: when(e.OccurredAt), AppendedAt: e.AppendedAt.UTC(), Arrival: slices.Index(arrival, e) + 1,
			Partition: e.Partition, Offset: e.Offset, Asked: e.Hash == asked, Verdict: verdictOf(e, s), Decides: ids[e.Decides()],
		})
		if !e.Kind.IsDecision() && e.Kind != order.KindRegistered {
			o.Events[len(o.Events)-1].Object = e.Object
		}
	}
	for _, step := range outcome.Steps {
		o.Steps = append(o.Steps, Step{From: step.From.Status, To: state(step.To), Cause: ids[step.Cause], Override: step.Override})
	}
	for _, t := range s.History {
		o.Messages = append(o.Messages, Message{ID: status.Message{OrderID: t.OrderID, Version: t.Version}.ID(), Version: t.Version, From: t.From, To: t.To,
			Paid: t.Paid, Refunded: t.Refunded, Correction: t.Correction, Cause: t.CauseEventID, ChangedAt: t.ChangedAt.UTC()})
	}
	for _, h := range s.Hints {
		o.Hints = append(o.Hints, Hint{Source: h.Source, ID: h.ID, Type: h.Type, Object: h.Object, HeldAt: h.HeldAt.UTC(), Attempts: h.Attempts, Problem: string(h.Problem)})
	}
	for _, a := range s.Asking {
		asking := Asking{Source: a.Source, Object: a.Object, Since: a.Since.UTC(), For: "hint", Attempts: a.Attempts, Problem: string(a.Problem)}
		if a.Hanging {
			asking.For = "order"
		}
		if !a.UnderWay {
			asking.NextAt = when(a.NextAt)
		}
		o.Asking = append(o.Asking, asking)
	}
	o.Effects = s.Effects
	o.Reviews = reviewsOf(s.Reviews, s.Acts, func(postgres.ReviewSummary) bool { return true })
	return o
}

// reviewsOf are review items and what people did about them.
func reviewsOf(items []postgres.ReviewSummary, acts []postgres.Act, which func(postgres.ReviewSummary) bool) (reviews []Review) {
	for _, r := range items {
		if !which(r) {
			continue
		}
		review := Review{ID: r.ID, Kind: string(r.Kind), Detail: r.Detail, CreatedAt: r.CreatedAt.UTC(), Decision: string(r.Decision)}
		if r.SettledAt != nil {
			review.SettledAt = when(*r.SettledAt)
		}
		for _, a := range acts {
			if a.Item == r.ID {
				review.Acts = append(review.Acts, Act{At: a.At.UTC(), Who: a.Who, Action: a.Action, Reason: a.Reason})
			}
		}
		reviews = append(reviews, review)
	}
	return reviews
}

// about says whether a review item is about an event.
func about(hash [16]byte) func(postgres.ReviewSummary) bool {
	subject := hex.EncodeToString(hash[:])
	return func(r postgres.ReviewSummary) bool { return r.Subject == subject }
}

func stateOf(o order.Outcome) State {
	s := state(o.State)
	for _, j := range o.Judgements {
		if j.Verdict == order.Held {
			s.Held++
		}
	}
	return s
}

func state(s order.State) State {
	return State{Status: s.Status, Amount: s.Amount, Paid: s.Paid, Refunded: s.Refunded, Currency: s.Currency, Dispute: s.Dispute}
}

// when is a time, or nil if there is none.
func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

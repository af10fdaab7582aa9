package again

import (
	"context"
	"fmt"

	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/replay"
)

// Selection says which records are meant: one of its parts.
type Selection struct {
	// Event is an event's id, of Source or of any ("").
	Event, Source string
	// Order has every event of an order's set meant.
	Order string
	// Held has what is held meant, for HeldReason or any (NoReason).
	Held       bool
	HeldReason order.Reason
	// DeadLetters has what nobody could read meant, of Endpoint and Reason or any ("").
	DeadLetters      bool
	Endpoint, Reason string
	// Span has every record meant from where it says to what was applied, those of
	// Provider or any ("").
	Span     *replay.Target
	Provider string
}

// Spans are the stretches of the raw topic from a target to what was applied.
func (s *Source) Spans(ctx context.Context, t replay.Target) ([]postgres.Span, error) {
	group, err := s.offsets.Group(ctx, s.cfg.Topic(kafka.Group))
	if err != nil {
		return nil, err
	}
	at := s.extent.End
	if !t.At.IsZero() {
		if at, err = s.offsets.At(ctx, t.At); err != nil {
			return nil, err
		}
	}
	w := replay.World{Topic: s.cfg.Topic(kafka.Raw), Partitions: map[int32]replay.Position{}}
	for p, first := range s.extent.Start {
		pos := replay.Position{First: first, End: s.extent.End[p], Group: -1, Applied: s.appliedOf(p), AtTime: at[p]}
		if committed, ok := group[p]; ok {
			pos.Group = committed
		}
		w.Partitions[p] = pos
	}
	// Nothing is set: that the ledger may have forgotten repeats means nothing to sets.
	plan, err := replay.Make(t, w, replay.Allowed{Skip: true, BeyondWindow: true})
	if err != nil {
		return nil, fmt.Errorf("find the span: %w", err)
	}
	var spans []postgres.Span
	for _, step := range plan.Steps {
		if step.Records > 0 {
			spans = append(spans, postgres.Span{Partition: step.Partition, First: step.To, Last: step.Applied})
		}
	}
	return spans, nil
}

// Estimate is about how many records the selection has, for a progress bar; 0: nobody
// knows.
func (s *Source) Estimate(ctx context.Context, sel Selection) (n int64, err error) {
	switch {
	case sel.Span != nil:
		spans, err := s.Spans(ctx, *sel.Span)
		for _, sp := range spans {
			n += sp.Last - sp.First + 1
		}
		return n, err
	case sel.Held:
		return s.store.CountSelectedHeld(ctx, sel.HeldReason)
	case sel.DeadLetters:
		return s.store.CountSelectedDeadLetters(ctx, sel.Endpoint, sel.Reason)
	}
	return 0, nil
}

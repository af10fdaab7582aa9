package processor

import (
	"context"
	"maps"
	"slices"

	"sluice/pkg/postgres"
)

// deadDiscarded: a person decided that the letter counts for nothing. It is a reason
// of a replay only, and never written down.
const deadDiscarded = "discarded"

// leaveDiscarded keeps a replay away from letters that a person has discarded, even
// if they could be read now.
func (b *batch) leaveDiscarded(ctx context.Context) error {
	spans := map[int32]postgres.Span{}
	for _, r := range b.records {
		if !b.replayed(r) {
			continue
		}
		s, ok := spans[r.Partition]
		if !ok {
			s = postgres.Span{Partition: r.Partition, First: r.Offset}
		}
		s.Last = r.Offset
		spans[r.Partition] = s
	}
	if len(spans) == 0 {
		return nil
	}
	discarded, err := b.tx.DiscardedAmong(ctx, b.topicID, slices.Collect(maps.Values(spans)))
	if err != nil || len(discarded) == 0 {
		return err
	}
	for _, r := range b.records {
		if discarded[r.place()] {
			r.die(deadDiscarded, "")
		}
	}
	return nil
}

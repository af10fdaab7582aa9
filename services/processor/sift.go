package processor

import (
	"context"
	"errors"
	"slices"

	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
)

// chunk is records to look at; see kafka.Chunk.
type chunk interface {
	Len() int
	Record(i int, headers []event.Header) kafka.Record
}

// looks are look-ups; each returns the places of those that have to be looked at
// further.
type looks struct {
	// events that are unknown, or known with another body.
	events func(context.Context, []postgres.Seen) ([]int, error)
	// hints, by where they lie, that there is something to do with.
	hints func(context.Context, []postgres.Place) ([]int, error)
}

// sift returns the records of a chunk that look-ups do not show to be done with. It
// reads no more of each than that needs. tombstones are among what is done with.
func sift(ctx context.Context, c chunk, look looks) (rest []kafka.Record, tombstones int, err error) {
	var (
		seen              = make([]postgres.Seen, 0, c.Len())
		at                = make([]int, 0, c.Len()) // of seen
		places            []postgres.Place
		hinted, unsettled []int
		scratch           = make([]event.Header, 0, 32)
	)
	for i := range c.Len() {
		r := c.Record(i, scratch[:0])
		g, err := event.Glance(r.Key, r.Value, r.Headers)
		switch {
		case errors.Is(err, event.ErrTombstone):
			tombstones++
		case err != nil:
			unsettled = append(unsettled, i)
		case g.Hint:
			places, hinted = append(places, postgres.Place{Partition: r.Partition, Offset: r.Offset}), append(hinted, i)
		default:
			seen, at = append(seen, postgres.Seen{Key: g.Key, Fingerprint: postgres.Fingerprint(g.Fingerprint)}), append(at, i)
		}
	}
	strange, err := look.events(ctx, seen)
	if err != nil {
		return nil, 0, err
	}
	for _, i := range strange {
		unsettled = append(unsettled, at[i])
	}
	open, err := look.hints(ctx, places)
	if err != nil {
		return nil, 0, err
	}
	for _, i := range open {
		unsettled = append(unsettled, hinted[i])
	}
	slices.Sort(unsettled)
	rest = make([]kafka.Record, len(unsettled))
	for i, n := range unsettled {
		rest[i] = c.Record(n, nil)
	}
	return rest, tombstones, nil
}

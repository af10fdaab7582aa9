package processor

import (
	"context"

	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// keepBodies writes what is new into the journal, and what came again with other
// bytes; dead letters have theirs already.
func (b *batch) keepBodies(ctx context.Context) error {
	if !b.journal {
		return nil
	}
	bodies := make([]postgres.RawBody, 0, len(b.records))
	for _, r := range b.records {
		if b.journaled(r) {
			bodies = append(bodies, postgres.RawBody{EventHash: r.event.Hash(), Place: r.place(),
				KeptAt: b.now, Headers: r.Headers, Body: r.Value})
		}
	}
	return b.tx.KeepRawBodies(ctx, bodies)
}

// journaled says whether the journal has not had the record before. A replay adds
// only what it takes over.
func (b *batch) journaled(r *record) bool {
	switch {
	case r.skip || r.dead != "":
		return false
	case r.hint: // a copy of one that waits is not kept again
		return r.fresh && r.verdict == order.Held
	case r.fresh && (r.windowed || r.stated): // the filter, or a set, tells it from a repeat
		return true
	case r.fresh || r.stands != 0 && r.stands != r.seen.Fingerprint:
		return !b.replayed(r)
	}
	return false
}

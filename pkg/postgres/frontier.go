package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Frontier finds the id below which no order transition can appear any more.
//
// Ids are handed out before commit, so a reader that goes by the highest id it
// sees skips rows that commit later. But every writer holds a shared advisory
// lock (77, 1) from before it takes an id until its rows are visible (trigger
// order_transitions_writer). So: take an id M, then see who holds the lock; when
// all of those are gone, every row with a lower id is visible, or never will be.
// Unlike a frontier by transaction ids it does not wait for unrelated writers.
//
// Not safe for concurrent use.
type Frontier struct {
	store    *Store
	frontier int64
	last     int64 // the newest id taken
	barriers []barrier
}

type barrier struct {
	id      int64
	writers []string // virtual transactions that may still write below id
}

// Frontier starts a new one, at 0.
func (s *Store) Frontier() *Frontier { return &Frontier{store: s} }

// maxBarriers bounds the memory while one writer takes long.
const maxBarriers = 64

// Advance returns the frontier: all rows with id < frontier are visible to a
// statement that starts after the call. waiting says that rows may lie beyond it
// whose writers are still at work: look again soon. It takes an id of the
// sequence only if one was taken since its last call.
func (f *Frontier) Advance(ctx context.Context) (frontier int64, waiting bool, err error) {
	// Two statements in one round trip, in this order: the id first, the holders
	// after it. last_value may read ahead of the truth for a moment, never behind
	// it: that costs an id more; as a frontier it would lose rows.
	var b barrier
	var id *int64
	batch := &pgx.Batch{}
	batch.Queue(`
		SELECT CASE WHEN last_value <> $1 AND $2 THEN nextval('order_transitions_id_seq') END FROM order_transitions_id_seq`,
		f.last, len(f.barriers) < maxBarriers).QueryRow(func(row pgx.Row) error { return row.Scan(&id) })
	batch.Queue(`
		SELECT coalesce(array_agg(virtualtransaction), '{}') FROM pg_locks
		WHERE locktype = 'advisory' AND classid = 77 AND objid = 1 AND objsubid = 2
		  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).
		QueryRow(func(row pgx.Row) error { return row.Scan(&b.writers) })
	if err := f.store.pool.SendBatch(ctx, batch).Close(); err != nil {
		return 0, false, fmt.Errorf("find writers of order transitions: %w", err)
	}
	present := b.writers
	if id != nil {
		b.id, f.last = *id, *id
		b.writers = slices.Clone(present)
		f.barriers = append(f.barriers, b)
	}
	f.settle(present)
	return f.frontier, len(f.barriers) > 0, nil
}

// settle drops from each barrier the writers that are gone; the highest barrier
// without any is the frontier.
func (f *Frontier) settle(present []string) {
	open := f.barriers[:0]
	for _, b := range f.barriers {
		b.writers = slices.DeleteFunc(b.writers, func(w string) bool { return !slices.Contains(present, w) })
		if len(b.writers) == 0 {
			f.frontier = max(f.frontier, b.id)
			continue
		}
		open = append(open, b)
	}
	// Those below the frontier have nothing left to say.
	f.barriers = slices.DeleteFunc(open, func(b barrier) bool { return b.id < f.frontier })
}

package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/pkg/postgres/internal/dbgen"
	"sluice/pkg/postgres/internal/dry"
)

// DryRun runs transactions that leave no trace: each reads from one snapshot of the
// database, in a transaction that may read and nothing else, and what it writes is kept
// in memory, where the next ones of the same dry run find it. They insert nothing, lock
// no row, take no advisory lock and no number of a sequence; rights to read are enough.
//
// Of an order that the dry run has written, it sees no more of what others do: the
// answer is as of when the order was met first. Memory grows with what would change;
// see package dry. Not safe for concurrent use.
type DryRun struct {
	store  *Store
	tables *dry.Tables
}

// Outcome is what the transactions of a dry run wrote, summed up. AddedEvent is one of
// its samples.
type (
	Outcome    = dry.Outcome
	AddedEvent = dry.Event
)

// DryRun begins a dry run.
func (s *Store) DryRun() *DryRun {
	// Names of its own: what it makes up is nobody else's.
	d := &DryRun{store: &Store{pool: s.pool, graces: s.graces, window: s.window, effects: s.effects}, tables: dry.New()}
	d.store.names.forget()
	return d
}

// InTx is Store.InTx without a trace. What a transaction wrote that returned an error
// is forgotten.
func (d *DryRun) InTx(ctx context.Context, do func(Tx) error) error {
	err := pgx.BeginTxFunc(ctx, d.store.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		d.tables.Begin(dbgen.New(tx))
		return do(Tx{store: d.store, tx: tx, q: d.tables, own: map[string]int16{}})
	})
	d.tables.End(err == nil)
	if err != nil {
		d.store.names.forget()
	}
	return err
}

// UnknownEvents is Store.UnknownEvents, as if the dry run's transactions were real.
func (d *DryRun) UnknownEvents(ctx context.Context, events []Seen) ([]int, error) {
	unknown, err := d.store.UnknownEvents(ctx, events)
	return slices.DeleteFunc(unknown, func(i int) bool { return d.tables.Processed(events[i].Key, events[i].Fingerprint) }), err
}

// Outcome sums up, with n samples of each kind.
func (d *DryRun) Outcome(n int) Outcome {
	return d.tables.Outcome(n, func(no int16) string {
		d.store.names.mu.RLock()
		defer d.store.names.mu.RUnlock()
		return d.store.names.name[no]
	})
}

// ReadWindow is the window that EnsurePartitions would return, and makes nothing.
func (s *Store) ReadWindow(ctx context.Context, now time.Time) (Window, error) {
	there, err := tablePartitions(ctx, s.pool)
	if err != nil {
		return Window{}, err
	}
	return s.windowOf(now, there), nil
}

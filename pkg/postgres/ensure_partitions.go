package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// rowsPerPartition of order_events and order_transitions: an hour of the highest
// rate measured needs less than three.
const rowsPerPartition = 100_000_000

// How far ahead partitions are made: whole months of processed_events, days of
// raw_bodies, blocks of rowsPerPartition, each beside the current one.
const (
	monthsAhead = 2
	daysAhead   = 3
	blocksAhead = 3
)

// partitionedTables are all that are partitioned, each with the format of what
// follows its name in a partition's: a time's, or none for a block's number.
var partitionedTables = map[string]string{
	"processed_events":  "2006_01",
	"raw_bodies":        "2006_01_02",
	"order_events":      "",
	"order_transitions": "",
}

// undated is the partition of processed_events for events without a time.
const undated = "undated"

// Window is the time an event may have to be entered in processed_events.
type Window struct{ From, Before time.Time }

// Contains says whether processed_events has a place for an event of that time.
func (w Window) Contains(t time.Time) bool { return !t.Before(w.From) && t.Before(w.Before) }

// WindowAt is the window of processed_events at a moment, if its partitions are there;
// EnsurePartitions makes them.
func (s *Store) WindowAt(now time.Time) Window {
	now = now.UTC()
	return Window{From: now.Add(-s.window), Before: month(now, monthsAhead+1)}
}

// tablePartition is one partition of a table.
type tablePartition struct{ table, suffix, bounds string }

func (p tablePartition) name() string { return p.table + "_" + p.suffix }

// found is what a partition's name stands for in the database.
type found uint8

const (
	attached  found = iota + 1
	detaching       // DETACH CONCURRENTLY was interrupted; it takes no rows any more
	loose           // detached, to be dropped
)

// EnsurePartitions makes the table partitions that the next hours and days need,
// and returns the window of processed_events. Call it at start and every hour;
// any number of programs may call it at once. It never waits for readers or
// writers, nor they for it.
func (s *Store) EnsurePartitions(ctx context.Context, now time.Time) (Window, error) {
	now = now.UTC()
	var w Window
	err := s.InTx(ctx, func(tx Tx) error {
		if _, err := tx.tx.Exec(ctx, `SELECT pg_advisory_xact_lock(77, 2)`); err != nil {
			return err
		}
		there, err := tablePartitions(ctx, tx.tx)
		if err != nil {
			return err
		}
		w = s.windowOf(now, there)
		lastOrder, lastTransition, err := tx.lastNumbers(ctx)
		if err != nil {
			return err
		}
		for _, p := range needed(now, w, lastOrder, lastTransition) {
			if err := makePartition(ctx, tx.tx, p, there[p.name()]); err != nil {
				return fmt.Errorf("%s: %w", p.name(), err)
			}
		}
		return nil
	})
	if err != nil {
		return Window{}, fmt.Errorf("make table partitions: %w", err)
	}
	return w, nil
}

// windowOf is WindowAt less what is being taken away of the partitions that are there.
func (s *Store) windowOf(now time.Time, there map[string]found) Window {
	w := s.WindowAt(now)
	for m := month(w.From, 0); m.Before(w.Before); m = month(m, 1) {
		if there[monthOf(m).name()] == detaching {
			w.From = month(m, 1) // it comes back once it is gone (the window was made wider meanwhile)
		}
	}
	return w
}

// lastNumbers are the last that were given to an order and to a transition.
func (tx Tx) lastNumbers(ctx context.Context) (order, transition int64, err error) {
	err = tx.tx.QueryRow(ctx, `
		SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('orders', 'order_no')::regclass), 0),
		       coalesce(pg_sequence_last_value(pg_get_serial_sequence('order_transitions', 'id')::regclass), 0)`).Scan(&order, &transition)
	return order, transition, err
}

// needed are the partitions that must be there. None is a DEFAULT partition: it
// would forbid DETACH CONCURRENTLY.
func needed(now time.Time, w Window, lastOrder, lastTransition int64) (ps []tablePartition) {
	// Keys of undated events begin with 48 zero bits.
	ps = append(ps, tablePartition{"processed_events", undated, fmt.Sprintf("FROM (MINVALUE) TO ('%s')", keyBound(time.UnixMilli(1)))})
	for m := month(w.From, 0); m.Before(w.Before); m = month(m, 1) {
		ps = append(ps, monthOf(m))
	}
	today := now.Truncate(24 * time.Hour)
	for d := range daysAhead + 1 {
		from, to := today.AddDate(0, 0, d), today.AddDate(0, 0, d+1)
		ps = append(ps, tablePartition{"raw_bodies", from.Format("2006_01_02"),
			fmt.Sprintf("FROM ('%s') TO ('%s')", from.Format(time.RFC3339), to.Format(time.RFC3339))})
	}
	for _, t := range []struct {
		table string
		last  int64
	}{{"order_events", lastOrder}, {"order_transitions", lastTransition}} {
		for n := t.last / rowsPerPartition; n <= t.last/rowsPerPartition+blocksAhead; n++ {
			ps = append(ps, tablePartition{t.table, fmt.Sprint(n), fmt.Sprintf("FROM (%d) TO (%d)", n*rowsPerPartition, (n+1)*rowsPerPartition)})
		}
	}
	return ps
}

// monthOf is the partition of processed_events that begins at m.
func monthOf(m time.Time) tablePartition {
	return tablePartition{"processed_events", m.Format("2006_01"), fmt.Sprintf("FROM ('%s') TO ('%s')", keyBound(m), keyBound(month(m, 1)))}
}

// makePartition makes a partition beside its table and then attaches it. CREATE ..
// PARTITION OF would lock the whole table: a writer behind it would wait for
// every reader before it.
func makePartition(ctx context.Context, tx pgx.Tx, p tablePartition, is found) error {
	var statements []string
	switch is {
	case attached, detaching:
		return nil
	case loose:
		statements = append(statements, `DROP TABLE `+p.name())
	}
	// Append-only: vacuum early, so that pages are frozen while they are in memory.
	statements = append(statements, fmt.Sprintf(`CREATE TABLE %s (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES
		INCLUDING STORAGE INCLUDING COMPRESSION) WITH (autovacuum_vacuum_insert_scale_factor = 0.02)`, p.name(), p.table))
	if p.suffix == undated { // its rows go one by one, see DropBehind
		statements = append(statements, fmt.Sprintf(`CREATE INDEX ON %s USING brin (seen_at) WITH (autosummarize = on)`, p.name()))
	}
	statements = append(statements, fmt.Sprintf(`ALTER TABLE %s ATTACH PARTITION %s FOR VALUES %s`, p.table, p.name(), p.bounds))
	for _, statement := range statements {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// querier is a transaction or a connection.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// tablePartitions are all that there are, by name: attached, or with the name of one.
func tablePartitions(ctx context.Context, q querier) (map[string]found, error) {
	// A loose one carries the mark: whatever else has such a name is not ours.
	rows, err := q.Query(ctx, `
		SELECT c.relname, CASE WHEN i.inhrelid IS NULL THEN 3 WHEN i.inhdetachpending THEN 2 ELSE 1 END
		FROM pg_class p
		JOIN pg_class c ON c.relnamespace = p.relnamespace AND c.relkind = 'r' AND starts_with(c.relname, p.relname || '_')
		LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND i.inhparent = p.oid
		WHERE p.oid = ANY($1::text[]::regclass[]) AND (i.inhrelid IS NOT NULL OR obj_description(c.oid, 'pg_class') = $2)`,
		slices.Collect(maps.Keys(partitionedTables)), dropMark)
	if err != nil {
		return nil, err
	}
	all := map[string]found{}
	var name string
	var is int
	_, err = pgx.ForEachRow(rows, []any{&name, &is}, func() error { all[name] = found(is); return nil })
	return all, err
}

// month is the first moment of t's month, n months on.
func month(t time.Time, n int) time.Time {
	return time.Date(t.Year(), t.Month()+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
}

// keyBound is the smallest key of an event at t, as a uuid.
func keyBound(t time.Time) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(t.UnixMilli())<<16)
	return fmt.Sprintf("%x-%x-0000-0000-000000000000", b[:4], b[4:6])
}

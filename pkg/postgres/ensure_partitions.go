package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// DedupeWindow is how far back processed_events reaches. It must be longer than
// the raw topic's retention (30 days) and every provider's own retries and
// resends (up to 60 days); the order's own set covers what is older.
const DedupeWindow = 90 * 24 * time.Hour

// rowsPerPartition of order_events and order_transitions: an hour of the highest
// rate measured needs less than three.
const rowsPerPartition = 100_000_000

// Window is the time an event may have to be entered in processed_events.
type Window struct{ From, Before time.Time }

// Contains says whether processed_events has a place for an event of that time.
func (w Window) Contains(t time.Time) bool { return !t.Before(w.From) && t.Before(w.Before) }

// EnsurePartitions makes the table partitions that the next hours and days need,
// and returns the window of processed_events. Call it at start and every hour;
// any number of programs may call it at once.
func (s *Store) EnsurePartitions(ctx context.Context, now time.Time) (Window, error) {
	now = now.UTC()
	w := Window{From: now.Add(-DedupeWindow), Before: month(now, 3)}
	err := s.InTx(ctx, func(tx Tx) error {
		if _, err := tx.tx.Exec(ctx, `SELECT pg_advisory_xact_lock(77, 2)`); err != nil {
			return err
		}
		made := map[string]bool{}
		rows, err := tx.tx.Query(ctx, `SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
			WHERE i.inhparent IN ('processed_events'::regclass, 'order_events'::regclass, 'order_transitions'::regclass)`)
		if err != nil {
			return err
		}
		var name string
		if _, err := pgx.ForEachRow(rows, []any{&name}, func() error { made[name] = true; return nil }); err != nil {
			return err
		}
		make := func(parent, suffix, bounds string) error {
			if made[parent+"_"+suffix] {
				return nil
			}
			// Append-only: vacuum early, so that pages are frozen while they are in memory.
			_, err := tx.tx.Exec(ctx, fmt.Sprintf(`CREATE TABLE %s_%s PARTITION OF %s FOR VALUES %s WITH (autovacuum_vacuum_insert_scale_factor = 0.02)`,
				parent, suffix, parent, bounds))
			return err
		}
		// Keys of undated events begin with 48 zero bits.
		if err := make("processed_events", "undated", fmt.Sprintf("FROM (MINVALUE) TO ('%s')", keyBound(time.UnixMilli(1)))); err != nil {
			return err
		}
		for m := month(w.From, 0); m.Before(w.Before); m = month(m, 1) {
			if err := make("processed_events", m.Format("2006_01"), fmt.Sprintf("FROM ('%s') TO ('%s')", keyBound(m), keyBound(month(m, 1)))); err != nil {
				return err
			}
		}
		for parent, column := range map[string]string{"order_events": "orders", "order_transitions": "order_transitions"} {
			key := map[string]string{"orders": "order_no", "order_transitions": "id"}[column]
			var last int64
			if err := tx.tx.QueryRow(ctx, `SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence($1, $2)::regclass), 0)`, column, key).Scan(&last); err != nil {
				return err
			}
			first := last / rowsPerPartition
			for n := first; n < first+4; n++ {
				bounds := fmt.Sprintf("FROM (%d) TO (%d)", n*rowsPerPartition, (n+1)*rowsPerPartition)
				if err := make(parent, fmt.Sprint(n), bounds); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return Window{}, fmt.Errorf("make table partitions: %w", err)
	}
	return w, nil
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

package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// KeptTable is what a table holds on disk, and when its partitions come and go.
type KeptTable struct {
	Table string `json:"table"`
	// Partitions is 0 of a table that has none. Bytes are with indexes and all.
	Partitions int   `json:"partitions"`
	Bytes      int64 `json:"bytes"`
	// Oldest is the time of the oldest row, by what the table is kept by: of
	// processed_events the provider's, of raw_bodies to the day. Nil: there is none, or
	// rows have no time.
	Oldest *time.Time `json:"oldest,omitempty"`
	// NextDropped is the partition that goes next, DropAt from when on it may; nil: when
	// every row is published and old.
	NextDropped string     `json:"next_dropped,omitempty"`
	DropAt      *time.Time `json:"drop_at,omitempty"`
	// Last is the partition made the furthest ahead. AheadUntil is its end; nil where
	// partitions go by number, of which LastNumber is the first that has no place.
	Last       string     `json:"last_partition,omitempty"`
	AheadUntil *time.Time `json:"ahead_until,omitempty"`
	LastNumber int64      `json:"ahead_until_number,omitempty"`
	// Leaving are detached, or being detached, and not dropped yet.
	Leaving []string `json:"leaving,omitempty"`
}

// oldestRows say how to find the time of a table's oldest row by index; a plain
// table that is shown is here too.
var oldestRows = map[string]string{
	"processed_events": `SELECT key FROM processed_events WHERE key >= '` + firstDated + `' ORDER BY key LIMIT 1`,
	// Days follow each other: any row of the first one.
	"raw_bodies": `SELECT kept_at FROM raw_bodies LIMIT 1`,
	"order_transitions": `SELECT min(t.changed_at) FROM relay_shards r CROSS JOIN LATERAL (
		SELECT changed_at FROM order_transitions t WHERE t.shard = r.shard ORDER BY id LIMIT 1) t`,
	"order_events": ``,
	"held_events":  `SELECT min(held_at) FROM held_events`,
	"dead_letters": `SELECT min(created_at) FROM dead_letters WHERE settled_at IS NULL`,
}

// firstDated is the smallest key of an event with a time.
var firstDated = keyBound(time.UnixMilli(1))

// KeptTables says what is on disk of the tables that are kept for a time, by name.
func (s *Store) KeptTables(ctx context.Context, keep Retention) (tables []KeptTable, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		there, err := tablePartitions(ctx, tx)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(oldestRows)) {
			t := KeptTable{Table: name}
			if err := t.read(ctx, tx); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if err := t.place(there, s.window, keep); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			tables = append(tables, t)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what tables keep: %w", err)
	}
	return tables, nil
}

// read reads what the rows say.
func (t *KeptTable) read(ctx context.Context, tx pgx.Tx) error {
	err := tx.QueryRow(ctx, `
		SELECT pg_total_relation_size($1::text::regclass) + coalesce(sum(pg_total_relation_size(relid)), 0)::bigint
		FROM pg_partition_tree($1::text::regclass) WHERE isleaf`, t.Table).Scan(&t.Bytes)
	if err != nil || oldestRows[t.Table] == "" {
		return err
	}
	rows, err := tx.Query(ctx, oldestRows[t.Table])
	if err != nil {
		return err
	}
	if t.Table == "processed_events" {
		key, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[pgtype.UUID])
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		at := time.UnixMilli(int64(binary.BigEndian.Uint64(key.Bytes[:8]) >> 16)).UTC()
		t.Oldest = &at
		return err
	}
	at, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[pgtype.Timestamptz])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	t.Oldest = timeOrNil(at)
	return err
}

// place says which partitions there are, and which goes next.
func (t *KeptTable) place(there map[string]found, window time.Duration, keep Retention) error {
	layout, partitioned := partitionedTables[t.Table]
	if !partitioned {
		return nil
	}
	var suffixes []string
	for name, is := range there {
		table, suffix := split(name)
		switch {
		case table != t.Table:
		case is != attached:
			t.Leaving = append(t.Leaving, name)
		default:
			t.Partitions++
			if suffix != undated {
				suffixes = append(suffixes, suffix)
			}
		}
	}
	slices.Sort(t.Leaving)
	if len(suffixes) == 0 {
		return nil
	}
	slices.SortFunc(suffixes, func(a, b string) int { // numbers by their size
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	first, last := suffixes[0], suffixes[len(suffixes)-1]
	t.Last = t.Table + "_" + last
	if layout == "" {
		n, err := strconv.ParseInt(last, 10, 64)
		t.LastNumber = (n + 1) * rowsPerPartition
		if t.Table == "order_transitions" && keep.Transitions > 0 {
			t.NextDropped = t.Table + "_" + first
		}
		return err
	}
	begin, err := time.Parse(layout, first)
	if err != nil {
		return err
	}
	end, err := time.Parse(layout, last)
	if err != nil {
		return err
	}
	drop := begin.Add(day + keep.Bodies + slack)
	end = end.Add(day)
	if t.Table == "processed_events" {
		drop, end = month(begin, 1).Add(window+slack), month(end, 1)
	}
	t.NextDropped, t.DropAt, t.AheadUntil = t.Table+"_"+first, &drop, &end
	return nil
}

// MissingPartitions names the table partitions that the next hours, days and months
// need and that are not there; EnsurePartitions makes them.
func (s *Store) MissingPartitions(ctx context.Context, now time.Time) (missing []string, err error) {
	now = now.UTC()
	err = s.InTx(ctx, func(tx Tx) error {
		missing = nil
		there, err := tablePartitions(ctx, tx.tx)
		if err != nil {
			return err
		}
		lastOrder, lastTransition, err := tx.lastNumbers(ctx)
		if err != nil {
			return err
		}
		for _, p := range needed(now, Window{From: now, Before: month(now, monthsAhead+1)}, lastOrder, lastTransition) {
			if there[p.name()] != attached {
				missing = append(missing, p.name())
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for table partitions: %w", err)
	}
	return missing, nil
}

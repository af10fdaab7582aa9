package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/pkg/event"
)

// Trace is what a record left in the database.
type Trace struct {
	// Processed: the filter knows its event; InSet: the set of an order does; Dead:
	// it is a dead letter.
	Processed, InSet, Dead bool
	// SeenAt is when the filter took the event over.
	SeenAt time.Time
	// Hint: a hint of that source and id was held, from HeldAt until SettledAt, which is
	// zero while it waits.
	Hint              bool
	HeldAt, SettledAt time.Time
}

// Seeker is a record whose traces are looked for. Event may be zero where its
// headers cannot be read.
type Seeker struct {
	Place
	Event event.Event
}

// Traces looks for what each of the records left. Its set is looked for by the
// order and the payment that the record's headers name.
func (s *Store) Traces(ctx context.Context, topicID [16]byte, records []Seeker) ([]Trace, error) {
	traces := make([]Trace, len(records))
	if len(records) == 0 {
		return traces, nil
	}
	var (
		keys, hashes      = make([][16]byte, len(records)), make([][16]byte, len(records))
		partitions        = make([]int32, len(records))
		offsets           = make([]int64, len(records))
		orders            []string
		sources, payments []string
		processed         = map[[16]byte]time.Time{}
		inSet             = map[[16]byte]bool{}
		dead              = map[Place]bool{}
		hints             = map[[16]byte][2]time.Time{}
		held              time.Time
		settled           *time.Time
		key               [16]byte
		seen              time.Time
		place             Place
		read              = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
		collect           = func(rows pgx.Rows, err error, into []any, do func()) error {
			if err != nil {
				return err
			}
			_, err = pgx.ForEachRow(rows, into, func() error { do(); return nil })
			return err
		}
	)
	for i, r := range records {
		e := r.Event
		partitions[i], offsets[i] = r.Partition, r.Offset
		if e.ID != "" {
			keys[i], hashes[i] = e.Key(), e.Hash()
		}
		if e.Order != "" {
			orders = append(orders, e.Order)
		}
		if e.Payment != "" {
			sources, payments = append(sources, e.Source), append(payments, e.Payment)
		}
	}
	err := pgx.BeginTxFunc(ctx, s.pool, read, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT key, seen_at FROM processed_events WHERE key = ANY($1::uuid[])`, uuids(keys))
		if err := collect(rows, err, []any{&key, &seen}, func() { processed[key] = seen }); err != nil {
			return err
		}
		rows, err = tx.Query(ctx, `
			SELECT d.partition, d.record_offset FROM dead_letters d
			JOIN (SELECT unnest($2::int[]) AS partition, unnest($3::bigint[]) AS record_offset) u
			  ON d.partition = u.partition AND d.record_offset = u.record_offset
			WHERE d.topic_id = $1`, uuid(topicID), partitions, offsets)
		if err := collect(rows, err, []any{&place.Partition, &place.Offset}, func() { dead[place] = true }); err != nil {
			return err
		}
		rows, err = tx.Query(ctx, `SELECT event_hash, held_at, settled_at FROM hints WHERE event_hash = ANY($1::uuid[])
			ORDER BY settled_at`, uuids(hashes)) // the one that waits comes last
		if err := collect(rows, err, []any{&key, &held, &settled}, func() {
			if settled == nil {
				settled = &time.Time{}
			}
			hints[key] = [2]time.Time{held, *settled}
		}); err != nil {
			return err
		}
		rows, err = tx.Query(ctx, `
			SELECT e.event_hash FROM order_events e
			WHERE e.event_hash = ANY($1::uuid[]) AND e.order_no = ANY(ARRAY(
				SELECT order_no FROM orders WHERE order_id = ANY($2::text[])
				UNION
				SELECT p.order_no FROM payments p
				JOIN (SELECT unnest($3::text[]) AS source, unnest($4::text[]) AS payment_id) u ON p.payment_id = u.payment_id
				JOIN names n ON n.name = u.source AND n.name_no = p.source_no))`, uuids(hashes), orders, sources, payments)
		return collect(rows, err, []any{&key}, func() { inSet[key] = true })
	})
	if err != nil {
		return nil, fmt.Errorf("look for the traces of records: %w", err)
	}
	for i, r := range records {
		t := &traces[i]
		t.Dead = dead[r.Place]
		if r.Event.ID != "" {
			t.SeenAt, t.Processed = processed[keys[i]]
			t.InSet = inSet[hashes[i]]
			var h [2]time.Time
			h, t.Hint = hints[hashes[i]]
			t.HeldAt, t.SettledAt = h[0], h[1]
		}
	}
	return traces, nil
}

// VerdictRow is a verdict and where its record should lie.
type VerdictRow struct {
	Place
	Source, EventID string // empty for a dead letter
	Endpoint        string
	AppendedAt      time.Time
}

// VerdictRows hands every verdict on a record that was appended from since on and
// before until to do. It reads whole tables: it is for when the books do not add up.
func (s *Store) VerdictRows(ctx context.Context, topicID [16]byte, since, until time.Time, do func(VerdictRow)) error {
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			SELECT e.partition, e.record_offset, n.name, e.event_id, m.name, e.appended_at
			FROM order_events e JOIN names n ON n.name_no = e.source_no JOIN names m ON m.name_no = e.endpoint_no
			WHERE e.appended_at >= $1 AND e.appended_at < $2 AND e.partition >= 0
			UNION ALL
			SELECT h.partition, h.record_offset, n.name, h.event_id, m.name, h.appended_at
			FROM hints h JOIN names n ON n.name_no = h.source_no JOIN names m ON m.name_no = h.endpoint_no
			WHERE h.appended_at >= $1 AND h.appended_at < $2
			UNION ALL
			SELECT d.partition, d.record_offset, '', '', m.name, d.appended_at
			FROM dead_letters d JOIN names m ON m.name_no = d.endpoint_no
			WHERE d.topic_id = $3 AND d.appended_at >= $1 AND d.appended_at < $2 AND d.revived_at IS NULL`, since, until, uuid(topicID))
		if err != nil {
			return err
		}
		var v VerdictRow
		_, err = pgx.ForEachRow(rows, []any{&v.Partition, &v.Offset, &v.Source, &v.EventID, &v.Endpoint, &v.AppendedAt}, func() error {
			do(v)
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("read verdicts: %w", err)
	}
	return nil
}

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/event"
)

// MatchKind is what an id turned out to be.
type MatchKind string

// What an id can be.
const (
	IsOrder      MatchKind = "order"
	IsPayment    MatchKind = "payment"
	IsEvent      MatchKind = "event"
	IsDeadLetter MatchKind = "dead_letter"
)

// Match is one thing that has an id.
type Match struct {
	Kind MatchKind
	// Source is the sending account; empty for an order and a dead letter.
	Source string
	// OrderNo is the order it belongs to, OrderID that order's name ("": none yet).
	OrderNo int64
	OrderID string
	// Hash and Place are the event's or the dead letter's; Partition -1: no record.
	Hash [16]byte
	Place
}

// Find returns the orders, payments and dead letters that have an id, by index; where
// only hints that wait name such an order or payment, the newest of each source.
func (s *Store) Find(ctx context.Context, id string) (matches []Match, err error) {
	read := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, s.pool, read, func(tx pgx.Tx) error {
		matches = nil
		for _, q := range [...]string{
			`SELECT 'order', '', order_no, order_id, NULL::uuid, 0, 0::bigint FROM orders WHERE order_id = $1`,
			`SELECT 'payment', n.name, p.order_no, coalesce(o.order_id, ''), NULL::uuid, 0, 0::bigint
			 FROM names n JOIN payments p ON p.source_no = n.name_no AND p.payment_id = $1 JOIN orders o ON o.order_no = p.order_no ORDER BY 2`,
			`SELECT 'dead_letter', '', 0::bigint, '', NULL::uuid, partition, record_offset FROM dead_letters
			 WHERE record_key = convert_to($1, 'UTF8') ORDER BY created_at`,
			`SELECT DISTINCT ON (n.name) 'event', n.name, 0::bigint, '', h.event_hash, h.partition, h.record_offset FROM (
				SELECT w.* FROM names m JOIN hints w ON w.source_no = m.name_no AND w.object = $1
				UNION
				SELECT w.* FROM hints w WHERE w.order_id = $1 AND w.order_id <> '' AND w.settled_at IS NULL) h
			 JOIN names n ON n.name_no = h.source_no
			 WHERE h.settled_at IS NULL AND h.event_id <> $1 AND NOT EXISTS (SELECT FROM orders WHERE order_id = $1)
			   AND NOT EXISTS (SELECT FROM payments p WHERE p.source_no = h.source_no AND p.payment_id = $1)
			 ORDER BY n.name, h.held_at DESC`,
		} {
			rows, err := tx.Query(ctx, q, id)
			if err != nil {
				return err
			}
			found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m Match, err error) {
				var hash pgtype.UUID
				err = row.Scan(&m.Kind, &m.Source, &m.OrderNo, &m.OrderID, &hash, &m.Partition, &m.Offset)
				m.Hash = hash.Bytes
				return m, err
			})
			if err != nil {
				return err
			}
			matches = append(matches, found...)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find %q: %w", id, err)
	}
	return matches, nil
}

// FindEvents returns the events of orders' sets that have an id. No index leads
// there: it would cost 40 bytes an event, for a question that people ask. It reads
// the whole table: 0.6 s for two million events on two busy cores (2026-11).
func (s *Store) FindEvents(ctx context.Context, id string) (matches []Match, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			SELECT 'event', n.name, e.order_no, coalesce(o.order_id, ''), e.event_hash, e.partition, e.record_offset
			FROM order_events e JOIN names n ON n.name_no = e.source_no JOIN orders o ON o.order_no = e.order_no
			WHERE e.event_id = $1 ORDER BY n.name, e.order_no`, id)
		if err != nil {
			return err
		}
		matches, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (m Match, err error) {
			return m, row.Scan(&m.Kind, &m.Source, &m.OrderNo, &m.OrderID, &m.Hash, &m.Partition, &m.Offset)
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find event %q: %w", id, err)
	}
	return matches, nil
}

// Sources are the names of everything that ever sent or received events.
func (s *Store) Sources(ctx context.Context) ([]string, error) {
	rows, err := s.pool.Query(ctx, `SELECT name FROM names ORDER BY name`)
	if err == nil {
		var names []string
		if names, err = pgx.CollectRows(rows, pgx.RowTo[string]); err == nil {
			return names, nil
		}
	}
	return nil, fmt.Errorf("read names: %w", err)
}

// Kept are the exact bytes of a record that the database keeps.
type Kept struct {
	// In is the table: held_events, raw_bodies or dead_letters.
	In string
	Place
	AppendedAt time.Time // zero where it is not kept
	Key        []byte    // nil where it is not kept: it is the event's id
	Headers    []event.Header
	Body       []byte
	// Topic, Reason and Detail are a dead letter's; SettledAt is when it was settled, by
	// whom (empty: by itself) and how.
	Topic, Reason, Detail string
	SettledAt             time.Time
	SettledBy             string
	SettledAs             SettledAs
}

// KeptEvent returns the bytes that are kept of an event: while it is held, and for as
// long as the journal reaches; nil if none are.
func (s *Store) KeptEvent(ctx context.Context, orderNo int64, hash [16]byte) (*Kept, error) {
	k := &Kept{In: "held_events"}
	var headers []byte
	err := s.pool.QueryRow(ctx, `
		SELECT e.partition, e.record_offset, e.appended_at, h.record_headers, h.body
		FROM held_events h JOIN order_events e ON e.order_no = h.order_no AND e.event_hash = h.event_hash
		WHERE h.order_no = $1 AND h.event_hash = $2 AND h.body IS NOT NULL`, orderNo, uuid(hash)).
		Scan(&k.Partition, &k.Offset, &k.AppendedAt, &headers, &k.Body)
	if err == nil {
		err = json.Unmarshal(headers, &k.Headers)
	}
	if err == nil || !errors.Is(err, pgx.ErrNoRows) {
		return k, wrap("read a held event", err)
	}
	bodies, err := s.RawBodies(ctx, hash)
	if err != nil || len(bodies) == 0 {
		return nil, err
	}
	b := bodies[0]
	return &Kept{In: "raw_bodies", Place: b.Place, Headers: b.Headers, Body: b.Body}, nil
}

// KeptDeadLetter returns the newest dead letter at a place, nil if there is none.
func (s *Store) KeptDeadLetter(ctx context.Context, at Place) (*Kept, error) {
	k := &Kept{In: "dead_letters", Place: at}
	var (
		headers []byte
		settled pgtype.Timestamptz
	)
	err := s.pool.QueryRow(ctx, `
		SELECT topic, record_key, record_headers, body, reason, detail, appended_at, settled_at, coalesce(settled_by, ''), coalesce(settled_as, '') FROM dead_letters
		WHERE partition = $1 AND record_offset = $2 ORDER BY created_at DESC LIMIT 1`, at.Partition, at.Offset).
		Scan(&k.Topic, &k.Key, &headers, &k.Body, &k.Reason, &k.Detail, &k.AppendedAt, &settled, &k.SettledBy, &k.SettledAs)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(headers, &k.Headers)
	}
	k.SettledAt = settled.Time
	return k, wrap("read a dead letter", err)
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

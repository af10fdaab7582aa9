package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/order"
)

// Question is what is asked about the events of one source.
type Question struct {
	Source string
	// Payments and Orders are whose facts are wanted.
	Payments, Orders []string
	// Objects are those of which it is wanted whether a look-up is open.
	Objects []string
	// Events are those of which it is only wanted whether they came in.
	Events []EventKey
}

// EventKey names one event in each of the ways in which it may be known.
type EventKey struct {
	Key  [16]byte // event.Event.Key
	Hash [16]byte // event.Event.Hash
	ID   string
}

// Told is what the database knows of a Question.
type Told struct {
	// Facts are the entries of that source in the sets of the orders that were named, or
	// that have one of the payments.
	Facts []ToldFact
	// Events are the hashes of those that came in: applied or not, held, waiting for
	// their provider, or a dead letter.
	Events map[[16]byte]bool
	// Asked are the Objects that a look-up is open for.
	Asked map[string]bool
}

// ToldFact is an entry of an order's set, and what became of it.
type ToldFact struct {
	order.Entry
	order.Judgement
	OrderID, EventID string
	AppendedAt       time.Time
}

// Entries are the facts without what became of them.
func (t Told) Entries() []order.Entry {
	out := make([]order.Entry, len(t.Facts))
	for i, f := range t.Facts {
		out[i] = f.Entry
	}
	return out
}

// Told reads what is known. It locks nothing and writes nothing.
func (s *Store) Told(ctx context.Context, q Question) (told Told, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		told = Told{Events: map[[16]byte]bool{}, Asked: map[string]bool{}}
		var no int16
		if err := tx.QueryRow(ctx, `SELECT coalesce(max(name_no), 0) FROM names WHERE name = $1`, q.Source).Scan(&no); err != nil {
			return err
		}
		if err := told.readEvents(ctx, tx, q.Events); err != nil || no == 0 {
			return err
		}
		if err := told.readFacts(ctx, tx, no, q); err != nil {
			return err
		}
		return each(ctx, tx, func(object string) { told.Asked[object] = true },
			`SELECT object FROM lookups WHERE source_no = $1 AND object = ANY($2) AND answered < armed`, no, q.Objects)
	})
	if err != nil {
		return Told{}, fmt.Errorf("read what is known of source %s: %w", q.Source, err)
	}
	for _, f := range told.Facts {
		told.Events[f.Hash] = true
	}
	return told, nil
}

func (t *Told) readFacts(ctx context.Context, tx pgx.Tx, source int16, q Question) error {
	var orders []int64
	err := each(ctx, tx, func(no int64) { orders = append(orders, no) }, `
		SELECT order_no FROM payments WHERE source_no = $1 AND payment_id = ANY($2)
		UNION SELECT order_no FROM orders WHERE order_id = ANY($3)`, source, q.Payments, q.Orders)
	if err != nil || len(orders) == 0 {
		return err
	}
	rows, err := tx.Query(ctx, `
		SELECT e.event_hash, e.kind, e.occurred_at, e.payment_id, e.object_id, e.amount, e.currency, e.verdict, e.reason,
			coalesce(o.order_id, ''), e.event_id, e.appended_at
		FROM order_events e JOIN orders o ON o.order_no = e.order_no
		WHERE e.order_no = ANY($1) AND e.source_no = $2 ORDER BY e.order_no, e.occurred_at, e.event_hash`, orders, source)
	if err != nil {
		return err
	}
	t.Facts, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (f ToldFact, err error) {
		var hash pgtype.UUID
		var kind, verdict, reason int16
		err = row.Scan(&hash, &kind, &f.Time, &f.Payment, &f.Object, &f.Amount, &f.Currency, &verdict, &reason, &f.OrderID, &f.EventID, &f.AppendedAt)
		f.Hash, f.Source, f.Kind = hash.Bytes, q.Source, order.Kind(kind)
		f.Judgement = order.Judgement{Verdict: order.Verdict(verdict), Reason: order.Reason(reason)}
		return f, err
	})
	return err
}

// readEvents looks where an event is that is in no set: in the filter, among the hints,
// among the dead letters. What a person has discarded came in, too.
func (t *Told) readEvents(ctx context.Context, tx pgx.Tx, events []EventKey) error {
	if len(events) == 0 {
		return nil
	}
	byKey, byID := map[[16]byte][16]byte{}, map[string][16]byte{}
	var keys, hashes [][16]byte
	var ids [][]byte
	for _, e := range events {
		byKey[e.Key], byID[e.ID] = e.Hash, e.Hash
		keys, hashes, ids = append(keys, e.Key), append(hashes, e.Hash), append(ids, []byte(e.ID))
	}
	err := each(ctx, tx, func(key pgtype.UUID) { t.Events[byKey[key.Bytes]] = true },
		`SELECT key FROM processed_events WHERE key = ANY($1)`, uuids(keys))
	if err == nil {
		err = each(ctx, tx, func(hash pgtype.UUID) { t.Events[hash.Bytes] = true },
			`SELECT event_hash FROM hints WHERE event_hash = ANY($1)`, uuids(hashes))
	}
	if err == nil {
		err = each(ctx, tx, func(id []byte) { t.Events[byID[string(id)]] = true },
			`SELECT record_key FROM dead_letters WHERE record_key = ANY($1)`, ids)
	}
	return err
}

// PaymentsOfSpan are the payments of a source that a fact of that span is told of, by
// the provider's time, or where it has none by when it came in. No index leads there:
// it reads all sets, as FindEvents does.
func (s *Store) PaymentsOfSpan(ctx context.Context, source string, since, until time.Time) (payments []string, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		payments = nil
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
			return err
		}
		return each(ctx, tx, func(id string) { payments = append(payments, id) }, `
			SELECT DISTINCT e.payment_id FROM order_events e JOIN names n ON n.name_no = e.source_no
			WHERE n.name = $1 AND e.payment_id <> ''
				AND (e.occurred_at >= $2 AND e.occurred_at < $3 OR e.occurred_at <= 0 AND e.appended_at >= $4 AND e.appended_at < $5)
			ORDER BY 1`, source, since.UnixMilli(), until.UnixMilli(), since, until)
	})
	return payments, wrap("find the payments of source "+source, err)
}

// each calls do with the one column of each row.
func each[T any](ctx context.Context, tx pgx.Tx, do func(T), q string, args ...any) error {
	rows, err := tx.Query(ctx, q, args...)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[T])
	for _, v := range found {
		do(v)
	}
	return err
}

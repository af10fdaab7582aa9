package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// RebuildSpan is a stretch of one partition, both ends included, of which every event
// is read anew; Since is when its first record was appended: what has an earlier time
// lay in a topic of that name that is gone.
type RebuildSpan struct {
	Span
	Since time.Time
}

// rebuildPage is how many orders are laid bare at a time.
const rebuildPage = 2000

// BringBare copies every live order with a name, but of their sets only what no record
// of the spans says: registrations, decisions, what a person linked, and what lies
// outside the spans. These are applied here like any fact. step hears how many orders
// were done. An event that is missing afterwards must come from its record.
func (s *Shadow) BringBare(ctx context.Context, now time.Time, spans []RebuildSpan, step func(int)) error {
	for behind := int64(0); ; {
		rows, err := s.tx.Query(ctx, `SELECT order_no FROM `+s.live+`.orders WHERE order_no > $1 ORDER BY order_no LIMIT $2`, behind, rebuildPage)
		var nos []int64
		if err == nil {
			nos, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		}
		if err != nil {
			return fmt.Errorf("read live orders: %w", err)
		}
		if len(nos) == 0 {
			return nil
		}
		behind = nos[len(nos)-1]
		s.missing(nos) // they count as brought, and are compared
		if _, err := s.copy(ctx, "orders", `
			SELECT order_no, order_id, ''::text AS reference, NULL::timestamptz AS registered_at, 0::bigint AS amount, ''::text AS currency,
			       0::smallint AS status, 0::bigint AS paid, 0::bigint AS refunded, 0::smallint AS dispute, 0::bigint AS version,
			       0::int AS n_events, 0::int AS n_held, updated_at
			FROM `+s.live+`.orders WHERE order_no = ANY($1) AND order_id IS NOT NULL`, "", nos); err != nil {
			return err
		}
		facts, err := s.kept(ctx, nos, spans)
		if err != nil {
			return err
		}
		err = s.Store.InTx(ctx, func(tx Tx) error {
			_, err := tx.Apply(ctx, now, facts)
			return err
		})
		if err != nil {
			return fmt.Errorf("apply what is kept of live sets: %w", err)
		}
		step(len(nos))
	}
}

// kept are the entries of live sets that no record of the spans says.
func (s *Shadow) kept(ctx context.Context, nos []int64, spans []RebuildSpan) ([]Fact, error) {
	stretches, since := make([]Span, len(spans)), make([]time.Time, len(spans))
	for i, sp := range spans {
		stretches[i], since[i] = sp.Span, sp.Since
	}
	partitions, firsts, lasts := spanColumns(stretches)
	rows, err := s.tx.Query(ctx, `
		SELECT e.order_no, coalesce(o.order_id, ''), e.named, e.event_hash, n.name, m.name, e.kind, e.occurred_at, e.appended_at, e.reading_hash, e.amount, e.currency,
		       e.event_id, e.event_type, e.payment_id, e.object_id, e.partition, e.record_offset
		FROM `+s.live+`.order_events e JOIN `+s.live+`.orders o USING (order_no)
		JOIN `+s.live+`.names n ON n.name_no = e.source_no JOIN `+s.live+`.names m ON m.name_no = e.endpoint_no
		WHERE e.order_no = ANY($1) AND (
			NOT EXISTS (SELECT FROM (SELECT unnest($2::int[]) AS partition, unnest($3::bigint[]) AS first, unnest($4::bigint[]) AS last, unnest($5::timestamptz[]) AS since) u
				WHERE e.partition = u.partition AND e.record_offset BETWEEN u.first AND u.last AND e.appended_at >= u.since)
			OR EXISTS (SELECT FROM `+s.live+`.review_items i WHERE i.kind = $6 AND i.subject = encode(uuid_send(e.event_hash), 'hex') AND i.decision = $7))
		ORDER BY e.order_no`, nos, partitions, firsts, lasts, since, string(ReviewHeld), string(Link))
	if err != nil {
		return nil, fmt.Errorf("read live sets: %w", err)
	}
	facts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (f Fact, err error) {
		var no int64
		var id string
		var named bool
		err = row.Scan(&no, &id, &named, &f.Hash, &f.Source, &f.Endpoint, &f.Kind, &f.Time, &f.AppendedAt, &f.ReadingHash, &f.Amount, &f.Currency,
			&f.EventID, &f.EventType, &f.Payment, &f.Object, &f.Partition, &f.Offset)
		if f.Kind.IsDecision() {
			f.Target, f.Object = targetOf(f.Object), ""
		}
		if f.OrderNo = no; id == "" {
			f.OrderNo = 0 // its payment makes a stub here too
		}
		if named {
			f.OrderID = id
		}
		return f, err
	})
	if err != nil {
		return nil, fmt.Errorf("read live sets: %w", err)
	}
	// What states nothing and lies in a stub has nothing to lie in here.
	kept := facts[:0]
	for _, f := range facts {
		if f.OrderNo != 0 || f.Payment != "" {
			kept = append(kept, f)
		}
	}
	return kept, nil
}

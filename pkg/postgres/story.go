package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/pkg/order"
)

// Story is everything the store knows about one order, for people.
type Story struct {
	OrderNo    int64
	OrderID    string
	Registered bool
	Reference  string // the shop's own note
	// Amount, Paid and Refunded are minor units of Currency.
	Status                 order.Status
	Amount, Paid, Refunded int64
	Currency               string
	Dispute                order.Dispute
	Version                int64
	// Events is the order's set, by the provider's time, undated ones last.
	Events []StoryEvent
	// History is its transitions, by version.
	History []Transition
}

// StoryEvent is one event of an order's set and what became of it.
type StoryEvent struct {
	Source, ID, Type string
	Kind             order.Kind
	Verdict          order.Verdict
	Reason           order.Reason
	OccurredAt       time.Time // provider's; zero: undated
	AppendedAt       time.Time // broker's
	Amount           int64     // minor units of Currency
	Currency         string
	Payment, Object  string
}

// ErrNoOrder: neither a registration nor an event named that order.
var ErrNoOrder = errors.New("no such order")

// Story tells one order's story from one snapshot; ErrNoOrder if it is unknown.
func (s *Store) Story(ctx context.Context, orderID string) (Story, error) {
	st := Story{OrderID: orderID}
	read := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.pool, read, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `
			SELECT order_no, registered_at IS NOT NULL, reference, status, coalesce(amount, 0), paid, refunded, coalesce(currency, ''), dispute, version
			FROM orders WHERE order_id = $1`, orderID).
			Scan(&st.OrderNo, &st.Registered, &st.Reference, &st.Status, &st.Amount, &st.Paid, &st.Refunded, &st.Currency, &st.Dispute, &st.Version)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNoOrder
		}
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			SELECT n.name, e.event_id, e.event_type, e.kind, e.verdict, e.reason, e.occurred_at, e.appended_at, e.amount,
			       coalesce(e.currency, ''), coalesce(e.payment_id, ''), coalesce(e.object_id, '')
			FROM order_events e JOIN names n ON n.name_no = e.source_no
			WHERE e.order_no = $1 ORDER BY e.occurred_at = 0, e.occurred_at, e.appended_at`, st.OrderNo)
		if err != nil {
			return err
		}
		st.Events, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e StoryEvent, err error) {
			var ms int64
			err = row.Scan(&e.Source, &e.ID, &e.Type, &e.Kind, &e.Verdict, &e.Reason, &ms, &e.AppendedAt, &e.Amount,
				&e.Currency, &e.Payment, &e.Object)
			if ms != 0 {
				e.OccurredAt = time.UnixMilli(ms)
			}
			return e, err
		})
		if err != nil {
			return err
		}
		rows, err = tx.Query(ctx, `SELECT `+transitionColumns+` FROM order_transitions t WHERE t.order_no = $1 ORDER BY t.version`, st.OrderNo)
		if err != nil {
			return err
		}
		st.History, err = pgx.CollectRows(rows, scanTransition)
		return err
	})
	if err != nil {
		return Story{}, fmt.Errorf("read the story of order %s: %w", orderID, err)
	}
	return st, nil
}

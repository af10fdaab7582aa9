package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// Registration is what the shop says about an order.
type Registration struct {
	OrderID string
	// Reference is the shop's own note, for people.
	Reference string
	// Amount is in minor units of Currency (ISO 4217).
	Amount   int64
	Currency string
}

// Registered is what a registration did.
type Registered struct {
	// Created: the order was not registered before.
	Created bool
	// Changes is the number of transitions written; if there are any, wake the
	// relays.
	Changes int
}

// ErrPaid: a payment was applied, so the amount and currency may not change.
var ErrPaid = errors.New("order is paid; its amount and currency are final")

// Register takes a registration as an entry of its order's set, of source
// Merchant, and folds: the first publishes version 1, pending, and whatever the
// events held for it imply. The same registration again changes nothing; another
// amount or currency folds again, until a payment is applied (ErrPaid).
func (s *Store) Register(ctx context.Context, now time.Time, r Registration) (Registered, error) {
	var done Registered
	err := s.InTx(ctx, func(tx Tx) error {
		done = Registered{}
		// The order of locks: names before orders.
		if _, err := tx.nameNos(ctx, Merchant); err != nil {
			return err
		}
		last, err := tx.lockRegistration(ctx, r.OrderID)
		if err != nil {
			return err
		}
		sameMoney := last.registered && last.Amount == r.Amount && last.Currency == r.Currency
		switch {
		case sameMoney && last.Reference == r.Reference:
			return nil
		case last.registered && !sameMoney && last.paid:
			return ErrPaid
		}
		done.Created = !last.registered
		// Later than the one before, whatever the clock says: the last one counts.
		at := max(now.UnixMilli(), last.at+1)
		id := fmt.Sprintf("%s@%d", r.OrderID, at)
		applied, err := tx.Apply(ctx, now, []Fact{{
			Entry: order.Entry{
				Hash: event.Event{Source: Merchant, ID: id}.Hash(), Source: Merchant, Kind: order.KindRegistered,
				Time: at, Object: r.Reference, Amount: r.Amount, Currency: r.Currency,
			},
			OrderID: r.OrderID, EventID: id, EventType: "order.registered", Endpoint: Merchant,
			AppendedAt: now, Partition: -1, Offset: -1,
		}})
		if err != nil {
			return err
		}
		done.Changes = applied.Changes
		return tx.AddToBooks(ctx, [16]byte{}, -1, applied.Moved)
	})
	if err != nil {
		return Registered{}, fmt.Errorf("register order %q: %w", r.OrderID, err)
	}
	return done, nil
}

// registration is what an order's row says of its last registration.
type registration struct {
	Registration
	registered, paid bool
	at               int64 // Unix milliseconds
}

// lockRegistration locks an order's row, making a stub where there is none: so
// registrations of one order, and events of it, come one after the other.
func (tx Tx) lockRegistration(ctx context.Context, orderID string) (r registration, err error) {
	if _, err := tx.tx.Exec(ctx, `INSERT INTO orders (order_id) VALUES ($1) ON CONFLICT DO NOTHING`, orderID); err != nil {
		return r, fmt.Errorf("make order: %w", err)
	}
	var at *time.Time
	var status order.Status
	err = tx.tx.QueryRow(ctx, `
		SELECT registered_at, amount, currency, reference, status, paid > 0
		FROM orders WHERE order_id = $1 FOR NO KEY UPDATE`, orderID).
		Scan(&at, &r.Amount, &r.Currency, &r.Reference, &status, &r.paid)
	if err != nil {
		return r, fmt.Errorf("lock order: %w", err)
	}
	if at != nil {
		r.registered, r.at = true, at.UnixMilli()
	}
	r.paid = r.paid || status == order.Paid || status == order.PartiallyRefunded || status == order.Refunded
	return r, nil
}

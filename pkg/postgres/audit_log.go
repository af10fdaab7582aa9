package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// AuditEntry is what a person did, and why.
type AuditEntry struct {
	At                           time.Time
	Who, Action, Subject, Reason string
	// Before and After are states as JSON, or nil: never bodies or personal data.
	Before, After any
}

// AddAuditEntry writes one line of the audit log. It is never changed.
func (tx Tx) AddAuditEntry(ctx context.Context, e AuditEntry) error {
	arg := dbgen.AddAuditEntryParams{At: timestamp(e.At), Who: e.Who, Action: e.Action, Subject: e.Subject, Reason: e.Reason}
	for _, side := range []struct {
		state any
		text  *[]byte
	}{{e.Before, &arg.Before}, {e.After, &arg.After}} {
		if side.state == nil {
			continue
		}
		text, err := json.Marshal(side.state)
		if err != nil {
			return fmt.Errorf("write the audit log: %w", err)
		}
		*side.text = text
	}
	if err := tx.q.AddAuditEntry(ctx, arg); err != nil {
		return fmt.Errorf("write the audit log: %w", err)
	}
	return nil
}

// OrderState is an order, and one event of its set, at one moment.
type OrderState struct {
	Order      string        `json:"order,omitempty"` // empty: known by a payment only
	Registered bool          `json:"registered"`
	Status     order.Status  `json:"status"`
	Amount     int64         `json:"amount"` // minor units of Currency, as are all
	Paid       int64         `json:"paid"`
	Refunded   int64         `json:"refunded"`
	Currency   string        `json:"currency"`
	Dispute    order.Dispute `json:"dispute"`
	Version    int64         `json:"version"`
	Held       int32         `json:"held"` // events that are held
	Verdict    order.Verdict `json:"event_verdict"`
	Reason     order.Reason  `json:"event_reason"`
}

// String is the state in one line, for people.
func (s OrderState) String() string {
	id := "the order"
	if s.Order != "" {
		id = "order " + s.Order
	}
	verdict := s.Verdict.String()
	if s.Reason != order.NoReason {
		verdict += ": " + s.Reason.String()
	}
	return fmt.Sprintf("%s is %s at version %d; the event is %s", id, s.Status, s.Version, verdict)
}

// stateOf reads an order and one event of its set.
func (tx Tx) stateOf(ctx context.Context, orderNo int64, hash [16]byte) (OrderState, error) {
	o, err := tx.q.ReadOrder(ctx, orderNo)
	if err != nil {
		return OrderState{}, fmt.Errorf("read order: %w", err)
	}
	e, err := tx.q.ReadVerdict(ctx, orderNo, uuid(hash))
	if err != nil {
		return OrderState{}, fmt.Errorf("read the event's verdict: %w", err)
	}
	s := orderState(dbgen.LockOrdersRow(o))
	s.Verdict, s.Reason = order.Verdict(e.Verdict), order.Reason(e.Reason)
	return s, nil
}

func orderState(o dbgen.LockOrdersRow) OrderState {
	return OrderState{
		Order: o.OrderID.String, Registered: o.RegisteredAt.Valid, Status: order.Status(o.Status), Amount: o.Amount, Paid: o.Paid,
		Refunded: o.Refunded, Currency: o.Currency, Dispute: order.Dispute(o.Dispute), Version: o.Version, Held: o.NHeld,
	}
}

package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/pkg/order"
)

type envelope struct {
	SpecVersion string  `json:"specversion"`
	ID          string  `json:"id"`
	Source      string  `json:"source"`
	Type        string  `json:"type"`
	Subject     string  `json:"subject"`
	DataSchema  string  `json:"dataschema"`
	Data        payload `json:"data"`
}

type payload struct {
	OrderID  string        `json:"order_id"`
	Version  int64         `json:"version"`
	Status   order.Status  `json:"status"`
	Previous *order.Status `json:"previous_status"`
	Amount   struct {
		Value    *int64 `json:"value"`
		Currency string `json:"currency"`
	} `json:"amount"`
	Paid     *int64         `json:"paid"`
	Refunded *int64         `json:"refunded"`
	Dispute  *order.Dispute `json:"dispute"`
	Cause    struct {
		Source  string `json:"source"`
		EventID string `json:"event_id"`
	} `json:"cause"`
	OccurredAt time.Time `json:"occurred_at"`
	ChangedAt  time.Time `json:"changed_at"`
	Correction *bool     `json:"correction"`
}

// Decode reads the value of one record. It ignores fields it does not know, since
// later releases may add some; anything else that the schema does not allow, or
// that contradicts itself, is an error.
func Decode(value []byte) (Message, error) {
	var e envelope
	if err := json.Unmarshal(value, &e); err != nil {
		return Message{}, fmt.Errorf("reading an order status message: %w", err)
	}
	m, err := e.message()
	if err != nil {
		return Message{}, fmt.Errorf("reading the order status message %q: %w", e.ID, err)
	}
	return m, nil
}

func (e envelope) message() (Message, error) {
	d := e.Data
	switch {
	case e.SpecVersion != "1.0":
		return Message{}, fmt.Errorf("specversion %q is not 1.0", e.SpecVersion)
	case e.Type != Type:
		return Message{}, fmt.Errorf("type %q is not %s", e.Type, Type)
	case e.DataSchema != Schema:
		return Message{}, fmt.Errorf("dataschema %q is not %s", e.DataSchema, Schema)
	case d.Amount.Value == nil || d.Paid == nil || d.Refunded == nil || d.Dispute == nil || d.Correction == nil:
		return Message{}, errors.New("amount.value, paid, refunded, dispute or correction is missing")
	case e.Source == "" || d.OrderID == "" || d.Amount.Currency == "" || d.Cause.Source == "" || d.Cause.EventID == "":
		return Message{}, errors.New("source, order_id, amount.currency, cause.source or cause.event_id is missing")
	case d.Version < 1 || (d.Version == 1) != (d.Previous == nil):
		return Message{}, fmt.Errorf("version %d does not fit its previous_status", d.Version)
	case d.Status == order.StatusNone || (d.Previous != nil && *d.Previous == order.StatusNone):
		return Message{}, errors.New("an order that is published has a status")
	case *d.Amount.Value < 0 || *d.Refunded < 0 || *d.Refunded > *d.Paid:
		return Message{}, errors.New("amounts contradict each other")
	case !isCode(d.Amount.Currency):
		return Message{}, fmt.Errorf("amount.currency %q is no ISO 4217 code", d.Amount.Currency)
	case d.ChangedAt.IsZero() || !isUTC(d.ChangedAt) || !isUTC(d.OccurredAt):
		return Message{}, errors.New("changed_at is missing, or a time is not in UTC")
	}
	m := Message{
		Source: e.Source, OrderID: d.OrderID, Version: d.Version, Status: d.Status,
		Amount: *d.Amount.Value, Paid: *d.Paid, Refunded: *d.Refunded, Currency: d.Amount.Currency, Dispute: *d.Dispute,
		Cause:      Cause{Source: d.Cause.Source, EventID: d.Cause.EventID},
		OccurredAt: d.OccurredAt, ChangedAt: d.ChangedAt, Correction: *d.Correction,
	}
	if d.Previous != nil {
		m.Previous = *d.Previous
	}
	if e.ID != m.ID() || e.Subject != m.OrderID {
		return Message{}, fmt.Errorf("id or subject does not name version %d of order %q", m.Version, m.OrderID)
	}
	return m, nil
}

// isCode does not ask for a code it knows: there may be a new one.
func isCode(currency string) bool {
	return len(currency) == 3 && strings.Trim(currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

func isUTC(t time.Time) bool {
	_, offset := t.Zone()
	return offset == 0
}

package merchant

import (
	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// orderView is an order as the API shows it. Amounts are minor units of Currency.
type orderView struct {
	OrderID   string `json:"order_id"`
	Reference string `json:"reference"`
	Version   int64  `json:"version"`
	Status    string `json:"status"`
	Amount    int64  `json:"amount"`
	Currency  string `json:"currency"`
	Paid      int64  `json:"paid"`
	Refunded  int64  `json:"refunded"`
	Dispute   string `json:"dispute"`
	// Reserved: a provider that asks before it pays may take its money, or has.
	Reserved *reservedView `json:"reserved,omitempty"`
	Held     []heldView    `json:"held"`
	History  []historyView `json:"history"`
}

// reservedView is who may take an order's money. Without Until it was taken, or may
// have been, and its event is on its way or waits for the provider's word.
type reservedView struct {
	Source  string `json:"source"`
	Payment string `json:"payment_id"`
	Since   string `json:"since"`
	Until   string `json:"until,omitempty"`
}

// heldView is an event that waits for something, or for a person.
type heldView struct {
	Source     string `json:"source"`
	EventID    string `json:"event_id"`
	Type       string `json:"type"`
	Reason     string `json:"reason"`
	Amount     int64  `json:"amount"`
	Currency   string `json:"currency"`
	OccurredAt string `json:"occurred_at,omitempty"`
}

// historyView is one version of the order.
type historyView struct {
	Version     int64  `json:"version"`
	Status      string `json:"status"`
	Amount      int64  `json:"amount"`
	Paid        int64  `json:"paid"`
	Refunded    int64  `json:"refunded"`
	Dispute     string `json:"dispute"`
	Correction  bool   `json:"correction"`
	CauseSource string `json:"cause_source"`
	CauseEvent  string `json:"cause_event_id"`
	ChangedAt   string `json:"changed_at"`
}

func view(s postgres.Story, r *postgres.Reservation) orderView {
	v := orderView{
		OrderID: s.OrderID, Reference: s.Reference, Version: s.Version, Status: s.Status.String(),
		Amount: s.Amount, Currency: s.Currency, Paid: s.Paid, Refunded: s.Refunded, Dispute: s.Dispute.String(),
		Held: []heldView{}, History: []historyView{},
	}
	if r != nil && (s.Status == order.Pending || s.Status == order.Failed || s.Status == order.Cancelled) {
		v.Reserved = &reservedView{Source: r.Source, Payment: r.Payment, Since: timestamp(r.At), Until: timestamp(r.Until)}
	}
	for _, e := range s.Events {
		if e.Verdict == order.Held {
			v.Held = append(v.Held, heldView{Source: e.Source, EventID: e.ID, Type: e.Type, Reason: e.Reason.String(),
				Amount: e.Amount, Currency: e.Currency, OccurredAt: timestamp(e.OccurredAt)})
		}
	}
	for _, t := range s.History {
		v.History = append(v.History, historyView{Version: t.Version, Status: t.To.String(), Amount: t.Amount, Paid: t.Paid,
			Refunded: t.Refunded, Dispute: t.Dispute.String(), Correction: t.Correction,
			CauseSource: t.CauseSource, CauseEvent: t.CauseEventID, ChangedAt: timestamp(t.ChangedAt)})
	}
	return v
}

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// lockLink finds the order that an event of another one belongs to, and locks the
// event's payment. If the payment leads to the event's named order, it leads to
// the other one from now on.
func (tx Tx) lockLink(ctx context.Context, from int64, p payment, orderID string) (to int64, err error) {
	var registered bool
	err = tx.tx.QueryRow(ctx, `SELECT order_no, registered_at IS NOT NULL FROM orders WHERE order_id = $1`, orderID).Scan(&to, &registered)
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && !registered:
		return 0, fmt.Errorf("%w: %s is not registered", ErrNoOrder, orderID)
	case err != nil:
		return 0, fmt.Errorf("find order: %w", err)
	case to == from:
		return 0, fmt.Errorf("%w: the event belongs to order %s already", ErrDecision, orderID)
	case p.id == "":
		return to, nil
	}
	rows, err := tx.q.LockPayments(ctx, []int16{p.source}, []string{p.id})
	if err != nil {
		return 0, fmt.Errorf("lock payment: %w", err)
	}
	for _, r := range rows {
		if r.OrderNo != from || !r.Linked { // a stub moves by being applied to the order
			continue
		}
		if err := tx.q.MovePayment(ctx, to, p.source, p.id); err != nil {
			return 0, fmt.Errorf("link payment to another order: %w", err)
		}
	}
	return to, nil
}

// link makes the event count in another order, and with it all that is held of
// the same payment. The events of a stub move there; an order with a name keeps
// its own, dismissed, so that a repeat changes nothing.
func (h *held) link(ctx context.Context, tx Tx, d Decision) error {
	if h.to.find(h.event.EventHash.Bytes) != nil {
		return fmt.Errorf("%w: order %s has the event too", ErrDecision, d.OrderID)
	}
	var facts, dismissals []Fact
	for i := range h.order.set {
		m := &h.order.set[i]
		along := m.Verdict == int16(order.Held) && m.SourceNo == h.event.SourceNo && m.PaymentID != "" && m.PaymentID == h.event.PaymentID &&
			h.to.find(m.EventHash.Bytes) == nil
		if m != h.event && !along {
			continue
		}
		f, err := tx.heldFact(ctx, m)
		if err != nil {
			return err
		}
		f.OrderID = d.OrderID
		facts, dismissals = append(facts, f), append(dismissals, h.decision(m, order.KindDismiss))
	}
	stub := h.order.id == ""
	h.order = h.to
	if stub {
		_, err := h.apply(ctx, tx, facts...)
		return err
	}
	applied, err := h.apply(ctx, tx, append(facts, dismissals...)...)
	if err != nil {
		return err
	}
	for i, f := range facts { // each counts once, with what became of it in its new order
		h.moved.Add(f.AppendedAt, f.Endpoint, order.NoChange, -1)
		h.moved.Add(f.AppendedAt, f.Endpoint, applied.Verdicts[i].Verdict, 1)
	}
	return nil
}

// heldFact is a held event of a set as the fact it came as, with its bytes.
func (tx Tx) heldFact(ctx context.Context, m *member) (Fact, error) {
	endpoint, err := tx.nameOf(ctx, m.EndpointNo)
	if err != nil {
		return Fact{}, err
	}
	row, err := tx.q.GetHeldEvent(ctx, m.OrderNo, m.EventHash)
	if err != nil {
		return Fact{}, fmt.Errorf("read held event: %w", err)
	}
	var headers []event.Header
	if len(row.RecordHeaders) > 0 {
		if err := json.Unmarshal(row.RecordHeaders, &headers); err != nil {
			return Fact{}, fmt.Errorf("read the headers of a held event: %w", err)
		}
	}
	return Fact{
		Entry: m.entry(), EventID: m.EventID, EventType: m.EventType, Endpoint: endpoint, AppendedAt: m.AppendedAt.Time,
		ReadingHash: m.ReadingHash, OutsideWindow: m.Reason == int16(order.OutsideWindow),
		Partition: m.Partition, Offset: m.RecordOffset, Headers: headers, Body: row.Body,
	}, nil
}

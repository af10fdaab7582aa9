package postgres

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// writes are all the rows of one Apply.
type writes struct {
	orders      []*lockedOrder
	registered  []*lockedOrder
	events      []dbgen.AddOrderEventsParams
	verdicts    dbgen.SetVerdictsParams
	held        []dbgen.AddHeldEventsParams
	heldReasons dbgen.SetHeldReasonsParams
	unheld      []member
	transitions []dbgen.AddOrderTransitionsParams

	// Memory that one fold leaves to the next.
	before, all []order.Entry
	members     []*member
	old, folded order.Outcome
}

// judged notes what a verdict means for the rows of an event.
func (w *writes) judged(m *member, was, is order.Judgement, due time.Time) {
	fresh := m.fact != nil
	switch {
	case fresh || m.from != 0:
		w.events = append(w.events, m.AddOrderEventsParams)
	case was != is:
		w.verdicts.OrderNos = append(w.verdicts.OrderNos, m.OrderNo)
		w.verdicts.EventHashes = append(w.verdicts.EventHashes, m.EventHash)
		w.verdicts.Verdicts = append(w.verdicts.Verdicts, m.Verdict)
		w.verdicts.Reasons = append(w.verdicts.Reasons, m.Reason)
	}
	wasHeld, isHeld := !fresh && was.Verdict == order.Held, is.Verdict == order.Held
	switch {
	case isHeld && !wasHeld:
		h := dbgen.AddHeldEventsParams{OrderNo: m.OrderNo, EventHash: m.EventHash, Reason: m.Reason, DueAt: timestamp(due)}
		if fresh {
			h.RecordHeaders, h.Body = encodeHeaders(m.fact.Headers), m.fact.Body
		}
		w.held = append(w.held, h)
	case wasHeld && !isHeld:
		w.unheld = append(w.unheld, *m)
	case isHeld && was.Reason != is.Reason:
		w.heldReasons.OrderNos = append(w.heldReasons.OrderNos, m.OrderNo)
		w.heldReasons.EventHashes = append(w.heldReasons.EventHashes, m.EventHash)
		w.heldReasons.Reasons = append(w.heldReasons.Reasons, m.Reason)
		w.heldReasons.DueAt = append(w.heldReasons.DueAt, timestamp(due))
	}
}

// write writes them. moved are the stubs whose events went to another order.
func (w *writes) write(ctx context.Context, tx Tx, moved map[int64]int64) error {
	if err := tx.dropStubs(ctx, moved); err != nil {
		return err
	}
	if len(w.orders) == 0 {
		return nil
	}
	if err := tx.updateOrders(ctx, w.orders, w.registered); err != nil {
		return err
	}
	if len(w.events) > 0 {
		if _, err := tx.q.AddOrderEvents(ctx, w.events); err != nil {
			return fmt.Errorf("add order events: %w", err)
		}
	}
	if len(w.verdicts.OrderNos) > 0 {
		if err := tx.q.SetVerdicts(ctx, w.verdicts); err != nil {
			return fmt.Errorf("set verdicts: %w", err)
		}
	}
	if err := tx.writeHeld(ctx, w); err != nil {
		return err
	}
	if len(w.transitions) > 0 {
		if _, err := tx.q.AddOrderTransitions(ctx, w.transitions); err != nil {
			return fmt.Errorf("add order transitions: %w", err)
		}
	}
	return nil
}

// dropStubs removes stubs whose events all went to another order.
func (tx Tx) dropStubs(ctx context.Context, moved map[int64]int64) error {
	if len(moved) == 0 {
		return nil
	}
	var from, to []int64
	for f, t := range moved {
		from, to = append(from, f), append(to, t)
	}
	if err := tx.q.DeleteOrderEvents(ctx, from); err != nil {
		return fmt.Errorf("move order events: %w", err)
	}
	if err := tx.q.MoveHeldEvents(ctx, from, to); err != nil {
		return fmt.Errorf("move held events: %w", err)
	}
	if err := tx.q.MoveReviewItems(ctx, from, to); err != nil {
		return fmt.Errorf("move review items: %w", err)
	}
	if err := tx.q.DeleteStubs(ctx, from); err != nil {
		return fmt.Errorf("delete stubs: %w", err)
	}
	return nil
}

// transition is one change as a row. Its cause is an entry of the set; the
// registration of an order without events was not read, and is named by the order.
func (o *lockedOrder) transition(c order.Change) dbgen.AddOrderTransitionsParams {
	source, id := Merchant, o.id
	if m := o.find(c.Cause); m != nil {
		source, id = m.source, m.EventID
	}
	return dbgen.AddOrderTransitionsParams{
		Shard: shardOf(o.id), OrderNo: o.no, OrderID: o.id, Version: o.state.Version,
		FromStatus: int16(c.From.Status), ToStatus: int16(c.To.Status),
		Amount: c.To.Amount, Currency: c.To.Currency, Paid: c.To.Paid, Refunded: c.To.Refunded,
		Dispute: int16(c.To.Dispute), Correction: c.Correction,
		CauseSource: source, CauseEventID: id, OccurredAt: c.Time,
	}
}

// shardOf spreads orders over the relay's shards. It is in stored rows; it never
// changes.
func shardOf(orderID string) int16 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(orderID))
	return int16(h.Sum32() % Shards)
}

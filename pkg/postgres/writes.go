package postgres

import (
	"cmp"
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
	readings    dbgen.ReplaceReadingsParams
	held        []dbgen.AddHeldEventsParams
	heldReasons dbgen.SetHeldReasonsParams
	heldBytes   []dbgen.ReplaceHeldBytesParams
	unheld      []member
	strays      []stray
	transitions []dbgen.AddOrderTransitionsParams
	effects     []orderEffects

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
	case m.replaced != nil:
		w.reading(m)
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
		if f := cmp.Or(m.fact, m.replaced); f != nil {
			h.RecordHeaders, h.Body = encodeHeaders(f.Headers), f.Body
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
	if f := m.replaced; f != nil && isHeld && wasHeld {
		w.heldBytes = append(w.heldBytes, dbgen.ReplaceHeldBytesParams{OrderNo: m.OrderNo, EventHash: m.EventHash,
			RecordHeaders: encodeHeaders(f.Headers), Body: f.Body})
	}
}

// reading notes that another reading of an event counts now.
func (w *writes) reading(m *member) {
	r := &w.readings
	r.OrderNos, r.EventHashes = append(r.OrderNos, m.OrderNo), append(r.EventHashes, m.EventHash)
	r.Kinds, r.Verdicts, r.Reasons = append(r.Kinds, m.Kind), append(r.Verdicts, m.Verdict), append(r.Reasons, m.Reason)
	r.OccurredAt, r.ReadingHashes = append(r.OccurredAt, m.OccurredAt), append(r.ReadingHashes, m.ReadingHash)
	r.Amounts, r.Currencies = append(r.Amounts, m.Amount), append(r.Currencies, m.Currency)
	r.EventTypes, r.PaymentIds, r.ObjectIds = append(r.EventTypes, m.EventType), append(r.PaymentIds, m.PaymentID), append(r.ObjectIds, m.ObjectID)
	r.Partitions, r.RecordOffsets = append(r.Partitions, m.Partition), append(r.RecordOffsets, m.RecordOffset)
	r.Named = append(r.Named, m.Named)
}

// write writes them. moved are the stubs whose events went to another order.
func (w *writes) write(ctx context.Context, tx Tx, moved map[int64]int64) error {
	if err := tx.dropStubs(ctx, moved); err != nil {
		return err
	}
	if err := tx.writeStrays(ctx, w.strays); err != nil {
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
	if len(w.readings.OrderNos) > 0 {
		if err := tx.q.ReplaceReadings(ctx, w.readings); err != nil {
			return fmt.Errorf("replace readings: %w", err)
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

// cause names the event behind a step. It is an entry of the set; the registration
// of an order without events was not read, and is named by the order.
func (o *lockedOrder) cause(hash [16]byte) (source, eventID string) {
	if m := o.find(hash); m != nil {
		return m.source, m.EventID
	}
	return Merchant, o.id
}

// transition is one change as a row.
func (o *lockedOrder) transition(c order.Change) dbgen.AddOrderTransitionsParams {
	source, id := o.cause(c.Cause)
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

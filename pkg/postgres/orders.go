package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// lockedOrder is one order under its lock, with its whole set.
type lockedOrder struct {
	no    int64
	id    string // empty: a stub known by a payment only
	state dbgen.LockOrdersRow
	set   []member
	// left are the entries that went to another order in this transaction.
	left []order.Entry
	// grew: the set holds what the last fold has not seen, or has lost something.
	grew bool
}

// member is one entry of the set.
type member struct {
	dbgen.AddOrderEventsParams
	source string
	// fact is what came in with this transaction; nil: the set had it before.
	fact *Fact
	// from is the stub it was moved from in this transaction, 0 if none.
	from int64
	// replaced is the reading that counts since this transaction instead of was;
	// nil if none came.
	replaced *Fact
	was      order.Entry
}

func (m *member) entry() order.Entry {
	e := order.Entry{
		Hash: m.EventHash.Bytes, Source: m.source, Kind: order.Kind(m.Kind), Time: m.OccurredAt,
		Payment: m.PaymentID, Object: m.ObjectID, Amount: m.Amount, Currency: m.Currency,
	}
	if e.Kind.IsDecision() {
		e.Target, e.Object = targetOf(m.ObjectID), ""
	}
	return e
}

// before is the entry as the last transaction left it.
func (m *member) before() order.Entry {
	if m.replaced != nil {
		return m.was
	}
	return m.entry()
}

// older: of the two readings f is the one that counts.
func (m *member) older(f *Fact) bool {
	return cmp.Or(cmp.Compare(m.OccurredAt, f.Time), cmp.Compare(m.ReadingHash, f.ReadingHash)) < 0
}

// replace takes another reading of the event. The hour it counts in stays.
func (m *member) replace(f *Fact) {
	switch {
	case m.fact != nil:
		m.fact = f
	case m.replaced == nil:
		m.was = m.entry()
		fallthrough
	default:
		m.replaced = f
	}
	m.Kind, m.OccurredAt, m.ReadingHash = int16(f.Kind), f.Time, f.ReadingHash
	m.Named = m.Named || f.OrderID != ""
	m.Amount, m.Currency, m.EventType = f.Amount, f.Currency, f.EventType
	m.PaymentID, m.ObjectID = f.Payment, f.object()
	m.Partition, m.RecordOffset = f.Partition, f.Offset
}

// entryBefore is an entry as it was in the set before this transaction.
func (o *lockedOrder) entryBefore(hash [16]byte) (order.Entry, bool) {
	if m := o.find(hash); m != nil {
		return m.before(), true
	}
	for _, e := range o.left {
		if e.Hash == hash {
			return e, true
		}
	}
	return order.Entry{}, false
}

func (m *member) judgement() order.Judgement {
	return order.Judgement{Verdict: order.Verdict(m.Verdict), Reason: order.Reason(m.Reason)}
}

func (o *lockedOrder) find(hash [16]byte) *member {
	for i := range o.set {
		if o.set[i].EventHash.Bytes == hash {
			return &o.set[i]
		}
	}
	return nil
}

// errGone: an order's row is not there any more; a stub's events moved.
var errGone = errors.New("the order is gone")

// lockOrders locks orders by number and reads the sets of those that have events.
// Without any, the set holds at most registrations, and the row says what the last
// one said: such a set is read only where nos says so.
func (tx Tx) lockOrders(ctx context.Context, nos map[int64]bool) (map[int64]*lockedOrder, error) {
	rows, err := tx.q.LockOrders(ctx, slices.Sorted(maps.Keys(nos)))
	if err != nil {
		return nil, fmt.Errorf("lock orders: %w", err)
	}
	orders, load := make(map[int64]*lockedOrder, len(rows)), make(map[int64]*lockedOrder, len(rows))
	all := make([]lockedOrder, len(rows))
	for i, r := range rows {
		all[i] = lockedOrder{no: r.OrderNo, id: r.OrderID.String, state: r, set: make([]member, 0, r.NEvents+3)}
		orders[r.OrderNo] = &all[i]
		if r.NEvents > 0 || nos[r.OrderNo] {
			load[r.OrderNo] = &all[i]
		}
	}
	for no := range nos {
		if orders[no] == nil {
			return nil, fmt.Errorf("lock order number %d: %w", no, errGone)
		}
	}
	return orders, tx.loadSets(ctx, load)
}

// loadSets reads the sets of orders.
func (tx Tx) loadSets(ctx context.Context, orders map[int64]*lockedOrder) error {
	if len(orders) == 0 {
		return nil
	}
	events, err := tx.q.LoadOrderEvents(ctx, slices.Collect(maps.Keys(orders)))
	if err != nil {
		return fmt.Errorf("read order events: %w", err)
	}
	for _, e := range events {
		source, err := tx.nameOf(ctx, e.SourceNo)
		if err != nil {
			return err
		}
		o := orders[e.OrderNo]
		o.set = append(o.set, member{AddOrderEventsParams: dbgen.AddOrderEventsParams(e), source: source})
	}
	return nil
}

// updateOrders writes the rows of folded orders; registered are those among them
// that the shop said something new about.
func (tx Tx) updateOrders(ctx context.Context, orders, registered []*lockedOrder) error {
	var arg dbgen.UpdateOrdersParams
	for _, o := range orders {
		s := &o.state
		arg.OrderNos = append(arg.OrderNos, o.no)
		arg.Statuses, arg.Disputes = append(arg.Statuses, s.Status), append(arg.Disputes, s.Dispute)
		arg.Paid, arg.Refunded = append(arg.Paid, s.Paid), append(arg.Refunded, s.Refunded)
		arg.Versions = append(arg.Versions, s.Version)
		arg.NEvents, arg.NHeld = append(arg.NEvents, s.NEvents), append(arg.NHeld, s.NHeld)
	}
	if err := tx.q.UpdateOrders(ctx, arg); err != nil {
		return fmt.Errorf("update orders: %w", err)
	}
	if len(registered) == 0 {
		return nil
	}
	var reg dbgen.SetRegistrationsParams
	for _, o := range registered {
		s := &o.state
		reg.OrderNos, reg.Refs = append(reg.OrderNos, o.no), append(reg.Refs, s.Reference)
		reg.RegisteredAt = append(reg.RegisteredAt, s.RegisteredAt)
		reg.Amounts, reg.Currencies = append(reg.Amounts, s.Amount), append(reg.Currencies, s.Currency)
	}
	if err := tx.q.SetRegistrations(ctx, reg); err != nil {
		return fmt.Errorf("set registrations: %w", err)
	}
	return nil
}

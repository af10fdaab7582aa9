package dry

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// FindOrders returns the numbers of those that are there.
func (t *Tables) FindOrders(ctx context.Context, ids []string) (rows []dbgen.FindOrdersRow, err error) {
	ask := make([]string, 0, len(ids))
	for _, id := range ids {
		if no, ok := t.byID[id]; ok {
			rows = append(rows, dbgen.FindOrdersRow{OrderNo: no, OrderID: pgtype.Text{String: id, Valid: true}})
		} else {
			ask = append(ask, id)
		}
	}
	if len(ask) == 0 {
		return rows, nil
	}
	there, err := t.Querier.FindOrders(ctx, ask)
	return append(rows, there...), err
}

// AddOrders adds orders that FindOrders did not find.
func (t *Tables) AddOrders(_ context.Context, ids []string) ([]dbgen.AddOrdersRow, error) {
	rows := make([]dbgen.AddOrdersRow, len(ids))
	for i, id := range ids {
		r := dbgen.LockOrdersRow{OrderNo: t.number(), OrderID: pgtype.Text{String: id, Valid: true}}
		put(t, t.orders, r.OrderNo, r)
		put(t, t.byID, id, r.OrderNo)
		rows[i] = dbgen.AddOrdersRow{OrderNo: r.OrderNo, OrderID: r.OrderID}
	}
	return rows, nil
}

// AddStubs adds n orders without a name.
func (t *Tables) AddStubs(_ context.Context, n int32) ([]int64, error) {
	nos := make([]int64, n)
	for i := range nos {
		nos[i] = t.number()
		put(t, t.orders, nos[i], dbgen.LockOrdersRow{OrderNo: nos[i]})
	}
	return nos, nil
}

// gone is the row of a stub that is not there any more: no order has the number 0.
var gone = dbgen.LockOrdersRow{}

// DeleteStubs deletes orders without a name.
func (t *Tables) DeleteStubs(_ context.Context, nos []int64) error {
	for _, no := range nos {
		put(t, t.orders, no, gone)
	}
	return nil
}

// LockOrders reads orders, and locks none.
func (t *Tables) LockOrders(ctx context.Context, nos []int64) (rows []dbgen.LockOrdersRow, err error) {
	ask := make([]int64, 0, len(nos))
	for _, no := range nos {
		switch r, ok := t.orders[no]; {
		case !ok && no > 0:
			ask = append(ask, no)
		case r.OrderNo != 0:
			rows = append(rows, r)
		}
	}
	if len(ask) == 0 {
		return rows, nil
	}
	there, err := t.ReadOrders(ctx, ask)
	for _, r := range there {
		row := dbgen.LockOrdersRow(r)
		t.readOrders[r.OrderNo] = row
		rows = append(rows, row)
	}
	return rows, err
}

// order is the row of an order that this transaction read.
func (t *Tables) order(no int64) dbgen.LockOrdersRow {
	if r, ok := t.orders[no]; ok {
		return r
	}
	return t.readOrders[no]
}

// UpdateOrders writes rows that LockOrders read.
func (t *Tables) UpdateOrders(_ context.Context, arg dbgen.UpdateOrdersParams) error {
	for i, no := range arg.OrderNos {
		r := t.order(no)
		r.Status, r.Paid, r.Refunded, r.Dispute = arg.Statuses[i], arg.Paid[i], arg.Refunded[i], arg.Disputes[i]
		r.Version, r.NEvents, r.NHeld = arg.Versions[i], arg.NEvents[i], arg.NHeld[i]
		put(t, t.orders, no, r)
	}
	return nil
}

// SetRegistrations writes what the shop said last.
func (t *Tables) SetRegistrations(_ context.Context, arg dbgen.SetRegistrationsParams) error {
	for i, no := range arg.OrderNos {
		r := t.order(no)
		r.Reference, r.RegisteredAt, r.Amount, r.Currency = arg.Refs[i], arg.RegisteredAt[i], arg.Amounts[i], arg.Currencies[i]
		put(t, t.orders, no, r)
	}
	return nil
}

// change is what would be published of one order.
type change struct {
	orderID               string
	from, to              order.Status
	messages, corrections int64
	causeSource, cause    string
}

// AddOrderTransitions sums up what would be published, order by order.
func (t *Tables) AddOrderTransitions(_ context.Context, rows []dbgen.AddOrderTransitionsParams) (int64, error) {
	for _, r := range rows {
		c, ok := t.changes[r.OrderNo]
		if !ok {
			c = change{orderID: r.OrderID, from: order.Status(r.FromStatus)}
		}
		c.to, c.causeSource, c.cause = order.Status(r.ToStatus), r.CauseSource, r.CauseEventID
		c.messages++
		if r.Correction {
			c.corrections++
		}
		put(t, t.changes, r.OrderNo, c)
	}
	return int64(len(rows)), nil
}

package merchant

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/postgres"
	"sluice/pkg/webhook"
)

func (p *payme) checkPerform(ctx context.Context, c call) (any, *fault, error) {
	var f *fault
	err := p.store.InTx(ctx, func(tx postgres.Tx) error {
		o, found, err := tx.LockCheckout(ctx, c.received, c.Order)
		f = p.payable(o, found, c)
		return err
	})
	return allowed{true}, f, err
}

// payable says why an order cannot be paid by a transaction; nil if it can.
func (p *payme) payable(o postgres.Checkout, found bool, c call) *fault {
	field := p.provider.AccountField()
	switch {
	case !found || !o.Registered:
		return faultNoOrder.about(field)
	case standing(o) == standsPaid, standing(o) == standsCalledOff:
		return faultSettled.about(field)
	case o.Reserved != nil && !o.Reserved.By(c.endpoint.Source, c.ID):
		return faultReserved.about(field)
	case c.Amount <= 0 || c.Amount != o.Amount || o.Currency != currency:
		return faultAmount
	}
	return nil
}

func (p *payme) create(ctx context.Context, c call) (any, *fault, error) {
	account := accountOf(c.Body)
	if c.ID == "" || c.Time <= 0 || account == "" {
		return nil, faultCall, nil
	}
	var t postgres.PaymeTransaction
	var f *fault
	err := p.store.InTx(ctx, func(tx postgres.Tx) error {
		f = nil
		o, found, err := tx.LockCheckout(ctx, c.received, c.Order, c.endpoint.Source)
		if err != nil {
			return err
		}
		known := false
		if t, known, err = tx.PaymeOf(ctx, c.endpoint.Source, c.ID); err != nil {
			return err
		}
		if known {
			f, err = p.again(ctx, tx, &t, o, c)
			return err
		}
		if f = p.payable(o, found, c); f != nil {
			return nil
		}
		// A time ahead of ours by as much would hold the order for longer than Payme does.
		if c.now-c.Time >= paymeTimeout.Milliseconds() || c.Time-c.now > paymeTimeout.Milliseconds() {
			f = faultPerform
			return nil
		}
		t = postgres.PaymeTransaction{Source: c.endpoint.Source, ID: c.ID, OrderNo: o.OrderNo, Amount: c.Amount, Account: account,
			Time: c.Time, CreateTime: c.now, State: postgres.PaymeCreated}
		if t.No, err = tx.AddPayme(ctx, t); err != nil {
			return err
		}
		if err := tx.Reserve(ctx, o.OrderNo, postgres.Reservation{Source: t.Source, Payment: t.ID, At: c.received,
			Until: time.UnixMilli(t.Time).Add(paymeTimeout)}); err != nil {
			return err
		}
		e, err := c.event(c.secret, nil, o.OrderID, t.Amount)
		if err != nil {
			return err
		}
		return tx.AddRaw(ctx, c.received, e)
	})
	if err == nil && f == nil {
		p.wake()
	}
	return created{t.CreateTime, number(t.No), int16(t.State)}, f, err
}

// again holds a repeated CreateTransaction to the first.
func (p *payme) again(ctx context.Context, tx postgres.Tx, t *postgres.PaymeTransaction, o postgres.Checkout, c call) (*fault, error) {
	switch {
	case t.OrderNo != o.OrderNo: // 0 if there is no such order
		return faultNoOrder.about(p.provider.AccountField()), nil
	case t.Amount != c.Amount:
		return faultAmount, nil
	case t.Time != c.Time:
		return faultPerform, nil
	}
	if err := timeOut(ctx, tx, t, c.received); err != nil {
		return nil, err
	}
	if t.State != postgres.PaymeCreated {
		return faultPerform, nil
	}
	return nil, nil
}

// change is what a method does to a locked transaction: what it is refused with, or
// nil, and whether an event must tell of the new state, and of what time.
type change func(tx postgres.Tx, t *postgres.PaymeTransaction, o postgres.Checkout) (f *fault, at int64, err error)

// with runs a change on the call's transaction and, if the state is new, writes it
// together with its event.
func (p *payme) with(ctx context.Context, c call, do change) (t postgres.PaymeTransaction, f *fault, err error) {
	var at int64
	err = p.store.InTx(ctx, func(tx postgres.Tx) error {
		f, at = nil, 0
		var o postgres.Checkout
		var found bool
		var err error
		if t, o, found, err = tx.LockPayme(ctx, c.received, c.endpoint.Source, c.ID); err != nil {
			return err
		}
		if !found {
			f = faultNotFound
			return nil
		}
		if f, at, err = do(tx, &t, o); err != nil || f != nil || at == 0 {
			return err
		}
		if err := tx.SetPayme(ctx, t); err != nil {
			return err
		}
		e, err := c.event(c.secret, []event.Header{
			{Name: webhook.PaymeOrder, Value: []byte(o.OrderID)},
			{Name: webhook.PaymeAmount, Value: strconv.AppendInt(nil, t.Amount, 10)},
			{Name: webhook.PaymeTime, Value: strconv.AppendInt(nil, at, 10)},
			{Name: webhook.PaymeState, Value: strconv.AppendInt(nil, int64(t.State), 10)},
		}, o.OrderID, t.Amount)
		if err != nil {
			return err
		}
		return tx.AddRaw(ctx, c.received, e)
	})
	if err == nil && at != 0 {
		p.wake()
	}
	return t, f, err
}

func (p *payme) perform(ctx context.Context, c call) (any, *fault, error) {
	t, f, err := p.with(ctx, c, func(tx postgres.Tx, t *postgres.PaymeTransaction, o postgres.Checkout) (*fault, int64, error) {
		if err := timeOut(ctx, tx, t, c.received); err != nil {
			return nil, 0, err
		}
		switch t.State {
		case postgres.PaymePerformed:
			return nil, 0, nil
		case postgres.PaymeCreated:
		default:
			return faultPerform, 0, nil
		}
		// Since it was created the order may have been paid otherwise, called off, or
		// given another amount. Payme then takes no money.
		if standing(o) != standsOpen || o.Amount != t.Amount || o.Currency != currency || !o.Reserved.By(t.Source, t.ID) {
			return faultPerform, 0, nil
		}
		t.State, t.PerformTime = postgres.PaymePerformed, c.now
		return nil, c.now, tx.Reserve(ctx, o.OrderNo, postgres.Reservation{Source: t.Source, Payment: t.ID, At: c.received})
	})
	return performed{number(t.No), t.PerformTime, int16(t.State)}, f, err
}

func (p *payme) cancel(ctx context.Context, c call) (any, *fault, error) {
	if c.Reason <= 0 || c.Reason > 1<<15-1 {
		return nil, faultCall, nil
	}
	t, f, err := p.with(ctx, c, func(tx postgres.Tx, t *postgres.PaymeTransaction, _ postgres.Checkout) (*fault, int64, error) {
		switch t.State {
		case postgres.PaymeCreated:
			t.State = postgres.PaymeCancelled
			if err := tx.Release(ctx, t.OrderNo, t.Source, t.ID); err != nil {
				return nil, 0, err
			}
		case postgres.PaymePerformed:
			// The order stays reserved: its payment and refund are still on their way.
			t.State = postgres.PaymeRefunded
		default:
			return nil, 0, nil
		}
		t.CancelTime, t.Reason = c.now, int16(c.Reason)
		return nil, c.now, nil
	})
	return cancelled{number(t.No), t.CancelTime, int16(t.State)}, f, err
}

func (p *payme) check(ctx context.Context, c call) (any, *fault, error) {
	t, f, err := p.with(ctx, c, func(tx postgres.Tx, t *postgres.PaymeTransaction, _ postgres.Checkout) (*fault, int64, error) {
		return nil, 0, timeOut(ctx, tx, t, c.received)
	})
	return checkedOf(t), f, err
}

func checkedOf(t postgres.PaymeTransaction) checked {
	v := checked{CreateTime: t.CreateTime, PerformTime: t.PerformTime, CancelTime: t.CancelTime, Transaction: number(t.No), State: int16(t.State)}
	if t.Reason != 0 {
		v.Reason = &t.Reason
	}
	return v
}

func (p *payme) statement(ctx context.Context, c call) (any, *fault, error) {
	if c.From < 0 || c.To < c.From {
		return nil, faultCall, nil
	}
	if _, err := p.timeOuts(ctx, c.received); err != nil {
		return nil, nil, err
	}
	list, err := p.store.PaymeStatement(ctx, c.endpoint.Source, c.From, c.To)
	if err != nil {
		return nil, nil, err
	}
	out := statement{Transactions: []stated{}}
	for _, t := range list {
		out.Transactions = append(out.Transactions, stated{ID: t.ID, Time: t.Time, Amount: t.Amount, Account: json.RawMessage(t.Account), checked: checkedOf(t)})
	}
	return out, nil, nil
}

// fiscal keeps the data of a receipt. It is optional, and states nothing about the
// order.
func (p *payme) fiscal(ctx context.Context, c call) (any, *fault, error) {
	kind, data := fiscalOf(c.Body)
	if c.ID == "" || data == "" || kind != "PERFORM" && kind != "CANCEL" {
		return nil, faultCall, nil
	}
	var f *fault
	err := p.store.InTx(ctx, func(tx postgres.Tx) error {
		f = nil
		found, err := tx.SetPaymeFiscal(ctx, c.endpoint.Source, c.ID, kind == "CANCEL", data)
		if err == nil && !found {
			f = faultNotFound
		}
		return err
	})
	return succeeded{true}, f, err
}

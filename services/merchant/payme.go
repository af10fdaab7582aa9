package merchant

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/webhook"
)

// currency is the only one that Payme and Click know.
const currency = "UZS"

// paymeTimeout is how long after Payme's time a transaction may be performed
// (developer.help.paycom.uz, CreateTransaction: 43 200 000 ms).
const paymeTimeout = 12 * time.Hour

// paymeTimedOut is Payme's reason of a transaction that nobody performed in time.
const paymeTimedOut = 4

// payme answers Payme's Merchant API for one endpoint.
type payme struct {
	*Merchant
	provider webhook.Payme
}

// call is one call that is Payme's.
type call struct {
	webhook.PaymeCall
	request
	secret string
	now    int64 // Unix milliseconds
}

// paymeMethods are the methods that are answered; every other is -32601.
// ChangePassword is none: keys are changed in the endpoints file.
var paymeMethods = map[string]func(*payme, context.Context, call) (any, *fault, error){
	webhook.PaymeCheckPerform:     (*payme).checkPerform,
	webhook.PaymeCreate:           (*payme).create,
	webhook.PaymePerform:          (*payme).perform,
	webhook.PaymeCancel:           (*payme).cancel,
	webhook.PaymeCheckTransaction: (*payme).check,
	webhook.PaymeGetStatement:     (*payme).statement,
	setFiscalData:                 (*payme).fiscal,
}

const setFiscalData = "SetFiscalData"

// answer: whatever is wrong, Payme wants HTTP 200.
func (p *payme) answer(ctx context.Context, q request) (reply, error) {
	if q.Method != http.MethodPost {
		return answered("none", nil, nil, faultMethod), nil
	}
	c, unread := p.provider.Call(q.Body)
	verdict := q.endpoint.Verify(q.Request, q.received)
	do, known := paymeMethods[c.Method]
	operation := c.Method
	if !known {
		operation = "none"
	}
	switch {
	case verdict.Outcome != webhook.Valid:
		return answered(operation, c.RPC, nil, faultAuth), nil
	case errors.Is(unread, webhook.ErrPaymeJSON):
		return answered(operation, c.RPC, nil, faultJSON), nil
	case unread != nil:
		return answered(operation, c.RPC, nil, faultCall), nil //nolint:nilerr // the answer says it
	case !known:
		return answered(operation, c.RPC, nil, faultUnknown), nil
	}
	result, f, err := do(p, ctx, call{c, q, verdict.Secret, q.received.UnixMilli()})
	if err != nil {
		return reply{}, err
	}
	return answered(operation, c.RPC, result, f), nil
}

func (p *payme) failed(q request) reply {
	c, _ := p.provider.Call(q.Body)
	operation := c.Method
	if paymeMethods[c.Method] == nil {
		operation = "none"
	}
	return answered(operation, c.RPC, nil, faultSystem)
}

// maxRPC is the longest id of a call that its answer repeats, in bytes.
const maxRPC = 128

// answered is a JSON-RPC answer: a result or an error, never both.
func answered(operation string, rpc []byte, result any, f *fault) reply {
	if len(rpc) == 0 || len(rpc) > maxRPC || !json.Valid(rpc) {
		rpc = []byte("null")
	}
	outcome := "ok"
	if f != nil {
		outcome = strconv.Itoa(f.Code)
		result = nil
	}
	body, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  any             `json:"result,omitempty"`
		Error   *fault          `json:"error,omitempty"`
	}{"2.0", rpc, result, f})
	if err != nil {
		panic("encode an answer: " + err.Error()) // texts and numbers always do
	}
	return reply{status: http.StatusOK, body: body, operation: operation, outcome: outcome}
}

// The results of the methods, in the order of Payme's documentation.
type (
	allowed struct {
		Allow bool `json:"allow"`
	}
	created struct {
		CreateTime  int64  `json:"create_time"`
		Transaction string `json:"transaction"`
		State       int16  `json:"state"`
	}
	performed struct {
		Transaction string `json:"transaction"`
		PerformTime int64  `json:"perform_time"`
		State       int16  `json:"state"`
	}
	cancelled struct {
		Transaction string `json:"transaction"`
		CancelTime  int64  `json:"cancel_time"`
		State       int16  `json:"state"`
	}
	checked struct {
		CreateTime  int64  `json:"create_time"`
		PerformTime int64  `json:"perform_time"`
		CancelTime  int64  `json:"cancel_time"`
		Transaction string `json:"transaction"`
		State       int16  `json:"state"`
		Reason      *int16 `json:"reason"`
	}
	statement struct {
		Transactions []stated `json:"transactions"`
	}
	stated struct {
		ID      string          `json:"id"`
		Time    int64           `json:"time"`
		Amount  int64           `json:"amount"`
		Account json.RawMessage `json:"account"`
		checked
	}
	succeeded struct {
		Success bool `json:"success"`
	}
)

func number(no int64) string { return strconv.FormatInt(no, 10) }

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

// timeOut cancels a transaction that was not performed in time. No event tells of
// it: nothing happened to the order.
func timeOut(ctx context.Context, tx postgres.Tx, t *postgres.PaymeTransaction, now time.Time) error {
	if t.State != postgres.PaymeCreated || now.UnixMilli()-t.Time < paymeTimeout.Milliseconds() {
		return nil
	}
	t.State, t.CancelTime, t.Reason = postgres.PaymeCancelled, now.UnixMilli(), paymeTimedOut
	if err := tx.SetPayme(ctx, *t); err != nil {
		return err
	}
	return tx.Release(ctx, t.OrderNo, t.Source, t.ID)
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

// timeOutBatch is how many transactions time out in one go.
const timeOutBatch = 100

// timeOuts cancels every transaction whose time is over, each under its own locks.
func (m *Merchant) timeOuts(ctx context.Context, now time.Time) (done int, err error) {
	for {
		overdue, err := m.store.OverduePayme(ctx, now.Add(-paymeTimeout).UnixMilli(), timeOutBatch)
		if err != nil {
			return done, err
		}
		for _, name := range overdue {
			err := m.store.InTx(ctx, func(tx postgres.Tx) error {
				t, _, found, err := tx.LockPayme(ctx, now, name.Source, name.ID)
				if err != nil || !found {
					return err
				}
				return timeOut(ctx, tx, &t, now)
			})
			if err != nil {
				return done, err
			}
			done++
		}
		if len(overdue) < timeOutBatch {
			return done, nil
		}
	}
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

// Where an order stands for somebody who wants to pay it.
type stands uint8

const (
	standsOpen stands = iota
	standsPaid
	standsCalledOff
)

// standing: a failed or called-off attempt leaves an order open for another; a
// called-off order is closed.
func standing(o postgres.Checkout) stands {
	switch {
	case o.Status == order.Paid, o.Status == order.PartiallyRefunded, o.Status == order.Refunded:
		return standsPaid
	case o.CalledOff:
		return standsCalledOff
	}
	return standsOpen
}

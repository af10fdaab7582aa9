package webhook

import "errors"

// PaymeCall is one call, as far as it could be read. What is absent or of a wrong
// kind is zero: such an id names no transaction, and such an amount is no order's.
type PaymeCall struct {
	// RPC is the call's own id as it was sent, which its answer repeats; "null" if
	// there is none.
	RPC    []byte
	Method string
	// ID is Payme's transaction id (params.id).
	ID string
	// Time is when Payme created the transaction (params.time), in Unix milliseconds.
	Time int64
	// Amount is in tiyin, and positive.
	Amount int64
	// Order is the order reference in the account.
	Order string
	// Reason is why it is cancelled; 0 if none is given.
	Reason int64
	// From and To bound a statement, in Unix milliseconds, both included; -1 if absent
	// or of a wrong kind, since 0 is a time.
	From, To int64
}

var (
	// ErrPaymeJSON: the call is not JSON (Payme's error -32700).
	ErrPaymeJSON = errNotJSON
	// ErrPaymeCall: it is JSON and no call: no object, a key twice, no method (-32600).
	ErrPaymeCall = errors.New("the body is no JSON-RPC call")
)

// paymeFields are where a call states what.
type paymeFields struct {
	fields                                                    fields
	rpc, method, id, time, amount, reason, from, until, order places
}

// Call reads a call. With an error the call's RPC is still right, if it could be read.
func (p Payme) Call(body []byte) (PaymeCall, error) {
	call := PaymeCall{RPC: []byte("null")}
	values, err := p.fields.fields.scan(body)
	switch {
	case errors.Is(err, errNotJSON):
		return call, ErrPaymeJSON
	case err != nil:
		return call, ErrPaymeCall
	}
	pg := page{values: values}
	if v, _ := pg.find(p.fields.rpc); v.kind == number || v.kind == quoted {
		call.RPC = v.raw
	}
	text := func(at places) string {
		v, _ := pg.find(at)
		s, err := v.name()
		if err != nil {
			return ""
		}
		return s
	}
	integer := func(at places, absent int64) int64 {
		v, _ := pg.find(at)
		n, err := v.integer()
		if err != nil || v.kind != number || n < 0 {
			return absent
		}
		return n
	}
	call.Method, call.ID = text(p.fields.method), text(p.fields.id)
	call.Time, call.Amount, call.Reason = integer(p.fields.time, 0), integer(p.fields.amount, 0), integer(p.fields.reason, 0)
	call.From, call.To = integer(p.fields.from, -1), integer(p.fields.until, -1)
	// An order id may be sent as a number.
	if v, _ := pg.find(p.fields.order); v.given() {
		if call.Order, err = v.id(); err != nil {
			call.Order = ""
		}
	}
	if call.Method == "" {
		return call, ErrPaymeCall
	}
	return call, nil
}

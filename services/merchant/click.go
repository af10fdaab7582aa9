package merchant

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/postgres"
	"sluice/pkg/webhook"
)

// click answers Click's SHOP-API for one endpoint.
type click struct {
	*Merchant
	provider webhook.Click
}

// clickError is an error of Click's protocol (docs.click.uz/en/click-api-error).
type clickError int

const (
	clickOK          clickError = 0
	clickSign        clickError = -1
	clickAmount      clickError = -2
	clickAction      clickError = -3
	clickPaid        clickError = -4
	clickNoOrder     clickError = -5
	clickNotFound    clickError = -6
	clickNotUpdated  clickError = -7
	clickBadRequest  clickError = -8
	clickIsCancelled clickError = -9
)

var clickNotes = map[clickError]string{
	clickOK:          "Success",
	clickSign:        "SIGN CHECK FAILED!",
	clickAmount:      "Incorrect parameter amount",
	clickAction:      "Action not found",
	clickPaid:        "Already paid",
	clickNoOrder:     "User does not exist",
	clickNotFound:    "Transaction does not exist",
	clickNotUpdated:  "Failed to update user",
	clickBadRequest:  "Error in request from click",
	clickIsCancelled: "Transaction cancelled",
}

// clickAnswer is the answer to both actions, in the order of Click's documentation.
type clickAnswer struct {
	TransID   json.RawMessage `json:"click_trans_id,omitempty"`
	Order     string          `json:"merchant_trans_id,omitempty"`
	PrepareID int64           `json:"merchant_prepare_id,omitempty"`
	ConfirmID int64           `json:"merchant_confirm_id,omitempty"`
	Error     clickError      `json:"error"`
	Note      string          `json:"error_note"`
}

// clickStates are the answers to a Prepare that comes again.
var clickStates = [...]clickError{postgres.ClickPrepared: clickOK, postgres.ClickConfirmed: clickPaid, postgres.ClickCancelled: clickIsCancelled}

// clickCall is one request that is Click's.
type clickCall struct {
	webhook.ClickForm
	request
	secret string
}

func (k *click) answer(ctx context.Context, q request) (reply, error) {
	if q.Method != http.MethodPost {
		return reply{status: http.StatusMethodNotAllowed, operation: "none", outcome: "method"}, nil
	}
	f, err := k.provider.Form(q.Body)
	switch {
	case errors.Is(err, webhook.ErrClickAction):
		return clickReply(f, clickAction, 0), nil
	case err != nil:
		return clickReply(f, clickBadRequest, 0), nil //nolint:nilerr // the answer says it
	}
	verdict := q.endpoint.Verify(q.Request, q.received)
	switch {
	case verdict.Outcome != webhook.Valid:
		return clickReply(f, clickSign, 0), nil
	case f.Error > 0:
		return clickReply(f, clickBadRequest, 0), nil //nolint:nilerr // the answer says it
	case f.Amount <= 0:
		return clickReply(f, clickAmount, 0), nil
	case !serves(q.endpoint, f.ServiceID):
		return clickReply(f, clickBadRequest, 0), nil //nolint:nilerr // the answer says it
	}
	if _, err := q.endpoint.Read(q.Header, q.Body); err != nil {
		return clickReply(f, clickBadRequest, 0), nil //nolint:nilerr // the answer says it
	}
	do := k.prepare
	if f.Action == webhook.ClickComplete {
		do = k.complete
	}
	no, code, err := do(ctx, clickCall{f, q, verdict.Secret})
	if err != nil {
		return reply{}, err
	}
	return clickReply(f, code, no), nil
}

// failed: Click knows no error for a fault of ours, so it is the one it may repeat.
func (k *click) failed(q request) reply {
	f, _ := k.provider.Form(q.Body)
	return clickReply(f, clickNotUpdated, 0)
}

// serves says whether the endpoint is the service's, where its look-ups say whose
// it is: one secret may sign for several.
func serves(e endpoint.Endpoint, service string) bool {
	if e.Lookup == nil || e.Lookup.Settings["service_id"] == "" {
		return true
	}
	return e.Lookup.Settings["service_id"] == service
}

// clickReply is the answer to a form; no is the shop's number of the transaction,
// 0 if there is none.
func clickReply(f webhook.ClickForm, code clickError, no int64) reply {
	a := clickAnswer{Order: f.Order, Error: code, Note: clickNotes[code]}
	switch {
	case f.TransID != "" && len(f.TransID) <= 19 && f.TransID[0] != '0' && strings.Trim(f.TransID, "0123456789") == "":
		a.TransID = json.RawMessage(f.TransID)
	case f.TransID != "":
		a.TransID, _ = json.Marshal(f.TransID)
	}
	operation := map[string]string{webhook.ClickPrepare: "prepare", webhook.ClickComplete: "complete", "": "none"}[f.Action]
	switch operation {
	case "prepare":
		a.PrepareID = no
	case "complete":
		a.ConfirmID = no
	}
	outcome := "ok"
	if code != clickOK {
		outcome = strconv.Itoa(int(code))
	}
	body, err := json.Marshal(a)
	if err != nil {
		panic("encode an answer: " + err.Error()) // texts and numbers always do
	}
	return reply{status: http.StatusOK, body: body, operation: operation, outcome: outcome}
}

// prepare reserves the order for a payment, or says why not.
func (k *click) prepare(ctx context.Context, c clickCall) (no int64, code clickError, err error) {
	added := false
	err = k.store.InTx(ctx, func(tx postgres.Tx) error {
		no, code, added = 0, clickOK, false
		o, found, err := tx.LockCheckout(ctx, c.received, c.Order, c.endpoint.Source)
		if err != nil {
			return err
		}
		t, known, err := tx.ClickOf(ctx, c.endpoint.Source, c.TransID)
		if err != nil {
			return err
		}
		if known {
			if code = c.differs(t, o); code == clickOK {
				code = clickStates[t.State]
			}
		}
		if code == clickOK {
			code = c.payable(o, found)
		}
		if code != clickOK {
			return nil
		}
		if !known {
			t = postgres.ClickTransaction{Source: c.endpoint.Source, ID: c.TransID, Service: c.ServiceID, Paydoc: c.PaydocID,
				OrderNo: o.OrderNo, Amount: c.Amount, PreparedAt: c.received}
			if t.No, err = tx.AddClick(ctx, t); err != nil {
				return err
			}
			e, err := c.event(c.secret, nil, o.OrderID, c.Amount)
			if err != nil {
				return err
			}
			if err := tx.AddRaw(ctx, c.received, e); err != nil {
				return err
			}
			added = true
		}
		no = t.No
		if o.Reserved.By(t.Source, t.ID) {
			return nil
		}
		return tx.Reserve(ctx, o.OrderNo, postgres.Reservation{Source: t.Source, Payment: t.ID, At: c.received,
			Until: c.received.Add(k.cfg.ClickReservation)})
	})
	if err == nil && added {
		k.wake()
	}
	return no, code, err
}

// payable says why an order cannot be paid by the transaction.
func (c clickCall) payable(o postgres.Checkout, found bool) clickError {
	reserved := o.Reserved != nil && !o.Reserved.By(c.endpoint.Source, c.TransID)
	switch stands := standing(o); {
	case !found || !o.Registered:
		return clickNoOrder
	case stands == standsPaid, reserved && o.Reserved.Until.IsZero():
		return clickPaid
	case stands == standsCalledOff, c.Error < 0:
		return clickIsCancelled
	case c.Amount != o.Amount || o.Currency != currency:
		return clickAmount
	case reserved:
		return clickNotUpdated
	}
	return clickOK
}

// differs holds a request to what was prepared, field by field: the signature does
// not say where one field ends, and click_paydoc_id is not in it.
func (c clickCall) differs(t postgres.ClickTransaction, o postgres.Checkout) clickError {
	switch {
	case c.Order != o.OrderID || t.OrderNo != o.OrderNo:
		return clickNoOrder
	case c.Amount != t.Amount:
		return clickAmount
	case c.ServiceID != t.Service || c.PaydocID != t.Paydoc:
		return clickBadRequest
	}
	return clickOK
}

// complete takes Click's word on a payment as what must be asked about. Once Click
// has debited the payer the answer is no error, whatever became of the order
// meanwhile: a second payment of it is then held for a person.
func (k *click) complete(ctx context.Context, c clickCall) (no int64, code clickError, err error) {
	news := false
	err = k.store.InTx(ctx, func(tx postgres.Tx) error {
		no, code, news = 0, clickOK, false
		t, o, found, err := tx.LockClick(ctx, c.received, c.endpoint.Source, c.TransID)
		if err != nil {
			return err
		}
		if !found || c.PrepareID != strconv.FormatInt(t.No, 10) {
			code = clickNotFound
			return nil
		}
		if code = c.differs(t, o); code != clickOK {
			return nil
		}
		no = t.No
		was := t
		if t, code = completed(t, c.Error < 0, c.received); t == was {
			return nil
		}
		news = true
		if err := tx.SetClick(ctx, t); err != nil {
			return err
		}
		if err := keep(ctx, tx, t, o, c.received); err != nil {
			return err
		}
		e, err := c.event(c.secret, nil, o.OrderID, t.Amount)
		if err != nil {
			return err
		}
		return tx.AddRaw(ctx, c.received, e)
	})
	if err == nil && news {
		k.wake()
	}
	return no, code, err
}

// completed is what a transaction becomes when Click says that it was paid or has
// failed, and the answer. The first word stands, since neither is signed; the other
// word is noted once, so that Click's API is asked again, and no more often however
// often somebody repeats it.
func completed(t postgres.ClickTransaction, failed bool, now time.Time) (postgres.ClickTransaction, clickError) {
	said, answer := postgres.ClickConfirmed, clickOK
	if failed {
		said, answer = postgres.ClickCancelled, clickIsCancelled
	}
	switch {
	case t.State == postgres.ClickPrepared:
		t.State, t.CompletedAt = said, now
	case t.State == said && !failed:
		answer = clickPaid
	case t.State != said:
		answer = clickIsCancelled
		if t.ContradictedAt.IsZero() {
			t.ContradictedAt = now
		}
	}
	return t, answer
}

// keep makes the order's reservation follow a transaction that has just changed:
// while money may have been taken, nobody else's may be.
func keep(ctx context.Context, tx postgres.Tx, t postgres.ClickTransaction, o postgres.Checkout, now time.Time) error {
	mine := o.Reserved.By(t.Source, t.ID)
	switch confirmed := t.State == postgres.ClickConfirmed; {
	case !confirmed && t.ContradictedAt.IsZero():
		return tx.Release(ctx, o.OrderNo, t.Source, t.ID)
	case confirmed && !t.ContradictedAt.IsZero(), o.Reserved != nil && !mine, standing(o) != standsOpen:
		return nil
	}
	return tx.Reserve(ctx, o.OrderNo, postgres.Reservation{Source: t.Source, Payment: t.ID, At: now})
}

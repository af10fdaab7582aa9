package webhook

import (
	"errors"
	"fmt"
	"time"

	"sluice/pkg/order"
)

// ClickForm is one request, its values as received.
type ClickForm struct {
	// TransID is the attempt, PaydocID the payment that Click's API knows, which is
	// not signed.
	TransID, PaydocID, ServiceID string
	// Order is merchant_trans_id.
	Order string
	// PrepareID is what Prepare was answered; empty in a Prepare.
	PrepareID string
	// Action is ClickPrepare or ClickComplete.
	Action string
	// AmountText is the amount as sent, in soum; Amount is the same in tiyin, or 0,
	// which is no order's amount, if it cannot be read exactly.
	AmountText string
	Amount     int64
	// Error is 0, or below it what went wrong. It is not signed.
	Error int64
	// SignTime is sign_time, taken for Tashkent's; zero if it cannot be read.
	SignTime time.Time
}

// Form reads a request. An error means that fields are missing, come twice, or are
// not of their kind (Click's error -8), or that the action is unknown (-3).
func (Click) Form(body []byte) (ClickForm, error) {
	form, err := uniqueForm(body)
	if err != nil {
		return ClickForm{}, err
	}
	return clickForm(form)
}

// ErrClickAction: neither Prepare nor Complete.
var ErrClickAction = errors.New("action is neither 0 nor 1")

func clickForm(form map[string]string) (ClickForm, error) {
	for _, names := range [][]string{clickSigned, clickFields} {
		for _, name := range names {
			if _, ok := form[name]; !ok && (name != "merchant_prepare_id" || form["action"] == ClickComplete) {
				return ClickForm{}, fmt.Errorf("the form has no %s", name)
			}
		}
	}
	f := ClickForm{Action: form["action"], AmountText: form["amount"]}
	if f.Action != ClickPrepare && f.Action != ClickComplete {
		return ClickForm{}, ErrClickAction
	}
	var err error
	for _, id := range []struct {
		name string
		to   *string
	}{{"click_trans_id", &f.TransID}, {"click_paydoc_id", &f.PaydocID}, {"service_id", &f.ServiceID}, {"merchant_trans_id", &f.Order}, {"merchant_prepare_id", &f.PrepareID}} {
		if id.name == "merchant_prepare_id" && f.Action == ClickPrepare {
			continue
		}
		if *id.to, err = (value{kind: plain, raw: []byte(form[id.name])}).id(); err != nil {
			return ClickForm{}, fmt.Errorf("%s %w", id.name, err)
		}
	}
	if f.Error, err = (value{kind: plain, raw: []byte(form["error"])}).integer(); err != nil {
		return ClickForm{}, fmt.Errorf("error %w", err)
	}
	if f.Amount, err = order.ParseDecimal(f.AmountText, clickCurrency); err != nil {
		f.Amount = 0
	}
	if f.SignTime, err = time.ParseInLocation(time.DateTime, form["sign_time"], ClickZone); err != nil {
		f.SignTime = time.Time{}
	}
	return f, nil
}

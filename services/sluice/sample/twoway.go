package sample

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"
	"time"

	"sluice/pkg/webhook"
)

// The two providers that ask before they pay. Their ids are made from the payment's,
// so that a later call is about the same transaction.

// paymeID is Payme's id of a payment: 24 characters.
func paymeID(payment string) string {
	sum := sha256.Sum256([]byte("payme " + payment))
	return hex.EncodeToString(sum[:12])
}

// Reasons of a cancel in Payme's protocol.
const (
	PaymeExecutionFailed = 3
	PaymeRefund          = 5
)

// Payme writes a call of Payme's Merchant API. Amounts are tiyin, which are the minor
// units of UZS. reason is only of CancelTransaction.
func Payme(method string, f Fact, reason int) (Webhook, error) {
	account, params := object{"order_id": f.Order}, object{}
	switch method {
	case webhook.PaymeCheckPerform:
		params = object{"amount": f.Amount, "account": account}
	case webhook.PaymeCreate:
		params = object{"id": paymeID(f.Payment), "time": f.Time.UnixMilli(), "amount": f.Amount, "account": account}
	case webhook.PaymeCancel:
		params = object{"id": paymeID(f.Payment), "reason": reason}
	default:
		params["id"] = paymeID(f.Payment)
	}
	w, err := wrap(f, object{"jsonrpc": "2.0", "id": number(f.ID+method, 9), "method": method, "params": params})
	w.ContentType = "text/json; charset=UTF-8"
	return w, err
}

// ClickDeclined is Click's error of a payment for which there was not enough money,
// ClickCalledOff of one that was called off.
const (
	ClickDeclined  = -1
	ClickCalledOff = -5017
)

// ClickPaydoc is the id at Click's API of what is paid for a payment.
func ClickPaydoc(payment string) int64 { return number("paydoc "+payment, 10) }

// Click writes a form of Click's SHOP-API, unsigned. prepareID is what Prepare was
// answered; code is 0, or below it what went wrong.
func Click(action, service string, f Fact, prepareID string, code int) Webhook {
	form := url.Values{
		"click_trans_id": {strconv.FormatInt(number("trans "+f.Payment, 10), 10)}, "service_id": {service}, "click_paydoc_id": {strconv.FormatInt(ClickPaydoc(f.Payment), 10)},
		"merchant_trans_id": {f.Order}, "amount": {decimal(f.Amount, "UZS")}, "action": {action}, "error": {strconv.Itoa(code)}, "error_note": {"Success"},
		"sign_time": {f.Time.In(webhook.ClickZone).Format(time.DateTime)}, "sign_string": {""},
	}
	if code < 0 {
		form.Set("error_note", "Payment failed")
	}
	if action == webhook.ClickComplete {
		form.Set("merchant_prepare_id", prepareID)
	}
	return Webhook{ID: f.ID, ContentType: "application/x-www-form-urlencoded", Body: []byte(form.Encode())}
}

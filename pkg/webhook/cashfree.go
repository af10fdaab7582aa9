package webhook

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// cashfree signs the time in milliseconds and the body, with nothing between (the
// cashfree-pg SDK's PGVerifyWebhookSignature). A time is digits, and no end of a
// JSON object is one, so where it ends cannot be moved.
type cashfree struct {
	*layout
	tolerance Tolerance
}

const (
	cashfreeSignature = "x-webhook-signature"
	cashfreeTimestamp = "x-webhook-timestamp"
)

// newCashfree has no tolerance, as the SDK checks no age; an endpoint may have one.
func newCashfree() Provider {
	return cashfree{cashfreeLayout, Tolerance{Past: Unlimited, Future: Unlimited}}
}

func (cashfree) Name() string             { return "cashfree" }
func (cashfree) CheckSecret(Secret) error { return nil }
func (p cashfree) Tolerance() Tolerance   { return p.tolerance }
func (p cashfree) SignatureHeaders() []string {
	return p.headers(cashfreeSignature, cashfreeTimestamp)
}

func (cashfree) Profile() Profile {
	return Profile{
		Title:     "Cashfree",
		Docs:      "https://www.cashfree.com/docs/payments/online/webhooks/signature-verification",
		Secret:    "the client secret of the payment gateway",
		Signature: "HMAC-SHA256 in base64 over the time in milliseconds and the body, in x-webhook-signature",
		Covers:    "the time and the whole body",
		ID:        "type, the payment's or refund's id and its status, joined by colons",
		Trust:     event.Signed,
		Retries:   RetriesUnknown,
	}
}

func (p cashfree) WithTolerance(t Tolerance) Provider {
	p.tolerance = t
	return p
}

func (p cashfree) WithOrder(at Paths) (_ Provider, err error) {
	p.layout, err = p.withOrder(at)
	return p, err
}

func (p cashfree) Verify(req Request, secrets []Secret, now time.Time) Verdict {
	header, reason := one(req.Header(cashfreeSignature))
	if reason != ReasonNone {
		return refuse(reason)
	}
	timestamp, reason := one(req.Header(cashfreeTimestamp))
	if reason != ReasonNone {
		return refuse(reason)
	}
	signature, ok := fromBase64(header, sha256.Size)
	if !ok {
		return refuse(ReasonMalformed)
	}
	signedAt, ok := parseMillis(timestamp)
	if !ok {
		return refuse(ReasonMalformed)
	}
	name, ok := matchHMAC(sha256.New, secrets, asShown, [][]byte{signature}, []byte(timestamp), req.Body)
	if !ok {
		return refuse(ReasonMismatch)
	}
	return p.tolerance.judge(name, signedAt, now)
}

func (cashfree) Sign(s Secret, _ string, at time.Time, body []byte) (map[string]string, error) {
	if len(s.value) == 0 {
		return nil, errEmptySecret
	}
	timestamp := strconv.FormatInt(at.UnixMilli(), 10)
	sum := appendHMAC(nil, sha256.New, s.value, []byte(timestamp), body)
	return map[string]string{cashfreeTimestamp: timestamp, cashfreeSignature: base64.StdEncoding.EncodeToString(sum)}, nil
}

// cashfreeLayout: no id is stated, and event_time may be the delivery's, so it is no
// part of one. A refund is reported when it is done or was called off, which undoes
// nothing.
var cashfreeLayout = Layout{
	ID:         Paths{"type + data.refund.cf_refund_id + data.refund.refund_status", "type + data.payment.cf_payment_id + data.payment.payment_status", "type + data.order.order_id + event_time"},
	Type:       Paths{"type"},
	Time:       Paths{"event_time"},
	Order:      Paths{"data.order.order_id", "data.refund.order_id"},
	Payment:    Paths{"data.payment.cf_payment_id", "data.refund.cf_payment_id"},
	Object:     Paths{"data.refund.cf_refund_id"},
	Subject:    Paths{"data.refund.cf_refund_id", "data.payment.cf_payment_id"},
	AmountUnit: "decimal",
	Amount:     Paths{"data.payment.payment_amount"},
	Currency:   Paths{"data.payment.payment_currency", "data.refund.refund_currency"},
	Facts: []Fact{
		{Type: "PAYMENT_SUCCESS_WEBHOOK", Kind: order.KindPaid, When: map[string]string{"data.payment.payment_status": "SUCCESS"}},
		{Type: "PAYMENT_FAILED_WEBHOOK", Kind: order.KindFailed},
		{Type: "PAYMENT_USER_DROPPED_WEBHOOK", Kind: order.KindFailed},
		{Type: "REFUND_STATUS_WEBHOOK", Kind: order.KindRefund, When: map[string]string{"data.refund.refund_status": "SUCCESS"}, Amount: Paths{"data.refund.refund_amount"}},
		{Type: "AUTO_REFUND_STATUS_WEBHOOK", Kind: order.KindRefund, When: map[string]string{"data.refund.refund_status": "SUCCESS"}, Amount: Paths{"data.refund.refund_amount"}},
	},
}.mustCompile()

package webhook

import (
	"crypto/sha256"
	"encoding/base64"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// square signs the address it was given and then the body, with nothing between
// (square-nodejs-sdk src/wrapper/WebhooksHelper.ts). No part of a JSON object is one,
// so where the address ends cannot be moved.
type square struct {
	*layout
	url string
}

const squareSignature = "X-Square-HmacSha256-Signature"

func newSquare() Provider { return square{layout: squareLayout} }

func (square) Name() string                 { return "square" }
func (square) CheckSecret(Secret) error     { return nil }
func (p square) SignatureHeaders() []string { return p.headers(squareSignature) }

func (square) Profile() Profile {
	return Profile{
		Title:     "Square",
		Docs:      "https://developer.squareup.com/docs/webhooks/step3validate",
		Secret:    "the subscription's signature key",
		Signature: "HMAC-SHA256 in base64 over the notification URL and the body, in x-square-hmacsha256-signature",
		Covers:    "the URL and the whole body",
		ID:        "`event_id` of the body",
		Trust:     event.Signed,
		NeedsURL:  true,
		Retries:   24 * time.Hour,
	}
}

func (p square) WithURL(url string) Provider {
	p.url = url
	return p
}

func (p square) WithOrder(at Paths) (_ Provider, err error) {
	p.layout, err = p.withOrder(at)
	return p, err
}

func (square) Verify(req Request, secrets []Secret, _ time.Time) Verdict {
	header, reason := one(req.Header(squareSignature))
	if reason != ReasonNone {
		return refuse(reason)
	}
	signature, ok := fromBase64(header, sha256.Size)
	if !ok {
		return refuse(ReasonMalformed)
	}
	return matched(matchHMAC(sha256.New, secrets, asShown, [][]byte{signature}, []byte(req.URL), req.Body))
}

func (p square) Sign(s Secret, _ string, _ time.Time, body []byte) (map[string]string, error) {
	if len(s.value) == 0 {
		return nil, errEmptySecret
	}
	sum := appendHMAC(nil, sha256.New, s.value, []byte(p.url), body)
	return map[string]string{squareSignature: base64.StdEncoding.EncodeToString(sum)}, nil
}

// squareLayout reads the object that an event carries whole. The shop's own order
// id is reference_id; order_id is Square's, and a refund's is not even the payment's.
// Refunds are stated twice, as single refunds and as a payment's total, which the
// fold does not count twice (DESIGN 9.3); a payment stays COMPLETED meanwhile.
var squareLayout = Layout{
	ID:       Paths{"event_id"},
	Type:     Paths{"type"},
	Time:     Paths{"created_at"},
	Order:    Paths{"data.object.payment.reference_id"},
	Payment:  Paths{"data.object.payment.id", "data.object.refund.payment_id", "data.object.dispute.disputed_payment.payment_id", "data.object.dispute.disputed_payments.0.payment_id"},
	Subject:  Paths{"data.id"},
	Amount:   Paths{"data.object.payment.amount_money.amount"},
	Currency: Paths{"data.object.payment.amount_money.currency", "data.object.refund.amount_money.currency", "data.object.dispute.amount_money.currency"},
	Facts: append(append(append(
		squarePayment("payment.created"), squarePayment("payment.updated")...),
		squareRefund("refund.created"), squareRefund("refund.updated"),
		squareRefundIs("refund.created", "PENDING", order.KindPending), squareRefundIs("refund.updated", "PENDING", order.KindPending),
		// A refund may be in the payment's total before it is decided.
		squareRefundIs("refund.updated", "FAILED", order.KindRefundFailed), squareRefundIs("refund.updated", "REJECTED", order.KindRefundFailed),
		squareDispute("dispute.created", "", order.KindDisputeOpened)),
		append(squareDisputes("dispute.state.updated"), squareDisputes("dispute.state.changed")...)...),
}.mustCompile()

func squarePayment(typ string) []Fact {
	const status, refunded = "data.object.payment.status", "data.object.payment.refunded_money.amount"
	is := func(s string) map[string]string { return map[string]string{status: s} }
	return []Fact{
		{Type: typ, Kind: order.KindPaid, When: map[string]string{status: "COMPLETED", refunded: ""}},
		{Type: typ, Kind: order.KindPaid, When: map[string]string{status: "COMPLETED", refunded: "0"}},
		{Type: typ, Kind: order.KindRefundTotal, When: is("COMPLETED"),
			Amount: Paths{refunded}, PaymentAmount: Paths{"data.object.payment.amount_money.amount"}},
		{Type: typ, Kind: order.KindFailed, When: is("FAILED")},
		{Type: typ, Kind: order.KindCancelled, When: is("CANCELED")},
		{Type: typ, Kind: order.KindPending, When: is("APPROVED")},
		{Type: typ, Kind: order.KindPending, When: is("PENDING")},
	}
}

func squareRefund(typ string) Fact {
	return Fact{Type: typ, Kind: order.KindRefund, When: map[string]string{"data.object.refund.status": "COMPLETED"},
		Object: Paths{"data.object.refund.id"}, Amount: Paths{"data.object.refund.amount_money.amount"}}
}

func squareRefundIs(typ, status string, kind order.Kind) Fact {
	f := squareRefund(typ)
	f.Kind, f.When = kind, map[string]string{"data.object.refund.status": status}
	return f
}

func squareDisputes(typ string) []Fact {
	return []Fact{
		squareDispute(typ, "WON", order.KindDisputeWon),
		squareDispute(typ, "LOST", order.KindDisputeLost),
		squareDispute(typ, "ACCEPTED", order.KindDisputeLost),
	}
}

func squareDispute(typ, state string, kind order.Kind) Fact {
	f := Fact{Type: typ, Kind: kind,
		Object: Paths{"data.object.dispute.id", "data.object.dispute.dispute_id"}, Amount: Paths{"data.object.dispute.amount_money.amount"}}
	if state != "" {
		f.When = map[string]string{"data.object.dispute.state": state}
	}
	return f
}

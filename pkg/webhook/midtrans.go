package webhook

import (
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// midtrans puts SHA-512 of `order_id`, `status_code`, `gross_amount` and the server
// key into the body (docs.midtrans.com, HTTP notification). What happened,
// transaction_status and fraud_status, is not signed: every event is a hint.
type midtrans struct{ *layout }

func newMidtrans() Provider { return midtrans{midtransLayout} }

// midtransSigned are the signed fields, as received, and then the signature's own.
var midtransSigned = wanted("order_id", "status_code", "gross_amount", "signature_key")

func (midtrans) Name() string               { return "midtrans" }
func (midtrans) SignatureHeaders() []string { return nil }

func (midtrans) Profile() Profile {
	return Profile{
		Title:     "Midtrans",
		Docs:      "https://docs.midtrans.com/docs/https-notification-webhooks",
		Secret:    "the server key (Mid-server-…, SB-Mid-server-… in the sandbox)",
		Signature: "SHA-512 in hex over order_id, status_code, gross_amount and the key, one after the other, in the body's signature_key",
		Covers:    "order_id, status_code and gross_amount, without separators",
		Leaves:    "transaction_status, fraud_status, the refund's amount and all else",
		Instead:   "every event is a hint until Midtrans' API was asked",
		ID:        "`transaction_id`, `transaction_status`, `fraud_status` and `refund_amount` as far as they are there, joined by colons",
		Trust:     event.Hint,
		Retries:   RetriesUnknown,
	}
}

// CheckSecret refuses what is often pasted in its place: the client key.
func (midtrans) CheckSecret(s Secret) error {
	if strings.Contains(string(s.value), "Mid-client-") {
		return fmt.Errorf("secret %s is the client key (Mid-client-…), which is public; give the server key (Mid-server-…)", s.Name)
	}
	return nil
}

func (midtrans) Verify(req Request, secrets []Secret, _ time.Time) Verdict {
	signed, key, reason := midtransText(req.Body)
	switch {
	case reason != ReasonNone:
		return refuse(reason)
	case !key.given():
		return refuse(ReasonMissing)
	}
	text, _ := key.text()
	given, ok := fromHex(text, sha512.Size)
	if !ok {
		return refuse(ReasonMalformed)
	}
	return matched(matchDigest(secrets, func(s Secret) []byte { return midtransSum(signed, s) }, given))
}

// midtransText is the text that is signed before the key, and the signature.
func midtransText(body []byte) (signed string, key value, reason Reason) {
	values, err := midtransSigned.scan(body)
	if err != nil {
		return "", key, ReasonMalformed
	}
	last := len(values) - 1
	for _, v := range values[:last] {
		text, err := v.scalar()
		switch {
		case !v.given():
			return "", key, ReasonMissing
		case err != nil:
			return "", key, ReasonMalformed
		}
		signed += text
	}
	return signed, values[last], ReasonNone
}

func midtransSum(signed string, s Secret) []byte {
	sum := sha512.Sum512(append([]byte(signed), s.value...))
	return sum[:]
}

// Sign makes no header: the signature lies in the body. See Seal.
func (midtrans) Sign(s Secret, _ string, _ time.Time, _ []byte) (map[string]string, error) {
	if len(s.value) == 0 {
		return nil, errEmptySecret
	}
	return nil, nil
}

// Seal adds the signature to a body that has none.
func (midtrans) Seal(s Secret, body []byte) ([]byte, error) {
	signed, key, reason := midtransText(body)
	if len(s.value) == 0 || reason != ReasonNone || key.kind != absent {
		return nil, errors.New("sign: it takes a secret and an object with order_id, status_code and gross_amount, and no signature_key")
	}
	return withField(body, "signature_key", hex.EncodeToString(midtransSum(signed, s))), nil
}

// midtransLayout: a card payment is taken when it is captured and no fraud is
// suspected; others when they settle. Refunds are stated as their total so far.
var midtransLayout = Layout{
	ID: Paths{"transaction_id + transaction_status + fraud_status + refund_amount", "transaction_id + transaction_status + refund_amount",
		"transaction_id + transaction_status + fraud_status", "transaction_id + transaction_status"},
	Type:          Paths{"transaction_status"},
	Time:          Paths{"settlement_time", "transaction_time"},
	TimeFormat:    time.DateTime,
	TimeZone:      "+07:00", // Jakarta's (docs.midtrans.com)
	Trust:         event.Hint,
	Order:         Paths{"order_id"},
	Payment:       Paths{"transaction_id"},
	Subject:       Paths{"transaction_id"},
	Amount:        Paths{"gross_amount"},
	PaymentAmount: Paths{"gross_amount"},
	AmountUnit:    "decimal",
	Currency:      Paths{"currency", "=IDR"},
	Facts: []Fact{
		midtransCapture(order.KindPaid, "accept"),
		midtransCapture(order.KindPaid, ""),
		midtransCapture(order.KindFailed, "deny"),
		{Type: "capture", Kind: order.KindPending},
		{Type: "settlement", Kind: order.KindPaid},
		{Type: "pending", Kind: order.KindPending},
		{Type: "authorize", Kind: order.KindPending},
		{Type: "deny", Kind: order.KindFailed},
		{Type: "failure", Kind: order.KindFailed},
		{Type: "cancel", Kind: order.KindCancelled},
		{Type: "expire", Kind: order.KindCancelled},
		{Type: "refund", Kind: order.KindRefundTotal, Amount: Paths{"refund_amount", "gross_amount"}},
		{Type: "partial_refund", Kind: order.KindRefundTotal, Amount: Paths{"refund_amount"}},
	},
}.mustCompile()

func midtransCapture(kind order.Kind, fraud string) Fact {
	return Fact{Type: "capture", Kind: kind, When: map[string]string{"fraud_status": fraud}}
}

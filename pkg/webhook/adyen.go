package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// adyen is Adyen's standard webhook: a batch of items, each with an HMAC of its own
// over eight fields joined by colons, unescaped (adyen-node-api-library
// src/utils/hmacValidator.ts, adyen-java-api-library HMACValidatorTest). Which
// event takes the money depends on the account, so there are two providers of it:
// adyen for capture at once, adyen_manual_capture where only CAPTURE does.
type adyen struct {
	*layout
	name string
}

func newAdyen() Provider {
	return adyen{adyenLayout(order.KindPaid).mustCompile(), "adyen"}
}

func newAdyenManualCapture() Provider {
	return adyen{adyenLayout(order.KindPending).mustCompile(), "adyen_manual_capture"}
}

func (p adyen) Name() string             { return p.name }
func (adyen) SignatureHeaders() []string { return nil }
func (adyen) CheckSecret(s Secret) error { return checkHex(s) }

// TimeRepeats: eventDate is not signed, so it may not lead a key.
func (adyen) TimeRepeats() bool { return false }

// ChangedBody: which copy is the later one only eventDate could say, which anybody
// may write. So the first stands, and a person sees the other.
func (adyen) ChangedBody() ChangedBody { return Final }

func (p adyen) Profile() Profile {
	f := Profile{
		Title:     "Adyen",
		Docs:      "https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures",
		Secret:    "the webhook's HMAC key, 64 hexadecimal digits",
		Signature: "HMAC-SHA256 in base64 over eight fields joined by colons, in each item's additionalData.hmacSignature",
		Covers:    "pspReference, originalReference, merchantAccountCode, merchantReference, amount, eventCode and success of each item",
		Leaves:    "eventDate, reason, live, the rest of additionalData, and where one field ends and the next begins",
		Instead:   "an item is refused as unreadable if another field than merchantReference holds a colon; the date orders facts and leads no key; AUTHORISATION counts as paid, for accounts that capture at once",
		ID:        "pspReference, eventCode and success, joined by colons",
		Trust:     event.Signed,
		Retries:   30 * 24 * time.Hour,
	}
	if p.name != "adyen" {
		f.Title = "Adyen (manual capture)"
		f.Instead = strings.Replace(f.Instead, "AUTHORISATION counts as paid, for accounts that capture at once", "AUTHORISATION is pending and CAPTURE is paid", 1)
	}
	return f
}

// checkHex says whether a secret is a key in hexadecimal digits.
func checkHex(s Secret) error {
	if key, err := hex.DecodeString(string(s.value)); err != nil || len(key) == 0 {
		return fmt.Errorf("secret %s is not a key in hexadecimal digits", s.Name)
	}
	return nil
}

func hexKey(s Secret) ([]byte, error) { return hex.DecodeString(string(s.value)) }

// adyenBatch and adyenItem find what a request and an item are made of. The first
// eight of an item are signed, in this order.
var (
	adyenBatch = wanted("live", "notificationItems")
	adyenItem  = wanted(
		"NotificationRequestItem.pspReference",
		"NotificationRequestItem.originalReference",
		"NotificationRequestItem.merchantAccountCode",
		"NotificationRequestItem.merchantReference",
		"NotificationRequestItem.amount.value",
		"NotificationRequestItem.amount.currency",
		"NotificationRequestItem.eventCode",
		"NotificationRequestItem.success",
		"NotificationRequestItem.additionalData.hmacSignature")
)

const (
	adyenReference = 3 // merchantReference, the only one that the shop writes
	adyenSigned    = 8
)

// adyenItems takes a request apart. No items is no error.
func adyenItems(body []byte) (live value, items [][]byte, err error) {
	values, err := adyenBatch.scan(body)
	if err != nil {
		return value{}, nil, err
	}
	live, list := values[0], values[1]
	if !list.given() {
		return live, nil, nil
	}
	if items, err = elements(list.raw); err != nil {
		return value{}, nil, errors.New("notificationItems is not an array")
	}
	return live, items, nil
}

// Verify verifies every item; one that is not right refuses the request. The
// secret that is named is the last item's.
func (adyen) Verify(req Request, secrets []Secret, _ time.Time) Verdict {
	_, items, err := adyenItems(req.Body)
	switch {
	case err != nil:
		return refuse(ReasonMalformed)
	case len(items) == 0:
		return refuse(ReasonEmpty)
	}
	var verdict Verdict
	for _, item := range items {
		if verdict = verifyAdyen(item, secrets); verdict.Outcome != Valid {
			return verdict
		}
	}
	return verdict
}

func verifyAdyen(item []byte, secrets []Secret) Verdict {
	values, err := adyenItem.scan(item)
	if err != nil {
		return refuse(ReasonMalformed)
	}
	given := values[adyenSigned]
	if !given.given() {
		return refuse(ReasonMissing)
	}
	text, err := given.text()
	if err != nil {
		return refuse(ReasonMalformed)
	}
	signature, ok := fromBase64(text, sha256.Size)
	if !ok {
		return refuse(ReasonMalformed)
	}
	signed, err := adyenText(values)
	if err != nil {
		return refuse(ReasonMalformed)
	}
	return matched(matchHMAC(sha256.New, secrets, hexKey, [][]byte{signature}, signed))
}

// adyenText is the signed text of an item.
func adyenText(values []value) (signed []byte, err error) {
	for i, v := range values[:adyenSigned] {
		if i > 0 {
			signed = append(signed, ':')
		}
		if v.kind == absent || v.kind == null {
			continue
		}
		s, err := v.scalar()
		if err != nil {
			return nil, err
		}
		signed = append(signed, s...)
	}
	return signed, nil
}

// Split gives each item a request of its own, which verifies as the whole did.
func (adyen) Split(body []byte) ([][]byte, error) {
	live, items, err := adyenItems(body)
	if err != nil {
		return nil, err
	}
	bodies := make([][]byte, 0, len(items))
	for _, item := range items {
		var b []byte
		b = append(b, '{')
		if live.kind != absent {
			b = append(append(append(b, `"live":`...), live.raw...), ',')
		}
		b = append(append(append(b, `"notificationItems":[`...), item...), `]}`...)
		bodies = append(bodies, b)
	}
	return bodies, nil
}

// Answer is the older rule's; the newer one takes any 2xx
// (docs.adyen.com/development-resources/webhooks/handle-webhook-events).
func (adyen) Answer(Headers, []byte) Answer {
	return Answer{ContentType: "text/plain", Body: []byte("[accepted]")}
}

// Read reads a request of one item.
func (p adyen) Read(h Headers, body []byte) (Reading, error) {
	_, items, err := adyenItems(body)
	if err != nil {
		return Reading{}, err
	}
	if len(items) != 1 {
		return Reading{}, fmt.Errorf("the body holds %d items; one is read at a time", len(items))
	}
	values, err := adyenItem.scan(items[0])
	if err != nil {
		return Reading{}, err
	}
	// Text could have been moved between neighbours without breaking the signature.
	// The reference may hold colons: if no other field does, its ends are known.
	for i, v := range values[:adyenSigned] {
		if s, err := v.scalar(); err == nil && i != adyenReference && strings.Contains(s, ":") {
			return Reading{}, fmt.Errorf("%s holds a colon: where the signed fields end cannot be told", adyenItem.paths[i])
		}
	}
	return p.layout.Read(h, body)
}

// adyenLayout reads an item. A modification has a pspReference of its own, and names
// the payment in originalReference. authorised is what AUTHORISATION means.
func adyenLayout(authorised order.Kind) Layout {
	const item = "notificationItems.0.NotificationRequestItem."
	payment, original := Paths{item + "pspReference"}, Paths{item + "originalReference"}
	fact := func(code, success string, kind order.Kind, payment Paths) Fact {
		return Fact{Type: code, Kind: kind, Payment: payment, When: map[string]string{item + "success": success}}
	}
	of := func(code string, kind order.Kind) Fact {
		f := fact(code, "true", kind, original)
		f.Object = Paths{item + "pspReference"}
		return f
	}
	return Layout{
		ID:       Paths{item + "pspReference + " + item + "eventCode + " + item + "success"},
		Type:     Paths{item + "eventCode"},
		Time:     Paths{item + "eventDate"},
		TimeUnit: "rfc3339",
		Mode:     Paths{"live"},
		Order:    Paths{item + "merchantReference"},
		Payment:  Paths{item + "originalReference", item + "pspReference"},
		Subject:  Paths{item + "originalReference", item + "pspReference"},
		Amount:   Paths{item + "amount.value"},
		Currency: Paths{item + "amount.currency"},
		// docs.adyen.com/development-resources/currency-codes: four differ from ISO 4217.
		Places: map[string]int{"CLP": 2, "CVE": 0, "IDR": 0, "ISK": 2},
		Facts: []Fact{
			fact("AUTHORISATION", "true", authorised, payment),
			fact("AUTHORISATION", "false", order.KindFailed, payment),
			fact("PENDING", "true", order.KindPending, payment),
			fact("CAPTURE", "true", order.KindPaid, original),
			// It comes after a CAPTURE that was right: a paid order does not fail, so a
			// person decides.
			fact("CAPTURE_FAILED", "true", order.KindFailed, original),

			fact("CANCELLATION", "true", order.KindCancelled, original),
			fact("TECHNICAL_CANCEL", "true", order.KindCancelled, original),
			fact("EXPIRE", "true", order.KindCancelled, original),
			// Which of the two it was is only in additionalData. Of a paid order it is
			// held, and a person decides.
			fact("CANCEL_OR_REFUND", "true", order.KindCancelled, original),

			of("REFUND", order.KindRefund),
			of("REFUND_FAILED", order.KindRefundFailed),
			of("REFUNDED_REVERSED", order.KindRefundFailed),

			of("NOTIFICATION_OF_CHARGEBACK", order.KindDisputeOpened),
			of("CHARGEBACK", order.KindDisputeOpened),
			of("CHARGEBACK_REVERSED", order.KindDisputeWon),
			// It follows a reversed one: opened would say nothing new.
			of("SECOND_CHARGEBACK", order.KindDisputeLost),
		},
	}
}

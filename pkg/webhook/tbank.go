package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// tbank puts into the body a Token: SHA-256 of the values of the root object, sorted
// by key, with the terminal's password among them as Password (T-Bank acquiring API,
// checking a notification's token). Objects and arrays take no part, and the values
// stand one after the other, without their names and without separators.
type tbank struct{ *layout }

const (
	tbankToken    = "Token"
	tbankPassword = "Password"
)

func newTBank() Provider { return tbank{tbankLayout} }

func (tbank) Name() string               { return "tbank" }
func (tbank) SignatureHeaders() []string { return nil }

func (tbank) Profile() Profile {
	return Profile{
		Title:     "T-Bank",
		Docs:      "https://developer.tbank.ru/eacq/intro/developer/notification",
		Secret:    "the terminal's password",
		Signature: "SHA-256 in hex over the values of the root object and the password, sorted by key, in the body's Token",
		Covers:    "text, numbers and booleans of the root object, without their names and without separators",
		Leaves:    "objects and arrays (Data, Receipt), which value belongs to which of two neighbouring keys, and any time",
		Instead:   "nothing is read from objects and arrays, and amount and order must fit each other as the shop registered them",
		ID:        "`PaymentId`, `Status` and `Amount`, joined by colons",
		Trust:     event.Signed,
		// Hourly for a day, and then, by another paragraph, daily for a month.
		Retries: 31 * 24 * time.Hour,
	}
}

// CheckSecret refuses what is often pasted in its place: the terminal's key.
func (tbank) CheckSecret(s Secret) error {
	text := string(s.value)
	digits := strings.TrimSuffix(text, "DEMO")
	if len(digits) == 13 && strings.Trim(digits, "0123456789") == "" {
		return fmt.Errorf("secret %s looks like a TerminalKey (13 digits, perhaps with DEMO); give the terminal's password", s.Name)
	}
	return nil
}

func (tbank) Verify(req Request, secrets []Secret, _ time.Time) Verdict {
	values, token, err := tbankValues(req.Body)
	switch {
	case err != nil:
		return refuse(ReasonMalformed)
	case token == "":
		return refuse(ReasonMissing)
	}
	given, ok := fromHex(token, sha256.Size)
	if !ok {
		return refuse(ReasonMalformed)
	}
	return matched(matchDigest(secrets, func(s Secret) []byte { return tbankSum(values, s) }, given))
}

type tbankValue struct{ key, text string }

// tbankValues are the values of the root object that are signed, sorted by key, and
// the token. Null takes no part: to those who sign it is an object.
func tbankValues(body []byte) (list []tbankValue, token string, err error) {
	members, err := members(body)
	if err != nil {
		return nil, "", err
	}
	for _, m := range members {
		switch m.value.kind {
		case composite, null:
			continue
		}
		text, err := m.value.scalar()
		switch {
		case err != nil:
			return nil, "", err
		case m.key == tbankToken:
			token = text
		case m.key == tbankPassword:
			return nil, "", errors.New("the body has a field Password")
		default:
			list = append(list, tbankValue{m.key, text})
		}
	}
	slices.SortFunc(list, func(a, b tbankValue) int { return strings.Compare(a.key, b.key) })
	return list, token, nil
}

func tbankSum(values []tbankValue, s Secret) []byte {
	h, password := sha256.New(), s.value
	for _, v := range values {
		if password != nil && v.key > tbankPassword {
			h.Write(password)
			password = nil
		}
		h.Write([]byte(v.text))
	}
	h.Write(password)
	return h.Sum(nil)
}

// Answer is what T-Bank waits for.
func (tbank) Answer(Headers, []byte) Answer {
	return Answer{ContentType: "text/plain; charset=utf-8", Body: []byte("OK")}
}

// Sign makes no header: the signature lies in the body. See Seal.
func (tbank) Sign(s Secret, _ string, _ time.Time, _ []byte) (map[string]string, error) {
	if len(s.value) == 0 {
		return nil, errEmptySecret
	}
	return nil, nil
}

// Seal adds the Token to a body that has none.
func (tbank) Seal(s Secret, body []byte) ([]byte, error) {
	values, token, err := tbankValues(body)
	if err != nil || len(s.value) == 0 || len(values) == 0 || token != "" {
		return nil, errors.New("sign: it takes a secret and an object with fields, and no Token")
	}
	return withField(body, tbankToken, hex.EncodeToString(tbankSum(values, s))), nil
}

// tbankLayout: amounts are kopecks; no currency is stated. Of a partial refund the
// amount is the refund's own; it has no id, so two of the same amount look like one.
var tbankLayout = Layout{
	ID:       Paths{"PaymentId + Status + Amount"},
	Type:     Paths{"Status"},
	Order:    Paths{"OrderId"},
	Payment:  Paths{"PaymentId"},
	Subject:  Paths{"PaymentId"},
	Amount:   Paths{"Amount"},
	Currency: Paths{"=RUB"},
	Facts: []Fact{
		{Type: "AUTHORIZED", Kind: order.KindPending},
		{Type: "CONFIRMED", Kind: order.KindPaid, When: map[string]string{"Success": "true"}},
		{Type: "REJECTED", Kind: order.KindFailed},
		{Type: "AUTH_FAIL", Kind: order.KindFailed},
		{Type: "DEADLINE_EXPIRED", Kind: order.KindCancelled},
		{Type: "REVERSED", Kind: order.KindCancelled},
		{Type: "CANCELED", Kind: order.KindCancelled},
		{Type: "PARTIAL_REFUNDED", Kind: order.KindRefund, Extent: Paths{"=partial"}},
		{Type: "REFUNDED", Kind: order.KindRefundTotal, PaymentAmount: Paths{"Amount"}, Extent: Paths{"=full"}},
	},
}.mustCompile()

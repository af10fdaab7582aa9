package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// mollie is the next generation of Mollie's webhooks: HMAC-SHA256 of the raw body. The
// header may come several times, and without its prefix (mollie/mollie-api-php
// SignatureValidator.php). That SDK takes a request without the header for a classic
// one; here the two are providers of their own, so that nobody chooses by leaving it out.
type mollie struct{ *layout }

const mollieSignature = "X-Mollie-Signature"

func newMollie() Provider { return mollie{mollieLayout} }

func (mollie) Name() string               { return "mollie" }
func (mollie) SignatureHeaders() []string { return []string{"x-mollie-signature"} }

func (mollie) Profile() Profile {
	return Profile{
		Title:     "Mollie (next generation)",
		Docs:      "https://docs.mollie.com/reference/webhooks-new",
		Secret:    "the webhook's signing secret",
		Signature: "HMAC-SHA256 in hex over the body, in X-Mollie-Signature",
		Covers:    "the whole body",
		ID:        "`id` of the body",
		Trust:     event.Signed,
		Retries:   RetriesUnknown,
	}
}

// CheckSecret refuses what is often pasted in its place: an API key.
func (mollie) CheckSecret(s Secret) error {
	return refuseBeginning(s, "a Mollie API key", "give the webhook's signing secret", "live_", "access_")
}

func (mollie) Verify(req Request, secrets []Secret, _ time.Time) Verdict {
	values := req.Header(mollieSignature)
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return refuse(ReasonMissing)
	}
	var signatures [][]byte
	// A proxy may have joined them to one (RFC 9110, 5.3).
	parts := strings.Split(strings.Join(values, ","), ",")
	for _, part := range parts {
		if sum, ok := fromHex(strings.TrimPrefix(strings.TrimSpace(part), "sha256="), sha256.Size); ok {
			signatures = append(signatures, sum)
		}
	}
	if len(signatures) == 0 || len(parts) > maxSignatures {
		return refuse(ReasonMalformed)
	}
	return matched(matchHMAC(sha256.New, secrets, asShown, signatures, req.Body))
}

func (mollie) Sign(s Secret, _ string, _ time.Time, body []byte) (map[string]string, error) {
	if len(s.value) == 0 {
		return nil, errEmptySecret
	}
	return map[string]string{mollieSignature: "sha256=" + hex.EncodeToString(appendHMAC(nil, sha256.New, s.value, body))}, nil
}

// mollieLayout reads events that carry their entity. One that states money and was
// sent without it (a "simple" payload) cannot be read, and is kept for a person.
var mollieLayout = Layout{
	ID:         Paths{"id"},
	Type:       Paths{"type"},
	Time:       Paths{"createdAt"},
	Order:      Paths{"_embedded.entity.metadata.order_id"},
	Payment:    Paths{"entityId", "_embedded.entity.id"},
	Subject:    Paths{"entityId", "_embedded.entity.id"},
	Amount:     Paths{"_embedded.entity.amount.value"},
	AmountUnit: "decimal",
	Currency:   Paths{"_embedded.entity.amount.currency"},
	Facts:      []Fact{{Type: "payment-link.paid", Kind: order.KindPaid}},
}.mustCompile()

// mollieClassic is the webhook that Mollie has always had: a form with the id of what
// changed, and nothing else. Whoever knows the address can send it, and all it does is
// to make Sluice ask.
type mollieClassic struct{ *layout }

func newMollieClassic() Provider { return mollieClassic{mollieClassicLayout} }

func (mollieClassic) Name() string               { return "mollie_classic" }
func (mollieClassic) SignatureHeaders() []string { return nil }
func (mollieClassic) CheckSecret(Secret) error   { return nil }

func (mollieClassic) Profile() Profile {
	return Profile{
		Title:     "Mollie (classic)",
		Docs:      "https://docs.mollie.com/reference/webhooks",
		Signature: "none",
		Covers:    "nothing",
		Leaves:    "everything: there is no signature, and the body is only an id",
		Instead:   "every event is a hint until Mollie's API was asked",
		ID:        "`id` of the form: that of the payment",
		Trust:     event.Hint,
		Retries:   26 * time.Hour,
	}
}

// Verify refuses what Mollie cannot have sent; more than that the scheme does not allow.
func (mollieClassic) Verify(req Request, _ []Secret, _ time.Time) Verdict {
	form, err := uniqueForm(req.Body)
	if err != nil || !mollieID(form["id"]) {
		return refuse(ReasonMalformed)
	}
	return Verdict{Outcome: Valid}
}

// mollieID: a short prefix, an underscore, letters and digits (tr_5B8cwPMGnU).
func mollieID(id string) bool {
	prefix, rest, ok := strings.Cut(id, "_")
	return ok && len(id) <= 64 && prefix != "" && rest != "" && strings.Trim(prefix, "abcdefghijklmnopqrstuvwxyz") == "" &&
		strings.Trim(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.") == ""
}

// Sign makes no header: there is no signature.
func (mollieClassic) Sign(Secret, string, time.Time, []byte) (map[string]string, error) {
	return nil, nil
}

var mollieClassicLayout = Layout{
	Body:    "form",
	ID:      Paths{"id"},
	Type:    Paths{"=changed"},
	Trust:   event.Hint,
	Payment: Paths{"id"},
	Subject: Paths{"id"},
}.mustCompile()

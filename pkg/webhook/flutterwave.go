package webhook

import (
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// flutterwave is version 3: the header verif-hash is the secret itself, and binds
// nothing. So every event is a hint, and the header is never stored.
type flutterwave struct{ *layout }

const flutterwaveHash = "verif-hash"

func newFlutterwave() Provider { return flutterwave{flutterwaveLayout} }

func (flutterwave) Name() string               { return "flutterwave" }
func (flutterwave) SignatureHeaders() []string { return flutterwaveLayout.headers() }

func (flutterwave) Profile() Profile {
	return Profile{
		Title:     "Flutterwave (v3)",
		Docs:      "https://developer.flutterwave.com/v3.0.0/docs/webhooks",
		Secret:    "the secret hash of the dashboard's webhook settings",
		Signature: "the secret hash itself, in verif-hash",
		Covers:    "nothing of the body",
		Leaves:    "the whole body: who has seen one request can send any",
		Instead:   "every event is a hint until Flutterwave's API was asked, and the header is never stored",
		ID:        "`event`, `data.id` and `data.status`, joined by colons",
		Trust:     event.Hint,
		Retries:   RetriesUnknown,
	}
}

// CheckSecret refuses what is often pasted in its place: an API key.
func (flutterwave) CheckSecret(s Secret) error {
	return refuseBeginning(s, "a Flutterwave API key", "give the secret hash of the webhook settings", "FLWSECK", "FLWPUBK")
}

func (flutterwave) Verify(req Request, secrets []Secret, _ time.Time) Verdict {
	given, reason := one(req.Header(flutterwaveHash))
	if reason != ReasonNone {
		return refuse(reason)
	}
	return matched(matchStatic(secrets, []byte(given)))
}

func (flutterwave) Sign(s Secret, _ string, _ time.Time, _ []byte) (map[string]string, error) {
	if len(s.value) == 0 {
		return nil, errEmptySecret
	}
	return map[string]string{flutterwaveHash: string(s.value)}, nil
}

// flutterwaveLayout: a completed charge may have failed; its status tells.
var flutterwaveLayout = Layout{
	ID:         Paths{"event + data.id + data.status", "event + data.id"},
	Type:       Paths{"event"},
	Time:       Paths{"data.created_at"},
	Trust:      event.Hint,
	Order:      Paths{"data.tx_ref"},
	Payment:    Paths{"data.id"},
	Subject:    Paths{"data.id"},
	Amount:     Paths{"data.amount"},
	AmountUnit: "decimal",
	Currency:   Paths{"data.currency"},
	Facts:      flutterwaveFacts("successful"),
}.mustCompile()

func flutterwaveFacts(paid string) (facts []Fact) {
	for _, f := range []struct {
		status string
		kind   order.Kind
	}{{paid, order.KindPaid}, {"failed", order.KindFailed}, {"pending", order.KindPending}} {
		facts = append(facts, Fact{Type: "charge.completed", Kind: f.kind, When: map[string]string{"data.status": f.status}})
	}
	return facts
}

// flutterwaveV4 is a declared provider: HMAC-SHA256 of the raw body in base64. Its
// webhook_id is not clearly the event's, so an event is named by what it is about.
var flutterwaveV4 = Declaration{
	Name:      "flutterwave_v4",
	Signature: Signature{Header: "flutterwave-signature", Algorithm: "sha256", Encoding: "base64"},
	Reading: Layout{
		ID:         Paths{"type + data.id + data.status", "type + data.id"},
		Type:       Paths{"type"},
		Time:       Paths{"timestamp"},
		TimeUnit:   "ms",
		Order:      Paths{"data.reference"},
		Payment:    Paths{"data.id"},
		Subject:    Paths{"data.id"},
		Amount:     Paths{"data.amount"},
		AmountUnit: "decimal",
		Currency:   Paths{"data.currency"},
		Facts:      flutterwaveFacts("succeeded"),
	},
	Profile: Profile{
		Title:     "Flutterwave (v4)",
		Docs:      "https://developer.flutterwave.com/docs/webhooks",
		Secret:    "the secret hash of the dashboard's webhook settings",
		Signature: "HMAC-SHA256 in base64 over the body, in flutterwave-signature",
		Covers:    "the whole body",
		ID:        "`type`, `data.id` and `data.status`, joined by colons",
		Trust:     event.Signed,
		Retries:   RetriesUnknown,
	},
}

package lookup

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// stripe asks for a PaymentIntent with its charge, its refunds and its disputes; for a
// Checkout Session, which leads to its intent; or for a charge that was made without
// one (docs.stripe.com/api). An intent stays succeeded whatever was refunded, and a
// charge's amount_refunded goes down again when a refund fails, so refunds are listed.
// Orders are found by the search of intents' metadata, which is a minute behind.
var stripe = API{
	Provider:   "stripe",
	Docs:       "https://docs.stripe.com/api/payment_intents/retrieve",
	Live:       "https://api.stripe.com",
	Test:       "https://api.stripe.com",
	ByPayment:  true,
	Credential: "a secret or restricted key that may read charges, disputes, refunds, PaymentIntents and Checkout Sessions, sk_… or rk_…",
	Settings:   []Setting{orderSetting("metadata.order_id")},
	Rate:       20, // docs.stripe.com/rate-limits: 100 a second in live mode, 25 in a sandbox; 20 of searches
	// docs.stripe.com/api/checkout/sessions/create, expires_at: 30 minutes to 24 hours, 24 by default.
	Pending: 30 * time.Minute,
	ByOrder: true,
	Leaves:  "by order: payments whose PaymentIntent does not carry the order's id in its metadata (a Checkout Session's own metadata and client_reference_id cannot be searched), and none at all for accounts in India",
	auth: func(a Account, now time.Time) map[string]string {
		h := bearer(a, now)
		h["Stripe-Version"] = "2025-09-30.clover" // latest_charge is not in every older one
		return h
	},
	run: stripeRun,
	readers: func(a Account) (readers, error) {
		says := func(typ, amount string, at webhook.Paths, facts ...webhook.Fact) statement {
			return statement{layout: webhook.Layout{ID: webhook.Paths{"id"}, Type: webhook.Paths{typ}, Time: at, Mode: webhook.Paths{"livemode"},
				Order: orderPath(a, ""), Payment: webhook.Paths{"id"},
				Amount: webhook.Paths{amount}, Currency: webhook.Paths{"currency"}, Places: webhook.Places("stripe"), Facts: facts}}
		}
		// Whatever of it is a part of a payment names its intent, or else its charge.
		part := func(s statement, payment webhook.Paths) statement {
			s.layout.Payment, s.layout.Object = payment, webhook.Paths{"id"}
			return s
		}
		of, created := webhook.Paths{"payment_intent", "charge"}, webhook.Paths{"created"}
		kind := func(kind order.Kind, types ...string) (all []webhook.Fact) {
			for _, t := range types {
				all = append(all, webhook.Fact{Type: t, Kind: kind})
			}
			return all
		}
		when := func(f webhook.Fact, path, is string) webhook.Fact {
			f.When = map[string]string{path: is}
			return f
		}
		session := says("payment_status", "amount_total", created, webhook.Fact{Type: "paid", Kind: order.KindPaid},
			when(webhook.Fact{Type: "unpaid", Kind: order.KindCancelled}, "status", "expired"), webhook.Fact{Type: "unpaid", Kind: order.KindPending})
		session.layout.Payment = webhook.Paths{"payment_intent", "id"}
		session.layout.Order = append(session.layout.Order, "client_reference_id")
		return compile(map[string][]statement{
			"intent": {
				says("status", "amount_received", webhook.Paths{"latest_charge.created", "created"}, webhook.Fact{Type: "succeeded", Kind: order.KindPaid}),
				says("status", "amount", webhook.Paths{"canceled_at", "latest_charge.created", "created"}, append(
					// It waits for another way to pay: after a failure, or from its beginning.
					[]webhook.Fact{when(webhook.Fact{Type: "requires_payment_method", Kind: order.KindFailed}, "last_payment_error.type", "*"),
						{Type: "canceled", Kind: order.KindCancelled}},
					kind(order.KindPending, "requires_payment_method", "requires_confirmation", "requires_action", "processing", "requires_capture")...)...),
			},
			"charge": {
				says("status", "amount_captured", created, when(webhook.Fact{Type: "succeeded", Kind: order.KindPaid}, "captured", "true")),
				says("status", "amount", created, webhook.Fact{Type: "failed", Kind: order.KindFailed}, webhook.Fact{Type: "pending", Kind: order.KindPending},
					when(webhook.Fact{Type: "succeeded", Kind: order.KindPending}, "captured", "false")),
			},
			"session": {session},
			"refund": {part(says("status", "amount", created, append(kind(order.KindRefundFailed, "failed", "canceled"),
				webhook.Fact{Type: "succeeded", Kind: order.KindRefund}, webhook.Fact{Type: "pending", Kind: order.KindPending},
				webhook.Fact{Type: "requires_action", Kind: order.KindPending})...), of)},
			"dispute": {
				part(says("status", "amount", created, kind(order.KindDisputeOpened, "warning_needs_response", "warning_under_review", "warning_closed",
					"needs_response", "under_review", "won", "lost")...), of),
				// When it was decided, it does not say.
				part(says("status", "amount", nil, append(kind(order.KindDisputeWon, "won", "warning_closed"), kind(order.KindDisputeLost, "lost")...)...), of),
			},
		})
	},
}

// stripeCharge is what leads on from an intent, a charge or a session.
type stripeCharge struct {
	ID     string          `json:"id"`
	Status string          `json:"status"`
	Intent json.RawMessage `json:"payment_intent"`
	Latest json.RawMessage `json:"latest_charge"`
	// Disputed is a charge's.
	Disputed bool `json:"disputed"`
}

func stripeRun(a *asking) result {
	switch id := a.target.Payment; {
	case id == "":
		return stripeOrder(a)
	case strings.HasPrefix(id, "pi_"):
		return stripeIntent(a, id)
	case strings.HasPrefix(id, "cs_"):
		body, out := a.open("session", "/v1/checkout/sessions/%s", id)
		if body == nil {
			return out
		}
		if intent := stripeIntentOf(body); intent != "" {
			return out.and(stripeIntent(a, intent))
		}
		return out
	default:
		body, out := a.open("charge", "/v1/charges/%s", id)
		if body == nil {
			return out
		}
		if intent := stripeIntentOf(body); intent != "" {
			return stripeIntent(a, intent)
		}
		var charge stripeCharge
		decoded(body, &charge)
		return out.and(stripeParts(a, "charge", id, charge))
	}
}

// stripeIntentOf is the intent that an object names, as its id.
func stripeIntentOf(body []byte) (id string) {
	var object stripeCharge
	if decoded(body, &object) {
		_ = json.Unmarshal(object.Intent, &id) // null: none
	}
	return id
}

func stripeIntent(a *asking, id string) result {
	body, out := a.open("intent", "/v1/payment_intents/%s?expand[]=latest_charge", id)
	if body == nil {
		return out
	}
	return out.and(stripeIntentParts(a, body))
}

// stripeIntentParts are the refunds and disputes of an intent.
func stripeIntentParts(a *asking, body []byte) result {
	var intent, charge stripeCharge
	decoded(body, &intent)
	decoded(intent.Latest, &charge)
	charge.Status = intent.Status
	return stripeParts(a, "payment_intent", intent.ID, charge)
}

// stripeParts lists the refunds, and the disputes if there are any, of what was paid.
func stripeParts(a *asking, by, id string, charge stripeCharge) (out result) {
	for _, list := range []struct {
		document, path string
		needed         bool
	}{{"refund", "/v1/refunds", charge.Status == "succeeded"}, {"dispute", "/v1/disputes", charge.Disputed}} {
		if !list.needed {
			continue
		}
		first := list.path + "?limit=100&" + by + "=" + url.QueryEscape(id)
		items, end, ok := a.list(first, "data", stripeAfter(first))
		if !ok {
			return end
		}
		if out = out.and(a.each(list.document, id, items)); out.outcome != 0 {
			return out
		}
	}
	return out
}

// stripeAfter leads from a page to what comes after its last item.
func stripeAfter(first string) onward {
	return func(page []byte, items []json.RawMessage) (string, error) {
		if more, _ := member(page, "has_more"); string(more) != "true" {
			return "", nil
		}
		if len(items) == 0 {
			return "", errCircle
		}
		return first + "&starting_after=" + url.QueryEscape(text(items[len(items)-1], "id")), nil
	}
}

// stripeOrder searches the intents of an order.
func stripeOrder(a *asking) (out result) {
	key, ok := strings.CutPrefix(a.account.Settings["order"], "metadata.")
	switch {
	case !askable(a.target.Order):
		return unaskable(a.target.Order)
	case !ok:
		return byPath(a)
	}
	quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	first := "/v1/payment_intents/search?limit=100&expand[]=data.latest_charge&query=" +
		url.QueryEscape("metadata['"+quoted.Replace(key)+"']:'"+quoted.Replace(a.target.Order)+"'")
	items, end, ok := a.list(first, "data", following(first, "page", "next_page"))
	if !ok {
		return end
	}
	for _, item := range items {
		one := a.read("intent", "", item).of(a.target.Order)
		if len(one.facts) > 0 {
			one = one.and(stripeIntentParts(a, item))
		}
		if out = out.and(one); out.outcome != 0 || a.next != nil {
			return out
		}
	}
	if len(out.facts) == 0 {
		return noPayment
	}
	return out
}

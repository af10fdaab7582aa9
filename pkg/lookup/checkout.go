package lookup

import (
	"net/url"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// checkout asks for a payment, for its actions, which say what was captured, refunded
// and voided and when, and for its disputes (api-reference.checkout.com: GET
// /payments/{id}, /payments/{id}/actions, /disputes, /payments?reference=). An approved
// payment is not paid until it is captured, as in its webhooks.
var checkout = API{
	Provider:   "checkout",
	Docs:       "https://www.checkout.com/docs/payments/manage-payments/get-payment-details",
	Live:       "https://api.checkout.com",
	Test:       "https://api.sandbox.checkout.com",
	ByPayment:  true,
	Credential: "a secret key that may read payments and disputes (gateway, disputes:view), sk_… or sk_sbox_…",
	Settings:   []Setting{orderSetting("reference")},
	Rate:       10,
	Pending:    longPending,
	ByOrder:    true,
	auth:       bearer,
	run:        checkoutRun,
	readers: func(a Account) (readers, error) {
		says := func(typ, at string, facts ...webhook.Fact) webhook.Layout {
			l := webhook.Layout{ID: webhook.Paths{"id"}, Type: webhook.Paths{typ}, Order: orderPath(a, ""), Payment: webhook.Paths{"id"},
				Amount: webhook.Paths{"amount"}, Currency: webhook.Paths{"currency"}, Places: webhook.Places("checkout"), Facts: facts}
			if at != "" {
				l.Time = webhook.Paths{at}
			}
			return l
		}
		kind := func(kind order.Kind, types ...string) (all []webhook.Fact) {
			for _, t := range types {
				all = append(all, webhook.Fact{Type: t, Kind: kind})
			}
			return all
		}
		// An action has an amount, and its payment the rest.
		approved := map[string]string{"item.approved": "true"}
		action := webhook.Layout{ID: webhook.Paths{"item.id"}, Type: webhook.Paths{"item.type"}, Time: webhook.Paths{"item.processed_on"},
			Order: orderPath(a, "of."), Payment: webhook.Paths{"of.id"},
			Amount: webhook.Paths{"item.amount"}, Currency: webhook.Paths{"of.currency"}, Places: webhook.Places("checkout"), Facts: []webhook.Fact{
				{Type: "Capture", Kind: order.KindPaid, When: approved},
				{Type: "Void", Kind: order.KindCancelled, When: approved},
				{Type: "Refund", Kind: order.KindRefund, When: approved, Object: webhook.Paths{"item.id"}},
			}}
		dispute := func(at string, facts ...webhook.Fact) statement {
			l := says("status", at, facts...)
			l.Order, l.Payment, l.Object = webhook.Paths{"payment_reference"}, webhook.Paths{"payment_id"}, webhook.Paths{"id"}
			return statement{layout: l}
		}
		decided := append(kind(order.KindDisputeWon, "won", "canceled", "resolved"), kind(order.KindDisputeLost, "lost", "accepted", "expired")...)
		opened := kind(order.KindDisputeOpened, "evidence_required", "evidence_under_review", "arb_under_review", "arbitration_under_review")
		for _, f := range decided {
			opened = append(opened, webhook.Fact{Type: f.Type, Kind: order.KindDisputeOpened})
		}
		return compile(map[string][]statement{
			"payment": {
				{layout: says("status", "requested_on", append(kind(order.KindPending, "Pending", "Authorized", "Retry Scheduled"), kind(order.KindFailed, "Declined")...)...)},
				// When that was, it does not say.
				{layout: says("status", "", kind(order.KindCancelled, "Canceled", "Expired")...)},
				{each: []string{"actions"}, layout: action},
			},
			"dispute": {dispute("received_on", opened...), dispute("last_update", decided...)},
		})
	},
}

func checkoutRun(a *asking) (out result) {
	id := a.target.Payment
	if id != "" {
		body, out := a.open("payment", "/payments/%s", id)
		if body == nil {
			return out
		}
		return checkoutPayment(a, id, body)
	}
	switch {
	case !askable(a.target.Order):
		return unaskable(a.target.Order)
	case a.account.Settings["order"] != "reference":
		return byPath(a)
	}
	first := "/payments?limit=100&reference=" + url.QueryEscape(a.target.Order)
	payments, end, ok := a.list(first, "data", skipping(first, "skip"))
	if !ok {
		return end
	}
	for _, body := range payments {
		one := a.read("payment", "", body)
		var payment struct {
			ID string `json:"id"`
		}
		if one.outcome != 0 || !decoded(body, &payment) || !askable(payment.ID) {
			return unreadable(errNotJSON)
		}
		if out = out.and(checkoutPayment(a, payment.ID, body).of(a.target.Order)); out.outcome != 0 || a.next != nil {
			return out
		}
	}
	if len(out.facts) == 0 {
		return noPayment
	}
	return out
}

// checkoutPayment reads a payment with its actions, and the disputes of what was paid.
func checkoutPayment(a *asking, id string, body []byte) result {
	actions, end, ok := a.list("/payments/"+url.PathEscape(id)+"/actions", "", onePage)
	if !ok {
		return end
	}
	out := a.read("payment", id, with(body, "actions", actions))
	if out.outcome != 0 || !out.paid() {
		return out
	}
	first := "/disputes?limit=100&payment_id=" + url.QueryEscape(id)
	disputes, end, ok := a.list(first, "data", skipping(first, "skip"))
	if !ok {
		return end
	}
	return out.and(a.each("dispute", id, disputes))
}

package lookup

import (
	"net/url"
	"strings"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// gocardless: a payment and its refunds
// (developer.gocardless.com/api-reference/#core-endpoints-payments, …-refunds). It states no time
// at which anything but its making happened, so its facts are undated. A payment can be
// charged back after it was confirmed or paid out.
var gocardless = API{
	Provider:   "gocardless",
	Docs:       "https://developer.gocardless.com/api-reference/#payments-get-a-single-payment",
	Live:       "https://api.gocardless.com",
	Test:       "https://api-sandbox.gocardless.com",
	ByPayment:  true,
	Credential: "the access token",
	Settings:   []Setting{orderSetting("metadata.order_id")},
	Rate:       10, // 1000 a minute
	Leaves:     "by order: payments cannot be listed by their metadata; how a chargeback ended",
	Pending:    3 * 24 * time.Hour, // a bank debit is known good or bad after some three working days
	auth: func(a Account, now time.Time) map[string]string {
		h := bearer(a, now)
		h["GoCardless-Version"] = "2015-07-06"
		return h
	},
	run: goCardlessRun,
	readers: func(a Account) (readers, error) {
		says := func(facts ...webhook.Fact) webhook.Layout {
			return webhook.Layout{ID: webhook.Paths{"payments.id"}, Type: webhook.Paths{"payments.status"},
				Order: orderPath(a, "payments."), Payment: webhook.Paths{"payments.id"},
				Amount: webhook.Paths{"payments.amount"}, Currency: webhook.Paths{"payments.currency"}, Facts: facts}
		}
		chargeback := says(webhook.Fact{Type: "charged_back", Kind: order.KindDisputeOpened})
		chargeback.Object = webhook.Paths{"payments.id"}
		return compile(map[string][]statement{"refund": {
			{layout: webhook.Layout{ID: webhook.Paths{"refunds.id"}, Type: webhook.Paths{"=refund"}, Payment: webhook.Paths{"refunds.links.payment"}}},
		}, "payment": {
			{layout: says(
				webhook.Fact{Type: "confirmed", Kind: order.KindPaid},
				webhook.Fact{Type: "paid_out", Kind: order.KindPaid},
				webhook.Fact{Type: "charged_back", Kind: order.KindPaid},
				webhook.Fact{Type: "failed", Kind: order.KindFailed},
				webhook.Fact{Type: "cancelled", Kind: order.KindCancelled},
				webhook.Fact{Type: "customer_approval_denied", Kind: order.KindCancelled},
				webhook.Fact{Type: "pending_customer_approval", Kind: order.KindPending},
				webhook.Fact{Type: "pending_submission", Kind: order.KindPending},
				webhook.Fact{Type: "submitted", Kind: order.KindPending})},
			{layout: chargeback},
		}, "item": {
			{layout: webhook.Layout{ID: webhook.Paths{"id"}, Type: webhook.Paths{"status"}, Time: webhook.Paths{"created_at"},
				Payment: webhook.Paths{"links.payment"}, Object: webhook.Paths{"id"}, Amount: webhook.Paths{"amount"}, Currency: webhook.Paths{"currency"},
				Facts: []webhook.Fact{{Type: "paid", Kind: order.KindRefund},
					{Type: "failed", Kind: order.KindRefundFailed}, {Type: "bounced", Kind: order.KindRefundFailed}, {Type: "funds_returned", Kind: order.KindRefundFailed}}}},
		}})
	},
}

// goCardlessRun goes refund → payment: an event of a refund names the refund alone. A
// refund that came back may be no part of amount_refunded any more.
func goCardlessRun(a *asking) result {
	payment, refunded := a.target.Payment, false
	if payment == "" {
		if refund := a.target.Subject; !strings.HasPrefix(refund, "RF") {
			return unaskable("") // mandates, subscriptions and payouts pay no order
		}
		found := a.document("refund", "/refunds/%s", a.target.Subject)
		if found.outcome != 0 || a.next != nil {
			return found
		}
		if payment = found.facts[0].Payment; !askable(payment) {
			return result{outcome: Unreadable, why: "the refund does not say of which payment it is"}
		}
		refunded = true
	}
	body, out := a.open("payment", "/payments/%s", payment)
	if body == nil {
		return out
	}
	if back := text(body, "payments.amount_refunded"); !refunded && (back == "" || back == "0") || !out.paid() {
		return out
	}
	first := "/refunds?limit=500&payment=" + url.QueryEscape(payment)
	refunds, end, ok := a.list(first, "refunds", following(first, "after", "meta.cursors.after"))
	if !ok {
		return end
	}
	return out.and(a.each("item", payment, refunds))
}

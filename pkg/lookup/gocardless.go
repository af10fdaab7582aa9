package lookup

import (
	"strings"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// gocardless: a payment with the total of its refunds
// (developer.gocardless.com/api-reference/#core-endpoints-payments). It states no time
// at which anything but its making happened, so its facts are undated. A payment can be
// charged back after it was confirmed or paid out.
var gocardless = API{
	Provider:   "gocardless",
	Docs:       "https://developer.gocardless.com/api-reference/#payments-get-a-single-payment",
	Live:       "https://api.gocardless.com",
	Test:       "https://api-sandbox.gocardless.com",
	Credential: "the access token",
	Settings:   []Setting{orderSetting("metadata.order_id")},
	Rate:       10,                 // 1000 a minute
	Pending:    3 * 24 * time.Hour, // a bank debit is known good or bad after some three working days
	auth: func(a Account, now time.Time) map[string]string {
		h := bearer(a, now)
		h["GoCardless-Version"] = "2015-07-06"
		return h
	},
	run: goCardlessRun,
	readers: func(a Account) (readers, error) {
		says := func(amount string, facts ...webhook.Fact) webhook.Layout {
			return webhook.Layout{ID: webhook.Paths{"payments.id"}, Type: webhook.Paths{"payments.status"},
				Order: orderPath(a, "payments."), Payment: webhook.Paths{"payments.id"},
				Amount: webhook.Paths{"payments." + amount}, Currency: webhook.Paths{"payments.currency"}, Facts: facts}
		}
		chargeback := says("amount", webhook.Fact{Type: "charged_back", Kind: order.KindDisputeOpened})
		chargeback.Object = webhook.Paths{"payments.id"}
		return compile(map[string][]statement{"refund": {
			{layout: webhook.Layout{ID: webhook.Paths{"refunds.id"}, Type: webhook.Paths{"=refund"}, Payment: webhook.Paths{"refunds.links.payment"}}},
		}, "payment": {
			{layout: says("amount",
				webhook.Fact{Type: "confirmed", Kind: order.KindPaid},
				webhook.Fact{Type: "paid_out", Kind: order.KindPaid},
				webhook.Fact{Type: "charged_back", Kind: order.KindPaid},
				webhook.Fact{Type: "failed", Kind: order.KindFailed},
				webhook.Fact{Type: "cancelled", Kind: order.KindCancelled},
				webhook.Fact{Type: "customer_approval_denied", Kind: order.KindCancelled},
				webhook.Fact{Type: "pending_customer_approval", Kind: order.KindPending},
				webhook.Fact{Type: "pending_submission", Kind: order.KindPending},
				webhook.Fact{Type: "submitted", Kind: order.KindPending})},
			{given: []string{"payments.amount_refunded"}, layout: says("amount_refunded",
				webhook.Fact{Type: "confirmed", Kind: order.KindRefundTotal},
				webhook.Fact{Type: "paid_out", Kind: order.KindRefundTotal})},
			{layout: chargeback},
		}})
	},
}

// goCardlessRun goes refund → payment: an event of a refund names the refund alone.
func goCardlessRun(a *asking) result {
	payment := a.target.Payment
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
	}
	return a.document("payment", "/payments/%s", payment)
}

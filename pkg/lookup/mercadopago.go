package lookup

import (
	"net/url"
	"slices"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// mercadopago: a payment with its refunds
// (mercadopago.com/developers/en/reference/payments/_payments_id/get, …/_payments_search/get).
// A payment that was refunded in part stays approved. Where the list of refunds does
// not hold all that was given back, their total is stated, which has no time.
var mercadopago = API{
	Provider:   "mercadopago",
	Docs:       "https://www.mercadopago.com/developers/en/reference/payments/_payments_id/get",
	Live:       "https://api.mercadopago.com",
	Test:       "https://api.mercadopago.com",
	ByPayment:  true,
	Credential: "the access token, APP_USR-… or TEST-…",
	Settings:   []Setting{orderSetting("external_reference")},
	Rate:       10,
	Pending:    longPending,
	ByOrder:    true,
	Leaves:     "how a chargeback ended",
	auth:       bearer,
	run:        mercadopagoRun,
	readers: func(a Account) (readers, error) {
		says := func(time, amount string, facts ...webhook.Fact) webhook.Layout {
			l := webhook.Layout{ID: webhook.Paths{"id"}, Type: webhook.Paths{"status"}, Mode: webhook.Paths{"live_mode"},
				Order: orderPath(a, ""), Payment: webhook.Paths{"id"},
				Amount: webhook.Paths{amount}, AmountUnit: "decimal", Currency: webhook.Paths{"currency_id"}, Facts: facts}
			if time != "" {
				l.Time = webhook.Paths{time}
			}
			return l
		}
		const whole, refunded = "transaction_amount", "transaction_amount_refunded"
		dispute := says("", whole, webhook.Fact{Type: "charged_back", Kind: order.KindDisputeOpened},
			webhook.Fact{Type: "in_mediation", Kind: order.KindDisputeOpened})
		dispute.Object = webhook.Paths{"id"}
		refund := webhook.Layout{ID: webhook.Paths{"item.id"}, Type: webhook.Paths{"item.status"}, Time: webhook.Paths{"item.date_created"}, Mode: webhook.Paths{"of.live_mode"},
			Order: orderPath(a, "of."), Payment: webhook.Paths{"of.id"}, Object: webhook.Paths{"item.id"},
			Amount: webhook.Paths{"item.amount"}, AmountUnit: "decimal", Currency: webhook.Paths{"of.currency_id"}, Facts: []webhook.Fact{
				{Type: "approved", Kind: order.KindRefund}, {Type: "rejected", Kind: order.KindRefundFailed}, {Type: "cancelled", Kind: order.KindRefundFailed},
				{Type: "in_process", Kind: order.KindPending}}}
		return compile(map[string][]statement{"payment": {
			{layout: says("date_approved", whole, webhook.Fact{Type: "approved", Kind: order.KindPaid}, webhook.Fact{Type: "refunded", Kind: order.KindPaid},
				webhook.Fact{Type: "charged_back", Kind: order.KindPaid}, webhook.Fact{Type: "in_mediation", Kind: order.KindPaid})},
			{layout: says("date_last_updated", whole, webhook.Fact{Type: "rejected", Kind: order.KindFailed}, webhook.Fact{Type: "cancelled", Kind: order.KindCancelled})},
			{layout: says("date_created", whole, webhook.Fact{Type: "pending", Kind: order.KindPending},
				webhook.Fact{Type: "in_process", Kind: order.KindPending}, webhook.Fact{Type: "authorized", Kind: order.KindPending})},
			{given: []string{refunded}, layout: says("", refunded, webhook.Fact{Type: "approved", Kind: order.KindRefundTotal},
				webhook.Fact{Type: "refunded", Kind: order.KindRefundTotal})},
			{layout: dispute},
			{each: []string{"refunds"}, layout: refund},
		}})
	},
}

func mercadopagoRun(a *asking) result {
	if a.target.Payment != "" {
		return a.document("payment", "/v1/payments/%s", a.target.Payment).oneWay()
	}
	switch {
	case !askable(a.target.Order):
		return unaskable(a.target.Order)
	case a.account.Settings["order"] != "external_reference":
		return byPath(a)
	}
	first := "/v1/payments/search?sort=date_created&criteria=desc&limit=50&external_reference=" + url.QueryEscape(a.target.Order)
	payments, end, ok := a.list(first, "results", skipping(first, "offset"))
	if !ok {
		return end
	}
	var out result
	for _, body := range payments {
		if out = out.and(a.read("payment", "", body).oneWay()); out.outcome != 0 {
			return out
		}
	}
	if out = out.of(a.target.Order); len(out.facts) == 0 {
		return noPayment
	}
	return out
}

// oneWay keeps the total of refunds only where their list is short of it.
func (r result) oneWay() result {
	listed := int64(0)
	for _, f := range r.facts {
		if f.Fact == order.KindRefund {
			listed += f.Amount
		}
	}
	r.facts = slices.DeleteFunc(r.facts, func(f webhook.Reading) bool { return f.Fact == order.KindRefundTotal && f.Amount <= listed })
	return r
}

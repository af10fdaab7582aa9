package lookup

import (
	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// mercadopago: a payment with the total of its refunds
// (mercadopago.com/developers/en/reference/payments/_payments_id/get). A payment that
// was refunded in part stays approved. The refunds' total has no time of its own.
var mercadopago = API{
	Provider:   "mercadopago",
	Docs:       "https://www.mercadopago.com/developers/en/reference/payments/_payments_id/get",
	Live:       "https://api.mercadopago.com",
	Test:       "https://api.mercadopago.com",
	Credential: "the access token, APP_USR-… or TEST-…",
	Settings:   []Setting{orderSetting("external_reference")},
	Rate:       10,
	Pending:    longPending,
	auth:       bearer,
	run:        one("/v1/payments/%s"),
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
		return compile(map[string][]statement{"payment": {
			{layout: says("date_approved", whole, webhook.Fact{Type: "approved", Kind: order.KindPaid}, webhook.Fact{Type: "refunded", Kind: order.KindPaid},
				webhook.Fact{Type: "charged_back", Kind: order.KindPaid}, webhook.Fact{Type: "in_mediation", Kind: order.KindPaid})},
			{layout: says("date_last_updated", whole, webhook.Fact{Type: "rejected", Kind: order.KindFailed}, webhook.Fact{Type: "cancelled", Kind: order.KindCancelled})},
			{layout: says("date_created", whole, webhook.Fact{Type: "pending", Kind: order.KindPending},
				webhook.Fact{Type: "in_process", Kind: order.KindPending}, webhook.Fact{Type: "authorized", Kind: order.KindPending})},
			{given: []string{refunded}, layout: says("", refunded, webhook.Fact{Type: "approved", Kind: order.KindRefundTotal},
				webhook.Fact{Type: "refunded", Kind: order.KindRefundTotal})},
			{layout: dispute},
		}})
	},
}

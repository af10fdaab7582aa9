package lookup

import (
	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// mollieAs: a payment with its refunds and chargebacks embedded, so that one request
// is enough (docs.mollie.com/reference/get-payment). Both of its kinds of webhooks are
// about the same payments.
func mollieAs(provider string) API {
	return API{
		Provider:   provider,
		Docs:       "https://docs.mollie.com/reference/get-payment",
		Live:       "https://api.mollie.com",
		Test:       "https://api.mollie.com",
		ByPayment:  true,
		Credential: "the API key, live_… or test_…",
		Settings:   []Setting{orderSetting("metadata.order_id")},
		Rate:       10,
		Pending:    longPending, // docs.mollie.com: a card payment expires after 30 minutes, iDEAL after 15
		Leaves:     "by order: payments cannot be listed by their metadata",
		auth:       bearer,
		run:        one("/v2/payments/%s?embed=refunds,chargebacks"),
		readers: func(a Account) (readers, error) {
			payment := func(time string, facts ...webhook.Fact) statement {
				return statement{layout: webhook.Layout{
					ID: webhook.Paths{"id"}, Type: webhook.Paths{"status"}, Time: webhook.Paths{time}, Mode: webhook.Paths{"mode"},
					Order: orderPath(a, ""), Payment: webhook.Paths{"id"},
					Amount: webhook.Paths{"amount.value"}, AmountUnit: "decimal", Currency: webhook.Paths{"amount.currency"},
					Facts: facts}}
			}
			part := func(list string, layout webhook.Layout, given ...string) statement {
				layout.ID, layout.Mode = webhook.Paths{"item.id"}, webhook.Paths{"of.mode"}
				layout.Order, layout.Payment, layout.Object = orderPath(a, "of."), webhook.Paths{"of.id"}, webhook.Paths{"item.id"}
				layout.Amount, layout.AmountUnit, layout.Currency = webhook.Paths{"item.amount.value"}, "decimal", webhook.Paths{"item.amount.currency"}
				return statement{each: []string{list}, given: given, layout: layout}
			}
			return compile(map[string][]statement{"payment": {
				payment("paidAt", webhook.Fact{Type: "paid", Kind: order.KindPaid}),
				payment("failedAt", webhook.Fact{Type: "failed", Kind: order.KindFailed}),
				payment("canceledAt", webhook.Fact{Type: "canceled", Kind: order.KindCancelled}),
				payment("expiredAt", webhook.Fact{Type: "expired", Kind: order.KindCancelled}),
				payment("createdAt", webhook.Fact{Type: "open", Kind: order.KindPending},
					webhook.Fact{Type: "pending", Kind: order.KindPending}, webhook.Fact{Type: "authorized", Kind: order.KindPending}),
				// Queued and pending refunds can still be called off: they are under way.
				part("_embedded.refunds", webhook.Layout{Type: webhook.Paths{"item.status"}, Time: webhook.Paths{"item.createdAt"}, Facts: []webhook.Fact{
					{Type: "processing", Kind: order.KindRefund}, {Type: "refunded", Kind: order.KindRefund},
					{Type: "queued", Kind: order.KindPending}, {Type: "pending", Kind: order.KindPending},
					{Type: "failed", Kind: order.KindRefundFailed}}}),
				part("_embedded.chargebacks", webhook.Layout{Type: webhook.Paths{"item.resource"}, Time: webhook.Paths{"item.createdAt"}, Facts: []webhook.Fact{
					{Type: "chargeback", Kind: order.KindDisputeOpened}}}),
				part("_embedded.chargebacks", webhook.Layout{Type: webhook.Paths{"item.resource"}, Time: webhook.Paths{"item.reversedAt"}, Facts: []webhook.Fact{
					{Type: "chargeback", Kind: order.KindDisputeWon}}}, "item.reversedAt"),
			}})
		},
	}
}

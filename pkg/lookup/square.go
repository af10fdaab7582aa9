package lookup

import (
	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// square: a payment with the total of its refunds
// (developer.squareup.com/reference/square/payments-api/get-payment). It stays
// COMPLETED whatever was refunded.
var square = API{
	Provider:   "square",
	Docs:       "https://developer.squareup.com/reference/square/payments-api/get-payment",
	Live:       "https://connect.squareup.com",
	Test:       "https://connect.squareupsandbox.com",
	Credential: "the access token",
	Settings:   []Setting{orderSetting("reference_id")},
	Rate:       10,
	Pending:    longPending,
	auth:       bearer,
	run:        one("/v2/payments/%s"),
	readers: func(a Account) (readers, error) {
		says := func(at, money string, facts ...webhook.Fact) webhook.Layout {
			l := webhook.Layout{ID: webhook.Paths{"payment.id"}, Type: webhook.Paths{"payment.status"},
				Order: orderPath(a, "payment."), Payment: webhook.Paths{"payment.id"},
				Amount: webhook.Paths{"payment." + money + ".amount"}, Currency: webhook.Paths{"payment." + money + ".currency"}, Facts: facts}
			if at != "" {
				l.Time = webhook.Paths{"payment." + at}
			}
			return l
		}
		return compile(map[string][]statement{"payment": {
			{layout: says("created_at", "amount_money",
				webhook.Fact{Type: "COMPLETED", Kind: order.KindPaid},
				webhook.Fact{Type: "FAILED", Kind: order.KindFailed},
				webhook.Fact{Type: "CANCELED", Kind: order.KindCancelled},
				webhook.Fact{Type: "APPROVED", Kind: order.KindPending},
				webhook.Fact{Type: "PENDING", Kind: order.KindPending})},
			{given: []string{"payment.refunded_money.amount"}, layout: says("", "refunded_money", webhook.Fact{Type: "COMPLETED", Kind: order.KindRefundTotal})},
		}})
	},
}

package lookup

import (
	"time"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// razorpay: a payment with the total of its refunds
// (razorpay.com/docs/api/payments/fetch-with-id). A payment that was refunded in part
// stays captured. It states when it was made, and no later time. A failure is not
// final: a late authorisation may follow.
var razorpay = API{
	Provider:   "razorpay",
	Docs:       "https://razorpay.com/docs/api/payments/fetch-with-id/",
	Live:       "https://api.razorpay.com",
	Test:       "https://api.razorpay.com",
	Credential: "the key's secret",
	Settings:   []Setting{{Name: "key_id", Help: "the key's id, rzp_live_… or rzp_test_…"}, orderSetting("notes.order_id")},
	Rate:       10,
	Pending:    longPending,
	auth: func(a Account, _ time.Time) map[string]string {
		return basic(a.Settings["key_id"], a.Secret)
	},
	run: one("/v1/payments/%s"),
	readers: func(a Account) (readers, error) {
		says := func(amount string, facts ...webhook.Fact) webhook.Layout {
			return webhook.Layout{ID: webhook.Paths{"id"}, Type: webhook.Paths{"status"}, Order: orderPath(a, ""), Payment: webhook.Paths{"id"},
				Amount: webhook.Paths{amount}, Currency: webhook.Paths{"currency"}, Facts: facts}
		}
		made := says("amount",
			webhook.Fact{Type: "captured", Kind: order.KindPaid}, webhook.Fact{Type: "refunded", Kind: order.KindPaid},
			webhook.Fact{Type: "failed", Kind: order.KindFailed},
			webhook.Fact{Type: "created", Kind: order.KindPending}, webhook.Fact{Type: "authorized", Kind: order.KindPending})
		made.Time = webhook.Paths{"created_at"}
		return compile(map[string][]statement{"payment": {
			{layout: made},
			{given: []string{"amount_refunded"}, layout: says("amount_refunded",
				webhook.Fact{Type: "captured", Kind: order.KindRefundTotal}, webhook.Fact{Type: "refunded", Kind: order.KindRefundTotal})},
		}})
	},
}

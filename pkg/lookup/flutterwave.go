package lookup

import (
	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// flutterwave is API v3: verifying a transaction reads it
// (developer.flutterwave.com/v3.0/reference/verify-transaction). An unknown one is a
// 400. It tells of no refunds: those are a matter of other requests.
var flutterwave = API{
	Provider:   "flutterwave",
	Docs:       "https://developer.flutterwave.com/v3.0/reference/verify-transaction",
	Live:       "https://api.flutterwave.com",
	Test:       "https://api.flutterwave.com",
	Credential: "the secret key, FLWSECK-… or FLWSECK_TEST-…",
	Settings:   []Setting{orderSetting("tx_ref")},
	Rate:       5, // 400 a minute
	Pending:    longPending,
	unknown:    []int{400},
	auth:       bearer,
	run:        one("/v3/transactions/%s/verify"),
	readers: func(a Account) (readers, error) {
		return compile(map[string][]statement{"payment": {{layout: webhook.Layout{
			ID: webhook.Paths{"data.id"}, Type: webhook.Paths{"data.status"}, Time: webhook.Paths{"data.created_at"},
			Order: orderPath(a, "data."), Payment: webhook.Paths{"data.id"},
			Amount: webhook.Paths{"data.amount"}, AmountUnit: "decimal", Currency: webhook.Paths{"data.currency"},
			Facts: []webhook.Fact{
				{Type: "successful", Kind: order.KindPaid},
				{Type: "failed", Kind: order.KindFailed},
				{Type: "pending", Kind: order.KindPending},
			}}}}})
	},
}

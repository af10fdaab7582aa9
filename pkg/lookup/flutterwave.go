package lookup

import (
	"encoding/json"
	"net/url"
	"strconv"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// flutterwave is API v3: verifying a transaction reads it
// (developer.flutterwave.com/v3.0/reference/verify-transaction), and transactions are
// listed by tx_ref, which is the shop's order id. An unknown one is a 400. It tells of
// no refunds.
var flutterwave = API{
	Provider:   "flutterwave",
	Docs:       "https://developer.flutterwave.com/v3.0/reference/verify-transaction",
	Live:       "https://api.flutterwave.com",
	Test:       "https://api.flutterwave.com",
	ByPayment:  true,
	Credential: "the secret key, FLWSECK-… or FLWSECK_TEST-…",
	Settings:   []Setting{orderSetting("tx_ref")},
	Rate:       5, // 400 a minute
	Pending:    longPending,
	ByOrder:    true,
	Leaves:     "refunds and chargebacks",
	unknown:    []int{400},
	auth:       bearer,
	run:        flutterwaveRun,
	readers: func(a Account) (readers, error) {
		says := func(at string) []statement {
			return []statement{{layout: webhook.Layout{
				ID: webhook.Paths{at + "id"}, Type: webhook.Paths{at + "status"}, Time: webhook.Paths{at + "created_at"},
				Order: orderPath(a, at), Payment: webhook.Paths{at + "id"},
				Amount: webhook.Paths{at + "amount"}, AmountUnit: "decimal", Currency: webhook.Paths{at + "currency"},
				Facts: []webhook.Fact{
					{Type: "successful", Kind: order.KindPaid},
					{Type: "failed", Kind: order.KindFailed},
					{Type: "pending", Kind: order.KindPending},
				}}}}
		}
		return compile(map[string][]statement{"payment": says("data."), "item": says("")})
	},
}

func flutterwaveRun(a *asking) result {
	if a.target.Payment != "" {
		return a.document("payment", "/v3/transactions/%s/verify", a.target.Payment)
	}
	switch {
	case !askable(a.target.Order):
		return unaskable(a.target.Order)
	case a.account.Settings["order"] != "tx_ref":
		return byPath(a)
	}
	first := "/v3/transactions?tx_ref=" + url.QueryEscape(a.target.Order)
	payments, end, ok := a.list(first, "data", func(page []byte, _ []json.RawMessage) (string, error) {
		current, _ := strconv.Atoi(text(page, "meta.page_info.current_page"))
		last, _ := strconv.Atoi(text(page, "meta.page_info.total_pages"))
		if current < last {
			return first + "&page=" + strconv.Itoa(current+1), nil
		}
		return "", nil
	})
	if !ok {
		return end
	}
	out := a.each("item", "", payments)
	if out.outcome != 0 {
		return out
	}
	if out = out.of(a.target.Order); len(out.facts) == 0 {
		return noPayment
	}
	return out
}

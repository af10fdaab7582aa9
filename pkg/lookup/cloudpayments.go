package lookup

import (
	"encoding/json"
	"strconv"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// cloudpayments: a transaction by its id (developers.cloudpayments.ru, and the types of
// cloudpayments npm 6.0.1). It is a POST that only reads, and answers what it does not
// know with 200 and Success false. It tells of no refunds: their notifications are
// believed by themselves.
var cloudpayments = API{
	Provider:   "cloudpayments",
	Docs:       "https://developers.cloudpayments.ru/#prosmotr-tranzaktsii",
	Live:       "https://api.cloudpayments.ru",
	Test:       "https://api.cloudpayments.ru",
	ByPayment:  true,
	Credential: "the site's API secret",
	Settings: []Setting{
		{Name: "public_id", Help: "the site's public id"},
		orderSetting("InvoiceId"),
	},
	Rate:    5,
	Pending: longPending,
	Leaves:  "refunds; by order: not asked",
	auth:    func(a Account, _ time.Time) map[string]string { return basic(a.Settings["public_id"], a.Secret) },
	run: func(a *asking) result {
		id, err := strconv.ParseUint(a.target.Payment, 10, 63)
		if err != nil {
			return unaskable(a.target.Payment)
		}
		body, ok := a.ask(a.post("/payments/get", map[string]uint64{"TransactionId": id}))
		if !ok {
			return result{}
		}
		var answer struct {
			Success *bool
			Model   *struct{ TestMode *bool }
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return unreadable(errNotJSON)
		}
		// A declined payment is no success either, but it is there.
		if answer.Success != nil && !*answer.Success && answer.Model == nil {
			return result{outcome: Unknown, why: "the provider knows no such transaction"}
		}
		out := a.read("payment", a.target.Payment, body)
		if answer.Model == nil {
			return out
		}
		return out.testing(answer.Model.TestMode)
	},
	readers: func(a Account) (readers, error) {
		says := func(time string, facts ...webhook.Fact) statement {
			return statement{layout: webhook.Layout{ID: webhook.Paths{"Model.TransactionId"}, Type: webhook.Paths{"Model.Status"},
				Time: webhook.Paths{"Model." + time}, TimeFormat: "2006-01-02T15:04:05",
				Order: orderPath(a, "Model."), Payment: webhook.Paths{"Model.TransactionId"},
				Amount: webhook.Paths{"Model.Amount"}, AmountUnit: "decimal", Currency: webhook.Paths{"Model.Currency"}, Facts: facts}}
		}
		return compile(map[string][]statement{"payment": {
			says("ConfirmDateIso", webhook.Fact{Type: "Completed", Kind: order.KindPaid}),
			says("CreatedDateIso",
				webhook.Fact{Type: "Authorized", Kind: order.KindPending},
				webhook.Fact{Type: "AwaitingAuthentication", Kind: order.KindPending},
				webhook.Fact{Type: "Declined", Kind: order.KindFailed},
				webhook.Fact{Type: "Cancelled", Kind: order.KindCancelled}),
		}})
	},
}

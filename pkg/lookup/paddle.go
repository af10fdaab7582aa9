package lookup

import (
	"encoding/json"
	"net/url"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// paddle asks for a transaction, and for its adjustments, which are its refunds and
// chargebacks (developer.paddle.com/api-reference, paddle-go-sdk v4). A transaction
// stays completed whatever was refunded. One that waits for its customer has failed
// attempts to pay in its list of payments, the latest first.
var paddle = API{
	Provider:   "paddle",
	Docs:       "https://developer.paddle.com/api-reference/transactions/get-transaction",
	Live:       "https://api.paddle.com",
	Test:       "https://sandbox-api.paddle.com",
	ByPayment:  true,
	Credential: "an API key that may read transactions and adjustments, pdl_live_apikey_… or pdl_sdbx_apikey_…",
	Settings:   []Setting{orderSetting("custom_data.order_id")},
	Rate:       4, // developer.paddle.com/api-reference/about/rate-limiting: 240 a minute
	Pending:    longPending,
	Leaves:     "by order: transactions cannot be listed by their custom data",
	auth:       bearer,
	run: func(a *asking) result {
		id := a.target.Payment
		body, out := a.open("transaction", "/transactions/%s", id)
		if body == nil || !out.paid() {
			return out
		}
		adjustments, end, ok := a.list("/adjustments?per_page=50&transaction_id="+url.QueryEscape(id), "data", paddleOnward)
		if !ok {
			return end
		}
		return out.and(a.each("adjustment", id, adjustments))
	},
	readers: func(a Account) (readers, error) {
		transaction := func(at webhook.Paths, facts ...webhook.Fact) statement {
			return statement{layout: webhook.Layout{ID: webhook.Paths{"data.id"}, Type: webhook.Paths{"data.status"}, Time: at,
				Order: orderPath(a, "data."), Payment: webhook.Paths{"data.id"}, Places: webhook.Places("paddle"),
				Amount: webhook.Paths{"data.details.totals.total"}, Currency: webhook.Paths{"data.currency_code"}, Facts: facts}}
		}
		waits := func(status string) []webhook.Fact {
			return []webhook.Fact{{Type: status, Kind: order.KindFailed, When: map[string]string{"data.payments.0.status": "error"}}, {Type: status, Kind: order.KindPending}}
		}
		adjustment := func(object, at string, facts ...webhook.Fact) statement {
			return statement{layout: webhook.Layout{ID: webhook.Paths{"id"}, Type: webhook.Paths{"action"}, Time: webhook.Paths{at},
				Payment: webhook.Paths{"transaction_id"}, Object: webhook.Paths{object}, Extent: webhook.Paths{"type"}, Places: webhook.Places("paddle"),
				Amount: webhook.Paths{"totals.total"}, Currency: webhook.Paths{"currency_code"}, Facts: facts}}
		}
		fact := func(action, status string, kind order.Kind) webhook.Fact {
			return webhook.Fact{Type: action, Kind: kind, When: map[string]string{"status": status}}
		}
		return compile(map[string][]statement{
			"transaction": {
				transaction(webhook.Paths{"data.payments.0.captured_at", "data.billed_at"}, webhook.Fact{Type: "paid", Kind: order.KindPaid}, webhook.Fact{Type: "completed", Kind: order.KindPaid}),
				transaction(webhook.Paths{"data.updated_at"}, append(append(append(waits("ready"), waits("billed")...), waits("past_due")...),
					webhook.Fact{Type: "draft", Kind: order.KindPending}, webhook.Fact{Type: "canceled", Kind: order.KindCancelled})...),
			},
			"adjustment": {
				adjustment("id", "created_at", fact("refund", "approved", order.KindRefund), fact("refund", "pending_approval", order.KindPending)),
				adjustment("id", "updated_at", fact("refund", "reversed", order.KindRefundFailed)),
				// A chargeback and its reversal are one dispute, of the transaction.
				adjustment("transaction_id", "created_at", fact("chargeback", "approved", order.KindDisputeOpened), fact("chargeback", "reversed", order.KindDisputeOpened),
					fact("chargeback_warning", "approved", order.KindDisputeOpened)),
				adjustment("transaction_id", "updated_at", fact("chargeback", "reversed", order.KindDisputeWon), fact("chargeback_reverse", "approved", order.KindDisputeWon)),
			},
		})
	},
}

// paddleOnward goes where a page says that the next one is. Only its query is taken, so
// it is the same place.
func paddleOnward(page []byte, _ []json.RawMessage) (string, error) {
	address := paddleNext(page)
	if address == "" {
		return "", nil
	}
	next, err := url.Parse(address)
	if err != nil || next.RawQuery == "" {
		return "", errCircle
	}
	return "/adjustments?" + next.RawQuery, nil
}

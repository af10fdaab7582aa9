package lookup

import (
	"cmp"
	"encoding/json"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// midtrans: a transaction, asked for by the shop's order id
// (docs.midtrans.com/reference/get-transaction-status). An unknown one may come as 200
// with another status_code in the body. Times are of UTC+7, without saying so. Refunds
// come as a total.
var midtrans = API{
	Provider:   "midtrans",
	Docs:       "https://docs.midtrans.com/reference/get-transaction-status",
	Live:       "https://api.midtrans.com",
	Test:       "https://api.sandbox.midtrans.com",
	ByPayment:  true,
	Credential: "the server key",
	Rate:       10,
	Pending:    longPending, // what is not paid expires after 24 hours; cards are decided in minutes
	ByOrder:    true,
	auth:       func(a Account, _ time.Time) map[string]string { return basic(a.Secret, "") },
	run: func(a *asking) result {
		asked := cmp.Or(a.target.Order, a.target.Payment)
		if !askable(asked) {
			return unaskable(asked)
		}
		body, ok := a.ask(a.get("/v2/%s/status", asked))
		if !ok {
			return result{}
		}
		var status struct {
			Code    string `json:"status_code"`
			Order   string `json:"order_id"`
			Payment string `json:"transaction_id"`
		}
		if json.Unmarshal(body, &status) != nil {
			return unreadable(errNotJSON)
		}
		switch code := status.Code; {
		case code == "404":
			return result{outcome: Unknown, why: "status_code 404: the provider knows no such transaction"}
		case code == "401" || code == "403":
			return result{outcome: Refused, why: "status_code " + code + ": the provider does not take the server key"}
		case len(code) == 3 && code[0] == '5':
			return result{outcome: Unavailable, why: "status_code " + code}
		case asked != status.Order && asked != status.Payment:
			return another
		}
		return a.read("status", status.Payment, body)
	},
	readers: func(Account) (readers, error) {
		says := func(at, amount string, facts ...webhook.Fact) webhook.Layout {
			l := webhook.Layout{ID: webhook.Paths{"transaction_id"}, Type: webhook.Paths{"transaction_status"},
				Order: webhook.Paths{"order_id"}, Payment: webhook.Paths{"transaction_id"},
				Amount: webhook.Paths{amount}, AmountUnit: "decimal", Currency: webhook.Paths{"currency", "=IDR"}, Facts: facts}
			if at != "" {
				l.Time, l.TimeFormat, l.TimeZone = webhook.Paths{at, "transaction_time"}, time.DateTime, "+07:00"
			}
			return l
		}
		disputed := says("", "gross_amount",
			webhook.Fact{Type: "chargeback", Kind: order.KindDisputeOpened},
			webhook.Fact{Type: "partial_chargeback", Kind: order.KindDisputeOpened})
		disputed.Object = webhook.Paths{"transaction_id"}
		fraud := func(is string) map[string]string { return map[string]string{"fraud_status": is} }
		return compile(map[string][]statement{"status": {
			{layout: says("settlement_time", "gross_amount",
				webhook.Fact{Type: "capture", Kind: order.KindPending, When: fraud("challenge")},
				webhook.Fact{Type: "capture", Kind: order.KindFailed, When: fraud("deny")},
				webhook.Fact{Type: "capture", Kind: order.KindPaid},
				webhook.Fact{Type: "settlement", Kind: order.KindPaid},
				webhook.Fact{Type: "refund", Kind: order.KindPaid},
				webhook.Fact{Type: "partial_refund", Kind: order.KindPaid},
				webhook.Fact{Type: "chargeback", Kind: order.KindPaid},
				webhook.Fact{Type: "partial_chargeback", Kind: order.KindPaid})},
			{layout: says("transaction_time", "gross_amount",
				webhook.Fact{Type: "deny", Kind: order.KindFailed},
				webhook.Fact{Type: "failure", Kind: order.KindFailed},
				webhook.Fact{Type: "cancel", Kind: order.KindCancelled},
				webhook.Fact{Type: "expire", Kind: order.KindCancelled},
				webhook.Fact{Type: "authorize", Kind: order.KindPending},
				webhook.Fact{Type: "pending", Kind: order.KindPending})},
			{given: []string{"refund_amount"}, layout: says("", "refund_amount",
				webhook.Fact{Type: "refund", Kind: order.KindRefundTotal},
				webhook.Fact{Type: "partial_refund", Kind: order.KindRefundTotal})},
			{layout: disputed},
		}})
	},
}

package lookup

import (
	"encoding/json"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// yookassa: a payment with the total of its refunds
// (yookassa.ru/developers/api#get_payment). Canceled also means failed: the reason
// tells them apart (yookassa.ru/developers/payment-acceptance/after-the-payment/declined-payments).
var yookassa = API{
	Provider:   "yookassa",
	Docs:       "https://yookassa.ru/developers/api#get_payment",
	Live:       "https://api.yookassa.ru",
	Test:       "https://api.yookassa.ru",
	Credential: "the shop's secret key",
	Settings:   []Setting{{Name: "shop_id", Help: "the shop's id at YooKassa"}, orderSetting("metadata.order_id")},
	Rate:       10,
	Pending:    longPending,
	auth: func(a Account, _ time.Time) map[string]string {
		return basic(a.Settings["shop_id"], a.Secret)
	},
	run: func(a *asking) result {
		id := a.target.Payment
		if !askable(id) {
			return unaskable(id)
		}
		body, ok := a.ask(a.get("/v3/payments/%s", id))
		if !ok {
			return result{}
		}
		var payment struct {
			Test *bool `json:"test"`
		}
		_ = json.Unmarshal(body, &payment) // what is no JSON is found below
		return a.read("payment", id, body).testing(payment.Test)
	},
	readers: func(a Account) (readers, error) {
		says := func(at, amount string, facts ...webhook.Fact) webhook.Layout {
			l := webhook.Layout{ID: webhook.Paths{"id"}, Type: webhook.Paths{"status"}, Order: orderPath(a, ""), Payment: webhook.Paths{"id"},
				Amount: webhook.Paths{amount + ".value"}, AmountUnit: "decimal", Currency: webhook.Paths{amount + ".currency"}, Facts: facts}
			if at != "" {
				l.Time = webhook.Paths{at}
			}
			return l
		}
		const reason = "cancellation_details.reason"
		canceled := []webhook.Fact{}
		for _, calledOff := range []string{"canceled_by_merchant", "expired_on_confirmation", "expired_on_capture"} {
			canceled = append(canceled, webhook.Fact{Type: "canceled", Kind: order.KindCancelled, When: map[string]string{reason: calledOff}})
		}
		return compile(map[string][]statement{"payment": {
			{layout: says("captured_at", "amount", webhook.Fact{Type: "succeeded", Kind: order.KindPaid})},
			{layout: says("created_at", "amount", append(canceled,
				webhook.Fact{Type: "canceled", Kind: order.KindFailed},
				webhook.Fact{Type: "pending", Kind: order.KindPending},
				webhook.Fact{Type: "waiting_for_capture", Kind: order.KindPending})...)},
			{given: []string{"refunded_amount.value"}, layout: says("", "refunded_amount", webhook.Fact{Type: "succeeded", Kind: order.KindRefundTotal})},
		}})
	},
}

package lookup

import (
	"net/url"
	"strings"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// yookassa: a payment and its refunds (yookassa.ru/developers/api#get_payment,
// …#get_refunds_list, …/using-api/lists). Canceled also means failed: the reason
// tells them apart (yookassa.ru/developers/payment-acceptance/after-the-payment/declined-payments).
var yookassa = API{
	Provider:   "yookassa",
	Docs:       "https://yookassa.ru/developers/api#get_payment",
	Live:       "https://api.yookassa.ru",
	Test:       "https://api.yookassa.ru",
	ByPayment:  true,
	Credential: "the shop's secret key",
	Settings:   []Setting{{Name: "shop_id", Help: "the shop's id at YooKassa"}, orderSetting("metadata.order_id")},
	Rate:       10,
	Pending:    time.Hour, // yookassa.ru/developers/payment-acceptance/getting-started: a payment waits an hour for its payer
	Leaves:     "by order: payments cannot be listed by their metadata; disputes",
	auth: func(a Account, _ time.Time) map[string]string {
		return basic(a.Settings["shop_id"], a.Secret)
	},
	run: func(a *asking) result {
		id := a.target.Payment
		body, out := a.open("payment", "/v3/payments/%s", id)
		if body == nil {
			return out
		}
		var payment struct {
			Test     *bool `json:"test"`
			Refunded *struct {
				Value string `json:"value"`
			} `json:"refunded_amount"`
		}
		if !decoded(body, &payment) {
			return unreadable(errNotJSON)
		}
		if r := payment.Refunded; out.paid() && r != nil && strings.Trim(r.Value, "0.") != "" {
			first := "/v3/refunds?limit=100&payment_id=" + url.QueryEscape(id)
			refunds, end, ok := a.list(first, "items", following(first, "cursor", "next_cursor"))
			if !ok {
				return end
			}
			out = out.and(a.each("refund", id, refunds))
		}
		return out.testing(payment.Test)
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
		refund := says("created_at", "amount", webhook.Fact{Type: "succeeded", Kind: order.KindRefund})
		refund.Order, refund.Payment, refund.Object = nil, webhook.Paths{"payment_id"}, webhook.Paths{"id"}
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
		}, "refund": {{layout: refund}}})
	},
}

package webhook

import (
	"slices"
	"testing"

	"sluice/pkg/order"
)

// The topic is not signed: whoever has one signed body can send it again under another.
func TestAShopifyBodyUnderAnotherTopicStatesOnlyWhatItSaysItself(t *testing.T) {
	p := builtinOf(t, "shopify")
	topics := []string{"orders/create", "app/uninstalled"}
	for _, f := range shopifyLayout.Facts {
		topics = append(topics, f.Type)
	}
	for body, may := range map[string][]order.Kind{
		`{"id":1,"name":"#1","financial_status":"pending","cancelled_at":null,"total_price":"10.00","currency":"USD"}`:                    nil,
		`{"id":1,"name":"#1","financial_status":"authorized","cancelled_at":null,"total_price":"10.00","currency":"USD"}`:                 nil,
		`{"id":1,"name":"#1","financial_status":"paid","cancelled_at":null,"total_price":"10.00","currency":"USD"}`:                       {order.KindPaid},
		`{"id":1,"name":"#1","financial_status":"paid","cancelled_at":"2026-01-01T00:00:00Z","total_price":"10.00","currency":"USD"}`:     {order.KindPaid},
		`{"id":1,"name":"#1","financial_status":"voided","cancelled_at":"2026-01-01T00:00:00Z","total_price":"10.00","currency":"USD"}`:   {order.KindCancelled},
		`{"id":1,"name":"#1","financial_status":"refunded","cancelled_at":"2026-01-01T00:00:00Z","total_price":"10.00","currency":"USD"}`: {order.KindRefundTotal},
		`{"id":2,"order_id":1,"transactions":[{"kind":"refund","status":"success","amount":"5.00","currency":"USD"}]}`:                    {order.KindRefund},
		`{"id":2,"order_id":1,"transactions":[{"kind":"refund","status":"pending","amount":"5.00","currency":"USD"}]}`:                    nil,
		`{"id":3,"order_id":1,"kind":"sale","status":"failure","amount":"5.00","currency":"USD"}`:                                         {order.KindFailed},
		`{"id":3,"order_id":1,"kind":"sale","status":"success","amount":"5.00","currency":"USD"}`:                                         nil,
		`{"id":4,"order_id":1,"status":"success","line_items":[{"id":5}]}`:                                                                nil, // a fulfilment
		`{"id":6,"order_id":1,"type":"chargeback","status":"needs_response","amount":"5.00","currency":"USD"}`:                            {order.KindDisputeOpened},
		`{"id":6,"order_id":1,"type":"chargeback","status":"won","amount":"5.00","currency":"USD"}`:                                       {order.KindDisputeOpened, order.KindDisputeWon},
		`{"id":7,"name":"A product","status":"active","type":"ring"}`:                                                                     nil,
	} {
		for _, topic := range topics {
			r, err := p.Read(headersOf("X-Shopify-Topic", topic, "X-Shopify-Webhook-Id", "w"), []byte(body))
			if err == nil && r.Fact != order.KindNone && !slices.Contains(may, r.Fact) {
				t.Errorf("%s as %s states %s", body, topic, r.Fact)
			}
		}
	}
}

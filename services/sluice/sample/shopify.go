package sample

import (
	"time"

	"sluice/pkg/order"
)

var shopifyTopics = map[order.Kind]string{
	order.KindPaid:      "orders/paid",
	order.KindCancelled: "orders/cancelled",
	order.KindFailed:    "order_transactions/create",
	order.KindRefund:    "refunds/create",
}

// shopify writes orders by the name the shop knows them by; Shopify's own id of the
// order stands for the payment.
func shopify(f Fact) object {
	amount := decimal(f.Amount, f.Currency)
	id, at := number(f.Payment, 13), f.Time.UTC().Format(time.RFC3339)
	transaction := object{"id": number(f.ID+f.Object, 12), "order_id": id, "amount": amount, "currency": f.Currency, "created_at": at}
	switch f.Kind {
	case order.KindPaid, order.KindCancelled:
		o := object{"id": id, "name": f.Order, "currency": f.Currency, "total_price": amount, "current_total_price": amount, "financial_status": "paid",
			"cancelled_at": nil, "created_at": at, "updated_at": at, "refunds": []string{}}
		if f.Kind == order.KindCancelled {
			o["financial_status"], o["cancelled_at"], o["cancel_reason"] = "voided", at, "customer"
		}
		return o
	case order.KindFailed:
		transaction["kind"], transaction["status"], transaction["error_code"] = "sale", "failure", "card_declined"
		return transaction
	case order.KindRefund:
		transaction["kind"], transaction["status"] = "refund", "success"
		return object{"id": number(f.Object, 12), "order_id": id, "created_at": at, "processed_at": at, "transactions": []object{transaction}}
	}
	return nil
}

func shopifyHeaders(f Fact) map[string]string {
	return map[string]string{
		"X-Shopify-Topic": shopifyTopics[f.Kind], "X-Shopify-Shop-Domain": "demo-shop.myshopify.com", "X-Shopify-API-Version": "2026-01",
		"X-Shopify-Webhook-Id": f.ID, "X-Shopify-Event-Id": "ev-" + f.ID, "X-Shopify-Triggered-At": f.Time.UTC().Format("2006-01-02T15:04:05.000000Z"),
	}
}

// decimal is an amount as a decimal string; empty if the currency is none.
func decimal(minor int64, currency string) string {
	text, err := order.FormatDecimal(minor, currency)
	if err != nil {
		return ""
	}
	return text
}

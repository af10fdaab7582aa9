package sample

import (
	"strings"

	"sluice/pkg/order"
)

// stripe writes snapshot events as Stripe's API of 2025-09-30 does; refunds so
// far as charge.refunded, single ones as refund.created.
func stripe(f Fact) object {
	currency, created := strings.ToLower(f.Currency), f.Time.Unix()
	id := func(prefix, of string) string { return prefix + strings.TrimPrefix(of, "pi_") }
	intent := object{
		"id": f.Payment, "object": "payment_intent", "amount": f.Amount, "amount_received": 0, "currency": currency,
		"created": created - 5, "capture_method": "automatic_async", "latest_charge": id("ch_", f.Payment), "livemode": f.Live,
		"metadata": object{"order_id": f.Order}, "payment_method_types": []string{"card"}, "last_payment_error": nil,
	}
	part := object{ // a refund or a dispute
		"id": f.Object, "amount": f.Amount, "charge": id("ch_", f.Payment), "currency": currency, "created": created - 1,
		"metadata": object{}, "payment_intent": f.Payment,
	}
	typ, obj := "", intent
	switch f.Kind {
	case order.KindPaid:
		typ = "payment_intent.succeeded"
		intent["amount_received"], intent["status"] = f.Amount, "succeeded"
	case order.KindFailed:
		typ = "payment_intent.payment_failed"
		intent["status"] = "requires_payment_method"
		intent["last_payment_error"] = object{"type": "card_error", "code": "card_declined", "decline_code": "insufficient_funds"}
	case order.KindCancelled:
		typ = "payment_intent.canceled"
		intent["status"], intent["cancellation_reason"], intent["canceled_at"] = "canceled", "requested_by_customer", created
	case order.KindPending:
		typ = "checkout.session.completed"
		obj = object{"id": id("cs_test_", f.Payment), "object": "checkout.session", "amount_total": f.Amount, "currency": currency,
			"client_reference_id": f.Order, "created": created - 60, "livemode": f.Live, "metadata": object{"order_id": f.Order},
			"mode": "payment", "payment_intent": f.Payment, "payment_status": "unpaid", "status": "complete"}
	case order.KindRefundTotal:
		typ = "charge.refunded"
		obj = object{"id": id("ch_", f.Payment), "object": "charge", "amount": f.Total, "amount_captured": f.Total,
			"amount_refunded": f.Amount, "captured": true, "created": created - 60, "currency": currency, "disputed": false,
			"livemode": f.Live, "metadata": object{"order_id": f.Order}, "paid": true, "payment_intent": f.Payment,
			"refunded": f.Amount == f.Total, "status": "succeeded"}
	case order.KindRefund:
		typ, obj = "refund.created", part
		obj["object"], obj["status"], obj["reason"] = "refund", "succeeded", "requested_by_customer"
	case order.KindRefundFailed:
		typ, obj = "refund.failed", part
		obj["object"], obj["status"], obj["failure_reason"] = "refund", "failed", "expired_or_canceled_card"
	case order.KindDisputeOpened:
		typ, obj = "charge.dispute.created", part
		obj["object"], obj["status"], obj["reason"] = "dispute", "needs_response", "fraudulent"
	case order.KindDisputeWon, order.KindDisputeLost:
		typ, obj = "charge.dispute.closed", part
		obj["object"], obj["reason"] = "dispute", "fraudulent"
		obj["status"] = strings.TrimPrefix(f.Kind.String(), "dispute_")
	default:
		return nil
	}
	return object{
		"id": f.ID, "object": "event", "api_version": "2025-09-30.clover", "created": created, "livemode": f.Live,
		"pending_webhooks": 1, "request": object{"id": nil, "idempotency_key": nil}, "type": typ, "data": object{"object": obj},
	}
}

package sample

import "sluice/pkg/order"

var razorpayTypes = map[order.Kind][2]string{
	order.KindPending:      {"payment.authorized", "authorized"},
	order.KindPaid:         {"payment.captured", "captured"},
	order.KindFailed:       {"payment.failed", "failed"},
	order.KindRefund:       {"refund.processed", "captured"},
	order.KindRefundFailed: {"refund.failed", "captured"},
}

// razorpay writes events whose payment carries the shop's order id in its notes.
func razorpay(f Fact) object {
	typ, ok := razorpayTypes[f.Kind]
	if !ok {
		return nil
	}
	payment := object{"id": f.Payment, "entity": "payment", "amount": f.Amount, "currency": f.Currency, "status": typ[1], "amount_refunded": 0, "refund_status": nil,
		"captured": typ[1] == "captured", "notes": object{"order_ref": f.Order}, "created_at": f.Time.Unix() - 5}
	payload, contains := object{"payment": object{"entity": payment}}, []string{"payment"}
	if f.Kind == order.KindRefund || f.Kind == order.KindRefundFailed {
		payment["amount"], payment["amount_refunded"], payment["refund_status"] = f.Total, f.Amount, "partial"
		if f.Amount == f.Total {
			payment["status"], payment["refund_status"] = "refunded", "full"
		}
		payload["refund"] = object{"entity": object{"id": f.Object, "entity": "refund", "amount": f.Amount, "currency": f.Currency, "payment_id": f.Payment,
			"notes": []string{}, "status": map[bool]string{true: "processed", false: "failed"}[f.Kind == order.KindRefund], "created_at": f.Time.Unix() - 1}}
		contains = []string{"refund", "payment"}
	}
	return object{"entity": "event", "account_id": "acc_Demo", "event": typ[0], "contains": contains, "payload": payload, "created_at": f.Time.Unix()}
}

func razorpayHeaders(f Fact) map[string]string {
	return map[string]string{"X-Razorpay-Event-Id": f.ID}
}

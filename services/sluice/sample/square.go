package sample

import "sluice/pkg/order"

var squareStatuses = map[order.Kind]string{
	order.KindPending: "APPROVED", order.KindPaid: "COMPLETED", order.KindFailed: "FAILED", order.KindCancelled: "CANCELED",
	order.KindRefund: "COMPLETED", order.KindRefundFailed: "FAILED",
}

// square writes payment.updated and refund.updated.
func square(f Fact) object {
	status, ok := squareStatuses[f.Kind]
	if !ok {
		return nil
	}
	at, what := f.Time.UTC().Format("2006-01-02T15:04:05.000Z"), "payment"
	money := object{"amount": f.Amount, "currency": f.Currency}
	of := object{"id": f.Payment, "status": status, "amount_money": money, "total_money": money, "reference_id": f.Order, "source_type": "CARD", "created_at": at, "updated_at": at}
	if f.Kind == order.KindRefund || f.Kind == order.KindRefundFailed {
		what = "refund"
		of = object{"id": f.Object, "status": status, "amount_money": money, "payment_id": f.Payment, "created_at": at, "updated_at": at}
	}
	return object{"merchant_id": "MLDEMO", "type": what + ".updated", "event_id": f.ID, "created_at": at,
		"data": object{"type": what, "id": of["id"], "object": object{what: of}}}
}

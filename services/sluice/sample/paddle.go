package sample

import (
	"strconv"
	"time"

	"sluice/pkg/order"
)

var paddleTypes = map[order.Kind][2]string{
	order.KindPaid:      {"transaction.paid", "paid"},
	order.KindFailed:    {"transaction.payment_failed", "past_due"},
	order.KindCancelled: {"transaction.canceled", "canceled"},
	order.KindRefund:    {"adjustment.updated", "approved"},
}

// paddle writes transactions, and refunds as approved adjustments. Amounts are minor
// units in text.
func paddle(f Fact) object {
	typ, ok := paddleTypes[f.Kind]
	if !ok {
		return nil
	}
	at, amount := f.Time.UTC().Format("2006-01-02T15:04:05.000000Z"), strconv.FormatInt(f.Amount, 10)
	totals := object{"subtotal": amount, "tax": "0", "total": amount, "currency_code": f.Currency}
	data := object{"id": f.Payment, "status": typ[1], "currency_code": f.Currency, "created_at": f.Time.UTC().Format(time.RFC3339), "custom_data": object{"order_id": f.Order}, "details": object{"totals": totals}}
	if f.Kind == order.KindRefund {
		extent := "full"
		if f.Amount < f.Total {
			extent = "partial"
		}
		data = object{"id": f.Object, "action": "refund", "type": extent, "status": typ[1], "transaction_id": f.Payment, "currency_code": f.Currency, "totals": totals}
	}
	return object{"event_id": f.ID, "event_type": typ[0], "occurred_at": at, "notification_id": "ntf_" + f.ID, "data": data}
}

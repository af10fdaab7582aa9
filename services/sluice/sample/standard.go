package sample

import (
	"time"

	"sluice/pkg/order"
)

var standardTypes = map[order.Kind]string{
	order.KindPending:       "payment.pending",
	order.KindPaid:          "payment.succeeded",
	order.KindFailed:        "payment.failed",
	order.KindCancelled:     "payment.cancelled",
	order.KindRefund:        "refund.succeeded",
	order.KindRefundFailed:  "refund.failed",
	order.KindDisputeOpened: "dispute.opened",
	order.KindDisputeWon:    "dispute.won",
	order.KindDisputeLost:   "dispute.lost",
}

// standard writes the envelope of Standard Webhooks; what lies under data is
// each sender's own choice.
func standard(f Fact) object {
	typ, ok := standardTypes[f.Kind]
	if !ok {
		return nil
	}
	data := object{"id": f.Payment, "order_id": f.Order, "amount": f.Amount, "currency": f.Currency}
	switch f.Kind {
	case order.KindRefund, order.KindRefundFailed:
		data["refund_id"], data["is_partial"] = f.Object, f.Amount < f.Total
	case order.KindDisputeOpened, order.KindDisputeWon, order.KindDisputeLost:
		data["dispute_id"] = f.Object
	}
	return object{"type": typ, "timestamp": f.Time.UTC().Format(time.RFC3339Nano), "livemode": f.Live, "data": data}
}

package webhook

import (
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// Paystack signs the raw body with HMAC-SHA512 in hex under the account's secret API
// key, test and live each their own (paystack.com/docs/payments/webhooks). Its bodies have
// no event id: the event's name and the id of what it is about make one.
var paystack = Declaration{
	Name:      "paystack",
	Signature: Signature{Header: "X-Paystack-Signature", Algorithm: "sha512", Encoding: "hex"},
	Reading:   paystackLayout,
	Profile: Profile{
		Title:     "Paystack",
		Docs:      "https://paystack.com/docs/payments/webhooks",
		Secret:    "the secret API key, sk_test_ or sk_live_",
		Signature: "HMAC-SHA512 in hex over the body, in X-Paystack-Signature",
		Covers:    "the whole body",
		ID:        "`event`, a colon and `data.id`",
		Trust:     event.Signed,
		// Every 3 minutes four times, then hourly for 72 hours.
		Retries: 72*time.Hour + 12*time.Minute,
	},
}

// paystackLayout: one payment is a transaction's reference, because refunds and
// disputes name only that. The reference is the shop's own, so it is the order unless
// metadata names one.
var paystackLayout = Layout{
	ID:          Paths{"event + data.id", "event + data.refund_reference"},
	Type:        Paths{"event"},
	Time:        Paths{"data.paid_at", "data.created_at", "data.createdAt"},
	TimeRepeats: true,
	Mode:        Paths{"data.domain"},
	Order:       Paths{"data.metadata.order_id", "data.reference"},
	Payment:     Paths{"data.transaction_reference", "data.transaction.reference", "data.reference"},
	Subject:     Paths{"data.id"},
	Amount:      Paths{"data.amount"},
	Currency:    Paths{"data.currency", "data.transaction.currency"},
	Facts: []Fact{
		{Type: "charge.success", Kind: order.KindPaid, When: map[string]string{"data.status": "success"}},
		{Type: "refund.processed", Kind: order.KindRefund, Object: Paths{"data.id", "data.refund_reference"}},
		{Type: "refund.failed", Kind: order.KindRefundFailed, Object: Paths{"data.id", "data.refund_reference"}},
		{Type: "charge.dispute.create", Kind: order.KindDisputeOpened, Object: Paths{"data.id"}},
		paystackResolved("declined", order.KindDisputeWon),
		paystackResolved("merchant-accepted", order.KindDisputeLost),
		paystackResolved("auto-accepted", order.KindDisputeLost),
	},
}

func paystackResolved(resolution string, kind order.Kind) Fact {
	return Fact{Type: "charge.dispute.resolve", Kind: kind, When: map[string]string{"data.resolution": resolution}, Object: Paths{"data.id"}}
}

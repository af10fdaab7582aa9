package webhook

import (
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// Razorpay signs the raw body with HMAC-SHA256 in hex (razorpay/markdown-docs
// webhooks/validate-test.md). The event's id is only in a header, which it does not
// sign. After a change of the secret, retries of older events keep the old one.
var razorpay = Declaration{
	Name:      "razorpay",
	Signature: Signature{Header: "X-Razorpay-Signature", Algorithm: "sha256", Encoding: "hex"},
	Reading:   razorpayLayout,
	Profile: Profile{
		Title:     "Razorpay",
		Docs:      "https://razorpay.com/docs/webhooks/validate-test",
		Secret:    "the webhook's secret",
		Signature: "HMAC-SHA256 in hex over the body, in X-Razorpay-Signature",
		Covers:    "the whole body",
		Leaves:    "the event's id: it is in a header",
		Instead:   "a fact counts once for its payment or refund, however often and under whatever id it comes",
		ID:        "header X-Razorpay-Event-Id",
		Trust:     event.Signed,
		Retries:   24 * time.Hour,
	},
}

// razorpayLayout: payment.captured and order.paid state one fact, of the payment that
// both name. An authorised payment is not paid, whatever its `captured` says. `notes`
// is an object, or [] when it is empty. A refund leaves a payment "captured" until
// all of it is back, so the extent is refund_status, which speaks of all refunds so far.
var razorpayLayout = Layout{
	ID:            Paths{"header:X-Razorpay-Event-Id"},
	Type:          Paths{"event"},
	Time:          Paths{"created_at"},
	TimeRepeats:   true,
	Order:         Paths{"payload.payment.entity.notes.order_ref", "payload.payment.entity.notes.order_id", "payload.order.entity.receipt"},
	Payment:       Paths{"payload.refund.entity.payment_id", "payload.dispute.entity.payment_id", "payload.payment.entity.id"},
	Subject:       Paths{"payload.refund.entity.id", "payload.dispute.entity.id", "payload.payment.entity.id"},
	Amount:        Paths{"payload.refund.entity.amount", "payload.dispute.entity.amount", "payload.payment.entity.amount"},
	PaymentAmount: Paths{"payload.payment.entity.amount"},
	Currency:      Paths{"payload.refund.entity.currency", "payload.dispute.entity.currency", "payload.payment.entity.currency"},
	Facts: []Fact{
		{Type: "payment.authorized", Kind: order.KindPending},
		{Type: "payment.captured", Kind: order.KindPaid},
		{Type: "order.paid", Kind: order.KindPaid},
		{Type: "payment.failed", Kind: order.KindFailed},

		razorpayRefund("refund.created", order.KindPending),
		razorpayRefund("refund.processed", order.KindRefund),
		razorpayRefund("refund.failed", order.KindRefundFailed),

		razorpayDispute("payment.dispute.created", order.KindDisputeOpened, nil),
		razorpayDispute("payment.dispute.won", order.KindDisputeWon, nil),
		razorpayDispute("payment.dispute.lost", order.KindDisputeLost, nil),
		// Closed without a decision: nothing was taken.
		razorpayDispute("payment.dispute.closed", order.KindDisputeWon, map[string]string{"payload.dispute.entity.amount_deducted": "0"}),
	},
}

func razorpayRefund(typ string, kind order.Kind) Fact {
	return Fact{Type: typ, Kind: kind, Object: Paths{"payload.refund.entity.id"}, Amount: Paths{"payload.refund.entity.amount"},
		Extent: Paths{"payload.payment.entity.refund_status"}}
}

func razorpayDispute(typ string, kind order.Kind, when map[string]string) Fact {
	return Fact{Type: typ, Kind: kind, When: when, Object: Paths{"payload.dispute.entity.id"}, Amount: Paths{"payload.dispute.entity.amount"}}
}

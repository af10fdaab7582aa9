package webhook

import (
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// Paddle (Billing) signs `ts:body` with HMAC-SHA256 in hex, the key being the whole
// secret with its pdl_ntfset_ (paddle-go-sdk v4, paddle-php-sdk, paddle-node-sdk v3).
// Several h1 may each be right: the Node library keeps only the last of them, the Go
// library takes exactly one, and a rotation needs both. Everything in the body is signed.
var paddle = Declaration{
	Name: "paddle",
	Signature: Signature{Header: "Paddle-Signature", Part: "h1", Separator: ";", Algorithm: "sha256", Encoding: "hex",
		Signed: "{timestamp}:{body}", Timestamp: Timestamp{Part: "ts"}},
	// PHP, Node and Python libraries: 5 s, old only; the Go library checks no time unless
	// asked. It is tight where a queue stands before the receiver: an endpoint may say more.
	Tolerance: Tolerance{Past: 5 * time.Second, Future: Unlimited},
	Reading:   paddleLayout,
	Profile: Profile{
		Title:     "Paddle",
		Docs:      "https://developer.paddle.com/webhooks/signature-verification",
		Secret:    "the notification destination's secret key, with its pdl_ntfset_",
		Signature: "HMAC-SHA256 in hex over `ts:body`, in Paddle-Signature",
		Covers:    "the time and the whole body",
		ID:        "`event_id` of the body",
		Trust:     event.Signed,
		Retries:   3 * 24 * time.Hour, // 60 times in three days
	},
}

// paddleLayout: one payment is a transaction. An adjustment is a refund only once it
// is approved; most are made as pending_approval, and what is rejected never was one.
// A chargeback and its reversal are two adjustments of one dispute, so a dispute is
// named by its transaction.
var paddleLayout = Layout{
	ID:          Paths{"event_id"},
	Type:        Paths{"event_type"},
	Time:        Paths{"occurred_at"},
	TimeRepeats: true,
	Subject:     Paths{"data.id"},
	Order:       Paths{"data.custom_data.order_id"},
	Payment:     Paths{"data.transaction_id"},
	Amount:      Paths{"data.totals.total", "data.details.totals.total"}, // minor units, as text
	Currency:    Paths{"data.currency_code"},
	Facts: []Fact{
		paddleTransaction("transaction.paid", order.KindPaid),
		paddleTransaction("transaction.completed", order.KindPaid),
		paddleTransaction("transaction.payment_failed", order.KindFailed),
		paddleTransaction("transaction.canceled", order.KindCancelled),

		paddleAdjustment("adjustment.created", "refund", "pending_approval", order.KindPending),
		paddleAdjustment("adjustment.created", "refund", "approved", order.KindRefund),
		paddleAdjustment("adjustment.updated", "refund", "approved", order.KindRefund),
		paddleAdjustment("adjustment.updated", "refund", "reversed", order.KindRefundFailed),

		paddleAdjustment("adjustment.created", "chargeback", "approved", order.KindDisputeOpened),
		paddleAdjustment("adjustment.updated", "chargeback", "approved", order.KindDisputeOpened),
		paddleAdjustment("adjustment.created", "chargeback_warning", "approved", order.KindDisputeOpened),
		paddleAdjustment("adjustment.created", "chargeback_reverse", "approved", order.KindDisputeWon),
		paddleAdjustment("adjustment.updated", "chargeback_reverse", "approved", order.KindDisputeWon),
		paddleAdjustment("adjustment.updated", "chargeback", "reversed", order.KindDisputeWon),
	},
}

func paddleTransaction(typ string, kind order.Kind) Fact {
	return Fact{Type: typ, Kind: kind, Payment: Paths{"data.id"}, Amount: Paths{"data.details.totals.total"}}
}

func paddleAdjustment(typ, action, status string, kind order.Kind) Fact {
	f := Fact{Type: typ, Kind: kind, When: map[string]string{"data.action": action, "data.status": status}, Extent: Paths{"data.type"}, Object: Paths{"data.id"}}
	if action != "refund" {
		f.Object = Paths{"data.transaction_id"}
	}
	return f
}

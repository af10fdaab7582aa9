package webhook

import (
	"sluice/pkg/event"
	"sluice/pkg/order"
)

// Checkout.com signs the raw body with HMAC-SHA256 in hex (checkout.com/docs, Set up
// your webhook receiver). Everything in the body is signed; no time is, so an old
// request verifies for ever and its event id tells it apart.
var checkout = Declaration{
	Name:      "checkout",
	Signature: Signature{Header: "Cko-Signature", Algorithm: "sha256", Encoding: "hex"},
	Reading:   checkoutLayout,
	Profile: Profile{
		Title:     "Checkout.com",
		Docs:      "https://www.checkout.com/docs/workflows/set-up-your-webhook-receiver",
		Secret:    "the workflow's signature key",
		Signature: "HMAC-SHA256 in hex over the body, in Cko-Signature",
		Covers:    "the whole body",
		ID:        "`id` of the body",
		Trust:     event.Signed,
		Retries:   RetriesUnknown,
	},
}

// checkoutLayout: an approved payment is not paid until it is captured. A refund is
// an action of its payment; a dispute names its payment beside its own id.
var checkoutLayout = Layout{
	ID:          Paths{"id"},
	Type:        Paths{"type"},
	Time:        Paths{"created_on"},
	TimeRepeats: true,
	Order:       Paths{"data.reference"},
	Payment:     Paths{"data.payment_id", "data.id"},
	Subject:     Paths{"data.id"},
	Amount:      Paths{"data.amount"},
	Currency:    Paths{"data.currency"},
	// checkout.com/docs/resources/calculating-the-amount, read November 2026: CLP is not
	// among the currencies without decimals.
	Places: map[string]int{"CLP": 2},
	Facts: []Fact{
		{Type: "payment_pending", Kind: order.KindPending},
		{Type: "payment_approved", Kind: order.KindPending},
		{Type: "payment_captured", Kind: order.KindPaid},
		{Type: "payment_declined", Kind: order.KindFailed},
		{Type: "payment_capture_declined", Kind: order.KindFailed},
		{Type: "payment_canceled", Kind: order.KindCancelled},
		{Type: "payment_voided", Kind: order.KindCancelled},
		{Type: "payment_expired", Kind: order.KindCancelled},
		{Type: "payment_refunded", Kind: order.KindRefund, Object: Paths{"data.action_id"}},
		checkoutDispute("dispute_received", order.KindDisputeOpened),
		checkoutDispute("dispute_evidence_required", order.KindDisputeOpened),
		checkoutDispute("dispute_won", order.KindDisputeWon),
		checkoutDispute("dispute_canceled", order.KindDisputeWon),
		checkoutDispute("dispute_resolved", order.KindDisputeWon), // it had been refunded before
		checkoutDispute("dispute_lost", order.KindDisputeLost),
	},
}

func checkoutDispute(typ string, kind order.Kind) Fact {
	return Fact{Type: typ, Kind: kind, Order: Paths{"data.payment_reference"}, Payment: Paths{"data.payment_id"}, Object: Paths{"data.id"}}
}

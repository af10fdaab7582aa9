package webhook

import (
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// Coinbase Commerce signs the raw body with HMAC-SHA256 in hex
// (coinbase-commerce-node lib/Webhook.js). The body counts its own delivery in
// attempt_number, so every retry has another body and signature; what it says of the
// event stays the same.
var coinbaseCommerce = Declaration{
	Name:      "coinbase_commerce",
	Signature: Signature{Header: "X-CC-Webhook-Signature", Algorithm: "sha256", Encoding: "hex"},
	Reading:   coinbaseLayout,
	Profile: Profile{
		Title:     "Coinbase Commerce",
		Docs:      "https://docs.cdp.coinbase.com/commerce/api-architecture/webhooks-overview",
		Secret:    "the webhook's shared secret",
		Signature: "HMAC-SHA256 in hex over the body, in X-CC-Webhook-Signature",
		Covers:    "the whole body, with the number of the attempt",
		ID:        "`event.id` of the body; its own `id` is the delivery's",
		Trust:     event.Signed,
		Retries:   3 * 24 * time.Hour,
	},
}

// coinbaseLayout: one payment is a charge; older bodies name it by its code alone. The
// amount is what the charge asked for, in the currency of the shop. A resolved charge
// is one that a person there took for paid; a delayed one was paid after it ended and
// waits for that.
var coinbaseLayout = Layout{
	ID:          Paths{"event.id"},
	Type:        Paths{"event.type"},
	Time:        Paths{"event.created_at"},
	TimeRepeats: true,
	Order:       Paths{"event.data.metadata.order_id"},
	Payment:     Paths{"event.data.id", "event.data.code"},
	Subject:     Paths{"event.data.id", "event.data.code"},
	Amount:      Paths{"event.data.pricing.local.amount"},
	AmountUnit:  "decimal",
	Currency:    Paths{"event.data.pricing.local.currency"},
	Facts: []Fact{
		{Type: "charge:pending", Kind: order.KindPending},
		{Type: "charge:confirmed", Kind: order.KindPaid},
		{Type: "charge:resolved", Kind: order.KindPaid},
		{Type: "charge:failed", Kind: order.KindFailed},
	},
}

package webhook

import (
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// Shopify signs the raw body alone with HMAC-SHA256 in base64, under the app's client
// secret (shopify.dev, Verify webhook deliveries). The topic, the shop, the ids and the
// time are in headers, which it does not sign; the official library still refuses a
// webhook without them (shopify-app-js lib/webhooks/validate.ts). After a change of
// the secret it may sign with the old one for an hour.
var shopify = Declaration{
	Name: "shopify",
	Signature: Signature{Header: "X-Shopify-Hmac-Sha256", Algorithm: "sha256", Encoding: "base64",
		Required: []string{"X-Shopify-Topic", "X-Shopify-Shop-Domain", "X-Shopify-API-Version", "X-Shopify-Webhook-Id"}},
	Reading: shopifyLayout,
	Profile: shopifyProfile("Shopify", "X-Shopify-Hmac-SHA256", "header X-Shopify-Webhook-Id, which every retry repeats"),
}

// shopifyEvents are the deliveries of the newer Events, whose headers have no X-.
// Their bodies are what the subscription's query asks for, so they state nothing
// here: a shop that uses them declares its own reading.
var shopifyEvents = Declaration{
	Name: "shopify_events",
	Signature: Signature{Header: "shopify-hmac-sha256", Algorithm: "sha256", Encoding: "base64",
		Required: []string{"shopify-topic", "shopify-shop-domain", "shopify-api-version", "shopify-event-id"}},
	Reading: Layout{ID: Paths{"header:shopify-event-id"}, Type: Paths{"header:shopify-topic"},
		Time: Paths{"header:shopify-triggered-at"}, TimeRepeats: true},
	Profile: shopifyProfile("Shopify Events", "shopify-hmac-sha256", "header shopify-event-id"),
}

func shopifyProfile(title, header, id string) Profile {
	return Profile{
		Title:     title,
		Docs:      "https://shopify.dev/docs/apps/build/webhooks/verify-deliveries",
		Secret:    "the app's client secret",
		Signature: "HMAC-SHA256 in base64 over the body, in " + header,
		Covers:    "the whole body",
		Leaves:    "the topic, the shop, the ids and the time: they are in headers",
		Instead:   "a body states only what it says by itself, under whatever topic it comes, and a fact counts once for its order or refund, however often and under whatever id",
		ID:        id,
		Trust:     event.Signed,
		Retries:   4 * time.Hour, // eight times in four hours (shopify.dev changelog)
	}
}

// shopifyLayout reads orders, refunds, transactions and disputes. One payment is one
// order of Shopify's: that is the only id which all of them name. The shop's own
// reference is the order's name ("#1001") unless the endpoint says another place, for
// example note_attributes[name=order_ref].value.
//
// The topic is not signed, so no fact rests on it alone: a body sent again under
// another topic states only what it says by itself. A paid order says "paid", a
// cancelled one when it was, a dispute of what type it is.
//
// A refund is the sum of its transactions that succeeded, one for each way it is paid
// back; without one it gives back goods, not money. An updated order says that
// something was refunded but not how much (its current total also falls by edits), so
// it counts as nothing more than what the refunds themselves state.
var shopifyLayout = Layout{
	ID:          Paths{"header:X-Shopify-Webhook-Id"},
	Type:        Paths{"header:X-Shopify-Topic"},
	Time:        Paths{"header:X-Shopify-Triggered-At", "updated_at", "created_at"},
	TimeRepeats: true, // retries carry the original (shopify.dev changelog)
	Payment:     Paths{"order_id"},
	Subject:     Paths{"id"},
	Amount:      Paths{"amount"},
	AmountUnit:  "decimal",
	Currency:    Paths{"currency", "transactions.0.currency"},
	Facts: []Fact{
		shopifyOrder("orders/paid", order.KindPaid, "paid", "total_price"),
		shopifyOrder("orders/updated", order.KindPaid, "paid", "total_price"),
		shopifyOrder("orders/updated", order.KindRefundTotal, "partially_refunded", "=0", "=partial"),
		shopifyOrder("orders/updated", order.KindRefundTotal, "refunded", "total_price", "=full"),
		// The order itself is called off, not one attempt to pay it; of a paid one the
		// refund tells.
		shopifyCancelled("orders/cancelled", "voided"),
		shopifyCancelled("orders/cancelled", "pending"),
		shopifyCancelled("orders/cancelled", "authorized"),
		shopifyCancelled("orders/updated", "voided"),

		{Type: "refunds/create", Kind: order.KindRefund, Object: Paths{"id"},
			When:   map[string]string{shopifyRefunded: "*"},
			Amount: Paths{sumPrefix + shopifyRefunded}},

		shopifyTransaction("sale", "failure"),
		shopifyTransaction("sale", "error"),
		shopifyTransaction("authorization", "failure"),
		shopifyTransaction("authorization", "error"),

		shopifyDispute("disputes/create", "type", "chargeback", order.KindDisputeOpened),
		shopifyDispute("disputes/create", "type", "inquiry", order.KindDisputeOpened),
		shopifyDispute("disputes/update", "status", "won", order.KindDisputeWon),
		shopifyDispute("disputes/update", "status", "lost", order.KindDisputeLost),
		shopifyDispute("disputes/update", "status", "accepted", order.KindDisputeLost),
	},
}

const shopifyRefunded = "transactions[kind=refund,status=success].amount"

func shopifyOrder(topic string, kind order.Kind, status, amount string, extent ...string) Fact {
	f := Fact{Type: topic, Kind: kind, When: map[string]string{"financial_status": status},
		Order: Paths{"name"}, Payment: Paths{"id"}, Amount: Paths{amount}, Extent: extent}
	if kind == order.KindRefundTotal {
		f.PaymentAmount = Paths{"total_price"}
	}
	return f
}

func shopifyCancelled(topic, status string) Fact {
	return Fact{Type: topic, Kind: order.KindCancelled, When: map[string]string{"financial_status": status, "cancelled_at": "*"},
		Order: Paths{"name"}, Amount: Paths{"total_price"}}
}

func shopifyTransaction(kind, status string) Fact {
	return Fact{Type: "order_transactions/create", Kind: order.KindFailed, When: map[string]string{"kind": kind, "status": status}}
}

func shopifyDispute(topic, key, word string, kind order.Kind) Fact {
	return Fact{Type: topic, Kind: kind, When: map[string]string{"type": "*", key: word}, Object: Paths{"id"}}
}

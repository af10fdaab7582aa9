package lookup

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// paypal asks for what the hint is about: a capture; a refund, whose capture is asked
// for next; an order, with its captures and refunds; an authorization; or a dispute
// (developer.paypal.com/docs/api/payments/v2, …/orders/v2). A capture says that it was
// refunded, but not how much: its order does.
var paypal = API{
	Provider:   "paypal",
	Docs:       "https://developer.paypal.com/docs/api/payments/v2/",
	Live:       "https://api-m.paypal.com",
	Test:       "https://api-m.sandbox.paypal.com",
	ByPayment:  true,
	Credential: "the app's secret",
	Settings:   []Setting{{Name: "client_id", Help: "the app's client id"}},
	Rate:       10,
	Leaves:     "by order: orders cannot be searched by custom_id or invoice_id; disputes, unless the hint is about one",
	Pending:    3 * time.Hour, // developer.paypal.com/docs/api/orders/v2: a payer has three hours to approve

	token: &tokenRequest{path: "/v1/oauth2/token",
		auth: func(a Account) map[string]string { return basic(a.Settings["client_id"], a.Secret) }},
	run:     paypalRun,
	readers: func(Account) (readers, error) { return paypalReaders() },
}

// paypalRun goes refund → capture → order, beginning where the hint points.
func paypalRun(a *asking) result {
	capture, refund, purchase := a.target.Payment, "", ""
	if strings.HasPrefix(a.target.Type, "CUSTOMER.DISPUTE.") {
		return a.document("dispute", "/v1/customer/disputes/%s", a.target.Subject)
	}
	if capture == "" {
		switch typ := a.target.Type; {
		case strings.HasPrefix(typ, "CHECKOUT."):
			purchase = a.target.Subject
		case strings.HasPrefix(typ, "PAYMENT.AUTHORIZATION."):
			return a.document("authorization", "/v2/payments/authorizations/%s", a.target.Subject)
		case typ == "PAYMENT.CAPTURE.REFUNDED" || typ == "PAYMENT.CAPTURE.REVERSED" || strings.HasPrefix(typ, "PAYMENT.REFUND."):
			refund = a.target.Subject
		case strings.HasPrefix(typ, "PAYMENT.CAPTURE."):
			capture = a.target.Subject
		}
	}
	if refund != "" {
		if !askable(refund) {
			return unaskable(refund)
		}
		body, ok := a.ask(a.get("/v2/payments/refunds/%s", refund))
		if !ok {
			return result{}
		}
		if capture = paypalUp(body); !askable(capture) {
			return result{outcome: Unreadable, why: "the refund does not say of which capture it is"}
		}
	}
	var out result
	if capture != "" {
		if !askable(capture) {
			return unaskable(capture)
		}
		body, ok := a.ask(a.get("/v2/payments/captures/%s", capture))
		if !ok {
			return result{}
		}
		var captured paypalDocument
		out = a.read("capture", capture, body)
		if out.outcome != 0 || json.Unmarshal(body, &captured) != nil {
			return out
		}
		if captured.Status != "PARTIALLY_REFUNDED" && captured.Status != "REFUNDED" && refund == "" {
			return out
		}
		if purchase = captured.Related.IDs.Order; !askable(purchase) {
			return result{outcome: Unreadable, why: "the capture was refunded and names no order that would say how much"}
		}
	}
	whole := a.document("order", "/v2/checkout/orders/%s", purchase)
	if whole.outcome != 0 || a.next != nil {
		return whole
	}
	if capture != "" && !slices.ContainsFunc(whole.facts, func(f webhook.Reading) bool { return f.Payment == capture }) {
		return another
	}
	for _, f := range whole.facts {
		if f.Fact == order.KindRefund || f.Fact == order.KindRefundFailed || f.Fact == order.KindPending && f.Object != "" {
			f.Payment = paypalCapture(f.Payment)
		}
		if capture == "" || f.Payment == capture && f.Fact != order.KindPaid {
			out.facts = append(out.facts, f)
		}
	}
	return out
}

type paypalDocument struct {
	Status  string `json:"status"`
	Related struct {
		IDs struct {
			Order string `json:"order_id"`
		} `json:"related_ids"`
	} `json:"supplementary_data"`
	Links []struct {
		Rel  string `json:"rel"`
		Href string `json:"href"`
	} `json:"links"`
}

// paypalUp is the capture that a refund's link named up leads to.
func paypalUp(refund []byte) string {
	var d paypalDocument
	if json.Unmarshal(refund, &d) != nil {
		return ""
	}
	for _, l := range d.Links {
		if l.Rel == "up" {
			return paypalCapture(l.Href)
		}
	}
	return ""
}

// paypalCapture is the id at the end of a capture's address.
func paypalCapture(href string) string {
	u, err := url.Parse(href)
	if err != nil {
		return ""
	}
	_, id, _ := strings.Cut(u.Path, "/captures/")
	return id
}

func paypalReaders() (readers, error) {
	says := func(at string, facts ...webhook.Fact) webhook.Layout {
		return webhook.Layout{ID: webhook.Paths{at + "id"}, Type: webhook.Paths{at + "status"}, Time: webhook.Paths{at + "create_time"},
			Order: webhook.Paths{at + "custom_id", at + "invoice_id"}, Payment: webhook.Paths{at + "id"},
			Amount: webhook.Paths{at + "amount.value"}, AmountUnit: "decimal", Currency: webhook.Paths{at + "amount.currency_code"}, Facts: facts}
	}
	captured := []webhook.Fact{
		{Type: "COMPLETED", Kind: order.KindPaid},
		{Type: "PARTIALLY_REFUNDED", Kind: order.KindPaid},
		{Type: "REFUNDED", Kind: order.KindPaid},
		{Type: "PENDING", Kind: order.KindPending},
		{Type: "DECLINED", Kind: order.KindFailed},
		{Type: "FAILED", Kind: order.KindFailed},
	}
	// A refund's capture is where its link named up leads.
	up := func(kind order.Kind, status string) webhook.Fact {
		return webhook.Fact{Type: "up", Kind: kind, When: map[string]string{"of.item.status": status}}
	}
	refunds := says("of.item.", up(order.KindRefund, "COMPLETED"), up(order.KindRefundFailed, "FAILED"), up(order.KindRefundFailed, "CANCELLED"), up(order.KindPending, "PENDING"))
	refunds.Type, refunds.Payment, refunds.Object = webhook.Paths{"item.rel"}, webhook.Paths{"item.href"}, webhook.Paths{"of.item.id"}
	disputed := func(at string, facts ...webhook.Fact) webhook.Layout {
		return webhook.Layout{ID: webhook.Paths{"dispute_id"}, Type: webhook.Paths{"=dispute"}, Time: webhook.Paths{at},
			Order:   webhook.Paths{"disputed_transactions.0.custom", "disputed_transactions.0.invoice_number"},
			Payment: webhook.Paths{"disputed_transactions.0.seller_transaction_id"}, Object: webhook.Paths{"dispute_id"},
			Amount: webhook.Paths{"dispute_amount.value"}, AmountUnit: "decimal", Currency: webhook.Paths{"dispute_amount.currency_code"}, Facts: facts}
	}
	ended := func(kind order.Kind, code string) webhook.Fact {
		return webhook.Fact{Type: "dispute", Kind: kind, When: map[string]string{"dispute_outcome.outcome_code": code}}
	}
	return compile(map[string][]statement{
		"dispute": {
			{layout: disputed("create_time", webhook.Fact{Type: "dispute", Kind: order.KindDisputeOpened})},
			{layout: disputed("update_time", ended(order.KindDisputeWon, "RESOLVED_SELLER_FAVOUR"), ended(order.KindDisputeLost, "RESOLVED_BUYER_FAVOUR"))},
		},
		"capture":       {{layout: says("", captured...)}},
		"authorization": {{layout: says("", webhook.Fact{Type: "VOIDED", Kind: order.KindCancelled})}},
		"order": {
			{layout: says("")},
			{each: []string{"purchase_units", "item.payments.captures"}, layout: says("item.", captured...)},
			{each: []string{"purchase_units", "item.payments.refunds", "item.links"}, layout: refunds},
		},
	})
}

package lookup

import (
	"net/url"
	"strings"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

const day = 24 * time.Hour

// listings are the providers that list what happened in a span of time. Adyen, Click,
// CloudPayments, Midtrans and Checkout.com are not among them: Adyen, Click and Midtrans
// document no such list, CloudPayments only one of a day's payments by its own time
// zone, and Checkout.com's GET /events is its previous platform's, while its payment
// search is a beta that a key needs a scope of its own for.
//
// Where a list goes by when a thing was made, Back must reach behind the time in which
// it is decided: what an order waits for longer is asked about by itself.
var listings = map[string]Listing{
	// docs.stripe.com/api/events/list: newest first, 30 days back.
	"stripe": {Docs: "https://docs.stripe.com/api/events/list", Says: "events", OwnEvents: true,
		Every: 15 * time.Minute, Back: 2 * time.Hour, Kept: 30 * day,
		lists: []list{{path: "/v1/events", form: unix, items: "data", event: whole, page: "starting_after", next: behindLast("id", "has_more"),
			query: "limit=100&created[gte]={since}&created[lt]={until}" + typeFilter("stripe", "&types[]=", 20)}}},

	// developer.gocardless.com/api-reference/#events-list-events: up to 500 a page.
	"gocardless": {Docs: "https://developer.gocardless.com/api-reference/#events-list-events", Says: "events", OwnEvents: true,
		Every: 15 * time.Minute, Back: 2 * time.Hour,
		lists: []list{goCardlessEvents("payments"), goCardlessEvents("refunds")}},

	// developer.paddle.com/api-reference/events/list-events: no filter by time, so newest
	// first; 90 days back.
	"paddle": {Docs: "https://developer.paddle.com/api-reference/events/list-events", Says: "events", OwnEvents: true,
		Every: 15 * time.Minute, Back: 2 * time.Hour, Kept: 90 * day,
		lists: []list{{path: "/events", items: "data", event: whole, made: "occurred_at", next: linked("/events", paddleNext),
			query: "order_by=id[DESC]&per_page=200" + strings.Replace(typeFilter("paddle", ",", 0), ",", "&event_type=", 1)}}},

	// developer.paypal.com/docs/api/webhooks/v1/#webhooks-events_list: what was sent to
	// the app's webhooks, or should have been. The times include both ends. How far back
	// it reaches is documented as 30 days in the events dashboard only.
	"paypal": {Docs: "https://developer.paypal.com/docs/api/webhooks/v1/#webhooks-events_list", Says: "events of the app's webhooks", OwnEvents: true,
		Every: 15 * time.Minute, Back: 2 * time.Hour, Kept: 30 * day,
		lists: []list{{path: "/v1/notifications/webhooks-events", form: rfc3339, items: "events", event: whole,
			query: "page_size=100&start_time={since}&end_time={until}", next: linked("/v1/notifications/webhooks-events", relNext)}}},

	// developer.squareup.com/reference/square/payments-api/list-payments,
	// …/refunds-api/list-payment-refunds: by when they changed. Its events API would give the webhooks'
	// own ids, but it must be switched on first, and before that its list is empty. Of
	// which locations payments are listed is documented in two ways: of all, and of the
	// main one.
	"square": {Docs: "https://developer.squareup.com/reference/square/payments-api/list-payments", Says: "payments and refunds by their last change",
		Every: 15 * time.Minute, Back: 2 * time.Hour, Kept: 365 * day,
		lists: []list{
			{path: "/v2/payments", form: rfc3339, items: "payments", document: "payment", wrap: "payment", id: "id", page: "cursor", next: cursor("cursor"), query: squareChanged},
			{path: "/v2/refunds", form: rfc3339, items: "refunds", document: "refund", wrap: "refund", id: "id", payment: "payment_id", page: "cursor", next: cursor("cursor"), query: squareChanged}}},

	// docs.mollie.com/reference/list-payments, …/list-all-refunds, …/list-all-chargebacks:
	// by when they were made, newest first, without a filter by time.
	"mollie":         mollieListing,
	"mollie_classic": mollieListing,

	// razorpay.com/docs/api/payments/fetch-all-payments, …/refunds/fetch-all: by when they
	// were made.
	"razorpay": {Docs: "https://razorpay.com/docs/api/payments/fetch-all-payments/", Says: "payments and refunds by when they were made",
		Every: time.Hour, Back: day,
		lists: []list{
			{path: "/v1/payments", form: unix, items: "items", document: "payment", id: "id", page: "skip", next: counted,
				query: "count=100&from={since}&to={until}"},
			{path: "/v1/refunds", form: unix, items: "items", document: "refund", id: "id", payment: "payment_id", page: "skip", next: counted,
				query: "count=100&from={since}&to={until}"}}},

	// yookassa.ru/developers/using-api/lists: by when they were made, three years back.
	"yookassa": {Docs: "https://yookassa.ru/developers/using-api/lists", Says: "payments and refunds by when they were made",
		Every: time.Hour, Back: day, Kept: 3 * 365 * day,
		lists: []list{
			{path: "/v3/payments", form: rfc3339, items: "items", document: "payment", id: "id", page: "cursor", next: cursor("next_cursor"),
				query: "limit=100&created_at.gte={since}&created_at.lt={until}"},
			{path: "/v3/refunds", form: rfc3339, items: "items", document: "refund", id: "id", payment: "payment_id", page: "cursor", next: cursor("next_cursor"),
				query: "limit=100&created_at.gte={since}&created_at.lt={until}"}}},

	// mercadopago.com/developers/en/reference/payments/_payments_search/get: by when a
	// payment changed, a year back.
	"mercadopago": {Docs: "https://www.mercadopago.com/developers/en/reference/payments/_payments_search/get", Says: "payments by their last change",
		Every: 15 * time.Minute, Back: 2 * time.Hour, Kept: 365 * day,
		lists: []list{{path: "/v1/payments/search", form: rfc3339, items: "results", document: "payment", id: "id", page: "offset", next: counted,
			query: "limit=50&sort=date_last_updated&criteria=asc&range=date_last_updated&begin_date={since}&end_date={until}"}}},

	// developer.flutterwave.com/v3.0/reference/get-multiple-transactions: whole days, by
	// when they were made. It lists no refunds.
	"flutterwave": {Docs: "https://developer.flutterwave.com/v3.0/reference/get-multiple-transactions", Says: "transactions by the day they were made on",
		Every: time.Hour, Back: day,
		lists: []list{{path: "/v3/transactions", form: calendar, items: "data", document: "payment", wrap: "data", id: "id", page: "page", next: numbered("meta.page_info.total_pages"),
			query: "from={since}&to={until}"}}},
}

var mollieListing = Listing{Docs: "https://docs.mollie.com/reference/list-payments", Says: "payments, refunds and chargebacks by when they were made",
	Every: time.Hour, Back: day,
	lists: []list{
		{path: "/v2/payments", query: "limit=250", items: "_embedded.payments", made: "createdAt", document: "payment", id: "id",
			next: linked("/v2/payments", hrefAt("_links.next.href"))},
		{path: "/v2/refunds", query: "limit=250", items: "_embedded.refunds", made: "createdAt", document: "refund", own: mollieParts, id: "id", payment: "paymentId",
			next: linked("/v2/refunds", hrefAt("_links.next.href"))},
		{path: "/v2/chargebacks", query: "limit=250", items: "_embedded.chargebacks", made: "createdAt", document: "chargeback", own: mollieParts, id: "id", payment: "paymentId",
			next: linked("/v2/chargebacks", hrefAt("_links.next.href"))},
	}}

const squareChanged = "limit=100&sort_field=UPDATED_AT&sort_order=ASC&updated_at_begin_time={since}&updated_at_end_time={until}"

// whole: an item is what a webhook carries.
func whole(item []byte) []byte { return item }

// goCardlessEvents are those about one type of resource. A webhook carries a list.
func goCardlessEvents(resource string) list {
	return list{path: "/events", form: rfc3339, items: "events", page: "after", next: cursor("meta.cursors.after"),
		query: "limit=500&resource_type=" + resource + "&created_at[gte]={since}&created_at[lt]={until}",
		event: func(item []byte) []byte { return append(append([]byte(`{"events":[`), item...), `]}`...) }}
}

// paddleNext is the next page's address, which the last page has too.
func paddleNext(body []byte) string {
	if text, _ := member(body, "meta.pagination.has_more"); string(text) != "true" {
		return ""
	}
	return text(body, "meta.pagination.next")
}

// typeFilter asks only for the types that state a fact, each behind a separator; for
// none at all if there are more than the provider takes (0: as many as there are).
func typeFilter(provider, separator string, most int) (filter string) {
	p, _ := webhook.Builtin(provider)
	types := p.(webhook.Typed).Types()
	if most > 0 && len(types) > most {
		return ""
	}
	for _, t := range types {
		filter += separator + url.QueryEscape(t)
	}
	return filter
}

func part(payment, amount, currency string, facts ...webhook.Fact) webhook.Layout {
	return webhook.Layout{ID: webhook.Paths{"id"}, Type: webhook.Paths{"status"}, Payment: webhook.Paths{payment}, Object: webhook.Paths{"id"},
		Amount: webhook.Paths{amount}, Currency: webhook.Paths{currency}, Facts: facts}
}

func decimal(l webhook.Layout) webhook.Layout {
	l.AmountUnit = "decimal"
	return l
}

var (
	mollieParts = readers{
		"refund": mustCompile("refund", decimal(part("paymentId", "amount.value", "amount.currency",
			webhook.Fact{Type: "processing", Kind: order.KindRefund}, webhook.Fact{Type: "refunded", Kind: order.KindRefund},
			webhook.Fact{Type: "failed", Kind: order.KindRefundFailed})))["refund"],
		"chargeback": mustCompile("chargeback", mollieChargeback())["chargeback"],
	}
)

func mollieChargeback() webhook.Layout {
	l := decimal(part("paymentId", "amount.value", "amount.currency", webhook.Fact{Type: "chargeback", Kind: order.KindDisputeOpened}))
	l.Type = webhook.Paths{"resource"}
	return l
}

func mustCompile(document string, l webhook.Layout) readers {
	r, err := compile(map[string][]statement{document: {{layout: l}}})
	if err != nil {
		panic(err)
	}
	return r
}

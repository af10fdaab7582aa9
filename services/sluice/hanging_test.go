package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/pkg/event"
	"sluice/pkg/lookup"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
	"sluice/pkg/testkit/provider"
	"sluice/pkg/webhook"
)

// answering is one provider's account in a world of several, with one order whose
// payment is asked about.
type answering struct {
	name  string // of the case; the endpoint and the source are called so, too
	fault provider.Fault
	api   *provider.Faulty
}

func (a answering) order() string   { return strings.ToUpper(a.name) }
func (a answering) payment() string { return "tr_" + a.name }

// mollieSays is a payment's document with what is embedded in it.
func mollieSays(payment, order, status, embedded string) string {
	return fmt.Sprintf(`{"id":%q,"mode":"live","status":%q,"amount":{"value":"10.00","currency":"EUR"},"metadata":{"order_id":%q},
		"createdAt":"2026-01-01T10:00:00+00:00","paidAt":"2026-01-01T10:05:00+00:00","failedAt":"2026-01-01T10:05:00+00:00","_embedded":{%s}}`, payment, status, order, embedded)
}

func mollieRefund(status string) string {
	return fmt.Sprintf(`"refunds":[{"id":"re_1","status":%q,"amount":{"value":"4.00","currency":"EUR"},"createdAt":"2026-01-02T10:00:00+00:00"}]`, status)
}

// newAnswers launches the roles with one account for each case.
func newAnswers(t *testing.T, cases []*answering) *hintWorld {
	t.Helper()
	w := &hintWorld{T: t, kafka: testkit.Kafka(t, 3)}
	text := "endpoints:\n"
	for _, c := range cases {
		documents := &provider.Documents{Header: "Authorization", Value: "Bearer api-secret"}
		c.api = &provider.Faulty{API: documents}
		c.api.Fail(c.fault)
		server := httptest.NewServer(c.api)
		t.Cleanup(server.Close)
		text += fmt.Sprintf("  - {name: %s, provider: mollie_classic, lookup: {base_url: %q, credentials: ['env:API'], rate: 100, pending: 1m, sweep: off}}\n", c.name, server.URL)
	}
	w.launch(testkit.Database(t), text, environment{"SLUICE_RECONCILER_REQUEST_TIMEOUT": "300ms", "SLUICE_RECONCILER_HANGING_DEADLINE": "3s",
		"SLUICE_RECONCILER_BREAK_FOR": "200ms", "SLUICE_PROCESSOR_CHORES": "500ms", "SLUICE_HELD_GRACE": "12s", "SLUICE_RECONCILER_PATIENCE": "200ms"})
	return w
}

// states writes into the raw topic what the provider stated once, as a signed webhook
// would have.
func (w *hintWorld) states(source, payment, orderID string, fact order.Kind, object string, amount int64, at time.Time) {
	w.Helper()
	body, err := lookup.Encode(webhook.Reading{Subject: "webhook-" + payment, Fact: fact, Order: orderID, Payment: payment, Object: object, Amount: amount, Currency: "EUR", Mode: event.Live, Time: at})
	if err != nil {
		w.Fatal(err)
	}
	r, err := lookup.Decode(body)
	if err != nil {
		w.Fatal(err)
	}
	e := event.Event{Source: source, ID: r.ID, Type: r.Type, Time: r.Time, Mode: event.Live, Provider: "mollie_classic", Endpoint: source, Order: r.Order, Payment: r.Payment,
		Trust: event.LookedUp, ContentType: lookup.ContentType, ReceivedAt: time.Now(), Body: body}
	w.produce(e)
}

// sql changes the database behind everybody's back, or reads one number of it.
func (w *hintWorld) sql(query string, args ...any) (n int64) {
	w.Helper()
	c, err := pgx.Connect(w.Context(), w.env["DATABASE_URL"])
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	if !strings.HasPrefix(query, "SELECT") {
		if _, err := c.Exec(w.Context(), query, args...); err != nil {
			w.Fatalf("%s: %v", query, err)
		}
		return 0
	}
	if err := c.QueryRow(w.Context(), query, args...).Scan(&n); err != nil {
		w.Fatalf("%s: %v", query, err)
	}
	return n
}

func (w *hintWorld) history(id string) string {
	w.Helper()
	s, err := w.store.Story(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	var steps []string
	for _, t := range s.History {
		steps = append(steps, t.To.String())
	}
	return strings.Join(steps, " ")
}

// O45: orders whose payments are pending for longer than the limit, of which no
// webhook ever tells the end, and every way to answer.
func TestAHangingOrderIsDecidedByAnAnswerAndNeverBySilence(t *testing.T) {
	says := func(name, status, embedded string) provider.Fault {
		a := answering{name: name}
		return provider.Status(http.StatusOK, mollieSays(a.payment(), a.order(), status, embedded))
	}
	decided := map[string]string{"succeeded": "pending paid", "failed": "pending failed", "refunded": "pending paid partially_refunded", "bounced": "pending paid"}
	cases := []*answering{
		{name: "succeeded", fault: says("succeeded", "paid", "")},
		{name: "failed", fault: says("failed", "failed", "")},
		{name: "refunded", fault: says("refunded", "paid", mollieRefund("refunded"))},
		{name: "bounced", fault: says("bounced", "paid", mollieRefund("failed"))},
		{name: "pending", fault: says("pending", "open", "")},
		{name: "unknown", fault: provider.Status(http.StatusNotFound, `{"status":404}`)},
		{name: "broken", fault: provider.Status(http.StatusInternalServerError, mollieSays("tr_broken", "BROKEN", "failed", ""))},
		{name: "silent", fault: provider.Silent()},
		{name: "busy", fault: provider.Busy("60")},
		{name: "malformed", fault: provider.Status(http.StatusOK, `{"id":"tr_malformed","status":"failed",`)},
		{name: "empty", fault: provider.Status(http.StatusOK, `{"_embedded":{"payments":[]},"count":0}`)},
		{name: "refused", fault: provider.Status(http.StatusUnauthorized, `{"status":401}`)},
	}
	w := newAnswers(t, cases)
	for _, c := range cases {
		w.register(c.order(), 1000, "EUR")
		w.states(c.name, c.payment(), c.order(), order.KindPending, "", 1000, time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC))
	}
	w.until("every payment known", func() bool { return w.sql(`SELECT count(*) FROM payments`) == int64(len(cases)) })
	w.sql(`UPDATE order_transitions SET changed_at = changed_at - interval '1 hour'`)

	for _, c := range cases {
		if want := decided[c.name]; want != "" {
			w.until(c.name, func() bool { return w.history(c.order()) == want })
			continue
		}
		w.until(c.name+" asked about", func() bool { return len(c.api.Requests()) > 0 })
	}
	item := func(name string) int64 {
		return w.sql(`SELECT count(*) FROM review_items i JOIN orders o ON o.order_no = i.order_no
			WHERE i.kind = 'order_hanging' AND i.settled_at IS NULL AND o.order_id = $1`, strings.ToUpper(name))
	}
	for _, c := range cases {
		if decided[c.name] != "" {
			continue
		}
		w.until(c.name+" for a person", func() bool { return item(c.name) == 1 })
		if got := w.history(c.order()); got != "pending" {
			t.Errorf("%s: silence made it %q", c.name, got)
		}
		if n := w.sql(`SELECT count(*) FROM lookups WHERE object = $1 AND answered < armed AND due_at > now() - interval '5 s'`, c.payment()); n != 1 {
			t.Errorf("%s is not asked about any more", c.name)
		}
		// What fails is tried again soon, what is only not decided yet after a while, and
		// who asks for quiet gets it.
		n, most := len(c.api.Requests()), 1000
		if c.name == "busy" || c.name == "pending" || c.name == "unknown" {
			most = 1
		}
		if n > most || most > 1 && n < 2 {
			t.Errorf("%s was asked about %d times", c.name, n)
		}
	}

	// The provider answers again, and what is due is known.
	broken := cases[6]
	broken.api.Fail(says("broken", "paid", ""))
	w.until("the provider answers again", func() bool { return w.history("BROKEN") == "pending paid" && item("broken") == 0 })

	// The real webhook comes late, and changes nothing; neither does the pending one again.
	succeeded := cases[0]
	w.states(succeeded.name, succeeded.payment(), succeeded.order(), order.KindPaid, "", 1000, time.Date(2026, 1, 1, 10, 5, 1, 0, time.UTC))
	if status, _ := w.call(http.MethodPost, "http://"+w.env["SLUICE_INGRESS_ADDRESS"]+"/webhooks/succeeded", "application/x-www-form-urlencoded", "id="+succeeded.payment()); status != http.StatusOK {
		t.Errorf("the late webhook: %d", status)
	}
	w.until("the late webhooks taken", func() bool {
		return w.sql(`SELECT count(*) FROM order_events e JOIN orders o USING (order_no) WHERE o.order_id = 'SUCCEEDED' AND e.kind = 3`) == 2 &&
			w.sql(`SELECT count(*) FROM hints WHERE settled_at IS NOT NULL`) == 1
	})
	if got := w.history("SUCCEEDED"); got != "pending paid" {
		t.Errorf("after the late webhook: %q", got)
	}
	if n := w.sql(`SELECT count(*) FROM review_items WHERE kind = 'provider_contradicts'`); n != 0 {
		t.Errorf("%d contradictions where there are none", n)
	}
}

// O45: the refund came, and the webhook of its payment never did.
func TestAnEventThatIsHeldForALostWebhookIsSettledByTheProvider(t *testing.T) {
	cases := []*answering{
		{name: "lost", fault: provider.Status(http.StatusOK, mollieSays("tr_lost", "LOST", "paid", mollieRefund("refunded")))},
		{name: "away", fault: provider.Status(http.StatusBadGateway, "")},
	}
	w := newAnswers(t, cases)
	for _, c := range cases {
		w.register(c.order(), 1000, "EUR")
		w.states(c.name, c.payment(), c.order(), order.KindRefund, "re_1", 400, time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC))
	}
	w.until("the lost payment", func() bool { return w.history("LOST") == "pending paid partially_refunded" })
	w.until("a person asked about the other", func() bool {
		items, err := w.store.ListReviewItems(t.Context(), time.Now(), postgres.ReviewHeld, false, 10)
		return err == nil && len(items) == 1 && items[0].Order == "AWAY"
	})
	if got := w.history("AWAY"); got != "pending" || len(cases[1].api.Requests()) < 2 {
		t.Errorf("%q after %d requests", got, len(cases[1].api.Requests()))
	}
}

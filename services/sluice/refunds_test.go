package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/pkg/testkit"
	"sluice/pkg/testkit/provider"
	"sluice/pkg/webhook"
)

// refunding is one Stripe account with one paid order, of which a refund is under way.
type refunding struct {
	name string // of the case; the endpoint and the source are called so, too
	api  *provider.Faulty
	says *provider.Objects
}

func (r refunding) order() string   { return strings.ToUpper(r.name) }
func (r refunding) payment() string { return "pi_" + r.name }
func (r refunding) refund() string  { return "re_" + r.name }

// refunds puts what the API says of the refund, behind two older ones that failed.
func (r refunding) refunds(status string) {
	for n := range 2 {
		r.put(fmt.Sprintf("re_%s_old_%d", r.name, n), "failed")
	}
	r.put(r.refund(), status)
}

func (r refunding) put(id, status string) {
	r.says.Put("/v1/refunds/"+id, fmt.Sprintf(`{"id":%q,"object":"refund","amount":300,"currency":"eur","created":1767261600,"payment_intent":%q,"status":%q}`, id, r.payment(), status))
}

// stripe sends a signed webhook to an endpoint.
func (w *hintWorld) stripe(endpoint, id, typ string, created int64, object string) {
	w.Helper()
	body := fmt.Sprintf(`{"id":%q,"object":"event","type":%q,"created":%d,"livemode":true,"data":{"object":%s}}`, id, typ, created, object)
	secret, err := webhook.NewSecret("k", w.env["STRIPE"])
	if err != nil {
		w.Fatal(err)
	}
	p, _ := webhook.Builtin("stripe")
	headers, err := p.Sign(secret, "", time.Now(), []byte(body))
	if err != nil {
		w.Fatal(err)
	}
	r, err := http.NewRequestWithContext(w.Context(), http.MethodPost, "http://"+w.env["SLUICE_INGRESS_ADDRESS"]+"/webhooks/"+endpoint, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		w.Fatalf("%+v, %v", answer, err)
	}
	_ = answer.Body.Close()
}

func (r refunding) webhook(w *hintWorld, id, typ, status string, created int64) {
	w.Helper()
	w.stripe(r.name, id+"_"+r.name, typ, created, fmt.Sprintf(`{"id":%q,"object":"refund","amount":300,"currency":"eur","payment_intent":%q,"status":%q}`, r.refund(), r.payment(), status))
}

// O45, O22: refunds that are under way for longer than the limit, of whose end no
// webhook ever tells, and every way to answer. Nobody makes a refund.
func TestARefundUnderWayIsDecidedByAnAnswerAndNeverBySilence(t *testing.T) {
	faults := map[string]provider.Fault{
		"succeeded": nil, "failed": nil, "pending": nil, // on page 3 of 3
		"gone":      provider.Status(http.StatusNotFound, `{"error":{"code":"resource_missing"}}`),
		"broken":    provider.Status(http.StatusInternalServerError, ``),
		"silent":    provider.Silent(),
		"busy":      provider.Busy("60"),
		"malformed": provider.Status(http.StatusOK, `{"id":"pi_malformed","status":"succeeded",`),
		"nothing":   provider.Status(http.StatusOK, `{"object":"list","data":[],"has_more":false}`),
		"refused":   provider.Status(http.StatusUnauthorized, `{}`),
		"empty":     nil, // its list has no refund at all
	}
	w := &hintWorld{T: t, kafka: testkit.Kafka(t, 3)}
	cases, text := map[string]refunding{}, "endpoints:\n"
	for name, fault := range faults {
		c := refunding{name: name, says: &provider.Objects{Provider: "stripe", Secret: "api-secret", Size: 1}}
		c.api = &provider.Faulty{API: c.says}
		c.api.Fail(fault)
		c.says.Put("/v1/payment_intents/"+c.payment(), fmt.Sprintf(`{"id":%q,"object":"payment_intent","status":"succeeded","amount":1000,"amount_received":1000,"currency":"eur","created":1767261600,"livemode":true,"metadata":{"order_id":%q}}`, c.payment(), c.order()))
		if name != "empty" {
			c.refunds(map[string]string{"failed": "failed", "pending": "pending"}[name])
		}
		server := httptest.NewServer(c.api)
		t.Cleanup(server.Close)
		cases[name] = c
		text += fmt.Sprintf("  - {name: %s, provider: stripe, secrets: ['env:STRIPE'], lookup: {base_url: %q, credentials: ['env:API'], rate: 100, pending: 1m, sweep: off}}\n", name, server.URL)
	}
	for name, c := range cases {
		if name != "failed" && name != "pending" && name != "empty" {
			c.refunds("succeeded")
		}
	}
	w.launch(testkit.Database(t), text, environment{"STRIPE": "whsec_of_a_test", "SLUICE_RECONCILER_REQUEST_TIMEOUT": "300ms", "SLUICE_RECONCILER_HANGING_DEADLINE": "3s",
		"SLUICE_RECONCILER_BREAK_FOR": "200ms", "SLUICE_PROCESSOR_CHORES": "500ms", "SLUICE_HELD_GRACE": "12s"})
	for _, c := range cases {
		w.register(c.order(), 1000, "EUR")
		w.stripe(c.name, "evt_paid_"+c.name, "payment_intent.succeeded", 1767261600, fmt.Sprintf(`{"id":%q,"amount":1000,"amount_received":1000,"currency":"eur","metadata":{"order_id":%q}}`, c.payment(), c.order()))
		c.webhook(w, "evt_begun", "refund.created", "pending", 1767265200)
	}
	w.until("every refund known", func() bool {
		return w.sql(`SELECT count(*) FROM lookups WHERE lane = 1 AND due_at > now() + interval '30 s'`) == int64(len(cases))
	})
	w.sql(`UPDATE lookups SET due_at = now(), armed_at = now() - interval '1 minute', review_at = now() + interval '3 s'`)

	decided := map[string]string{"succeeded": "pending paid partially_refunded", "failed": "pending paid"}
	for name, want := range decided {
		c := cases[name]
		w.until(name, func() bool {
			return w.history(c.order()) == want && w.sql(`SELECT count(*) FROM lookups WHERE object = $1 AND answered < armed`, c.payment()) == 0
		})
	}
	item := func(c refunding) int64 {
		return w.sql(`SELECT count(*) FROM review_items WHERE kind = 'lookup_unanswered' AND settled_at IS NULL AND subject = $1`, c.name+" "+c.payment())
	}
	for name, c := range cases {
		if decided[name] != "" {
			continue
		}
		w.until(name+" for a person", func() bool { return item(c) == 1 && len(c.api.Requests()) > 0 })
		if got := w.history(c.order()); got != "pending paid" {
			t.Errorf("%s: silence made it %q", name, got)
		}
		if n := w.sql(`SELECT count(*) FROM lookups WHERE object = $1 AND answered < armed AND due_at > now() - interval '5 s'`, c.payment()); n != 1 {
			t.Errorf("%s is not asked about any more", name)
		}
	}
	// The provider answers again, and what is due is known.
	for _, name := range []string{"broken", "empty"} {
		c := cases[name]
		c.api.Fail(nil)
		c.put(c.refund(), "succeeded")
		w.sql(`UPDATE lookups SET due_at = now() WHERE object = $1 AND claimed_by IS NULL`, c.payment())
		w.until(name+" answered after all", func() bool { return w.history(c.order()) == "pending paid partially_refunded" && item(c) == 0 })
	}
	// The real webhooks come late, out of order, dated before the answer or after it.
	c := cases["succeeded"]
	before := w.sql(`SELECT count(*) FROM review_items`)
	c.webhook(w, "evt_updated", "refund.updated", "succeeded", 1767261599)
	c.webhook(w, "evt_updated_again", "charge.refund.updated", "succeeded", 1767290000)
	c.webhook(w, "evt_begun_again", "refund.updated", "pending", 1767265300)
	w.stripe(c.name, "evt_total", "charge.refunded", 1767290001, fmt.Sprintf(`{"id":"ch_1","payment_intent":%q,"amount":1000,"amount_refunded":300,"currency":"eur"}`, c.payment()))
	w.until("the late webhooks taken", func() bool {
		return w.sql(`SELECT count(*) FROM order_events e JOIN orders o USING (order_no) WHERE o.order_id = $1 AND e.event_type NOT LIKE 'looked%' AND e.source_no = (SELECT name_no FROM names WHERE name = $2)`, c.order(), c.name) == 6
	})
	if got := w.history(c.order()); got != "pending paid partially_refunded" || w.sql(`SELECT count(*) FROM review_items`) != before {
		t.Errorf("after the late webhooks: %q", got)
	}
	if n := w.sql(`SELECT count(*) FROM lookups WHERE object = $1 AND answered < armed AND event_hash IS NULL`, c.payment()); n != 0 {
		t.Errorf("%d look-ups are open", n)
	}
	for name, c := range cases {
		for _, path := range c.api.Requests() {
			if !strings.HasPrefix(path, "/v1/payment_intents") && path != "/v1/refunds" {
				t.Errorf("%s: asked for %s", name, path)
			}
		}
	}
}

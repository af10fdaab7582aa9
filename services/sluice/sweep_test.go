package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
	"sluice/pkg/testkit/provider"
	"sluice/pkg/webhook"
)

// O45: a webhook that was lost heals by itself and passes through the same dedupe: the
// late real one changes nothing, even if it comes in other bytes.
func TestALostWebhookHealsByItselfAndTheLateOneChangesNothing(t *testing.T) {
	fake := &provider.Lists{Provider: "stripe", Header: "Authorization", Value: "Bearer api-secret", Size: 2}
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	database := testkit.Database(t)
	w := &hintWorld{T: t, kafka: testkit.Kafka(t, 3)}
	w.launch(database, fmt.Sprintf(`endpoints:
  - name: stripe
    provider: stripe
    secrets: [env:STRIPE]
    lookup: {base_url: %q, credentials: ["env:API"], rate: 100, sweep: {every: 1m}, pending: 0s}
`, server.URL), environment{"STRIPE": "whsec_of_a_test", "SLUICE_RECONCILER_SWEEP_DELAY": "1s"})
	made := time.Now().Add(-time.Hour).Unix()
	const orders = 5
	event := func(n int) string {
		return fmt.Sprintf(`{"id":"evt_%d","object":"event","type":"payment_intent.succeeded","created":%d,"livemode":true,"pending_webhooks":0,"data":{"object":{"id":"pi_%d","amount":1000,"amount_received":1000,"currency":"eur","metadata":{"order_id":"LOST-%d"}}}}`, n, made+int64(n), n, n)
	}
	for n := range orders {
		w.register(fmt.Sprintf("LOST-%d", n), 1000, "EUR")
	}
	for n := range orders {
		fake.Put("/v1/events", fmt.Sprintf("evt_%d", n), time.Unix(made+int64(n), 0), event(n))
	}
	// Whatever the first sweep met, this one meets all.
	if err := w.store.InTx(t.Context(), func(tx postgres.Tx) error {
		_, err := tx.SweepGap(t.Context(), time.Now(), [16]byte{}, 0)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for n := range orders {
		w.until(fmt.Sprintf("LOST-%d paid", n), func() bool { return w.status(fmt.Sprintf("LOST-%d", n)) == "paid" })
	}
	before := testkit.Contents(t, database, "paces", "partitions", "books", "sweeps", "lookups", "order_visits")
	secret, err := webhook.NewSecret("k", w.env["STRIPE"])
	if err != nil {
		t.Fatal(err)
	}
	p, _ := webhook.Builtin("stripe")
	for n := range orders {
		body := strings.Replace(strings.ReplaceAll(event(n), `,"`, `, "`), `"pending_webhooks":0`, `"pending_webhooks":1`, 1)
		headers, err := p.Sign(secret, "", time.Now(), []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.env["SLUICE_INGRESS_ADDRESS"]+"/webhooks/stripe", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range headers {
			r.Header.Set(name, value)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%+v, %v", answer, err)
		}
		_ = answer.Body.Close()
	}
	w.until("the late ones to be duplicates", func() bool { return w.duplicates("stripe") >= orders })
	after := testkit.Contents(t, database, "paces", "partitions", "books", "sweeps", "lookups", "order_visits")
	for table, was := range before {
		if after[table] != was {
			t.Errorf("the late webhooks have changed %s: %s, %s", table, was, after[table])
		}
	}
}

// duplicates is how many records of an endpoint the books count as such.
func (w *hintWorld) duplicates(endpoint string) (n int64) {
	w.Helper()
	books, err := w.store.BooksSince(w.Context(), time.Now().Add(-2*time.Hour))
	if err != nil {
		w.Fatal(err)
	}
	for k, events := range books {
		if k.Endpoint == endpoint && k.Verdict == order.Duplicate {
			n += events
		}
	}
	return n
}

// signed sends a webhook to an endpoint, signed as its provider does.
func (w *hintWorld) signed(endpoint, providerName, id string, more map[string]string, body string) {
	w.Helper()
	p, _ := webhook.Builtin(providerName)
	if addressed, ok := p.(interface{ WithURL(string) webhook.Provider }); ok {
		p = addressed.WithURL("https://shop.example/webhooks/" + endpoint)
	}
	secret, err := webhook.NewSecret("k", w.env["SIGNING"])
	if err != nil {
		w.Fatal(err)
	}
	headers, err := p.Sign(secret, id, time.Now(), []byte(body))
	if err != nil {
		w.Fatal(err)
	}
	r, err := http.NewRequestWithContext(w.Context(), http.MethodPost, "http://"+w.env["SLUICE_INGRESS_ADDRESS"]+"/webhooks/"+endpoint, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	for _, hs := range []map[string]string{headers, more} {
		for name, value := range hs {
			r.Header.Set(name, value)
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		w.Fatalf("%s: %+v, %v", endpoint, answer, err)
	}
	_ = answer.Body.Close()
}

// O45: where the provider lists objects, the sweep makes up for lost webhooks by a
// look-up, under other ids and other times than those of the webhooks. Whatever comes
// late, dated before or after, changes nothing.
func TestWhatASweepOfObjectsFoundTheLateWebhooksDoNotChange(t *testing.T) {
	made := time.Now().Add(-30 * time.Minute).Truncate(time.Second)
	at := func(d time.Duration) string { return made.Add(d).UTC().Format(time.RFC3339) }
	serve := func(api http.Handler) string {
		server := httptest.NewServer(api)
		t.Cleanup(server.Close)
		return server.URL
	}
	both := func(name, secret, user string, objects map[string]string, lists map[string]string) string {
		api := &provider.Objects{Provider: name, Secret: secret, User: user, Size: 1}
		l := &provider.Lists{Provider: name, Size: 1, API: api}
		for path, document := range objects {
			api.Put(path, document)
		}
		for path, document := range lists {
			l.Put(path, "x", made, document)
		}
		if name == "razorpay" {
			return serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if _, _, ok := r.BasicAuth(); !ok {
					rw.WriteHeader(http.StatusUnauthorized)
					return
				}
				l.ServeHTTP(rw, r)
			}))
		}
		l.Header, l.Value = "Authorization", "Bearer "+secret
		return serve(l)
	}
	squarePaid := fmt.Sprintf(`{"id":"sq_1","status":"COMPLETED","reference_id":"SQUARE","created_at":%q,"updated_at":%q,"amount_money":{"amount":1000,"currency":"EUR"},"refunded_money":{"amount":300,"currency":"EUR"},"refund_ids":["sqr_1"]}`, at(0), at(time.Minute))
	squareRefund := fmt.Sprintf(`{"id":"sqr_1","status":"COMPLETED","payment_id":"sq_1","created_at":%q,"updated_at":%q,"amount_money":{"amount":300,"currency":"EUR"}}`, at(time.Minute), at(2*time.Minute))
	razorPaid := fmt.Sprintf(`{"id":"pay_1","entity":"payment","status":"captured","captured":true,"amount":1000,"currency":"EUR","amount_refunded":300,"refund_status":"partial","notes":{"order_id":"RAZORPAY"},"created_at":%d}`, made.Unix())
	razorRefund := fmt.Sprintf(`{"id":"rfnd_1","entity":"refund","status":"processed","amount":300,"currency":"EUR","payment_id":"pay_1","created_at":%d}`, made.Add(time.Minute).Unix())
	mollieRefund := fmt.Sprintf(`{"resource":"refund","id":"re_1","paymentId":"tr_1","status":"refunded","amount":{"value":"3.00","currency":"EUR"},"createdAt":%q}`, at(time.Minute))
	molliePaid := fmt.Sprintf(`{"resource":"payment","id":"tr_1","mode":"live","status":"paid","amount":{"value":"10.00","currency":"EUR"},"metadata":{"order_id":"MOLLIE"},"createdAt":%q,"paidAt":%q,"_embedded":{"refunds":[%s]}}`, at(0), at(30*time.Second), mollieRefund)
	squareURL := both("square", "api-secret", "", map[string]string{"/v2/payments/sq_1": squarePaid, "/v2/refunds/sqr_1": squareRefund}, map[string]string{"/v2/payments": squarePaid, "/v2/refunds": squareRefund})
	razorURL := both("razorpay", "api-secret", "rzp", map[string]string{"/v1/payments/pay_1": razorPaid, "/v1/refunds/rfnd_1": razorRefund}, map[string]string{"/v1/payments": razorPaid, "/v1/refunds": razorRefund})
	mollieURL := both("mollie", "api-secret", "", map[string]string{"/v2/payments/tr_1": molliePaid}, map[string]string{"/v2/payments": molliePaid, "/v2/refunds": mollieRefund})

	w := &hintWorld{T: t, kafka: testkit.Kafka(t, 3)}
	w.launch(testkit.Database(t), fmt.Sprintf(`endpoints:
  - {name: square, provider: square, url: 'https://shop.example/webhooks/square', secrets: ['env:SIGNING'], lookup: {base_url: %q, credentials: ['env:API'], rate: 100, pending: 0s}}
  - {name: razorpay, provider: razorpay, secrets: ['env:SIGNING'], lookup: {base_url: %q, credentials: ['env:API'], settings: {key_id: rzp}, rate: 100, pending: 0s}}
  - {name: mollie, provider: mollie_classic, lookup: {base_url: %q, credentials: ['env:API'], rate: 100, pending: 0s}}
`, squareURL, razorURL, mollieURL), environment{"SIGNING": "signing-key-of-a-test", "SLUICE_RECONCILER_SWEEP_DELAY": "1s"})
	orders := []string{"SQUARE", "RAZORPAY", "MOLLIE"}
	for _, o := range orders {
		w.register(o, 1000, "EUR")
	}
	const want = "pending paid partially_refunded"
	for _, o := range orders {
		w.until(o+" made up for", func() bool { return w.history(o) == want })
	}
	w.until("every answer", func() bool { return w.open() == 0 })
	changes := w.sql(`SELECT count(*) FROM order_transitions`)

	square := func(id, typ, when, object string) {
		w.signed("square", "square", id, nil, fmt.Sprintf(`{"event_id":%q,"type":%q,"created_at":%q,"data":{"id":"x","object":%s}}`, id, typ, when, object))
	}
	square("e1", "payment.updated", at(-time.Minute), `{"payment":{"id":"sq_1","status":"COMPLETED","reference_id":"SQUARE","amount_money":{"amount":1000,"currency":"EUR"}}}`)
	square("e2", "payment.updated", at(5*time.Minute), `{"payment":`+squarePaid+`}`)
	square("e3", "refund.created", at(time.Minute), `{"refund":`+strings.Replace(squareRefund, "COMPLETED", "PENDING", 1)+`}`)
	square("e4", "refund.updated", at(10*time.Minute), `{"refund":`+squareRefund+`}`)
	razor := func(id, typ string, when time.Duration, payload string) {
		w.signed("razorpay", "razorpay", id, map[string]string{"X-Razorpay-Event-Id": id}, fmt.Sprintf(`{"entity":"event","event":%q,"created_at":%d,"payload":%s}`, typ, made.Add(when).Unix(), payload))
	}
	razor("r1", "payment.captured", -time.Minute, `{"payment":{"entity":`+razorPaid+`}}`)
	razor("r2", "order.paid", 3*time.Minute, `{"payment":{"entity":`+razorPaid+`}}`)
	razor("r3", "refund.created", 4*time.Minute, `{"refund":{"entity":`+razorRefund+`},"payment":{"entity":`+razorPaid+`}}`)
	razor("r4", "refund.processed", 20*time.Minute, `{"refund":{"entity":`+razorRefund+`},"payment":{"entity":`+razorPaid+`}}`)
	for range 2 {
		if status, _ := w.call(http.MethodPost, "http://"+w.env["SLUICE_INGRESS_ADDRESS"]+"/webhooks/mollie", "application/x-www-form-urlencoded", "id=tr_1"); status != http.StatusOK {
			t.Fatal(status)
		}
	}
	w.until("the late webhooks taken", func() bool {
		return w.sql(`SELECT count(*) FROM order_events WHERE event_id IN ('e1','e2','e3','e4','r1','r2','r3','r4')`) == 8 && w.sql(`SELECT count(*) FROM hints WHERE settled_at IS NOT NULL`) >= 1
	})
	w.until("every answer again", func() bool { return w.open() == 0 })
	for _, o := range orders {
		if got := w.history(o); got != want {
			t.Errorf("%s: after the late webhooks: %q", o, got)
		}
	}
	if n := w.sql(`SELECT count(*) FROM order_transitions`); n != changes {
		t.Errorf("%d changes after the late webhooks, and %d before", n, changes)
	}
	if n := w.sql(`SELECT count(*) FROM review_items`); n != 0 {
		t.Errorf("%d review items", n)
	}
}

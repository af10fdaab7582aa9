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

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/pkg/daemon"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
	"sluice/pkg/testkit/provider"
	"sluice/pkg/webhook"
)

// hintWorld is a deployment of real parts and roles, and stand-ins of providers.
type hintWorld struct {
	*testing.T
	env    environment
	kafka  kafka.Config
	store  *postgres.Store
	click  *provider.Click
	paypal *provider.PayPal
	mollie *provider.Documents
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func newHintWorld(t *testing.T) *hintWorld {
	t.Helper()
	database := testkit.Database(t)
	w := &hintWorld{T: t, kafka: testkit.Kafka(t, 3),
		click:  &provider.Click{ServiceID: "24001", UserID: "77", SecretKey: "api-secret", Now: time.Now},
		paypal: &provider.PayPal{ClientID: "app", Secret: "api-secret", TokenLife: 3600},
		mollie: &provider.Documents{Header: "Authorization", Value: "Bearer api-secret"}}
	serve := func(h http.Handler) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	text := fmt.Sprintf(`endpoints:
  - name: click
    provider: click
    secrets: [env:CLICK]
    lookup: {base_url: %q, settings: {service_id: "24001", merchant_user_id: "77"}, credentials: ["env:API"], rate: 100}
  - name: paypal
    provider: paypal
    secrets: [env:PAYPAL]
    lookup: {base_url: %q, settings: {client_id: app}, credentials: ["env:API"], rate: 100}
  - name: mollie
    provider: mollie_classic
    lookup: {base_url: %q, credentials: ["env:API"], rate: 100}
`, serve(w.click), serve(w.paypal), serve(w.mollie))
	w.launch(database, text, nil)
	return w
}

// launch runs the roles that hints need, with the endpoints of a file and settings
// beside the usual ones.
func (w *hintWorld) launch(database postgres.Config, text string, settings environment) {
	w.Helper()
	t := w.T
	file := filepath.Join(t.TempDir(), "endpoints.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.env = environment{"KAFKA_BROKERS": strings.Join(w.kafka.Brokers, ","), "KAFKA_TOPIC_PREFIX": w.kafka.TopicPrefix, "DATABASE_URL": database.URL,
		"SLUICE_ENDPOINTS": file, "SLUICE_MODE": "live", "SLUICE_DEV_BROKER": "true",
		"CLICK": "click-signing-key", "PAYPAL": "4JH86294D6297924G", "API": "api-secret",
		"SLUICE_INGRESS_ADDRESS": freeAddress(t), "SLUICE_MERCHANT_ADDRESS": freeAddress(t), "SLUICE_MERCHANT_PUBLIC_ADDRESS": freeAddress(t),
		"SLUICE_ADMIN_ADDRESS": freeAddress(t), "SLUICE_INGRESS_UNREADY": "0s",
		"SLUICE_RECONCILER_BACKOFF_BASE": "50ms", "SLUICE_RECONCILER_BACKOFF_MAX": "200ms", "SLUICE_RECONCILER_POLL_INTERVAL": "20ms"}
	maps.Copy(w.env, settings)
	var err error
	if w.store, err = postgres.Open(t.Context(), database, 4); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)

	cfg, err := read[daemon.Config](w.env)
	if err != nil {
		t.Fatal(err)
	}
	var chosen []role
	for _, name := range []string{"ingress", "processor", "merchant", "reconciler"} {
		r, err := roleNamed(name)
		if err == nil {
			err = r.check(w.env)
		}
		if err != nil {
			t.Fatal(err)
		}
		chosen = append(chosen, r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- launch(ctx, cfg, chosen, w.env, testkit.Log(t)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("roles: %v", err)
		}
	})
	if err := ready(t.Context(), cfg.Admin); err != nil {
		t.Fatal(err)
	}
}

// call makes a request and gives what JSON it is answered with.
func (w *hintWorld) call(method, address, contentType, body string) (int, map[string]any) {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), method, address, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.Fatal(err)
	}
	var out map[string]any
	_ = json.Unmarshal(text, &out) // some answers have no body
	return response.StatusCode, out
}

func (w *hintWorld) register(order string, amount int64, currency string) {
	w.Helper()
	status, _ := w.call(http.MethodPut, "http://"+w.env["SLUICE_MERCHANT_ADDRESS"]+"/v1/orders/"+order, "application/json", fmt.Sprintf(`{"amount":%d,"currency":%q}`, amount, currency))
	if status/100 != 2 {
		w.Fatalf("register %s: %d", order, status)
	}
}

func (w *hintWorld) status(order string) string {
	w.Helper()
	_, o := w.call(http.MethodGet, "http://"+w.env["SLUICE_MERCHANT_ADDRESS"]+"/v1/orders/"+order, "application/json", "")
	s, _ := o["status"].(string)
	return s
}

// until waits for something to be so.
func (w *hintWorld) until(what string, is func() bool) {
	w.Helper()
	deadline := time.NewTimer(40 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline.C:
			w.Fatalf("waited for %s", what)
		}
	}
}

// open is how many look-ups have no answer.
func (w *hintWorld) open() (n int64) {
	w.Helper()
	list, err := w.store.OpenLookups(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	for _, o := range list {
		n += o.Open
	}
	return n
}

// clickCall sends one signed request of Click's. forged fields replace others after
// it was signed.
func (w *hintWorld) clickCall(fields, forged map[string]string) map[string]any {
	w.Helper()
	form := url.Values{"click_trans_id": {"1"}, "service_id": {"24001"}, "click_paydoc_id": {"91"}, "amount": {"1250.50"}, "error": {"0"},
		"error_note": {"Success"}, "sign_time": {time.Now().In(time.FixedZone("", 5*60*60)).Format(time.DateTime)}}
	for name, value := range fields {
		form.Set(name, value)
	}
	p, _ := webhook.Builtin("click")
	key, err := webhook.NewSecret("k", w.env["CLICK"])
	if err != nil {
		w.Fatal(err)
	}
	body, err := p.(webhook.Click).Seal(key, []byte(form.Encode()))
	if err != nil {
		w.Fatal(err)
	}
	sealed, err := url.ParseQuery(string(body))
	if err != nil {
		w.Fatal(err)
	}
	for name, value := range forged {
		sealed.Set(name, value)
	}
	status, out := w.call(http.MethodPost, "http://"+w.env["SLUICE_MERCHANT_PUBLIC_ADDRESS"]+"/webhooks/click", "application/x-www-form-urlencoded", sealed.Encode())
	if status != http.StatusOK {
		w.Fatalf("click: %d %v", status, out)
	}
	return out
}

// prepare begins a payment of an order, and returns merchant_prepare_id.
func (w *hintWorld) prepare(order, trans, paydoc string) string {
	w.Helper()
	out := w.clickCall(map[string]string{"action": "0", "merchant_trans_id": order, "click_trans_id": trans, "click_paydoc_id": paydoc}, nil)
	if out["error"] != 0.0 {
		w.Fatalf("prepare of %s: %v", order, out)
	}
	return fmt.Sprintf("%.0f", out["merchant_prepare_id"])
}

func TestHintsCountOnlyAsTheProvidersAPISays(t *testing.T) {
	w := newHintWorld(t)
	for _, order := range []string{"CLICK-PAID", "CLICK-FLIPPED"} {
		w.register(order, 125050, "UZS")
	}
	for _, order := range []string{"PAYPAL-PAID", "PAYPAL-FORGED"} {
		w.register(order, 1000, "USD")
	}
	w.register("MOLLIE-PAID", 1000, "EUR")

	// Click: a Complete that its API confirms.
	w.click.Put(91, "CLICK-PAID", time.Now(), 2)
	no := w.prepare("CLICK-PAID", "1", "91")
	w.clickCall(map[string]string{"action": "1", "merchant_trans_id": "CLICK-PAID", "click_trans_id": "1", "click_paydoc_id": "91", "merchant_prepare_id": no}, nil)

	// Click: a cancelling Complete, captured on its way and sent on as a payment, with
	// the number of a payment that was paid; neither field is signed. It comes first,
	// and then the real one.
	w.click.Put(92, "CLICK-FLIPPED", time.Now(), -1)
	no = w.prepare("CLICK-FLIPPED", "2", "92")
	cancelling := map[string]string{"action": "1", "merchant_trans_id": "CLICK-FLIPPED", "click_trans_id": "2", "click_paydoc_id": "92", "merchant_prepare_id": no, "error": "-5017", "error_note": "Cancelled"}
	w.clickCall(cancelling, map[string]string{"error": "0", "error_note": "Success"})
	w.clickCall(cancelling, map[string]string{"error": "0", "error_note": "Success", "click_paydoc_id": "91"})
	w.clickCall(cancelling, nil)

	// PayPal: its signature binds no more than a CRC32 of the body, so that another body
	// with the same one passes as well. Such a record lies in the raw topic as a hint.
	capture := `{"id":%q,"status":%q,"amount":{"currency_code":"USD","value":"10.00"},"custom_id":%q,"create_time":"2026-01-01T10:05:00Z"}`
	w.paypal.Put("/v2/payments/captures/CAP1", fmt.Sprintf(capture, "CAP1", "COMPLETED", "PAYPAL-PAID"))
	w.paypal.Put("/v2/payments/captures/CAP2", fmt.Sprintf(capture, "CAP2", "DECLINED", "PAYPAL-FORGED"))
	w.sendPayPal("WH-1", "CAP1", "PAYPAL-PAID")
	w.sendPayPal("WH-2", "CAP2", "PAYPAL-FORGED")
	w.sendPayPal("WH-3", "CAP1", "PAYPAL-FORGED") // another order's payment, which was made

	// Mollie: a request that anybody could have made, with a payment's id.
	w.mollie.Put("/v2/payments/tr_1", `{"id":"tr_1","mode":"live","status":"paid","amount":{"value":"10.00","currency":"EUR"},"metadata":{"order_id":"MOLLIE-PAID"},"paidAt":"2026-01-01T10:05:00+00:00"}`)
	for _, id := range []string{"tr_1", "tr_forged"} {
		if status, _ := w.call(http.MethodPost, "http://"+w.env["SLUICE_INGRESS_ADDRESS"]+"/webhooks/mollie", "application/x-www-form-urlencoded", "id="+id); status != http.StatusOK {
			t.Errorf("mollie %s: %d", id, status)
		}
	}

	for _, order := range []string{"CLICK-PAID", "PAYPAL-PAID", "MOLLIE-PAID"} {
		w.until(order+" paid", func() bool { return w.status(order) == "paid" })
	}
	for _, order := range []string{"CLICK-FLIPPED", "PAYPAL-FORGED"} {
		w.until(order+" failed", func() bool { return w.status(order) == "failed" })
	}
	w.until("every look-up but that of a payment nobody knows", func() bool { return w.open() == 1 })
	for _, order := range []string{"CLICK-FLIPPED", "PAYPAL-FORGED"} {
		if s := w.status(order); s != "failed" {
			t.Errorf("%s is %s", order, s)
		}
	}
}

// sendPayPal writes a hint into the raw topic, as ingress does.
func (w *hintWorld) sendPayPal(id, capture, order string) {
	w.Helper()
	p, _ := webhook.Builtin("paypal")
	body := fmt.Sprintf(`{"id":%q,"event_type":"PAYMENT.CAPTURE.COMPLETED","create_time":"2026-01-01T10:05:01Z","resource":{"id":%q,"status":"COMPLETED","custom_id":%q,"amount":{"currency_code":"USD","value":"10.00"}}}`, id, capture, order)
	r, err := p.Read(func(string) []string { return nil }, []byte(body))
	if err != nil || r.Trust != event.Hint {
		w.Fatalf("%+v, %v", r, err)
	}
	e := event.Event{Source: "paypal", ID: r.ID, Type: r.Type, Time: r.Time, Mode: event.Live, Provider: "paypal", Endpoint: "paypal", Order: r.Order, Payment: r.Payment,
		Trust: event.Hint, ContentType: "application/json", ReceivedAt: time.Now(), SecretName: "env:PAYPAL", Body: []byte(body)}
	w.produce(e)
}

// produce writes an event into the raw topic.
func (w *hintWorld) produce(e event.Event) {
	w.Helper()
	headers, err := e.Headers()
	if err != nil {
		w.Fatal(err)
	}
	producer, err := kafka.NewProducer(w.Context(), w.kafka, "test", w.kafka.Topic(kafka.Raw), testkit.Log(w), prometheus.NewRegistry())
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = producer.Close(context.Background()) }()
	if err := producer.Produce(w.Context(), kafka.Record{Key: []byte(e.ID), Value: e.Body, Headers: headers}); err != nil {
		w.Fatal(err)
	}
}

package ingress

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/testkit"
)

// The whole of one webhook: what lies in the raw topic afterwards.
func TestAValidWebhookIsProducedUnderItsIDWithAllThatDedupeNeeds(t *testing.T) {
	p := &fakeProducer{}
	r := start(t, config(), p)
	body := paid("evt_1")
	h := sign(t, time.Now(), body)
	h["Content-Type"], h["Traceparent"] = "application/json; charset=utf-8", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	h["Authorization"] = "Bearer not-ours-to-keep"
	want(t, "webhook", r.post("/webhooks/shop", h, body), 200)
	e := p.last(t)
	if e.ID != "evt_1" || e.Source != "acct-1" || e.Type != "payment_intent.succeeded" || e.Endpoint != "shop" || e.Provider != "stripe" ||
		e.Order != "ord_evt_1" || e.Payment != "pi_evt_1" || e.Mode != event.Live || e.Trust != event.Signed || !e.TimeRepeats || e.Time.IsZero() ||
		e.ContentType != h["Content-Type"] || e.Traceparent != h["Traceparent"] || e.SecretName != "env:SHOP" ||
		time.Since(e.ReceivedAt) > time.Minute || e.BodySHA256 != sha256.Sum256(body) || !bytes.Equal(e.Body, body) {
		t.Errorf("got %+v", e)
	}
	if len(e.Signature) != 1 || e.Signature[0].Name != "stripe-signature" || string(e.Signature[0].Value) != h["Stripe-Signature"] {
		t.Errorf("signature headers: %v", e.Signature)
	}
	for _, header := range p.all()[0].Headers {
		if bytes.Contains(header.Value, []byte("not-ours")) || bytes.Contains(header.Value, []byte(secretValue)) {
			t.Errorf("header %s holds a credential", header.Name)
		}
	}
	if r.counted("shop", accepted, "") != 1 {
		t.Error("not counted as accepted")
	}
}

// O01, O02: the provider signs bytes, and those bytes are kept.
func TestTheExactBytesAreVerifiedAndKept(t *testing.T) {
	event := func(id, rest string) string {
		return `{"id":"` + id + `","type":"payment.succeeded","created":1764500000,"livemode":true,"data":{"object":{` + rest + `}}}`
	}
	for name, body := range map[string]string{
		"emoji and accents":       event("evt_u8_1", `"note":"☕ naïve 👩‍💻"`),
		"decomposed accents":      event("evt_u8_2", "\"note\":\"nai\u0308ve\""),
		"a byte that is no UTF-8": event("evt_u8_3", "\"note\":\"\xff\""),
		"escaped slashes":         event("evt_esc_1", `"url":"https:\/\/pay.example\/i\/1","html":"\u003cp\u003e"`),
		"keys in another order":   `{"type":"x","data":{"object":{}},"livemode":true,"created":1764500000,"id":"evt_esc_2"}`,
		"CRLF line ends":          strings.ReplaceAll(event("evt_esc_3", `"a":1`), ",", ",\r\n  "),
		"a number with zeros":     event("evt_esc_4", `"n":10.00`),
		"a line end at the end":   event("evt_esc_5", `"a":1`) + "\n",
		"a byte order mark":       "\xef\xbb\xbf" + event("evt_esc_6", `"a":1`),
		"nothing":                 "",
		"not JSON at all":         "hello",
		"one NUL":                 "\x00",
	} {
		t.Run(name, func(t *testing.T) {
			p := &fakeProducer{}
			r := start(t, config(), p)
			want(t, name, r.send([]byte(body)), 200)
			if got := p.last(t); string(got.Body) != body || got.BodySHA256 != sha256.Sum256([]byte(body)) {
				t.Errorf("the body was changed to %q", got.Body)
			}
		})
	}
	// O02 (7): the signature of a body with a line end does not fit the body without.
	p := &fakeProducer{}
	r := start(t, config(), p)
	body := []byte(event("evt_esc_7", `"a":1`) + "\n")
	want(t, "cut body", r.post("/webhooks/shop", sign(t, time.Now(), body), body[:len(body)-1]), 401)
	if len(p.all()) != 0 {
		t.Error("an unverified body was produced")
	}
}

// O06: no signature header gets further than 401, or disturbs the next request.
func TestAMalformedSignatureHeaderIsRefusedAndNothingElseHappens(t *testing.T) {
	p := &fakeProducer{}
	r := start(t, config(), p)
	now := strconv.FormatInt(time.Now().Unix(), 10)
	hexes := strings.Repeat("ab", 32)
	for _, v := range []string{"t=" + now + ",v1=abc", "t=" + now + ",v1=" + hexes[1:], "t=" + now + ",v1=" + hexes + "a", "t=" + now + ",v1=" + strings.Repeat("Z", 64),
		"t=" + now + ",v1=" + strings.Repeat("é", 64), "t=" + now, "v1=" + hexes, "", ",,,,", "=", "not base64!!", "sha256=", "SHA256=" + hexes, strings.Repeat("a", 5000), strings.Repeat("t=1,", 1000)} {
		body := paid("evt_bad")
		want(t, fmt.Sprintf("%.40q", v), r.post("/webhooks/shop", map[string]string{"Stripe-Signature": v}, body), 401)
	}
	body := paid("evt_bad")
	want(t, "no header", r.post("/webhooks/shop", nil, body), 401)
	want(t, "72 KiB of a", r.post("/webhooks/shop", map[string]string{"Stripe-Signature": strings.Repeat("a", 72<<10)}, body), 431)
	if len(p.all()) != 0 {
		t.Error("an unverified body was produced")
	}
	signature := sign(t, time.Now(), body)["Stripe-Signature"]
	want(t, "a right one too long to keep", r.post("/webhooks/shop", map[string]string{"Stripe-Signature": signature + ",v0=" + strings.Repeat("a", 5000)}, body), 401)
	if len(p.all()) != 0 {
		t.Error("a body that cannot be verified again was produced")
	}
	want(t, "a good one right after", r.send(paid("evt_good")), 200)
	if r.counted("shop", refused, "missing") == 0 || r.counted("shop", refused, "malformed") == 0 || r.counted("shop", refused, "mismatch")+r.counted("shop", refused, "malformed") < 10 {
		t.Error("the reasons are not counted")
	}
}

// O07: a wrong time is another reason than a wrong signature.
func TestAStaleSignatureIsRefusedAndCountedAsATimeProblem(t *testing.T) {
	p := &fakeProducer{}
	r := start(t, config(), p)
	body := paid("evt_1")
	for _, age := range []time.Duration{295 * time.Second, -295 * time.Second} {
		want(t, age.String(), r.post("/webhooks/shop", sign(t, time.Now().Add(-age), body), body), 200)
	}
	for _, age := range []time.Duration{306 * time.Second, -306 * time.Second, -10 * 365 * 24 * time.Hour} {
		want(t, age.String(), r.post("/webhooks/shop", sign(t, time.Now().Add(-age), body), body), 401)
	}
	if n := r.counted("shop", refused, "stale"); n != 3 {
		t.Errorf("%v counted as stale, want 3", n)
	}
	want(t, "wrong signature", r.post("/webhooks/shop", sign(t, time.Now(), append(body, ' ')), body), 401)
	if r.counted("shop", refused, "mismatch") != 1 {
		t.Error("a wrong signature is not counted as a mismatch")
	}
	if len(p.all()) != 2 {
		t.Errorf("%d records, want 2", len(p.all()))
	}
}

// O11: an authentic webhook is never answered 4xx or 5xx for what it says.
func TestUnknownAndUnreadableEventsAreTakenAndKept(t *testing.T) {
	p := &fakeProducer{}
	r := start(t, config(), p)
	for _, typ := range []string{`"customer.created"`, `"payment_intent.created"`, `"totally.new.event.v9"`, `"PAYMENT.SUCCEEDED"`} {
		want(t, fmt.Sprintf("%.30s", typ), r.send([]byte(`{"id":"evt_t","created":1764500000,"livemode":true,"type":`+typ+`,"data":{"object":{}}}`)), 200)
		if e := p.last(t); e.ID != "evt_t" || strconv.Quote(e.Type) != typ {
			t.Errorf("%.30s was read as %.30s %q", typ, e.Type, e.ID)
		}
	}
	for _, body := range []string{`{"id":"evt_t","type":null}`, `{"id":"evt_t"}`, `{"id":"evt_t","type":7,"created":1}`, `{"id":"evt_t","type":""}`, `[]`, `7`, `{"type":"x"}`, `{"id":"a\u0000b","type":"x","created":1}`,
		`{"id":"` + strings.Repeat("i", 5000) + `","type":"x","created":1764500000}`, `{"id":"evt_t","type":"` + strings.Repeat("x", 10_000) + `","created":1764500000}`} {
		want(t, fmt.Sprintf("%.40s", body), r.send([]byte(body)), 200)
		sum := sha256.Sum256([]byte(body))
		if e := p.last(t); e.Type != event.Unreadable || e.ID != "sha256:"+hex.EncodeToString(sum[:]) || string(e.Body) != body || e.Order != "" || e.TimeRepeats {
			t.Errorf("%.40s was kept as %s %q", body, e.Type, e.ID)
		}
	}
	if n := r.counted("shop", accepted, "unreadable"); n != 10 {
		t.Errorf("%v counted as unreadable, want 10", n)
	}
}

func TestAnEventOfTheOtherModeIsTakenWithItsOwnMode(t *testing.T) {
	p := &fakeProducer{}
	r := start(t, config(), p)
	want(t, "test event", r.send(bytes.Replace(paid("evt_1"), []byte(`"livemode":true`), []byte(`"livemode":false`), 1)), 200)
	if e := p.last(t); e.Mode != event.Test || e.ID != "evt_1" {
		t.Errorf("kept as %s %s", e.Mode, e.ID)
	}
	if r.counted("shop", accepted, "other_mode") != 1 {
		t.Error("not counted as other_mode")
	}
}

// O12: never a redirect.
func TestNoAddressRedirects(t *testing.T) {
	p := &fakeProducer{}
	r := start(t, config(), p)
	body := paid("evt_1")
	for path, status := range map[string]int{"/webhooks/shop": 200, "/webhooks/shop/": 200, "/webhooks/shop?x=1": 200, "/webhooks/shop/?x=1": 200,
		"//webhooks/shop": 404, "/webhooks//shop": 404, "/WEBHOOKS/SHOP": 404, "/webhooks/SHOP": 404, "/webhooks/other": 404, "/webhooks/": 404, "/webhooks": 404, "/": 404, "/webhooks/shop/x": 404, "/webhooks/%73hop": 404, "/webhooks/../webhooks/shop": 404} {
		h := sign(t, time.Now(), body)
		h["X-Forwarded-Proto"] = "http"
		want(t, path, r.post(path, h, body), status)
	}
	for _, method := range []string{"GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "NONSENSE"} {
		req, _ := http.NewRequest(method, r.url+"/webhooks/shop", nil)
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		want(t, method, res.StatusCode, 405)
		if allow := res.Header.Get("Allow"); allow != "POST" {
			t.Errorf("%s: allowed is %q", method, allow)
		}
	}
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "endpoint" && l.GetValue() != "shop" && l.GetValue() != unknownEndpoint {
					t.Errorf("a sender made up the endpoint label %q", l.GetValue())
				}
			}
		}
	}
}

// O14: the key is the one id that everything else will see, too.
func TestTheRecordsKeyIsTheExactCaseIDAndAmbiguousBodiesHaveNone(t *testing.T) {
	p := &fakeProducer{}
	r := start(t, config(), p)
	for body, id := range map[string]string{
		`{"id":"evt_case_1","ID":"evt_case_2","type":"payment_intent.payment_failed","Type":"payment_intent.succeeded","created":1764500000,"livemode":true,"data":{"object":{"id":"pi_1","amount":100,"AMOUNT":1,"currency":"eur","metadata":{"order_id":"ord_A","Order_ID":"ord_B"}}}}`: "evt_case_1",
		`{"ID":"evt_case_3","TYPE":"payment_intent.succeeded","created":1764500000}`:         "",
		`{"id":"evt_a","id":"evt_b","type":"payment_intent.succeeded","created":1764500000}`: "",
	} {
		want(t, body, r.send([]byte(body)), 200)
		e := p.last(t)
		if records := p.all(); string(records[len(records)-1].Key) != e.ID {
			t.Errorf("key and ce_id differ: %s", body)
		}
		if id == "" && e.Type != event.Unreadable || id != "" && (e.ID != id || e.Type != "payment_intent.payment_failed" || e.Order != "ord_A") {
			t.Errorf("%s: read as %s %s for %q", body, e.Type, e.ID, e.Order)
		}
	}
}

func TestTheBrokersAnswersBecomeTheProvidersAnswers(t *testing.T) {
	for _, c := range []struct {
		err     error
		status  int
		outcome outcome
		reason  string
	}{
		{&kafka.Unavailable{Reason: "shut", RetryAfter: 2 * time.Second}, 503, unavailable, "shut"},
		{&kafka.Unavailable{Reason: "full", RetryAfter: 5 * time.Second}, 503, unavailable, "full"},
		{fmt.Errorf("wrapped: %w", kafka.ErrTooLarge), 413, refused, "too_large"},
		{fmt.Errorf("something new"), 503, unavailable, "unknown"},
	} {
		p := &fakeProducer{do: func(_ context.Context, _ kafka.Record) error { return c.err }}
		r := start(t, config(), p)
		want(t, c.err.Error(), r.send(paid("evt_1")), c.status)
		if r.counted("shop", c.outcome, c.reason) != 1 {
			t.Errorf("%v is not counted as %s %s", c.err, c.outcome, c.reason)
		}
	}
}

func TestAPanicIsA500AndItsValueStaysOutOfTheLog(t *testing.T) {
	var log testkit.Buffer
	p := &fakeProducer{do: func(_ context.Context, r kafka.Record) error {
		if string(r.Key) == "evt_panic" {
			panic("body: " + string(r.Value))
		}
		return nil
	}}
	r := startLogged(t, p, &log)
	want(t, "panic", r.send(paid("evt_panic")), 500)
	want(t, "the next one", r.send(paid("evt_2")), 200)
	if text := log.String(); !strings.Contains(text, "panicked") || !strings.Contains(text, "receive.go") || strings.Contains(text, "ord_evt_panic") {
		t.Errorf("log: %s", text)
	}
}

func TestEveryConfigurationProblemIsSaidAtOnce(t *testing.T) {
	err := errors.Join(Config{Address: "nowhere", Requests: 0, BodyBytes: 5, Unready: -1}.Check(), CheckEndpoints(endpoint.Set{}))
	for _, w := range []string{"SLUICE_INGRESS_ADDRESS", "SLUICE_INGRESS_DEADLINE", "SLUICE_INGRESS_HEADER_TIMEOUT", "SLUICE_INGRESS_BODY_TIMEOUT", "SLUICE_INGRESS_IDLE_TIMEOUT",
		"SLUICE_INGRESS_DRAIN", "SLUICE_INGRESS_UNREADY", "SLUICE_INGRESS_REQUESTS", "SLUICE_INGRESS_BODY_BYTES", "no endpoint is configured"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%v does not mention %s", err, w)
		}
	}
	if err := errors.Join(config().Check(), CheckEndpoints(endpoints(t))); err != nil {
		t.Error(err)
	}
}

package ingress

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/testkit"
	"sluice/pkg/webhook"
)

// Static credentials are no signatures: with them anybody could send, so that none is
// ever among what records keep.
func TestNoBuiltInProviderHasItsCredentialKept(t *testing.T) {
	credentials := []string{"authorization", "proxy-authorization", "verif-hash", "cookie", "x-api-key", "x-callback-token", "x-webhook-secret"}
	for _, name := range webhook.BuiltinNames() {
		p, _ := webhook.Builtin(name)
		for _, h := range p.SignatureHeaders() {
			if slices.Contains(credentials, strings.ToLower(h)) || h != strings.ToLower(h) {
				t.Errorf("%s: header %q would be kept", name, h)
			}
		}
	}
}

// Every built-in provider that ingress serves: what a request with its secret as a
// static credential leaves behind does not hold the secret.
func TestNoRecordLogOrMetricHoldsASecret(t *testing.T) {
	const value = "s3cr3t-of-the-shop-0123456789"
	secret, err := webhook.NewSecret("env:LAB", value)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range webhook.BuiltinNames() {
		provider, _ := webhook.Builtin(name)
		if provider.Profile().TwoWay {
			continue
		}
		var log testkit.Buffer
		p := &fakeProducer{}
		reg := prometheus.NewRegistry()
		in, err := build(config(), endpoints(t), p, time.Now, testLog(&log), reg)
		if err != nil {
			t.Fatal(err)
		}
		addLab(in, endpoint.Endpoint{Name: "lab", Provider: provider, Secrets: []webhook.Secret{secret}})
		r := serve(t, in, reg)
		headers := []string{"Authorization", "Bearer " + value, "Verif-Hash", value}
		for _, h := range provider.SignatureHeaders() {
			if h != webhook.QueryHeader {
				headers = append(headers, h, "x")
			}
		}
		res := r.do("POST", "/webhooks/lab", `{"id":1,"event":"charge.completed","data":{"id":1}}`, headers...)
		if res.StatusCode != http.StatusOK && res.StatusCode/100 != 4 && res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", name, res.StatusCode)
		}
		for _, rec := range p.all() {
			for _, h := range rec.Headers {
				if strings.Contains(string(h.Value), value) {
					t.Errorf("%s: header %s holds the secret", name, h.Name)
				}
			}
		}
		metrics, err := r.reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log.String()+fmt.Sprint(metrics), value) {
			t.Errorf("%s: the log or a metric holds the secret", name)
		}
	}
}

// O03: what a content type says does not decide whether an authentic webhook is read.
func TestAContentTypeNeverLosesAWebhook(t *testing.T) {
	p := &fakeProducer{}
	r := start(t, config(), p)
	for i, contentType := range []string{"application/json; charset=utf-8", "APPLICATION/JSON", "text/plain", "", "application/x-www-form-urlencoded", "\xff", strings.Repeat("x", 300)} {
		body := paid(fmt.Sprint("evt_", i))
		h := sign(t, time.Now(), body)
		if contentType != "" {
			h["Content-Type"] = contentType
		}
		want(t, contentType, r.post("/webhooks/shop", h, body), 200)
		if e := p.last(t); e.ID != fmt.Sprint("evt_", i) || e.Type != "payment_intent.succeeded" || len(contentType) < 255 && contentType != "\xff" && e.ContentType != contentType {
			t.Errorf("%q: kept as %s of type %s, %q", contentType, e.ID, e.Type, e.ContentType)
		}
	}
}

// O03: a form is either unwrapped and read, or kept where people see it, and counted.
// Never is it answered 2xx and gone.
func TestAFormIsReadOrVisiblyKept(t *testing.T) {
	p := &fakeProducer{}
	r := start(t, config(), p)
	known := "payload=%7B%22id%22%3A%22evt_form_1%22%2C%22type%22%3A%22payment.succeeded%22%2C%22created%22%3A1764500000%7D"
	other := "id=evt_form_1&type=payment.succeeded"
	for _, contentType := range []string{"application/x-www-form-urlencoded", "application/json"} {
		for _, body := range []string{known, other} {
			h := sign(t, time.Now(), []byte(body))
			h["Content-Type"] = contentType
			before := r.counted("shop", accepted, "unreadable")
			want(t, body, r.post("/webhooks/shop", h, []byte(body)), 200)
			e := p.last(t)
			read := e.ID == "evt_form_1" && e.Type == "payment.succeeded"
			visible := e.Type == event.Unreadable && r.counted("shop", accepted, "unreadable") == before+1
			if string(e.Body) != body || !read && !visible || body == other && read {
				t.Errorf("%s as %s: kept as %s of type %s, %q", body, contentType, e.ID, e.Type, e.Body)
			}
		}
	}
}

// O09: there is no address but the configured ones, in exactly one spelling.
func TestNoOtherSpellingOfAProviderReachesIt(t *testing.T) {
	p := &fakeProducer{}
	r := start(t, config(), p)
	body := paid("evt_1")
	signature := sign(t, time.Now(), body)["Stripe-Signature"]
	send := func(path, signature string) string {
		c := r.dial()
		_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nStripe-Signature: %s\r\nContent-Length: %d\r\n\r\n%s", path, signature, len(body), body)
		line, _ := bufio.NewReader(c).ReadString('\n')
		return line
	}
	for _, name := range []string{"mock", "test", "fake", "dummy", "generic", "debug", "sandbox", "declared", "stripe", "STRIPE", "SHOP", "Shop", "shop%00", "shop%20", "shop%2f", "shop%0a",
		"shop.", "shop..", "shop;x", "shop,mock", "../shop", "..%2fshop", "%2e%2e/shop", "%2e%2e%2fshop", "./shop", "%2e/shop", "shop/../shop", "shop//", "shop/x", "%73hop", "", "/", "%00", "..", ".", "*", ":endpoint"} {
		for _, signature := range []string{signature, ""} {
			if line := send("/webhooks/"+name, signature); !strings.Contains(line, " 404 ") && !strings.Contains(line, " 400 ") {
				t.Errorf("%q: answered %q", name, line)
			}
		}
	}
	for _, target := range []string{"/webhooks/shop%00", "/webhooks", "webhooks/shop", "http://x/webhooks/mock", "/Webhooks/shop", "/webhooks\\shop"} {
		if line := send(target, signature); strings.Contains(line, " 200 ") {
			t.Errorf("%q: answered %q", target, line)
		}
	}
	if len(p.all()) != 0 {
		t.Errorf("%d records were produced", len(p.all()))
	}
	if line := send("/webhooks/shop", ""); !strings.Contains(line, " 401 ") {
		t.Errorf("unsigned: answered %q", line)
	}
	if line := send("/webhooks/shop", signature); !strings.Contains(line, " 200 ") || len(p.all()) != 1 {
		t.Errorf("the right one: answered %q: the test shows nothing", line)
	}
}

// O25: one id from two accounts, or two providers, is two events; and no join of
// source and id makes two into one.
func TestTheSameIDFromTwoSourcesIsTwoEvents(t *testing.T) {
	p := &fakeProducer{}
	r := startLab(t, config(), p, endpoint.Endpoint{Name: "one", Provider: &lab{}}, endpoint.Endpoint{Name: "two", Provider: &lab{}},
		endpoint.Endpoint{Name: "other", Provider: &lab{name: "2"}}, endpoint.Endpoint{Name: "a", Provider: &lab{}}, endpoint.Endpoint{Name: "ab", Source: "a:b", Provider: &lab{}},
		endpoint.Endpoint{Name: "again", Source: "one", Provider: &lab{}})
	hashes, keys := map[[16]byte]string{}, map[[16]byte]string{}
	for _, c := range [][2]string{{"one", "evt_1"}, {"two", "evt_1"}, {"other", "evt_1"}, {"a", "b:c"}, {"ab", "c"}} {
		want(t, c[0], r.do("POST", "/webhooks/"+c[0], c[1]).StatusCode, http.StatusOK)
		e := p.last(t)
		if records := p.all(); e.ID != c[1] || string(records[len(records)-1].Key) != c[1] {
			t.Errorf("%v: kept as %s", c, e.ID)
		}
		if other, taken := hashes[e.Hash()]; taken {
			t.Errorf("%v is taken for %s", c, other)
		}
		if other, taken := keys[e.Key()]; taken {
			t.Errorf("%v would be a duplicate of %s", c, other)
		}
		hashes[e.Hash()], keys[e.Key()] = c[0], c[0]
	}
	want(t, "one account at two addresses", r.do("POST", "/webhooks/again", "evt_1").StatusCode, http.StatusOK)
	if e := p.last(t); hashes[e.Hash()] != "one" {
		t.Error("one account's event is another at its second address")
	}
}

// An answer's text is the provider's own; nothing is said with a refusal.
func TestOnlyAcceptedWebhooksGetTheProvidersAnswer(t *testing.T) {
	p := &fakeProducer{}
	r := startLab(t, config(), p, batches())
	for body, status := range map[string]int{"a": 200, "no batch": 200, "of nothing": 400} {
		res := r.do("POST", "/webhooks/lab", body)
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != status || (string(text) == "[accepted]") != (status == 200) || status != 200 && len(text) > 0 {
			t.Errorf("%s: %d %q", body, res.StatusCode, text)
		}
	}
}

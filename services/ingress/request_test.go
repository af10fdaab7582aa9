package ingress

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/pkg/certificate"
	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/webhook"
)

// Square and Twilio sign the public URL: it is the configured one, whatever a request
// or a proxy says of its host.
func TestTheURLIsTheConfiguredOneAndNeverTheHosts(t *testing.T) {
	l := &lab{headers: []string{webhook.QueryHeader}}
	r := startLab(t, config(), &fakeProducer{}, endpoint.Endpoint{Name: "lab", Provider: l, URL: "https://shop.example/w"},
		endpoint.Endpoint{Name: "fixed", Provider: l, URL: "https://shop.example/w?key=1"}, endpoint.Endpoint{Name: "none", Provider: l})
	for path, want := range map[string][2]string{
		"/webhooks/lab": {"https://shop.example/w", ""}, "/webhooks/lab?a=%20b&a=1": {"https://shop.example/w?a=%20b&a=1", "a=%20b&a=1"},
		"/webhooks/lab/?x": {"https://shop.example/w?x", "x"}, "/webhooks/fixed?a=1": {"https://shop.example/w?key=1", "a=1"}, "/webhooks/none?a=1": {"", "a=1"},
	} {
		res := r.do("POST", path, "evt_1", "Host", "evil.example", "X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "http", "Forwarded", "host=evil.example", "X-Original-Url", "/evil")
		if got := l.last(t); res.StatusCode != http.StatusOK || got.URL != want[0] || strings.Join(got.Header(webhook.QueryHeader), "&") != want[1] || got.Method != http.MethodPost {
			t.Errorf("%s: %d, URL %q, query %q; want %q", path, res.StatusCode, got.URL, got.Header(webhook.QueryHeader), want)
		}
	}
}

func TestTheQueryIsKeptWhereItIsAPartOfTheSignature(t *testing.T) {
	p := &fakeProducer{}
	l := &lab{headers: []string{"X-Lab", webhook.QueryHeader}}
	r := startLab(t, config(), p, endpoint.Endpoint{Name: "lab", Provider: l})
	want(t, "with a query", r.do("POST", "/webhooks/lab?data.id=7&type=payment", "evt_1").StatusCode, 200)
	stored := webhook.StoredHeaders(p.last(t).Signature)
	if got := stored(webhook.QueryHeader); len(got) != 1 || got[0] != "data.id=7&type=payment" || len(stored("x-lab")) != 1 {
		t.Errorf("stored %q", p.last(t).Signature)
	}
	want(t, "without", r.do("POST", "/webhooks/lab", "evt_1").StatusCode, 200)
	if got := p.last(t).Signature; len(got) != 1 {
		t.Errorf("stored %q", got)
	}
	want(t, "a header of the name is no HTTP", r.do("POST", "/webhooks/lab?a", "evt_1", "Query", "b").StatusCode, 200)
	want(t, "too long to be kept", r.do("POST", "/webhooks/lab?"+strings.Repeat("a", event.MaxSignature+1), "evt_1").StatusCode, 401)
	want(t, "too long, but no part of it", r.post("/webhooks/shop?"+strings.Repeat("a", event.MaxSignature+1), sign(t, time.Now(), paid("evt_2")), paid("evt_2")), 200)
}

func TestATrustedProxyIsAnAddressOrARange(t *testing.T) {
	for _, wrong := range []string{"", "proxy.example", "0.0.0.0/0", "::/0", "10.0.0.1/8"} {
		cfg := config()
		cfg.TrustedProxies = []string{"10.0.0.0/8", wrong}
		if err := cfg.Check(); err == nil || !strings.Contains(err.Error(), "SLUICE_INGRESS_TRUSTED_PROXIES") {
			t.Errorf("%q as a proxy: %v", wrong, err)
		}
	}
}

// A forged forwarding header does not pass an endpoint's list of addresses.
func TestOnlyAnEndpointsAddressesMaySendToIt(t *testing.T) {
	list := []netip.Prefix{netip.MustParsePrefix("185.71.76.0/27")}
	p := &fakeProducer{}
	l := &lab{}
	e := endpoint.Endpoint{Name: "lab", Provider: l, Addresses: list}
	r := startLab(t, config(), p, e)
	want(t, "forged, no proxy trusted", r.do("POST", "/webhooks/lab", "evt_1", "X-Forwarded-For", "185.71.76.1").StatusCode, 401)
	if len(p.all()) != 0 || r.counted("lab", refused, "address") != 1 {
		t.Error("produced, or not counted")
	}
	cfg := config()
	cfg.TrustedProxies = []string{"127.0.0.1"}
	r = startLab(t, cfg, p, e)
	want(t, "from the list, by a trusted proxy", r.do("POST", "/webhooks/lab", "evt_1", "X-Forwarded-For", "185.71.76.1").StatusCode, 200)
	want(t, "from elsewhere, forged before", r.do("POST", "/webhooks/lab", "evt_1", "X-Forwarded-For", "185.71.76.1", "X-Forwarded-For", "203.0.113.9").StatusCode, 401)
	want(t, "from nobody", r.do("POST", "/webhooks/lab", "evt_1", "X-Forwarded-For", "unknown").StatusCode, 401)
	if got := l.last(t).Remote.String(); got != "185.71.76.1" {
		t.Errorf("the provider was told %s", got)
	}
}

func TestAChallengeIsAnsweredWhereTheProviderHasOne(t *testing.T) {
	p := &fakeProducer{}
	r := startLab(t, config(), p, endpoint.Endpoint{Name: "lab", Provider: challenging{&lab{}}}, endpoint.Endpoint{Name: "two-way", Provider: &lab{}})
	for _, path := range []string{"/webhooks/lab?challenge=20f9f8ed", "/webhooks/lab/?challenge=20f9f8ed"} {
		res := r.do("GET", path, "")
		if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK || string(text) != "20f9f8ed" || res.Header.Get("Content-Type") != "text/plain" || res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %q", path, res.StatusCode, text)
		}
	}
	if r.counted("lab", challenged, "") != 2 || len(p.all()) != 0 {
		t.Error("not counted, or produced")
	}
	for path, method := range map[string]string{"/webhooks/lab": "GET", "/webhooks/shop?challenge=1": "GET", "/webhooks/other?challenge=1": "GET", "/webhooks/lab?challenge=1": "HEAD", "/webhooks/lab/?challenge=1": "OPTIONS"} {
		res := r.do(method, path, "")
		if res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "POST" {
			t.Errorf("%s %s: %d", method, path, res.StatusCode)
		}
	}
}

// Payme and Click are the merchant's.
func TestATwoWayProvidersEndpointIsNotServed(t *testing.T) {
	set, err := endpoint.Load("f", event.Live, func(string) (string, bool) { return secretValue, true }, func(string) ([]byte, error) {
		return []byte("endpoints: [{name: shop, provider: stripe, secrets: [env:A]}]"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	set.All()[0].Provider = &lab{profile: webhook.Profile{TwoWay: true}}
	if routes := routes(set); len(routes) != 0 {
		t.Errorf("served: %v", routes)
	}
}

func TestACertificateIsThereBeforeTheSignatureIsChecked(t *testing.T) {
	p := &fakeProducer{}
	l := &lab{}
	r := startLab(t, config(), p, endpoint.Endpoint{Name: "lab", Provider: certified{l}})
	r.certificates.Close()
	s := &shelf{there: map[string]webhook.Certificate{"https://there.example/a.pem": aCertificate}}
	r.certificates = s
	want(t, "there", r.do("POST", "/webhooks/lab", "evt_1", "X-Certificate", "https://there.example/a.pem").StatusCode, 200)
	want(t, "the provider refuses the address", r.do("POST", "/webhooks/lab", "evt_1").StatusCode, 401)
	res := r.do("POST", "/webhooks/lab", "evt_1", "X-Certificate", "https://elsewhere.example/a.pem")
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("not there: %d, Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
	}
	if len(p.all()) != 1 || r.counted("lab", unavailable, "certificate") != 1 || r.counted("lab", refused, "missing") != 1 {
		t.Error("produced, or not counted")
	}
	if err := r.stop(); err != nil || !s.closed {
		t.Errorf("a stop leaves fetches behind: %v", err)
	}
}

// A certificate's host that hangs costs those who need it, and nobody else.
func TestAHangingCertificateHostStallsNobodyElse(t *testing.T) {
	host, release := hanging(t)
	defer release()
	p := &fakeProducer{}
	r := startLab(t, config(), p, endpoint.Endpoint{Name: "lab", Provider: certified{&lab{}}})
	if _, real := r.certificates.(*certificate.Store); !real {
		t.Fatal("the test shows nothing")
	}
	const many = 600
	var all sync.WaitGroup
	var mu sync.Mutex
	slowest := time.Duration(0)
	for i := range many {
		all.Go(func() {
			begin := time.Now()
			want(t, "needs the certificate", r.do("POST", "/webhooks/lab", "evt_1", "X-Certificate", fmt.Sprintf("https://%s/%d.pem", host, i%8)).StatusCode, 503)
			mu.Lock()
			defer mu.Unlock()
			slowest = max(slowest, time.Since(begin))
		})
	}
	until(t, "some wait", func() bool { return r.inFlight.Load() >= 100 })
	begin := time.Now()
	for i := range 20 {
		want(t, "another endpoint", r.send(paid(fmt.Sprint("evt_", i))), 200)
	}
	others := time.Since(begin)
	all.Wait()
	if others > time.Second || slowest > r.cfg.Deadline+time.Second {
		t.Errorf("20 others took %v, the slowest that needs it %v", others, slowest)
	}
	if len(p.all()) != 20 {
		t.Errorf("%d records", len(p.all()))
	}
}

// Before the old secret of a rotation goes one wants to know that nobody signs with it.
func TestWhichSecretSignedIsCountedBeforeAndAfterItDid(t *testing.T) {
	r := start(t, config(), &fakeProducer{})
	counted := func(secret string) (n float64, there bool) {
		families, err := r.reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "sluice_ingress_verified_webhooks_total" && m.GetLabel()[0].GetValue() == "shop" && m.GetLabel()[1].GetValue() == secret {
					return m.GetCounter().GetValue(), true
				}
			}
		}
		return 0, false
	}
	name := r.routes["shop"].Secrets[0].Name
	if n, there := counted(name); n != 0 || !there {
		t.Errorf("before: %v, %v", n, there)
	}
	want(t, "signed", r.send(paid("evt_1")), 200)
	want(t, "forged", r.post("/webhooks/shop", sign(t, time.Now(), paid("evt_2")), paid("evt_3")), 401)
	if n, _ := counted(name); n != 1 {
		t.Errorf("after one that is signed and one that is not: %v", n)
	}
}

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

func TestTheSendersAddressIsThePeersOrATrustedProxysWord(t *testing.T) {
	ps, err := endpoint.ParseProxies([]string{"10.0.0.0/8", " 192.0.2.1", "2001:db8:1::/48"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		peer      string
		forwarded []string
		want      string
	}{
		"a peer":                                {"198.51.100.7:99", nil, "198.51.100.7"},
		"a peer in IPv6":                        {"[2001:db8:2::7]:99", nil, "2001:db8:2::7"},
		"an IPv4 peer on an IPv6 socket":        {"[::ffff:198.51.100.7]:99", nil, "198.51.100.7"},
		"a peer with a zone":                    {"[fe80::1%eth0]:99", nil, "fe80::1"},
		"a stranger who forges":                 {"198.51.100.7:99", []string{"203.0.113.9"}, "198.51.100.7"},
		"a proxy":                               {"10.1.2.3:99", []string{"203.0.113.9"}, "203.0.113.9"},
		"a proxy on an IPv6 socket":             {"[::ffff:10.1.2.3]:99", []string{"203.0.113.9"}, "203.0.113.9"},
		"a proxy by its one address":            {"192.0.2.1:99", []string{"203.0.113.9"}, "203.0.113.9"},
		"a proxy's neighbour":                   {"192.0.2.2:99", []string{"203.0.113.9"}, "192.0.2.2"},
		"a proxy in IPv6":                       {"[2001:db8:1::5]:99", []string{"2001:db8:3::9"}, "2001:db8:3::9"},
		"what the sender wrote before":          {"10.1.2.3:99", []string{"185.71.76.1, 203.0.113.9"}, "203.0.113.9"},
		"what the sender wrote in lines before": {"10.1.2.3:99", []string{"185.71.76.1", "203.0.113.9"}, "203.0.113.9"},
		"two proxies":                           {"10.1.2.3:99", []string{"185.71.76.1, 203.0.113.9, 10.9.9.9"}, "203.0.113.9"},
		"two proxies, a line each":              {"10.1.2.3:99", []string{"185.71.76.1, 203.0.113.9", "10.9.9.9"}, "203.0.113.9"},
		"a sender that claims to be a proxy":    {"10.1.2.3:99", []string{"185.71.76.1, 10.4.4.4, 203.0.113.9"}, "203.0.113.9"},
		"no spaces":                             {"10.1.2.3:99", []string{"185.71.76.1,203.0.113.9,10.9.9.9"}, "203.0.113.9"},
		"tabs":                                  {"10.1.2.3:99", []string{"\t203.0.113.9 \t,  10.9.9.9\t"}, "203.0.113.9"},
		"a port":                                {"10.1.2.3:99", []string{"203.0.113.9:4711"}, "203.0.113.9"},
		"IPv6 with a port":                      {"10.1.2.3:99", []string{"[2001:db8:3::9]:4711"}, "2001:db8:3::9"},
		"IPv6 in brackets":                      {"10.1.2.3:99", []string{"[2001:db8:3::9]"}, "2001:db8:3::9"},
		"IPv4 written as IPv6":                  {"10.1.2.3:99", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		"a proxy's IPv4 written as IPv6":        {"10.1.2.3:99", []string{"203.0.113.9, ::ffff:10.9.9.9"}, "203.0.113.9"},
		"nobody forwarded":                      {"10.1.2.3:99", nil, "10.1.2.3"},
		"an empty line":                         {"10.1.2.3:99", []string{""}, "10.1.2.3"},
		"only proxies":                          {"10.1.2.3:99", []string{"10.5.5.5, 10.6.6.6"}, "10.5.5.5"},
		"garbage from a proxy":                  {"10.1.2.3:99", []string{"203.0.113.9, unknown"}, "invalid IP"},
		"garbage before a proxy":                {"10.1.2.3:99", []string{"203.0.113.9, _hidden, 10.9.9.9"}, "invalid IP"},
		"garbage that the sender wrote":         {"10.1.2.3:99", []string{"a\x01b,,, 203.0.113.9"}, "203.0.113.9"},
		"a comma at the end":                    {"10.1.2.3:99", []string{"203.0.113.9,"}, "invalid IP"},
		"a number":                              {"10.1.2.3:99", []string{"3232235777"}, "invalid IP"},
		"leading zeros":                         {"10.1.2.3:99", []string{"203.000.113.009"}, "invalid IP"},
		"no peer":                               {"@", []string{"203.0.113.9"}, "invalid IP"},
		"no peer at all":                        {"", []string{"203.0.113.9"}, "invalid IP"},
	} {
		r := &http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.forwarded, "Forwarded": {"for=185.71.76.1"}, "X-Real-Ip": {"185.71.76.1"}}}
		if got := ps.Sender(r).String(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if got := endpoint.Proxies(nil).Sender(r); len(c.forwarded) > 0 && c.want != "invalid IP" && strings.HasPrefix(c.peer, "10.") && got.String() != "10.1.2.3" {
			t.Errorf("%s: with no trusted proxies it is %s", name, got)
		}
	}
	for _, wrong := range []string{"", "proxy.example", "0.0.0.0/0", "::/0", "10.0.0.1/8"} {
		cfg := config()
		cfg.TrustedProxies = []string{"10.0.0.0/8", wrong}
		if err := cfg.Check(); err == nil || !strings.Contains(err.Error(), "SLUICE_INGRESS_TRUSTED_PROXIES") {
			t.Errorf("%q as a proxy: %v", wrong, err)
		}
	}
}

func FuzzSender(f *testing.F) {
	ps, err := endpoint.ParseProxies([]string{"10.0.0.0/8"})
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"203.0.113.9", "1.1.1.1, 10.0.0.1", ",,", "[::1]:1", "[", "::ffff:10.0.0.1,x"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		r := &http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{"X-Forwarded-For": {one, two}}}
		// What stands last decides, whatever a sender wrote before it.
		r.Header["X-Forwarded-For"] = append(r.Header["X-Forwarded-For"], "203.0.113.9, 10.0.0.2")
		if got := ps.Sender(r); got != netip.MustParseAddr("203.0.113.9") {
			t.Errorf("%q, %q: %v", one, two, got)
		}
		r.Header["X-Forwarded-For"] = []string{one, two}
		if got := ps.Sender(r); got.Is4In6() || got.Zone() != "" {
			t.Errorf("%q, %q: %v has more than one form", one, two, got)
		}
	})
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
	r.certificates = shelf{"https://there.example/a.pem": aCertificate}
	want(t, "there", r.do("POST", "/webhooks/lab", "evt_1", "X-Certificate", "https://there.example/a.pem").StatusCode, 200)
	want(t, "the provider refuses the address", r.do("POST", "/webhooks/lab", "evt_1").StatusCode, 401)
	res := r.do("POST", "/webhooks/lab", "evt_1", "X-Certificate", "https://elsewhere.example/a.pem")
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("not there: %d, Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
	}
	if len(p.all()) != 1 || r.counted("lab", unavailable, "certificate") != 1 || r.counted("lab", refused, "missing") != 1 {
		t.Error("produced, or not counted")
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

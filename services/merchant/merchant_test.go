package merchant

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// api is a merchant on a database of its own.
type api struct {
	testing.TB
	store   *postgres.Store
	handler http.Handler
	token   string
}

func newAPI(t *testing.T, cfg Config) *api {
	t.Helper()
	cfg = sound(cfg)
	store := testkit.Store(t)
	m, err := New(cfg, Deps{Log: testkit.Log(t), Reg: prometheus.NewRegistry(), Store: store, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.listener.Close() })
	return &api{TB: t, store: store, handler: m.handler(), token: cfg.Token}
}

func (a *api) do(method, id, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/v1/orders/"+id, strings.NewReader(body))
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	a.lawful(method, w)
	return w
}

func (a *api) put(id, body string, status int) orderView {
	a.Helper()
	w := a.do(http.MethodPut, id, body)
	if w.Code != status {
		a.Fatalf("PUT %s %s: %d %s, want %d", id, body, w.Code, w.Body, status)
	}
	var v orderView
	if w.Code/100 == 2 {
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
			a.Fatal(err)
		}
	}
	return v
}

func (a *api) get(id string) orderView {
	a.Helper()
	w := a.do(http.MethodGet, id, "")
	var v orderView
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != 200 {
		a.Fatalf("GET %s: %d %s", id, w.Code, w.Body)
	}
	return v
}

// apply puts a fact into the order's set, as the processor does.
func (a *api) apply(id, eventID string, kind order.Kind, amount int64) {
	a.Helper()
	err := a.store.InTx(a.Context(), func(tx postgres.Tx) error {
		_, err := tx.Apply(a.Context(), time.Now(), []postgres.Fact{{
			Entry: order.Entry{Hash: event.Event{Source: "stripe-eu", ID: eventID}.Hash(), Source: "stripe-eu", Kind: kind,
				Time: time.Now().UnixMilli(), Payment: "pi_" + id, Object: eventID, Amount: amount, Currency: "USD"},
			OrderID: id, EventID: eventID, EventType: "payment", Endpoint: "stripe-eu", AppendedAt: time.Now(),
		}})
		return err
	})
	if err != nil {
		a.Fatal(err)
	}
}

const usd1250 = `{"amount":125050,"currency":"USD","reference":"cart 7"}`

func TestARegistrationIsPendingAndItsRepeatChangesNothing(t *testing.T) {
	a := newAPI(t, Config{})
	first := a.put("o-1", usd1250, http.StatusCreated)
	want := orderView{OrderID: "o-1", Reference: "cart 7", Version: 1, Status: "pending", Amount: 125050, Currency: "USD", Dispute: "none"}
	got := first
	got.Held, got.History = nil, nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	again := a.put("o-1", "\n{ \"reference\": \"cart 7\", \"currency\": \"USD\", \"amount\": 125050 }", http.StatusOK)
	if fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("the repeat changed it:\n%+v\n%+v", again, first)
	}
}

// O29: a payment that comes before its order is held, and applied by itself when
// the order comes.
func TestAnEventBeforeItsOrderIsAppliedByTheRegistration(t *testing.T) {
	a := newAPI(t, Config{})
	a.apply("o-2", "evt_1", order.KindPaid, 125050)
	if w := a.do(http.MethodGet, "o-2", ""); w.Code != http.StatusNotFound {
		t.Errorf("an order that nobody registered: %d", w.Code)
	}
	v := a.put("o-2", usd1250, http.StatusCreated)
	if v.Status != "paid" || v.Version != 2 || v.Paid != 125050 || len(v.Held) != 0 {
		t.Errorf("after the registration: %+v", v)
	}
	if len(v.History) != 2 || v.History[0].Status != "pending" || v.History[1].CauseEvent != "evt_1" {
		t.Errorf("its history: %+v", v.History)
	}
}

func TestAnotherAmountFoldsAgainUntilThePaymentIsApplied(t *testing.T) {
	a := newAPI(t, Config{})
	a.put("o-3", `{"amount":100,"currency":"USD"}`, http.StatusCreated)
	a.apply("o-3", "evt_1", order.KindPaid, 125050)
	v := a.get("o-3")
	if v.Status != "pending" || len(v.Held) != 1 || v.Held[0].Reason != "amount_mismatch" || v.Held[0].EventID != "evt_1" {
		t.Fatalf("a payment of another amount: %+v", v)
	}
	v = a.put("o-3", usd1250, http.StatusOK)
	if v.Status != "paid" || len(v.Held) != 0 || v.Amount != 125050 {
		t.Fatalf("after the amount was put right: %+v", v)
	}
	for _, body := range []string{`{"amount":1,"currency":"USD"}`, `{"amount":125050,"currency":"EUR"}`} {
		w := a.do(http.MethodPut, "o-3", body)
		if w.Code != http.StatusConflict || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s after payment: %d %s", body, w.Code, w.Body)
		}
	}
	a.put("o-3", usd1250, http.StatusOK)
	v = a.put("o-3", `{"amount":125050,"currency":"USD","reference":"renamed"}`, http.StatusOK)
	if v.Reference != "renamed" || v.Status != "paid" {
		t.Errorf("a new reference after payment: %+v", v)
	}
	versions(t, v)
}

func TestAnAmountThatGoesBackIsANewRegistration(t *testing.T) {
	a := newAPI(t, Config{})
	for i, amount := range []int{1, 2, 1, 2, 1} {
		v := a.put("o-4", fmt.Sprintf(`{"amount":%d,"currency":"JPY"}`, amount), map[bool]int{true: 201, false: 200}[i == 0])
		if v.Amount != int64(amount) {
			t.Fatalf("amount %d, want %d", v.Amount, amount)
		}
		versions(t, v)
	}
}

func versions(t *testing.T, v orderView) {
	t.Helper()
	for i, h := range v.History {
		if h.Version != int64(i)+1 {
			t.Errorf("history %d has version %d", i, h.Version)
		}
	}
	if v.Version != int64(len(v.History)) {
		t.Errorf("version %d after %d messages", v.Version, len(v.History))
	}
}

func TestRegistrationsThatRaceAreOneAfterTheOther(t *testing.T) {
	a := newAPI(t, Config{})
	const callers = 16
	codes := make([]int, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { codes[i] = a.do(http.MethodPut, "o-5", usd1250).Code })
	}
	wg.Wait()
	slices.Sort(codes)
	if codes[0] != 200 || codes[callers-2] != 200 || codes[callers-1] != 201 {
		t.Errorf("answers %v, want one 201 and the rest 200", codes)
	}
	if v := a.get("o-5"); v.Version != 1 || len(v.History) != 1 {
		t.Errorf("after the race: %+v", v)
	}
}

// O29, the race itself: whichever wins, the order ends paid, in two versions.
func TestARegistrationAndItsPaymentMayRace(t *testing.T) {
	a := newAPI(t, Config{})
	for i := range 40 {
		id := fmt.Sprint("race-", i)
		var wg sync.WaitGroup
		wg.Go(func() { a.apply(id, "evt_"+id, order.KindPaid, 125050) })
		wg.Go(func() {
			if w := a.do(http.MethodPut, id, usd1250); w.Code != 201 {
				t.Errorf("PUT %s: %d %s", id, w.Code, w.Body)
			}
		})
		wg.Wait()
		if v := a.get(id); v.Status != "paid" || v.Version != 2 || len(v.Held) != 0 {
			t.Fatalf("%s: %+v", id, v)
		}
	}
}

func TestWhatIsNoRegistrationIsRefusedWithEveryReason(t *testing.T) {
	a := newAPI(t, Config{})
	for body, wants := range map[string][]string{
		``:                                {"malformed"},
		`[]`:                              {"{"},
		`null`:                            {"{"},
		`{}`:                              {"amount is missing", "currency is missing"},
		usd1250[:len(usd1250)-1]:          {"malformed"},
		usd1250 + `{}`:                    {"malformed"},
		`{"amount":1.0,"currency":"USD"}`: {"whole number"},
		`{"amount":1e2,"currency":"USD"}`: {"whole number"},
		`{"amount":-1,"currency":"USD"}`:  {"whole number"},
		`{"amount":"1","currency":"USD"}`: {"must be a number"},
		`{"amount":9223372036854775808,"currency":"USD"}`:                              {"too large"},
		`{"amount":1,"currency":"usd"}`:                                                {"ISO 4217"},
		`{"amount":1,"currency":"XXX"}`:                                                {"ISO 4217"},
		`{"amount":1,"currency":null}`:                                                 {"must be a string"},
		`{"Amount":1,"currency":"USD"}`:                                                {`"Amount" is unknown`, "amount is missing"},
		`{"amount":1,"amount":2,"currency":"USD"}`:                                     {`"amount" is there twice`},
		`{"amount":1,"currency":"USD","note":1}`:                                       {`"note" is unknown`},
		`{"amount":{"value":1},"currency":"USD"}`:                                      {"object or array"},
		`{"amount":1,"currency":"USD","reference":"a\u0000"}`:                          {"control characters"},
		`{"amount":1,"currency":"USD","reference":7}`:                                  {"must be a string"},
		"{\"amount\":1,\"currency\":\"USD\",\"reference\":\"\xff\"}":                   {"UTF-8"},
		`{"amount":1,"currency":"USD","reference":"` + strings.Repeat("x", 256) + `"}`: {"longer than 255"},
		`{"amount":true,"currency":"dollars","reference":"` + "\\t" + `","x":1}`:       {"number", "ISO 4217", "control", `"x" is unknown`},
	} {
		w := a.do(http.MethodPut, "o-6", body)
		if w.Code != http.StatusBadRequest {
			t.Errorf("%q: %d", body, w.Code)
		}
		for _, want := range wants {
			var p problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || !strings.Contains(p.Detail, want) {
				t.Errorf("%q: %q does not say %q", body, p.Detail, want)
			}
		}
	}
	if w := a.do(http.MethodGet, "o-6", ""); w.Code != http.StatusNotFound {
		t.Errorf("a refused registration left something: %d", w.Code)
	}
	if w := a.do(http.MethodPut, "o-6", `{"amount":1,"currency":"USD","reference":"`+strings.Repeat("x", maxBody)+`"}`); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a body beyond the limit: %d", w.Code)
	}
}

func TestOrderIDsAreAnyTextWithoutControlCharacters(t *testing.T) {
	a := newAPI(t, Config{})
	for escaped, id := range map[string]string{
		"a%2Fb": "a/b", "caf%C3%A9%20%E2%98%95": "café ☕", "%2E%2E": "..", strings.Repeat("x", 255): strings.Repeat("x", 255), "a.b.7": "a.b.7",
	} {
		if v := a.put(escaped, usd1250, http.StatusCreated); v.OrderID != id {
			t.Errorf("%s became %q", escaped, v.OrderID)
		}
		if v := a.get(escaped); v.OrderID != id {
			t.Errorf("%s is read as %q", escaped, v.OrderID)
		}
	}
	for _, escaped := range []string{"%00", "a%0Ab", "%FF", strings.Repeat("x", 256), "a%C2%85", "%20", "%20%E2%80%83"} {
		a.put(escaped, usd1250, http.StatusBadRequest)
	}
}

func TestOtherMethodsAreNotAllowed(t *testing.T) {
	a := newAPI(t, Config{})
	for _, method := range []string{"POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "NONSENSE"} {
		w := a.do(method, "o-1", "")
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, PUT" {
			t.Errorf("%s: %d, allowed is %q", method, w.Code, w.Header().Get("Allow"))
		}
	}
}

func TestATokenIsNeededWhereOneIsSet(t *testing.T) {
	const token = "0123456789abcdef0123"
	a := newAPI(t, Config{Token: token})
	a.put("o-7", usd1250, http.StatusCreated)
	for _, wrong := range []string{"", "Bearer", "Bearer ", "Bearer " + token + "x", "Basic " + token, token} {
		r := httptest.NewRequest(http.MethodGet, "/v1/orders/o-7", nil)
		r.Header.Set("Authorization", wrong)
		w := httptest.NewRecorder()
		a.handler.ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized || bytes.Contains(w.Body.Bytes(), []byte(token)) {
			t.Errorf("%q: %d %s", wrong, w.Code, w.Body)
		}
	}
}

func TestAConfigurationThatIsUnsafeOrBrokenIsRefused(t *testing.T) {
	good := sound(Config{})
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"loopback, no token":     {func(*Config) {}, ""},
		"IPv6 loopback":          {func(c *Config) { c.Address = "[::1]:1" }, ""},
		"public with a token":    {func(c *Config) { c.Address, c.Token = ":8081", "0123456789abcdef" }, ""},
		"public, a token's file": {func(c *Config) { c.Address, c.TokenFile = ":8081", "0123456789abcdef\n" }, ""},
		"public without a token": {func(c *Config) { c.Address = ":8081" }, "loopback"},
		"any address":            {func(c *Config) { c.Address = "0.0.0.0:8081" }, "loopback"},
		"short token":            {func(c *Config) { c.Token = "changeme" }, "shorter"},
		"token with a space":     {func(c *Config) { c.Token = "0123456789 abcdef" }, "white space"},
		"two tokens":             {func(c *Config) { c.Token, c.TokenFile = "0123456789abcdef", "x" }, "not both"},
		"no port":                {func(c *Config) { c.Address = "localhost" }, "host:port"},
		"no timeout":             {func(c *Config) { c.Timeout = 0 }, "SLUICE_MERCHANT_TIMEOUT"},
	} {
		cfg := good
		c.change(&cfg)
		err := cfg.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err != nil && cfg.Token != "" && strings.Contains(err.Error(), cfg.Token) {
			t.Errorf("%s: the token is in the error", name)
		}
	}
}

func TestAStoppedDatabaseIsA503AndNotReady(t *testing.T) {
	cfg := sound(Config{})
	store := testkit.Store(t)
	m, err := New(cfg, Deps{Log: testkit.Log(t), Reg: prometheus.NewRegistry(), Store: store, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.listener.Close() })
	store.Close()
	a := &api{TB: t, handler: m.handler()}
	if w := a.do(http.MethodPut, "o-8", usd1250); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("without a database: %d", w.Code)
	}
	m.ping(t.Context())
	if m.Ready() == nil {
		t.Error("ready without a database")
	}
}

func FuzzParseRegistration(f *testing.F) {
	for _, seed := range []string{usd1250, `{}`, `{"amount":1e2}`, `{"amount":1,"amount":2}`, `{"a":[{}]}`, `"`, "\xff"} {
		f.Add("o-1", []byte(seed))
	}
	f.Fuzz(func(t *testing.T, id string, body []byte) {
		r, problems := parseRegistration(id, body)
		if len(problems) > 0 {
			return
		}
		if _, ok := order.Exponent(r.Currency); !ok || r.Amount < 0 || r.OrderID == "" || len(r.Reference) > maxText {
			t.Errorf("accepted %+v from %q", r, body)
		}
		if !json.Valid(body) {
			t.Errorf("accepted what is no JSON: %q", body)
		}
	})
}

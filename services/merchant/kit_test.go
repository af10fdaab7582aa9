package merchant

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
	"sluice/pkg/webhook"
)

// sound is cfg with what its test does not say.
func sound(cfg Config) Config {
	cfg.Address, cfg.PublicAddress = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Timeout, cfg.Drain = 10*time.Second, time.Second
	cfg.ClickReservation, cfg.OutboxKeep = 30*time.Minute, time.Hour
	return cfg
}

const (
	paymeKey    = "fkWW6UNrzvzyV6DhrdHJ6aEhr3dRcvJYkaGx"
	paymeOldKey = "OldKey0000-until-the-change-is-over0"
	clickKey    = "click-demo-key"
)

const twoWayEndpoints = `endpoints:
  - {name: payme, provider: payme, secrets: ["env:PAYME", "env:PAYME_OLD"], addresses: [192.0.2.0/24]}
  - {name: payme-two, provider: payme, secrets: ["env:PAYME"], addresses: [192.0.2.0/24], order: [params.account.invoice]}
  - {name: click, provider: click, secrets: ["env:CLICK"], lookup: {settings: {service_id: "24001", merchant_user_id: "7"}, credentials: ["env:CLICK"]}}
  - {name: click-two, provider: click, secrets: ["env:CLICK"], lookup: {settings: {service_id: "24001", merchant_user_id: "7"}, credentials: ["env:CLICK"]}}
  - {name: stripe, provider: stripe, secrets: ["env:NOT_SET"]}
`

var environment = map[string]string{"PAYME": paymeKey, "PAYME_OLD": paymeOldKey, "CLICK": clickKey}

func loadEndpoints(t testing.TB, text string) endpoint.Set {
	t.Helper()
	file := filepath.Join(t.TempDir(), "endpoints.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := endpoint.LoadFor(func(p webhook.Provider) bool { return p.Profile().TwoWay }, file, event.Live,
		func(name string) (string, bool) { v, ok := environment[name]; return v, ok }, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// shop is a merchant that providers call, on a database and with a clock of its own.
type shop struct {
	*api
	m       *Merchant
	public  http.Handler
	clock   atomic.Int64 // Unix milliseconds
	from    string
	records *testkit.Shelf
}

// begin is the time at which every shop's clock starts: that of the fixtures.
const begin = 1767225600456

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{from: "192.0.2.1:4711", records: &testkit.Shelf{}}
	s.clock.Store(begin)
	store := testkit.Store(t)
	m, err := New(sound(Config{}), Deps{Log: testkit.Log(t), Reg: prometheus.NewRegistry(), Store: store, Now: s.now,
		Endpoints: loadEndpoints(t, twoWayEndpoints), Producer: s.records})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.listener.Close(); _ = m.public.Close() })
	s.m, s.public = m, m.publicHandler()
	s.api = &api{TB: t, store: store, handler: m.handler()}
	return s
}

func (s *shop) now() time.Time       { return time.UnixMilli(s.clock.Load()) }
func (s *shop) pass(d time.Duration) { s.clock.Add(d.Milliseconds()) }
func (s *shop) order(id string, uzs int) {
	s.put(id, fmt.Sprintf(`{"amount":%d,"currency":"UZS"}`, uzs*100), http.StatusCreated)
}
func (s *shop) reserved(id string) string {
	if r := s.get(id).Reserved; r != nil {
		return r.Source + " " + r.Payment
	}
	return ""
}

// happens puts a fact about an order into its set, as the processor does.
func (s *shop) happens(id, source string, kind order.Kind, payment string, uzs int64) {
	s.Helper()
	err := s.store.InTx(s.Context(), func(tx postgres.Tx) error {
		name := fmt.Sprint(payment, kind)
		_, err := tx.Apply(s.Context(), s.now(), []postgres.Fact{{
			Entry: order.Entry{Hash: event.Event{Source: source, ID: name}.Hash(), Source: source, Kind: kind,
				Time: s.now().UnixMilli(), Payment: payment, Object: name, Amount: uzs * 100, Currency: "UZS"},
			OrderID: id, EventID: name, EventType: "x", Endpoint: source, AppendedAt: s.now(),
		}})
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
}

func (s *shop) send(endpoint, contentType string, header http.Header, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/webhooks/"+endpoint, strings.NewReader(body))
	if header != nil {
		r.Header = header.Clone()
	}
	r.Header.Set("Content-Type", contentType)
	r.RemoteAddr = s.from
	w := httptest.NewRecorder()
	s.public.ServeHTTP(w, r)
	s.obeys(endpoint, w.Body.Bytes())
	return w
}

// published is the events that the outbox holds, oldest first, moved to Kafka.
func (s *shop) published() (events []event.Event) {
	s.Helper()
	before := len(s.records.Records())
	if err := s.m.publishAll(s.Context()); err != nil {
		s.Fatal(err)
	}
	for _, r := range s.records.Records()[before:] {
		e, err := event.Parse(r.Key, r.Value, r.Headers)
		if err != nil {
			s.Fatalf("a record that the processor cannot parse: %v", err)
		}
		events = append(events, e)
	}
	return events
}

// reading is what the processor reads in an event.
func (s *shop) reading(e event.Event) webhook.Reading {
	s.Helper()
	r, err := s.m.routes[e.Endpoint].endpoint.Read(webhook.StoredHeaders(e.Signature), e.Body)
	if err != nil {
		s.Fatalf("a record that the processor cannot read: %v", err)
	}
	if r.ID != e.ID || r.Order != e.Order || r.Payment != e.Payment || r.Trust != e.Trust || !r.Time.Equal(e.Time) {
		s.Errorf("the record says %+v and its body %+v", e, r)
	}
	return r
}

func basic(login, key string) http.Header {
	return http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(login+":"+key))}}
}

// rpc sends one call of Payme's and returns what was answered.
func (s *shop) rpc(method, params string) string {
	s.Helper()
	return s.rpcTo("payme", method, params)
}

func (s *shop) rpcTo(endpoint, method, params string) string {
	s.Helper()
	w := s.send(endpoint, "text/json; charset=UTF-8", basic("Paycom", paymeKey), fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params))
	if w.Code != http.StatusOK {
		s.Fatalf("%s: HTTP %d", method, w.Code)
	}
	return w.Body.String()
}

// twice sends a call twice, the second a minute later, as Payme's test page does:
// the answers must be the same to the byte.
func (s *shop) twice(method, params string) string {
	s.Helper()
	first := s.rpc(method, params)
	s.pass(time.Minute)
	if again := s.rpc(method, params); again != first {
		s.Errorf("%s %s twice:\n%s\n%s", method, params, first, again)
	}
	return first
}

// rpcAnswer is an answer taken apart.
type rpcAnswer struct {
	Version string           `json:"jsonrpc"`
	ID      json.RawMessage  `json:"id"`
	Result  *json.RawMessage `json:"result"`
	Error   *struct {
		Code    int               `json:"code"`
		Message map[string]string `json:"message"`
		Data    string            `json:"data"`
	} `json:"error"`
}

func (s *shop) refused(answer string, code int, data string) {
	s.Helper()
	var a rpcAnswer
	if err := json.Unmarshal([]byte(answer), &a); err != nil {
		s.Fatalf("%s: %v", answer, err)
	}
	if a.Error == nil || a.Result != nil || a.Error.Code != code || a.Error.Data != data {
		s.Errorf("answered %s, want error %d about %q", answer, code, data)
		return
	}
	for _, language := range []string{"ru", "uz", "en"} {
		if a.Error.Message[language] == "" {
			s.Errorf("error %d has no message in %s", code, language)
		}
	}
}

func (s *shop) result(answer, want string) {
	s.Helper()
	if full := `{"jsonrpc":"2.0","id":7,"result":` + want + `}`; answer != full {
		s.Errorf("answered %s\nwant     %s", answer, full)
	}
}

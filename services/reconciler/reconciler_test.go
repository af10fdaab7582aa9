package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/lookup"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
	"sluice/pkg/testkit/provider"
	"sluice/pkg/webhook"
)

const secret = "s3cr3t-of-the-api"

// world is a store, one provider's API, and what was produced.
type world struct {
	*testing.T
	store     *postgres.Store
	api       *provider.Faulty
	url       string
	endpoints endpoint.Set
	log       testkit.Buffer
	produced  testkit.Shelf
	now       func() time.Time
}

func newWorld(t *testing.T, api http.Handler, text string) *world {
	t.Helper()
	w := &world{T: t, now: time.Now, store: testkit.Store(t), api: &provider.Faulty{API: api}}
	server := httptest.NewServer(w.api)
	t.Cleanup(server.Close)
	w.url = server.URL
	var err error
	w.endpoints, err = endpoint.LoadWithCredentials("f", event.Live, func(name string) (string, bool) { return strings.ToLower(strings.TrimLeft(name, "KW")) + secret, true },
		func(string) ([]byte, error) { return []byte(strings.ReplaceAll(text, "URL", server.URL)), nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func quick() Config {
	return Config{Concurrency: 4, PollInterval: 5 * time.Millisecond, RequestTimeout: 300 * time.Millisecond, BackoffBase: 5 * time.Millisecond,
		BackoffMax: 50 * time.Millisecond, Patience: time.Hour, HangingDeadline: time.Hour, BreakAfter: 1000, BreakFor: 50 * time.Millisecond, DrainTimeout: 2 * time.Second}
}

// start runs a reconciler until the test ends or stop is called.
func (w *world) start(cfg Config, owner string) (stop func()) {
	w.Helper()
	r, err := New(cfg, Deps{Log: slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Registry: prometheus.NewRegistry(),
		Owner: owner, Store: w.store, Producer: &w.produced, Endpoints: w.endpoints, Now: w.now})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				w.Errorf("reconciler: %v", err)
			}
			if strings.Contains(w.log.String(), secret) {
				w.Errorf("the log holds the credential:\n%s", w.log.String())
			}
		})
	}
	w.Cleanup(stop)
	return stop
}

// hint holds a hint of a source, as the processor does.
func (w *world) hint(source string, t postgres.Target) {
	w.Helper()
	e := event.Event{Source: source, ID: "hint-" + t.Object, Mode: event.Live}
	err := w.store.InTx(w.Context(), func(tx postgres.Tx) error {
		_, err := tx.HoldHints(w.Context(), time.Now(), []postgres.Hint{{Event: e.Hash(), Source: source, EventID: e.ID, Endpoint: source, AppendedAt: time.Now(), Target: t}})
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
}

// until waits for something to be so.
func (w *world) until(what string, is func() bool) {
	w.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline.C:
			w.Fatalf("waited for %s\n%s", what, w.log.String())
		}
	}
}

// open is how many look-ups have no answer.
func (w *world) open() (n int64) {
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

const mollieEndpoint = "endpoints: [{name: mollie, provider: mollie_classic, lookup: {base_url: URL, credentials: ['env:K'], rate: 1000}}]"

func mollie() *provider.Documents {
	return &provider.Documents{Header: "Authorization", Value: "Bearer " + secret}
}

func molliePayment(id, status string) string {
	return fmt.Sprintf(`{"resource":"payment","id":%q,"mode":"live","status":%q,"amount":{"value":"10.00","currency":"EUR"},
		"metadata":{"order_id":"ORD-1"},"createdAt":"2026-01-01T10:00:00+00:00","paidAt":"2026-01-01T10:05:00+00:00"}`, id, status)
}

func TestAHintIsAskedAboutAndItsFactsAreEventsOfItsSource(t *testing.T) {
	api := mollie()
	api.Put("/v2/payments/tr_1", molliePayment("tr_1", "paid"))
	w := newWorld(t, api, mollieEndpoint)
	w.hint("mollie", postgres.Target{Object: "tr_1", Type: "changed", Payment: "tr_1", Time: time.Now()})
	w.start(quick(), "one")
	w.until("an answer", func() bool { return w.open() == 0 })

	records := w.produced.Records()
	if len(records) != 1 {
		t.Fatalf("%d records", len(records))
	}
	e, err := event.Parse(records[0].Key, records[0].Value, records[0].Headers)
	if err != nil {
		t.Fatal(err)
	}
	r, err := lookup.Decode(e.Body)
	if err != nil {
		t.Fatal(err)
	}
	want := webhook.Reading{ID: r.ID, Type: "looked_up.paid", Time: time.Date(2026, 1, 1, 10, 5, 0, 0, time.UTC), Mode: event.Live, Trust: event.LookedUp,
		Order: "ORD-1", Payment: "tr_1", Subject: "tr_1", Fact: order.KindPaid, Amount: 1000, Currency: "EUR"}
	if r != want {
		t.Errorf("%+v\nwant %+v", r, want)
	}
	if e.Source != "mollie" || e.Endpoint != "mollie" || e.Provider != "mollie_classic" || e.Trust != event.LookedUp || e.ID != r.ID || string(records[0].Key) != r.ID ||
		e.Type != r.Type || !e.Time.Equal(r.Time) || !e.TimeRepeats || e.Order != "ORD-1" || e.Payment != "tr_1" || e.Mode != event.Live || e.ContentType != lookup.ContentType {
		t.Errorf("%+v", e)
	}
}

func TestWhatIsNoAnswerDecidesNothingAndIsAskedForAgain(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the credential went along with a redirect")
		}
		_, _ = rw.Write([]byte(molliePayment("tr_1", "paid")))
	}))
	defer elsewhere.Close()
	for name, fault := range map[string]provider.Fault{
		"nothing in time":    provider.Silent(),
		"404":                provider.Status(http.StatusNotFound, `{}`),
		"500":                provider.Status(http.StatusInternalServerError, molliePayment("tr_1", "paid")),
		"429":                provider.Busy("0"),
		"401":                provider.Status(http.StatusUnauthorized, `{}`),
		"403":                provider.Status(http.StatusForbidden, `{}`),
		"garbage":            provider.Status(http.StatusOK, `<html>paid</html>`),
		"an empty page":      provider.Status(http.StatusOK, ``),
		"a body with no end": provider.Endless(),
		"a redirect":         provider.Elsewhere(elsewhere.URL),
		"another payment":    provider.Status(http.StatusOK, molliePayment("tr_2", "paid")),
		"no end yet":         provider.Status(http.StatusOK, molliePayment("tr_1", "open")),
	} {
		t.Run(name, func(t *testing.T) {
			api := mollie()
			api.Put("/v2/payments/tr_1", molliePayment("tr_1", "paid"))
			w := newWorld(t, api, mollieEndpoint)
			w.api.Fail(fault)
			w.hint("mollie", postgres.Target{Object: "tr_1", Payment: "tr_1", Time: time.Now()})
			w.start(quick(), "one")
			w.until("a second attempt", func() bool { return len(w.api.Requests()) >= 2 })
			if got := w.produced.Records(); len(got) > 0 || w.open() != 1 {
				t.Fatalf("%d records, %d open", len(got), w.open())
			}
			w.api.Fail(nil)
			w.until("an answer", func() bool { return w.open() == 0 })
			if got := w.produced.Records(); len(got) != 1 {
				t.Errorf("%d records", len(got))
			}
		})
	}
}

func TestAnAnswerThatDecidesNothingStandsWhenPatienceIsOver(t *testing.T) {
	api := mollie()
	api.Put("/v2/payments/tr_1", molliePayment("tr_1", "open"))
	w := newWorld(t, api, mollieEndpoint)
	cfg := quick()
	cfg.Patience = time.Nanosecond
	w.hint("mollie", postgres.Target{Object: "tr_1", Payment: "tr_1", Time: time.Now()})
	w.start(cfg, "one")
	w.until("an answer", func() bool { return w.open() == 0 })
	records := w.produced.Records()
	if len(records) != 1 {
		t.Fatalf("%d records", len(records))
	}
	if r, err := lookup.Decode(records[0].Value); err != nil || r.Fact != order.KindPending {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestALookUpIsAnsweredOnlyOnceKafkaHasWhatWasLearnt(t *testing.T) {
	api := mollie()
	api.Put("/v2/payments/tr_1", molliePayment("tr_1", "paid"))
	w := newWorld(t, api, mollieEndpoint)
	w.produced.Away(true)
	w.hint("mollie", postgres.Target{Object: "tr_1", Payment: "tr_1", Time: time.Now()})
	w.start(quick(), "one")
	w.until("two attempts", func() bool { return len(w.api.Requests()) >= 2 })
	if w.open() != 1 {
		t.Fatal("answered, and nobody has the answer")
	}
	w.produced.Away(false)
	w.until("an answer", func() bool { return w.open() == 0 })
}

func TestWhatNamesNothingIsSettledWithoutARequest(t *testing.T) {
	w := newWorld(t, mollie(), mollieEndpoint)
	w.hint("mollie", postgres.Target{Object: "profile", Time: time.Now()})
	w.start(quick(), "one")
	w.until("an answer", func() bool { return w.open() == 0 })
	if asked, got := w.api.Requests(), w.produced.Records(); len(asked)+len(got) > 0 {
		t.Errorf("asked %v, %d records", asked, len(got))
	}
}

func TestSeveralReconcilersShareTheWork(t *testing.T) {
	api := mollie()
	w := newWorld(t, api, mollieEndpoint)
	const n = 200
	for i := range n {
		id := fmt.Sprintf("tr_%d", i)
		api.Put("/v2/payments/"+id, molliePayment(id, "paid"))
		w.hint("mollie", postgres.Target{Object: id, Payment: id, Time: time.Now()})
	}
	for _, owner := range []string{"one", "two", "three"} {
		w.start(quick(), owner)
	}
	w.until("every answer", func() bool { return w.open() == 0 })
	asked := map[string]int{}
	for _, path := range w.api.Requests() {
		asked[path]++
	}
	for path, times := range asked {
		if times != 1 {
			t.Errorf("%s was asked for %d times", path, times)
		}
	}
	if len(asked) != n || len(w.produced.Records()) != n {
		t.Errorf("%d asked, %d records", len(asked), len(w.produced.Records()))
	}
}

func TestTheRateIsKept(t *testing.T) {
	api := mollie()
	w := newWorld(t, api, strings.Replace(mollieEndpoint, "rate: 1000", "rate: 50", 1))
	for i := range 25 {
		id := fmt.Sprintf("tr_%d", i)
		api.Put("/v2/payments/"+id, molliePayment(id, "paid"))
		w.hint("mollie", postgres.Target{Object: id, Payment: id, Time: time.Now()})
	}
	began := time.Now()
	w.start(quick(), "one")
	w.until("every answer", func() bool { return w.open() == 0 })
	if took := time.Since(began); took < 24*20*time.Millisecond {
		t.Errorf("25 requests at 50/s took %v", took)
	}
}

func TestAFailingProviderIsLeftAloneAndTriedByOne(t *testing.T) {
	api := mollie()
	w := newWorld(t, api, mollieEndpoint)
	w.api.Fail(provider.Status(http.StatusBadGateway, ""))
	for i := range 50 {
		id := fmt.Sprintf("tr_%d", i)
		api.Put("/v2/payments/"+id, molliePayment(id, "paid"))
		w.hint("mollie", postgres.Target{Object: id, Payment: id, Time: time.Now()})
	}
	cfg := quick()
	cfg.Concurrency, cfg.BreakAfter, cfg.BreakFor = 1, 3, 400*time.Millisecond
	w.start(cfg, "one")
	w.until("the breaker", func() bool { return strings.Contains(w.log.String(), "requests are stopped for a while") })
	opened := time.Now()
	w.until("a try", func() bool { return len(w.api.Requests()) > 3 })
	if quiet := time.Since(opened); quiet < 300*time.Millisecond {
		t.Errorf("asked again after %v", quiet)
	}
	w.api.Fail(nil)
	w.until("every answer", func() bool { return w.open() == 0 })
	if !strings.Contains(w.log.String(), "the provider answers again") {
		t.Error("nobody was told that it answers again")
	}
}

func TestAProviderThatAsksForQuietGetsIt(t *testing.T) {
	api := mollie()
	api.Put("/v2/payments/tr_1", molliePayment("tr_1", "paid"))
	w := newWorld(t, api, mollieEndpoint)
	w.api.Fail(provider.Busy("1"))
	w.hint("mollie", postgres.Target{Object: "tr_1", Payment: "tr_1", Time: time.Now()})
	w.start(quick(), "one")
	w.until("a request", func() bool { return len(w.api.Requests()) == 1 })
	began := time.Now()
	w.api.Fail(nil)
	w.until("an answer", func() bool { return w.open() == 0 })
	if quiet := time.Since(began); quiet < 900*time.Millisecond {
		t.Errorf("asked again after %v", quiet)
	}
}

func TestAStoppingReconcilerGivesBackWhatItHolds(t *testing.T) {
	api := mollie()
	api.Put("/v2/payments/tr_1", molliePayment("tr_1", "paid"))
	w := newWorld(t, api, mollieEndpoint)
	w.api.Fail(provider.Silent())
	w.hint("mollie", postgres.Target{Object: "tr_1", Payment: "tr_1", Time: time.Now()})
	cfg := quick()
	cfg.RequestTimeout = time.Minute
	stop := w.start(cfg, "one")
	w.until("a request", func() bool { return len(w.api.Requests()) == 1 })
	stop()
	w.api.Fail(nil)
	w.start(quick(), "two") // long before the first one's lease ends
	w.until("an answer", func() bool { return w.open() == 0 })
}

func TestPayPalsTokenServesManyAndIsRenewedWhenRefused(t *testing.T) {
	api := &provider.PayPal{ClientID: "app", Secret: secret, TokenLife: 3600}
	w := newWorld(t, api, "endpoints: [{name: paypal, provider: paypal, secrets: ['env:W'], lookup: {base_url: URL, settings: {client_id: app}, credentials: ['env:K'], rate: 1000}}]")
	ask := func(first, last int) {
		for i := first; i < last; i++ {
			id := fmt.Sprintf("CAP%d", i)
			api.Put("/v2/payments/captures/"+id, fmt.Sprintf(`{"id":%q,"status":"COMPLETED","amount":{"currency_code":"USD","value":"10.00"},"custom_id":"ORD","create_time":"2026-01-01T10:05:00Z"}`, id))
			w.hint("paypal", postgres.Target{Object: id, Type: "PAYMENT.CAPTURE.COMPLETED", Payment: id, Time: time.Now()})
		}
	}
	ask(0, 10)
	w.start(quick(), "one")
	w.until("ten answers", func() bool { return w.open() == 0 })
	if api.Tokens() != 1 {
		t.Errorf("%d tokens for ten look-ups", api.Tokens())
	}
	api.Revoke()
	ask(10, 11)
	w.until("an answer with a new token", func() bool { return w.open() == 0 })
	if api.Tokens() != 2 || len(w.produced.Records()) != 11 {
		t.Errorf("%d tokens, %d records", api.Tokens(), len(w.produced.Records()))
	}
}

func TestDuringARotationTheCredentialThatIsTakenIsUsed(t *testing.T) {
	api := mollie()
	w := newWorld(t, api, strings.Replace(mollieEndpoint, "'env:K'", "'env:OLD', 'env:K'", 1)) // OLD is refused
	for i := range 5 {
		id := fmt.Sprintf("tr_%d", i)
		api.Put("/v2/payments/"+id, molliePayment(id, "paid"))
		w.hint("mollie", postgres.Target{Object: id, Payment: id, Time: time.Now()})
	}
	cfg := quick()
	cfg.Concurrency = 1
	w.start(cfg, "one")
	w.until("every answer", func() bool { return w.open() == 0 })
	if n := len(w.api.Requests()); n != 6 { // the first look-up found out
		t.Errorf("%d requests for 5 look-ups", n)
	}
}

func TestClickIsAskedAsItsDocumentationSays(t *testing.T) {
	api := &provider.Click{ServiceID: "24001", UserID: "77", SecretKey: secret, Now: time.Now}
	w := newWorld(t, api, "endpoints: [{name: click, provider: click, secrets: ['env:W'], lookup: {base_url: URL, settings: {service_id: '24001', merchant_user_id: '77'}, credentials: ['env:K'], rate: 1000}}]")
	// Under way while its Complete is being answered; paid afterwards.
	api.Put(3298765432, "ORD-1", time.Now(), 1)
	w.hint("click", postgres.Target{Object: "1", Type: "complete", Order: "ORD-1", Subject: "1", Amount: 12505000, Currency: "UZS", Time: time.Now()})
	w.start(quick(), "one")
	w.until("two attempts", func() bool { return len(w.api.Requests()) >= 4 })
	if w.open() != 1 || len(w.produced.Records()) > 0 {
		t.Fatalf("%d open, %d records", w.open(), len(w.produced.Records()))
	}
	api.Put(3298765432, "ORD-1", time.Now(), 2)
	w.until("an answer", func() bool { return w.open() == 0 })
	r, err := lookup.Decode(w.produced.Records()[0].Value)
	if err != nil || r.Fact != order.KindPaid || r.Amount != 12505000 || r.Order != "ORD-1" || r.Payment != "3298765432" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestEverySettingThatIsWrongIsTold(t *testing.T) {
	err := Config{Concurrency: 0, BackoffBase: 2, BackoffMax: 1}.Check()
	for _, part := range []string{"CONCURRENCY", "POLL_INTERVAL", "REQUEST_TIMEOUT", "BACKOFF_MAX", "PATIENCE", "HANGING_DEADLINE", "BREAK_AFTER", "BREAK_FOR", "DRAIN_TIMEOUT"} {
		if err == nil || !strings.Contains(err.Error(), "SLUICE_RECONCILER_"+part) {
			t.Errorf("%v says nothing of %s", err, part)
		}
	}
}

func TestABackoffGrowsToItsLimitAndNoTwoAreAlike(t *testing.T) {
	seen := map[time.Duration]bool{}
	for attempt, most := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 7: time.Minute, 1 << 20: time.Minute} {
		longest := time.Duration(0)
		for range 200 {
			d := backoff(time.Second, time.Minute, attempt)
			if d <= 0 || d > most+1 {
				t.Errorf("attempt %d waits %v", attempt, d)
			}
			seen[d], longest = true, max(longest, d)
		}
		if longest < most/2 {
			t.Errorf("attempt %d never waits long: %v", attempt, longest)
		}
	}
	if len(seen) < 900 {
		t.Errorf("only %d different waits of 1000", len(seen))
	}
}

func TestAnOrderThatHangsIsAskedAboutByItsPayment(t *testing.T) {
	api := mollie()
	w := newWorld(t, api, strings.Replace(mollieEndpoint, "rate: 1000", "rate: 1000, pending: 1m, sweep: off", 1))
	api.Put("/v2/payments/tr_1", molliePayment("tr_1", "paid"))
	if _, err := w.store.Register(t.Context(), time.Now(), postgres.Registration{OrderID: "ORD-1", Amount: 1000, Currency: "EUR"}); err != nil {
		t.Fatal(err)
	}
	e := event.Event{Source: "mollie", ID: "pending", Mode: event.Live}
	err := w.store.InTx(t.Context(), func(tx postgres.Tx) error {
		_, err := tx.Apply(t.Context(), time.Now(), []postgres.Fact{{Entry: order.Entry{Hash: e.Hash(), Source: "mollie", Kind: order.KindPending, Payment: "tr_1"},
			OrderID: "ORD-1", EventID: e.ID, EventType: "open", Endpoint: "mollie", AppendedAt: time.Now()}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.now = func() time.Time { return time.Now().Add(2 * time.Minute) }
	w.start(quick(), "one")
	w.until("the answer", func() bool { return len(w.produced.Records()) == 1 })
	if got := w.api.Requests(); len(got) != 1 || got[0] != "/v2/payments/tr_1" {
		t.Errorf("asked for %v", got)
	}
}

func TestAQuietThatOneReconcilerWasAskedForIsKeptByAnother(t *testing.T) {
	api := mollie()
	api.Put("/v2/payments/tr_1", molliePayment("tr_1", "paid"))
	api.Put("/v2/payments/tr_2", molliePayment("tr_2", "paid"))
	w := newWorld(t, api, strings.Replace(mollieEndpoint, "rate: 1000", "rate: 1000, sweep: off", 1))
	w.api.Fail(provider.Busy("1"))
	w.hint("mollie", postgres.Target{Object: "tr_1", Payment: "tr_1", Time: time.Now()})
	w.start(quick(), "one")
	w.until("a request", func() bool { return len(w.api.Requests()) == 1 })
	began := time.Now()
	w.until("the quiet", func() bool { return strings.Contains(w.log.String(), "status 429") })
	w.api.Fail(nil)
	w.hint("mollie", postgres.Target{Object: "tr_2", Payment: "tr_2", Time: time.Now()})
	w.start(quick(), "two")
	w.until("another request", func() bool { return len(w.api.Requests()) > 1 })
	if quiet := time.Since(began); quiet < 900*time.Millisecond {
		t.Errorf("the other one asked after %v", quiet)
	}
	w.until("every answer", func() bool { return w.open() == 0 })
}

func TestAPaymentThatWeTookForPaidAndThatTheProviderNeverKnewIsForAPerson(t *testing.T) {
	w := newWorld(t, mollie(), strings.Replace(mollieEndpoint, "rate: 1000", "rate: 1000, sweep: off", 1))
	if _, err := w.store.Register(t.Context(), time.Now(), postgres.Registration{OrderID: "ORD-1", Amount: 1000, Currency: "EUR"}); err != nil {
		t.Fatal(err)
	}
	e := event.Event{Source: "mollie", ID: "paid", Mode: event.Live}
	err := w.store.InTx(t.Context(), func(tx postgres.Tx) error {
		_, err := tx.Apply(t.Context(), time.Now(), []postgres.Fact{{Entry: order.Entry{Hash: e.Hash(), Source: "mollie", Kind: order.KindPaid, Payment: "tr_1", Amount: 1000, Currency: "EUR"},
			OrderID: "ORD-1", EventID: e.ID, EventType: "paid", Endpoint: "mollie", AppendedAt: time.Now()}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.hint("mollie", postgres.Target{Object: "tr_1", Payment: "tr_1", Time: time.Now()})
	w.start(quick(), "one")
	w.until("a review item", func() bool {
		items, err := w.store.ListReviewItems(t.Context(), time.Now(), postgres.ReviewContradicts, false, 10)
		return err == nil && len(items) == 1 && items[0].Order == "ORD-1"
	})
	if n := len(w.api.Requests()); n < 3 {
		t.Errorf("after %d requests", n)
	}
}

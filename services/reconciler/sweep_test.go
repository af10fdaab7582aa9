package reconciler

import (
	"context"

	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"sluice/pkg/contract/validate"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/lookup"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit/provider"
	"sluice/pkg/webhook"
	"sluice/schemas"
)

// sweeps is a reconciler whose sweeps the test carries on by hand, by a clock of its own.
type sweepWorld struct {
	*world
	*sweeper
	now time.Time
	reg *prometheus.Registry
}

func (w *world) sweeper(owner string, now time.Time) *sweepWorld {
	w.Helper()
	out := &sweepWorld{world: w, now: now, reg: prometheus.NewRegistry()}
	cfg := quick()
	cfg.SweepDelay = 5 * time.Minute
	r, err := New(cfg, Deps{Log: slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Registry: out.reg,
		Owner: owner, Store: w.store, Producer: &w.produced, Endpoints: w.endpoints, Now: func() time.Time { return out.now }})
	if err != nil {
		w.Fatal(err)
	}
	out.sweeper = r.sources[0].sweeper()
	if out.sweeper == nil {
		w.Fatal("the source is not swept")
	}
	return out
}

// once carries the source's sweep on as far as it goes now.
func (w *sweepWorld) once() {
	w.Helper()
	if err := w.sweep(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// later lets time pass, until a sweep is due again.
func (w *sweepWorld) later(d time.Duration) { w.now = w.now.Add(d) }

func (w *sweepWorld) count(result string) (n float64) {
	w.Helper()
	families, err := w.reg.Gather()
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "sluice_reconciler_swept_events_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if strings.Contains(labels(m), "result="+result+";") {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

func labels(m *dto.Metric) (s string) {
	for _, l := range m.GetLabel() {
		s += l.GetName() + "=" + l.GetValue() + ";"
	}
	return s
}

// take takes records over as a processor does, and says how many were new.
func (w *world) take(records ...kafka.Record) (fresh int) {
	w.Helper()
	for _, r := range records {
		e, err := event.Parse(r.Key, r.Value, r.Headers)
		if err != nil {
			w.Fatal(err)
		}
		ep, _ := w.endpoints.Get(e.Endpoint)
		reading, err := ep.Read(webhook.StoredHeaders(e.Signature), r.Value)
		if lookup.IsOurs(e) {
			reading, err = lookup.Decode(r.Value)
		}
		if err != nil {
			w.Fatal(err)
		}
		if e.Trust == event.Hint {
			w.hint(e.Source, postgres.Target(lookup.TargetOf(reading)))
			fresh++
			continue
		}
		err = w.store.InTx(w.Context(), func(tx postgres.Tx) error {
			known, err := tx.TakeProcessedEvents(w.Context(), []postgres.Seen{{Key: e.Key(), Fingerprint: 1}}, false)
			if err != nil || len(known) > 0 {
				return err
			}
			fresh++
			_, err = tx.Apply(w.Context(), time.Now(), []postgres.Fact{{OrderID: reading.Order, EventID: e.ID, EventType: e.Type, Endpoint: e.Endpoint, AppendedAt: time.Now(),
				Entry: order.Entry{Hash: e.Hash(), Source: e.Source, Kind: reading.Fact, Time: e.Time.UnixMilli(), Payment: reading.Payment, Object: reading.Object,
					Amount: reading.Amount, Currency: reading.Currency}}})
			return err
		})
		if err != nil {
			w.Fatal(err)
		}
	}
	return fresh
}

// webhook is the record that ingress makes of a webhook.
func (w *world) webhook(endpoint, body string) kafka.Record {
	w.Helper()
	ep, _ := w.endpoints.Get(endpoint)
	e, headers, err := ep.Identify(event.Event{Source: ep.Source, Provider: ep.Provider.Name(), Endpoint: ep.Name, TimeRepeats: ep.Provider.TimeRepeats(),
		ReceivedAt: time.Now(), SecretName: "env:S", Body: []byte(body)}, webhook.StoredHeaders(nil))
	if err != nil {
		w.Fatal(err)
	}
	return kafka.Record{Key: []byte(e.ID), Value: []byte(body), Headers: headers}
}

const (
	stripeEndpoint = "endpoints: [{name: stripe, provider: stripe, secrets: ['env:S'], lookup: {base_url: URL, credentials: ['env:K'], rate: 1000}}]"
	squareEndpoint = "endpoints: [{name: square, provider: square, url: 'https://shop.example/webhooks/square', secrets: ['env:S'], lookup: {base_url: URL, credentials: ['env:K'], rate: 1000}}]"
	paypalEndpoint = "endpoints: [{name: paypal, provider: paypal, secrets: ['env:S'], lookup: {base_url: URL, credentials: ['env:K'], settings: {client_id: app}, rate: 1000}}]"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func lists(name string, size int) *provider.Lists {
	return &provider.Lists{Provider: name, Header: "Authorization", Value: "Bearer " + secret, Size: size}
}

func stripeEvent(n int, at time.Time) string {
	return fmt.Sprintf(`{"id":"evt_%d","object":"event","type":"payment_intent.succeeded","created":%d,"livemode":true,"pending_webhooks":1,"data":{"object":{"id":"pi_%d","amount":1000,"amount_received":1000,"currency":"eur","metadata":{"order_id":"ORD-%d"}}}}`, n, at.Unix(), n, n)
}

func squarePayment(n int, at time.Time) string {
	return fmt.Sprintf(`{"id":"sq_%d","status":"COMPLETED","reference_id":"ORD-%d","created_at":%q,"updated_at":%q,"amount_money":{"amount":1000,"currency":"EUR"}}`,
		n, n, at.Format(time.RFC3339), at.Format(time.RFC3339))
}

// O45: a lost webhook heals by itself, under its own id: the late one is a duplicate.
func TestWebhooksThatWereLostAreMadeUpForByTheProvidersListAndLateOnesAreDuplicates(t *testing.T) {
	fake := lists("stripe", 2)
	w := newWorld(t, fake, stripeEndpoint)
	s := w.sweeper("a", noon)
	for n := range 5 {
		fake.Put("/v1/events", fmt.Sprintf("evt_%d", n), noon.Add(-time.Hour+time.Duration(n)*time.Minute), stripeEvent(n, noon.Add(-time.Hour+time.Duration(n)*time.Minute)))
	}
	fake.Put("/v1/events", "evt_young", noon.Add(-time.Minute), stripeEvent(9, noon.Add(-time.Minute)))
	// Two of them came in: one that is applied, and one of another event about its fact.
	w.take(w.webhook("stripe", stripeEvent(1, noon.Add(-time.Hour+time.Minute))))
	w.take(w.webhook("stripe", strings.Replace(stripeEvent(3, noon.Add(-time.Hour+3*time.Minute)), "evt_3", "evt_other", 1)))
	// And one that nobody could read: what a person may have discarded is not fed again.
	dead := w.webhook("stripe", stripeEvent(5, noon.Add(-time.Minute*30)))
	fake.Put("/v1/events", "evt_5", noon.Add(-time.Minute*30), string(dead.Value))
	if err := w.store.InTx(t.Context(), func(tx postgres.Tx) error {
		_, err := tx.AddDeadLetter(t.Context(), postgres.DeadLetter{Topic: "raw", Endpoint: "stripe", Reason: "body", Key: dead.Key, AppendedAt: noon})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s.once()
	made := w.produced.Records()
	if len(made) != 3 || s.count("missing") != 3 || s.count("known") != 3 {
		t.Fatalf("%d records, %v missing, %v known\n%s", len(made), s.count("missing"), s.count("known"), w.log.String())
	}
	contract, err := validate.New(schemas.FS)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range made {
		if err := contract.Record(kafka.Raw, r.Key, r.Value, r.Headers); err != nil {
			t.Errorf("not as the contract says: %v", err)
		}
		e, err := event.Parse(r.Key, r.Value, r.Headers)
		if err != nil || e.Trust != event.LookedUp || e.Source != "stripe" || e.SecretName != "" || !strings.HasPrefix(e.ID, "evt_") || lookup.IsOurs(e) {
			t.Errorf("%+v, %v", e, err)
		}
	}
	if n := w.take(made...); n != 3 {
		t.Errorf("%d of 3 are new to a processor", n)
	}
	for n := range 5 { // each real one, late
		if w.take(w.webhook("stripe", stripeEvent(n, noon.Add(-time.Hour+time.Duration(n)*time.Minute)))) != 0 && n != 3 {
			t.Errorf("the late webhook of evt_%d is new", n)
		}
	}
	// A sweep of a normal time produces nothing.
	s.later(4 * time.Minute)
	s.once() // not due yet
	w.take(w.webhook("stripe", stripeEvent(9, noon.Add(-time.Minute))))
	s.later(15 * time.Minute)
	s.once()
	if again := w.produced.Records(); len(again) != 3 || s.count("missing") != 3 || s.count("known") != 3+7 {
		t.Errorf("%d records, %v missing, %v known", len(again), s.count("missing"), s.count("known"))
	}
	if !strings.Contains(w.log.String(), "webhooks were lost") {
		t.Error("nobody is told that webhooks were lost")
	}
}

// What is an object is asked about by a look-up, which reads it whole.
func TestObjectsThatNobodyToldOfAreAskedAboutOnce(t *testing.T) {
	fake := lists("square", 2)
	w := newWorld(t, fake, squareEndpoint)
	s := w.sweeper("a", noon)
	for n := range 5 {
		fake.Put("/v2/payments", fmt.Sprint(n), noon.Add(-time.Hour), squarePayment(n, noon.Add(-time.Hour)))
	}
	fake.Put("/v2/payments", "p", noon.Add(-time.Hour), strings.Replace(squarePayment(7, noon), "COMPLETED", "PENDING", 1))
	for n, amount := range map[int]string{1: "1000", 2: "999"} {
		w.take(w.webhook("square", fmt.Sprintf(`{"event_id":"e%d","type":"payment.updated","created_at":%q,"data":{"id":"sq_%d","object":{"payment":{"id":"sq_%d","status":"COMPLETED","reference_id":"ORD-%d","amount_money":{"amount":%s,"currency":"EUR"}}}}}`,
			n, noon.Format(time.RFC3339), n, n, n, amount)))
	}
	s.once()
	if s.count("missing") != 3 || s.count("known") != 1 || s.count("differs") != 1 || s.count("undecided") != 1 || len(w.produced.Records()) != 0 {
		t.Fatalf("missing %v, known %v, differs %v, undecided %v", s.count("missing"), s.count("known"), s.count("differs"), s.count("undecided"))
	}
	if n := w.open(); n != 3 {
		t.Fatalf("%d look-ups are open, want 3", n)
	}
	s.later(16 * time.Minute)
	s.once()
	if s.count("missing") != 3 || w.open() != 3 {
		t.Errorf("what is being asked about counts as missing: %v, %d open", s.count("missing"), w.open())
	}
	ls, _, err := w.store.ClaimLookups(t.Context(), noon, postgres.LookupClaim{Owner: "x", Source: "square", Limit: 10, Lease: time.Minute})
	if err != nil || len(ls) != 3 || ls[0].Endpoint != "square" || !strings.HasPrefix(ls[0].Payment, "sq_") {
		t.Errorf("%+v, %v", ls, err)
	}
}

// PayPal's own word over an authentic connection is its own word all the same, but its
// reader finds nothing that can be believed: a hint is a hint.
func TestAListedEventThatCannotBeBelievedIsAHint(t *testing.T) {
	fake := &provider.Lists{Provider: "paypal", API: &provider.PayPal{ClientID: "app", Secret: secret, TokenLife: 3600}}
	fake.Put("/v1/notifications/webhooks-events", "WH-1", noon.Add(-time.Hour),
		fmt.Sprintf(`{"id":"WH-1","create_time":%q,"event_type":"PAYMENT.CAPTURE.COMPLETED","resource":{"id":"CAP1","custom_id":"ORD-1","amount":{"value":"10.00","currency_code":"EUR"}}}`, noon.Add(-time.Hour).Format(time.RFC3339)))
	w := newWorld(t, fake, paypalEndpoint)
	s := w.sweeper("a", noon)
	s.once()
	made := w.produced.Records()
	if len(made) != 1 {
		t.Fatalf("%d records\n%s", len(made), w.log.String())
	}
	if e, err := event.Parse(made[0].Key, made[0].Value, made[0].Headers); err != nil || e.Trust != event.Hint || e.ID != "WH-1" {
		t.Errorf("%+v, %v", e, err)
	}
}

// O45: silence decides nothing. A sweep that gets no answer goes on where it was.
func TestASweepGoesOnWhereItGotNoAnswer(t *testing.T) {
	fake := lists("square", 1)
	w := newWorld(t, fake, squareEndpoint)
	for n := range 4 {
		fake.Put("/v2/payments", fmt.Sprint(n), noon.Add(-time.Hour+time.Duration(n)*time.Minute), squarePayment(n, noon))
	}
	limited := func(after int, fault provider.Fault) {
		requests := 0
		w.api.Fail(func(rw http.ResponseWriter, r *http.Request) {
			if requests++; requests > after {
				fault(rw, r)
				return
			}
			fake.ServeHTTP(rw, r)
		})
	}
	s := w.sweeper("a", noon)
	limited(2, provider.Busy("0")) // 429 in the middle
	s.once()
	if n := w.open(); n != 2 || s.count("unanswered") != 1 {
		t.Fatalf("%d asked about before the middle, %v unanswered", n, s.count("unanswered"))
	}
	w.api.Fail(nil)
	s.once() // sooner than it wants
	if n := w.open(); n != 2 {
		t.Fatalf("asked again at once: %d", n)
	}
	s.later(time.Second)
	before := len(w.api.Requests())
	other := w.sweeper("b", s.now) // whoever comes next
	other.once()
	if n := w.open(); n != 4 {
		t.Fatalf("%d asked about in the end\n%s", n, w.log.String())
	}
	if n := len(w.api.Requests()) - before; n != 3 {
		t.Errorf("%d requests for the two pages that were left, and that of the refunds", n)
	}
	states, err := w.store.Sweeps(t.Context())
	if err != nil || len(states) != 1 || !states[0].SweptUntil.Equal(noon.Add(-5*time.Minute)) || !states[0].Until.IsZero() {
		t.Errorf("%+v, %v", states, err)
	}
	for name, fault := range map[string]provider.Fault{"500": provider.Status(500, ""), "an empty object": provider.Status(200, "{}"), "401": provider.Status(401, ""),
		"404": provider.Status(404, ""), "broken": provider.Status(200, `{"payments":[`)} {
		w.api.Fail(fault)
		other.later(time.Hour)
		other.once()
		again, err := w.store.Sweeps(t.Context())
		if err != nil || !again[0].SweptUntil.Equal(states[0].SweptUntil) {
			t.Errorf("%s: %+v, %v: it counts as swept", name, again, err)
		}
	}
}

// A place in a list that is worth nothing any more begins the sweep anew.
func TestAPlaceThatIsWorthNothingBeginsTheSweepAnew(t *testing.T) {
	fake := lists("square", 1)
	w := newWorld(t, fake, squareEndpoint)
	fake.Put("/v2/payments", "0", noon.Add(-time.Hour), squarePayment(0, noon))
	fake.Put("/v2/payments", "1", noon.Add(-time.Hour+time.Minute), squarePayment(1, noon))
	s := w.sweeper("a", noon)
	beginnings := 0
	w.api.Fail(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") == "" && r.URL.Path == "/v2/payments" {
			beginnings++
		}
		if beginnings == 1 && r.URL.Query().Get("cursor") != "" { // it has run out
			provider.Status(400, `{"errors":[{"code":"INVALID_CURSOR"}]}`)(rw, r)
			return
		}
		fake.ServeHTTP(rw, r)
	})
	s.once()
	s.later(time.Minute)
	s.once()
	if n := w.open(); n != 2 {
		t.Errorf("%d asked about, want 2\n%s", n, w.log.String())
	}
}

// What was learnt and could not be written is not passed over.
func TestASweepDoesNotPassWhatKafkaDidNotTake(t *testing.T) {
	fake := lists("stripe", 1)
	w := newWorld(t, fake, stripeEndpoint)
	for n := range 3 {
		fake.Put("/v1/events", fmt.Sprintf("evt_%d", n), noon.Add(-time.Hour+time.Duration(n)*time.Minute), stripeEvent(n, noon))
	}
	s := w.sweeper("a", noon)
	w.produced.Away(true)
	if err := s.sweep(t.Context()); err == nil {
		t.Error("nobody hears of it")
	}
	w.produced.Away(false)
	s.later(time.Minute)
	s.once()
	if n := len(w.produced.Records()); n != 3 {
		t.Errorf("%d records, want 3", n)
	}
}

// A crash between what was written and its mark repeats the page and changes nothing.
func TestACrashInTheMiddleOfASweepRepeatsAPageAndLosesNothing(t *testing.T) {
	fake := lists("stripe", 1)
	w := newWorld(t, fake, stripeEndpoint)
	for n := range 3 {
		fake.Put("/v1/events", fmt.Sprintf("evt_%d", n), noon.Add(-time.Hour+time.Duration(n)*time.Minute), stripeEvent(n, noon.Add(-time.Hour)))
	}
	dead := w.sweeper("a", noon)
	claimed, err := w.store.ClaimSweep(t.Context(), noon, "a", dead.terms())
	if err != nil {
		t.Fatal(err)
	}
	page, err := dead.page(t.Context(), claimed)
	if err != nil {
		t.Fatal(err)
	}
	found, err := dead.account.compare(t.Context(), w.store, page, noon)
	if err == nil {
		err = dead.produce(t.Context(), found.records) // and then it dies
	}
	if err != nil || len(found.records) != 1 {
		t.Fatalf("%d records, %v", len(found.records), err)
	}
	w.take(w.produced.Records()...)
	s := w.sweeper("b", noon.Add(20*time.Second))
	s.once()
	if n := len(w.produced.Records()); n != 1 {
		t.Fatalf("swept within the dead one's lease: %d records", n)
	}
	s.later(time.Minute)
	s.once()
	if made := w.produced.Records(); len(made) != 3 || w.take(made...) != 2 || s.count("known") != 1 {
		t.Errorf("%d records, %v known", len(made), s.count("known"))
	}
}

// Two reconcilers share the sources: one sweeps a source at a time.
func TestTwoReconcilersSweepASourceOnce(t *testing.T) {
	fake := lists("stripe", 1)
	w := newWorld(t, fake, stripeEndpoint)
	now := time.Now()
	for n := range 6 {
		fake.Put("/v1/events", fmt.Sprintf("evt_%d", n), now.Add(-time.Hour+time.Duration(n)*time.Minute), stripeEvent(n, now.Add(-time.Hour)))
	}
	cfg := quick()
	cfg.Sweep = true
	stopA, stopB := w.start(cfg, "a"), w.start(cfg, "b")
	w.until("the sweep", func() bool {
		states, err := w.store.Sweeps(context.WithoutCancel(t.Context()))
		return err == nil && len(states) == 1 && states[0].Until.IsZero() && len(w.produced.Records()) == 6
	})
	stopA()
	stopB()
	if n := len(w.api.Requests()); n != 6 {
		t.Errorf("%d requests for 6 pages: %v", n, w.api.Requests())
	}
}

// A provider that lists no more says nothing of its look-ups.
func TestAListThatIsRefusedDoesNotStopLookUps(t *testing.T) {
	w := newWorld(t, lists("square", 0), squareEndpoint)
	s := w.sweeper("a", noon)
	s.breaker.after = 1
	w.api.Fail(provider.Status(403, ""))
	s.once()
	if _, open := s.breaker.open(s.now); open {
		t.Error("requests are stopped")
	}
	if !strings.Contains(w.log.String(), "does not list to this account") {
		t.Errorf("nobody is told:\n%s", w.log.String())
	}
}

// A broken list whose pages lead in a circle is no list, and is left after one round.
func TestAListThatLeadsInACircleIsNoAnswer(t *testing.T) {
	w := newWorld(t, http.NotFoundHandler(), squareEndpoint)
	next := map[string]string{"": "a", "a": "b", "b": "a"}
	w.api.Fail(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(rw, `{"payments":[],"cursor":%q}`, next[r.URL.Query().Get("cursor")])
	})
	s := w.sweeper("a", noon)
	s.once()
	if n := len(w.api.Requests()); n != 3 || s.count("unanswered") != 1 {
		t.Errorf("the sweep has made %d requests, %v were no answer", n, s.count("unanswered"))
	}
	d, err := s.owner.Drift(t.Context(), "square", lookup.Span{Since: noon.Add(-time.Hour), Until: noon}, func(int, int) {})
	if n := len(w.api.Requests()); err != nil || n != 6 || len(d.NotCompared) != 1 {
		t.Errorf("drift has made %d requests: %+v, %v", n-3, d.NotCompared, err)
	}
}

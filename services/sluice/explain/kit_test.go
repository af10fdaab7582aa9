package explain

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/lookup"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/status"
	"sluice/pkg/testkit"
	"sluice/pkg/webhook"
	"sluice/services/processor"
	"sluice/services/sluice/sample"
	"sluice/services/sluice/terminal"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	secretValue = "whsec_c2VjcmV0IG9mIHRoZSB0ZXN0"
	fileSecret  = "env:STRIPE_SIGNING_SECRET"
	declaration = "endpoints:\n  - name: stripe-eu\n    provider: stripe\n    secrets: [" + fileSecret + "]\n  - name: stripe-us\n    provider: stripe\n    secrets: [" + fileSecret + "]\n"
)

var noon = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

// world is one deployment of real parts with a processor.
type world struct {
	testing.TB
	kafka     kafka.Config
	store     *postgres.Store
	db        *sql.DB
	client    *kgo.Client
	endpoints endpoint.Set
}

func load(t testing.TB) endpoint.Set {
	t.Helper()
	set, err := endpoint.Load("endpoints.yaml", event.Live, func(string) (string, bool) { return secretValue, true },
		func(string) ([]byte, error) { return []byte(declaration), nil })
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, kafka: testkit.Kafka(t, 2), endpoints: load(t)}
	database := testkit.Database(t)
	var err error
	if w.store, err = postgres.Open(t.Context(), database, 8); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	if w.db, err = sql.Open("pgx", database.URL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	w.client = testkit.Client(t, w.kafka)
	kind := "CreateTime" // so that records have the times that golden files name
	set := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "message.timestamp.type", Value: &kind}}
	if _, err := kadm.NewClient(w.client).AlterTopicConfigs(t.Context(), set, w.kafka.Topic(kafka.Raw)); err != nil {
		t.Fatal(err)
	}
	return w
}

// start runs a processor until the test ends.
func (w *world) start() {
	w.Helper()
	log := slog.New(slog.NewTextHandler(w.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	p, err := processor.New(w.Context(), processor.Config{Workers: 1, Batch: 100, Chores: time.Hour}, processor.Deps{Kafka: w.kafka, Store: w.store,
		Endpoints: w.endpoints, Mode: event.Live, Log: log, Reg: prometheus.NewRegistry(), Now: time.Now})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { _ = p.Run(ctx); close(done) }()
	w.Cleanup(func() { cancel(); <-done })
}

// post is what ingress does with a webhook of Stripe: at is when it came in.
func (w *world) post(to string, at time.Time, f sample.Fact) {
	w.Helper()
	f.Currency, f.Live = "EUR", true
	body, err := sample.Make("stripe", f)
	if err != nil {
		w.Fatal(err)
	}
	w.raw(to, at, body.Body)
}

func (w *world) raw(to string, at time.Time, body []byte) {
	w.Helper()
	w.rawAs(event.Signed, to, at, body)
}

func (w *world) rawAs(trust event.Trust, to string, at time.Time, body []byte) {
	w.Helper()
	ep, _ := w.endpoints.Get(to)
	headers, err := ep.Provider.Sign(ep.Secrets[0], "", at.Add(-time.Second), body)
	if err != nil {
		w.Fatal(err)
	}
	e := event.Event{Source: ep.Source, Provider: ep.Provider.Name(), Endpoint: ep.Name, Mode: event.Live, Trust: trust, TimeRepeats: ep.Provider.TimeRepeats(),
		ContentType: "application/json", ReceivedAt: at, SecretName: fileSecret, Body: body, BodySHA256: sha256.Sum256(body)}
	for name, value := range headers {
		e.Signature = append(e.Signature, event.Header{Name: string(bytes.ToLower([]byte(name))), Value: []byte(value)})
	}
	read := func() (webhook.Reading, error) { return ep.Read(webhook.StoredHeaders(e.Signature), body) }
	if trust == event.LookedUp {
		read = func() (webhook.Reading, error) { return lookup.Decode(body) }
		e.Signature, e.SecretName, e.ContentType = nil, "", lookup.ContentType
	}
	if r, err := read(); err == nil {
		e.ID, e.Type, e.Time, e.Mode, e.Order, e.Payment = r.ID, r.Type, r.Time, r.Mode, r.Order, r.Payment
	} else {
		e.ID, e.Type = "sha256:broken", event.Unreadable
	}
	hs, err := e.Headers()
	if err != nil {
		w.Fatal(err)
	}
	rec := &kgo.Record{Topic: w.kafka.Topic(kafka.Raw), Key: []byte(e.ID), Value: body, Timestamp: at.Add(2 * time.Millisecond)}
	for _, h := range hs {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
	}
	if err := w.client.ProduceSync(w.Context(), rec).FirstErr(); err != nil {
		w.Fatal(err)
	}
}

func (w *world) register(at time.Time, id string, amount int64) {
	w.Helper()
	if _, err := w.store.Register(w.Context(), at, postgres.Registration{OrderID: id, Reference: "cart 17", Amount: amount, Currency: "EUR"}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) settled() {
	w.Helper()
	deadline, tick := time.After(60*time.Second), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		lag, err := kafka.Lag(context.Background(), w.kafka, slog.New(slog.DiscardHandler), w.kafka.Topic(kafka.Group), w.kafka.Topic(kafka.Raw))
		if err != nil {
			w.Fatal(err)
		}
		if lag == 0 {
			return
		}
		select {
		case <-deadline:
			w.Fatal("the processor does not catch up")
		case <-tick.C:
		}
	}
}

func (w *world) exec(statement string, args ...any) {
	w.Helper()
	if _, err := w.db.Exec(statement, args...); err != nil {
		w.Fatalf("%s: %v", statement, err)
	}
}

// publish does what the relay does with an order.
func (w *world) publish(orderID string) {
	w.Helper()
	s, err := w.store.Story(w.Context(), orderID)
	if err != nil {
		w.Fatal(err)
	}
	for _, t := range s.History {
		m := status.Message{Source: "sluice", OrderID: t.OrderID, Version: t.Version, Status: t.To, Currency: t.Currency, ChangedAt: t.ChangedAt}
		rec := &kgo.Record{Topic: w.kafka.Topic(kafka.Status), Key: m.Key(), Value: m.Encode()}
		for _, h := range m.Headers() {
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
		if err := w.client.ProduceSync(w.Context(), rec).FirstErr(); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) explainer() *Explainer {
	w.Helper()
	topics, err := OpenTopics(w.Context(), w.kafka, slog.New(slog.DiscardHandler))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(topics.Close)
	return &Explainer{Store: w.store, Topics: topics, Secrets: Secrets{Endpoints: w.endpoints}}
}

func (w *world) ask(x *Explainer, q Question) *Answer {
	w.Helper()
	a, err := x.Explain(w.Context(), q)
	if err != nil {
		w.Fatal(err)
	}
	return a
}

func text(a *Answer) string {
	var out bytes.Buffer
	a.Print(terminal.New(&out), time.UTC)
	return out.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (run with -update to write it anew); got\n%s", path, got)
	}
}

// outOfOrder is a story in which everything arrives in the wrong order: the order
// is called off, then a refund comes, then the payment that was first of all.
func (w *world) outOfOrder() {
	w.Helper()
	w.register(noon, "A-1", 4990)
	w.start()
	for _, s := range []struct {
		at, happened time.Duration
		f            sample.Fact
	}{
		{6 * time.Minute, 3 * time.Minute, sample.Fact{Kind: order.KindCancelled, ID: "evt_cancelled", Order: "A-1", Payment: "pi_A-1", Amount: 4990}},
		{7 * time.Minute, 5 * time.Minute, sample.Fact{Kind: order.KindRefund, ID: "evt_refund", Payment: "pi_A-1", Object: "re_1", Amount: 1500}},
		{8 * time.Minute, 2 * time.Minute, sample.Fact{Kind: order.KindPaid, ID: "evt_paid", Order: "A-1", Payment: "pi_A-1", Amount: 4990}},
		{9 * time.Minute, 2 * time.Minute, sample.Fact{Kind: order.KindPaid, ID: "evt_paid", Order: "A-1", Payment: "pi_A-1", Amount: 4990}},
	} {
		s.f.Time = noon.Add(s.happened)
		w.post("stripe-eu", noon.Add(s.at), s.f)
		w.settled()
	}
	w.exec(`UPDATE processed_events SET seen_at = '2026-11-30 10:08:00.1Z'`)
	w.exec(`UPDATE order_transitions SET changed_at = timestamptz '2026-11-30 10:00Z' + (CASE version WHEN 1 THEN 0 WHEN 2 THEN 6 ELSE 8 END) * interval '1 minute'`)
	w.exec(`UPDATE held_events SET held_at = '2026-11-30 10:08:00.1Z', due_at = '2026-11-30 10:23:00Z'`)
	w.publish("A-1")
}

package processor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// world is one deployment of real parts.
type world struct {
	testing.TB
	kafka     kafka.Config
	database  postgres.Config
	store     *postgres.Store
	db        *sql.DB
	client    *kgo.Client
	admin     *kadm.Client
	endpoints endpoint.Set
	reg       *prometheus.Registry
}

func newWorld(t testing.TB, partitions int32) *world {
	t.Helper()
	w := &world{TB: t, kafka: testkit.Kafka(t, partitions), database: testkit.Database(t), reg: prometheus.NewRegistry()}
	var err error
	if w.store, err = postgres.Open(t.Context(), w.database, 16); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	if w.db, err = sql.Open("pgx", w.database.URL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	w.client = testkit.Client(t, w.kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	w.admin = kadm.NewClient(w.client)
	w.endpoints = load(t, "endpoints:\n  - name: stripe-eu\n    provider: stripe\n    secrets: [env:S]\n  - name: stripe-us\n    provider: stripe\n    secrets: [env:S]\n")
	return w
}

// load is the endpoints of a file.
func load(t testing.TB, text string) endpoint.Set {
	t.Helper()
	set, err := endpoint.LoadWithoutSecrets("endpoints.yaml", event.Live, func(string) ([]byte, error) { return []byte(text), nil })
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// deps are a processor's, with its own registry.
func (w *world) deps() Deps {
	return Deps{Kafka: w.kafka, Store: w.store, Endpoints: w.endpoints, Mode: event.Live,
		Log: slog.New(slog.NewTextHandler(w.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})), Reg: w.reg, Now: time.Now}
}

func small() Config { return Config{Workers: 1, Batch: 1000, Chores: time.Hour} }

// start runs a processor until the returned function, or the test's end, stops it.
func (w *world) start(cfg Config, deps Deps) (p *Processor, stop func()) {
	w.Helper()
	deps.Reg = prometheus.NewRegistry()
	p, err := New(w.Context(), cfg, deps)
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			if err != nil {
				w.Errorf("processor: %v", err)
			}
		case <-time.After(30 * time.Second):
			w.Error("the processor did not stop")
		}
	}
	w.Cleanup(stop)
	return p, stop
}

// stated is one webhook as a test writes it down.
type stated struct {
	id, order, payment, object string
	kind                       order.Kind
	amount                     int64
	at                         time.Time
	endpoint                   string
	mode                       event.Mode
	pad                        int
	extra                      string // further JSON members, after a comma
}

var now = time.Now().UTC().Truncate(time.Second)

var stripeTypes = map[order.Kind]string{
	order.KindNone: "customer.created", order.KindPaid: "payment_intent.succeeded", order.KindFailed: "payment_intent.payment_failed",
	order.KindCancelled: "payment_intent.canceled", order.KindRefund: "refund.created", order.KindRefundTotal: "charge.refunded",
}

func (s stated) event() event.Event {
	if s.endpoint == "" {
		s.endpoint = "stripe-eu"
	}
	if s.mode == "" {
		s.mode = event.Live
	}
	if s.at.IsZero() {
		s.at = now
	}
	metadata := ""
	if s.order != "" {
		metadata = fmt.Sprintf(`,"metadata":{"order_id":%q}`, s.order)
	}
	object := fmt.Sprintf(`"id":%q,"amount":%d,"amount_received":%d`, s.payment, s.amount, s.amount)
	switch s.kind {
	case order.KindRefund:
		object = fmt.Sprintf(`"id":%q,"payment_intent":%q,"amount":%d,"status":"succeeded"`, s.object, s.payment, s.amount)
	case order.KindRefundTotal:
		object = fmt.Sprintf(`"id":"ch","payment_intent":%q,"amount":%d,"amount_refunded":%d`, s.payment, s.amount, s.amount)
	}
	body := fmt.Sprintf(`{"id":%q,"type":%q,"created":%d,"livemode":%t,"data":{"object":{%s,"currency":"eur"%s}}%s`,
		s.id, stripeTypes[s.kind], s.at.Unix(), s.mode == event.Live, object, metadata, s.extra)
	if n := s.pad - len(body) - len(`,"pad":""}`); n > 0 {
		body += fmt.Sprintf(`,"pad":"%s"`, strings.Repeat("x", n))
	}
	return event.Event{
		Source: s.endpoint, ID: s.id, Type: stripeTypes[s.kind], Time: s.at, TimeRepeats: true, Mode: s.mode,
		Provider: "stripe", Endpoint: s.endpoint, Order: s.order, Payment: s.payment, Trust: event.Signed,
		ContentType: "application/json", ReceivedAt: time.Now(), SecretName: "env:S",
		Signature: []event.Header{{Name: "stripe-signature", Value: []byte(strings.Repeat("a", 90))}}, Body: []byte(body + "}"),
	}
}

func (w *world) record(e event.Event, partition int32) *kgo.Record {
	w.Helper()
	headers, err := e.Headers()
	if err != nil {
		w.Fatal(err)
	}
	r := &kgo.Record{Topic: w.kafka.Topic(kafka.Raw), Partition: partition, Key: []byte(e.ID), Value: e.Body}
	for _, h := range headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
	}
	return r
}

func (w *world) produce(records ...*kgo.Record) {
	w.Helper()
	if err := w.client.ProduceSync(w.Context(), records...).FirstErr(); err != nil {
		w.Fatal(err)
	}
}

// send puts events into partition 0, in order.
func (w *world) send(events ...stated) {
	w.Helper()
	records := make([]*kgo.Record, len(events))
	for i, s := range events {
		records[i] = w.record(s.event(), 0)
	}
	w.produce(records...)
}

// register registers orders as the shop does.
func (w *world) register(amount int64, ids ...string) {
	w.Helper()
	for len(ids) > 0 {
		n := min(len(ids), 2000)
		facts := make([]postgres.Fact, n)
		for i, id := range ids[:n] {
			facts[i] = registration(id, amount)
		}
		err := w.store.InTx(w.Context(), func(tx postgres.Tx) error {
			a, err := tx.Apply(w.Context(), time.Now(), facts)
			if err != nil {
				return err
			}
			return tx.AddToBooks(w.Context(), [16]byte{}, -1, a.Moved)
		})
		if err != nil {
			w.Fatal(err)
		}
		ids = ids[n:]
	}
}

func registration(id string, amount int64) postgres.Fact {
	e := event.Event{Source: postgres.Merchant, ID: id + "/1"}
	return postgres.Fact{
		Entry:   order.Entry{Hash: e.Hash(), Source: postgres.Merchant, Kind: order.KindRegistered, Time: now.UnixMilli(), Amount: amount, Currency: "EUR", Object: "ref"},
		OrderID: id, EventID: e.ID, EventType: "order.registered", Endpoint: postgres.Merchant, AppendedAt: now, Partition: -1, Offset: -1,
	}
}

// until waits for a condition of the world to come true.
func (w *world) until(what string, done func() bool) {
	w.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline:
			w.Fatalf("waited in vain until %s", what)
		case <-tick.C:
		}
	}
}

// caughtUp waits until the group's offsets are at the end of the raw topic.
func (w *world) caughtUp() {
	w.Helper()
	w.until("everything is committed", func() bool { return w.lag() == 0 })
}

func (w *world) lag() int64 {
	w.Helper()
	lag, err := kafka.Lag(context.Background(), w.kafka, slog.New(slog.DiscardHandler), w.kafka.Topic(kafka.Group), w.kafka.Topic(kafka.Raw))
	if err != nil {
		w.Fatal(err)
	}
	return lag
}

// number is the result of a query for one number.
func (w *world) number(query string, args ...any) (n int64) {
	w.Helper()
	err := errors.New("")
	for range 8 { // an outage leaves broken connections in the test's own pool
		if err = w.db.QueryRow(query, args...).Scan(&n); err == nil {
			return n
		}
	}
	w.Fatalf("%s: %v", query, err)
	return 0
}

// status is an order's, StatusNone if it is not there.
func (w *world) status(id string) order.Status {
	w.Helper()
	return order.Status(w.number(`SELECT coalesce((SELECT status FROM orders WHERE order_id = $1), 0)`, id))
}

// history is an order's statuses by version; a correction has a star.
func (w *world) history(id string) string {
	w.Helper()
	rows, err := w.db.Query(`SELECT version, to_status, correction FROM order_transitions WHERE order_id = $1 ORDER BY version`, id)
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var steps []string
	for rows.Next() {
		var version int64
		var status order.Status
		var to int64
		var correction bool
		if err := rows.Scan(&version, &to, &correction); err != nil {
			w.Fatal(err)
		}
		if status = order.Status(to); version != int64(len(steps)+1) {
			w.Errorf("order %s: version %d stands at place %d", id, version, len(steps)+1)
		}
		star := ""
		if correction {
			star = "*"
		}
		steps = append(steps, status.String()+star)
	}
	if err := rows.Err(); err != nil {
		w.Fatal(err)
	}
	return strings.Join(steps, " ")
}

// booked is the books' sum of one verdict.
func (w *world) booked(v order.Verdict) int64 {
	w.Helper()
	return w.number(`SELECT coalesce(sum(events), 0) FROM books WHERE verdict = $1`, int(v))
}

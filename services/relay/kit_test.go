package relay

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/pkg/status"
	"sluice/pkg/testkit"
)

// world is one deployment: a database that others write transitions to, and a
// broker.
type world struct {
	testing.TB
	kafka kafka.Config
	store *postgres.Store
	db    *sql.DB
}

func newWorld(t testing.TB, brokers kafka.Config) *world {
	t.Helper()
	cfg := testkit.Database(t)
	w := &world{TB: t, kafka: brokers}
	var err error
	if w.store, err = postgres.Open(t.Context(), cfg, 16); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	if w.db, err = sql.Open("pgx", cfg.URL); err != nil {
		t.Fatal(err)
	}
	w.db.SetMaxOpenConns(8)
	w.db.SetMaxIdleConns(8)
	t.Cleanup(func() { _ = w.db.Close() })
	return w
}

func (w *world) exec(statement string, args ...any) {
	w.Helper()
	if _, err := w.db.ExecContext(w.Context(), statement, args...); err != nil {
		w.Fatal(err)
	}
}

func (w *world) number(query string, args ...any) (n int64) {
	w.Helper()
	if err := w.db.QueryRowContext(w.Context(), query, args...).Scan(&n); err != nil {
		w.Fatal(err)
	}
	return n
}

const insert = `
	INSERT INTO order_transitions (shard, order_no, order_id, version, from_status, to_status, amount, currency,
		paid, refunded, cause_source, cause_event_id, occurred_at)
	SELECT o % 2, o, 'order-' || o, v, CASE WHEN v = 1 THEN 0 ELSE 1 END, 1, 100, 'USD', 0, 0, 'stripe-eu', 'evt_' || o || '_' || v, 1764522000123
	FROM generate_series($3::int, $4::int) v, generate_series($1::int, $2::int) o ORDER BY v, o`

// write adds versions from..to of the orders first..last, without waking anybody.
func (w *world) write(first, last, from, to int) {
	w.Helper()
	w.exec(insert, first, last, from, to)
}

// unmarked is how many rows lie beyond the cursors.
func (w *world) unmarked() int64 {
	return w.number(`SELECT count(*) FROM order_transitions t JOIN relay_shards s USING (shard) WHERE t.id > s.cursor`)
}

func config() Config {
	return Config{Batch: 256, PollInterval: 10 * time.Millisecond, LeaseTTL: time.Second, DrainTimeout: 5 * time.Second}
}

func (w *world) broker() Broker { return Kafka{Config: w.kafka, Log: w.log()} }

func (w *world) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(w.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// relay is one that does not run yet.
func (w *world) relay(owner string, cfg Config, b Broker) *Relay {
	w.Helper()
	r, err := New(cfg, Deps{Log: w.log(), Registry: prometheus.NewRegistry(), Topics: []string{w.kafka.Topic(kafka.Status), w.kafka.Topic(kafka.Latest)},
		Owner: owner, Store: w.store, Broker: b, Now: time.Now})
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// start runs a relay until stop, or the test's end.
func (w *world) start(owner string, cfg Config, b Broker) (r *Relay, stop func() error) {
	w.Helper()
	r = w.relay(owner, cfg, b)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	var stopped bool
	stop = func() error {
		stopped = true
		cancel()
		return <-ended
	}
	w.Cleanup(func() {
		if !stopped {
			_ = stop()
		}
	})
	return r, stop
}

// until waits for a condition.
func (w *world) until(what string, met func() bool) {
	w.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for !met() {
		select {
		case <-tick.C:
		case <-limit:
			w.Fatalf("waited 30 s until %s", what)
		}
	}
}

// topic is everything committed on the status topic, in the order of its offsets.
type topic struct {
	*world
	client *kgo.Client
	first  map[string][]byte // value by message id
	last   map[string]int64  // highest version by order
	copies int               // repeats of a message
	gaps   []string
}

func (w *world) topic() *topic {
	w.Helper()
	cl := testkit.Client(w, w.kafka, kgo.ConsumeTopics(w.kafka.Topic(kafka.Status)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	return &topic{world: w, client: cl, first: map[string][]byte{}, last: map[string]int64{}}
}

// take reads what there is, until it has n distinct messages.
func (p *topic) take(n int) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), 30*time.Second)
	defer cancel()
	for len(p.first) < n {
		p.poll(ctx)
		if ctx.Err() != nil {
			p.Fatalf("the topic has %d of %d messages", len(p.first), n)
		}
	}
}

func (p *topic) poll(ctx context.Context) {
	p.client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
		m, err := status.Decode(r.Value)
		if err != nil {
			p.Errorf("offset %d: %v", r.Offset, err)
			return
		}
		if string(r.Key) != m.OrderID {
			p.Errorf("message %s has the key %q", m.ID(), r.Key)
		}
		if old, ok := p.first[m.ID()]; ok {
			p.copies++
			if !bytes.Equal(old, r.Value) {
				p.Errorf("message %s was published again with other bytes", m.ID())
			}
			return
		}
		p.first[m.ID()] = r.Value
		if m.Version != p.last[m.OrderID]+1 {
			p.gaps = append(p.gaps, fmt.Sprintf("%s: version %d after %d", m.OrderID, m.Version, p.last[m.OrderID]))
		}
		p.last[m.OrderID] = m.Version
	})
}

// whole says that versions run from 1 without gaps, in order.
func (p *topic) whole() {
	p.Helper()
	if len(p.gaps) > 0 {
		p.Errorf("%d messages out of order, the first: %s", len(p.gaps), p.gaps[0])
	}
}

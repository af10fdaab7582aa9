package effects

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/prometheus/client_golang/prometheus"

	"sluice/pkg/effect"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// world is a database with effects that are due.
type world struct {
	testing.TB
	store *postgres.Store
	db    *sql.DB
}

func newWorld(t testing.TB) *world {
	t.Helper()
	cfg := testkit.Database(t)
	w := &world{TB: t}
	var err error
	if w.store, err = postgres.Open(t.Context(), cfg, 8); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	if w.db, err = sql.Open("pgx", cfg.URL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	w.exec(`INSERT INTO orders (order_no, order_id, registered_at, status) OVERRIDING SYSTEM VALUE VALUES (1, 'o-1', now(), 1)`)
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

// add makes n effects of that name due.
func (w *world) add(name string, n int) {
	w.Helper()
	keys, bodies := make([]string, n), make([]string, n)
	for i := range n {
		var k effect.Key
		_, _ = rand.Read(k[:])
		keys[i], bodies[i] = hex.EncodeToString(k[:]), string(bodyOf(name, k))
	}
	w.exec(`INSERT INTO effects (key, order_no, effect, fact_source, fact_kind, fact_payment, fact_object, version, created_at, due_at, body)
		SELECT k::uuid, 1, $1, 'stripe', 2, 'pi_1', '', 2, now(), now(), convert_to(b, 'UTF8') FROM unnest($2::text[], $3::text[]) u (k, b)`, name, keys, bodies)
}

// start runs a dispatcher until stop, or the test's end.
func (w *world) start(owner string, cfg Config, list string) (d *Dispatcher, stop func()) {
	w.Helper()
	d, err := New(cfg, Deps{Log: logTo(w), Registry: prometheus.NewRegistry(), Owner: owner, Store: w.store, Effects: declared(w, list), Now: time.Now})
	must(w, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-ended; err != nil {
				w.Errorf("the dispatcher ended with %v", err)
			}
		}
	}
	w.Cleanup(stop)
	return d, stop
}

// until waits for a condition.
func (w *world) until(what string, met func() bool) {
	w.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(60 * time.Second)
	for !met() {
		select {
		case <-tick.C:
		case <-limit:
			w.Fatalf("waited a minute until %s", what)
		}
	}
}

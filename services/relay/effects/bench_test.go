package effects

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/prometheus/client_golang/prometheus"

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
	w.exec(`INSERT INTO effects (key, order_no, effect, fact_source, fact_kind, fact_payment, fact_object, version, created_at, due_at, body)
		SELECT gen_random_uuid(), 1, $1, 'stripe', 2, 'pi', '', 2, now(), now(), convert_to(repeat('x', 900), 'UTF8') FROM generate_series(1, $2::int)`, name, n)
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
			rows, _ := w.db.Query("SELECT class, count(*) FROM effect_attempts GROUP BY 1")
			for rows.Next() {
				var c string
				var n int
				_ = rows.Scan(&c, &n)
				w.Logf("class %q: %d", c, n)
			}
			w.Fatalf("waited a minute until %s", what)
		}
	}
}

func declaration(name, target string) string {
	return fmt.Sprintf("  - {name: %s, on: {to: paid}, url: %q, secret: env:SECRET, allow: [127.0.0.1], timeout: 2s}\n", name, target)
}

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func defaults() Config {
	cfg := config()
	cfg.Concurrency, cfg.PerDestination, cfg.Poll = 256, 32, 100*time.Millisecond
	return cfg
}

// BenchmarkEffects calls a receiver on this machine.
func BenchmarkEffects(b *testing.B) {
	const n = 20_000
	s := httptest.NewServer(http.HandlerFunc(ok))
	b.Cleanup(s.Close)
	for b.Loop() {
		b.StopTimer()
		w := newWorld(b)
		w.add("fulfil", n)
		w.exec("ANALYZE effects")
		b.StartTimer()
		began := time.Now()
		_, stop := w.start("a", defaults(), declaration("fulfil", s.URL))
		w.until("all are done", func() bool { return w.number("SELECT count(*) FROM effects WHERE state = 2") == n })
		b.ReportMetric(n/time.Since(began).Seconds(), "effects/s")
		stop()
	}
}

// BenchmarkOneDeadOfTen tells how long nine destinations take while the tenth is well,
// and while it takes connections and never answers; both in one run.
func BenchmarkOneDeadOfTen(b *testing.B) {
	const each = 1500
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	b.Cleanup(func() { _ = hung.Close() })
	var list strings.Builder
	var names []string
	for i := range 9 {
		s := httptest.NewServer(http.HandlerFunc(ok))
		b.Cleanup(s.Close)
		name := fmt.Sprintf("good-%d", i)
		names = append(names, name)
		list.WriteString(declaration(name, s.URL))
	}
	well := httptest.NewServer(http.HandlerFunc(ok))
	b.Cleanup(well.Close)
	measure := func(tenth string) float64 {
		w := newWorld(b)
		for _, name := range append([]string{"tenth"}, names...) {
			w.add(name, each)
		}
		w.exec("ANALYZE effects")
		began := time.Now()
		_, stop := w.start("a", defaults(), list.String()+declaration("tenth", tenth))
		w.until("nine are done", func() bool {
			return w.number("SELECT count(*) FROM effects WHERE state = 2 AND effect <> 'tenth'") == 9*each
		})
		rate := 9 * each / time.Since(began).Seconds()
		stop()
		return rate
	}
	for b.Loop() {
		with := measure(well.URL)
		without := measure("http://" + hung.Addr().String())
		b.ReportMetric(with, "effects/s-all-well")
		b.ReportMetric(without, "effects/s-one-dead")
		b.ReportMetric(without/with, "ratio")
	}
}

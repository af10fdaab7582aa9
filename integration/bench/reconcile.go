package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/integration/harness"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// providerLimit is how many requests a second the provider takes.
const providerLimit = 100

// reconciled holds reconcilers to a provider's limit: orders that hang are asked about,
// and what is learnt is applied through the raw topic.
func reconciled(t *scope, o options, say progress) (rows []row) {
	for _, reconcilers := range []int{1, 3} {
		var seen limited
		var memory int64
		var applied time.Duration
		err := within(t.Context(), t.Name(), func(t *scope) { memory, applied = reconcileOnce(t, o, reconcilers, &seen) })
		if err != nil {
			t.Fatal(err)
		}
		used := 100 * float64(len(seen.times)) / (providerLimit * seen.lasting().Seconds())
		say("%s orders by %d: %.1f %% of %d/s used, %d in the fullest second, %d refused; all paid %v after the last answer", thousands(int64(o.hanging)), reconcilers,
			used, providerLimit, seen.most, seen.refused, applied.Round(time.Millisecond))
		name := "reconciler, orders that hang, provider's limit 100/s"
		if reconcilers > 1 {
			name = fmt.Sprintf("the same by %d reconcilers", reconcilers)
		}
		rows = append(rows, row{Measure: name, Reached: persecond(float64(len(seen.times)) / seen.lasting().Seconds()), Beside: persecond(providerLimit),
			Ratio: fmt.Sprintf("%.3f", used/100), Memory: memory,
			Targets: []target{atLeast("of the limit used", used, 95, "%"), atMost("requests beyond it", float64(seen.refused), 0, "")}})
	}
	return rows
}

// limited is a provider that answers for every payment that it is paid, and refuses
// what is more than its limit in any second before.
type limited struct {
	mu      sync.Mutex
	times   []time.Time
	most    int
	refused int
}

func (l *limited) lasting() time.Duration { return l.times[len(l.times)-1].Sub(l.times[0]) }

func (l *limited) takes(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times = append(l.times, now)
	first, _ := slices.BinarySearchFunc(l.times, now.Add(-time.Second), func(at, since time.Time) int {
		if at.After(since) {
			return 1
		}
		return -1
	})
	in := len(l.times) - first
	l.most = max(l.most, in)
	if in > providerLimit {
		l.refused++
	}
	return in <= providerLimit
}

func (l *limited) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !l.takes(time.Now()) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	payment := filepath.Base(r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"resource": "payment", "id": payment, "mode": "live", "status": "paid",
		"amount": map[string]string{"value": "50.00", "currency": "USD"}, "metadata": map[string]string{"order_id": strings.TrimPrefix(payment, "tr_")},
		"createdAt": "2026-01-01T10:00:00+00:00", "paidAt": "2026-01-01T10:05:00+00:00"})
}

// reconcileOnce returns once every order is paid: the greatest reconciler's memory, and
// how long after the last answer that was.
func reconcileOnce(t *scope, o options, reconcilers int, provider *limited) (memory int64, applied time.Duration) {
	d := harness.Direct(t, testkit.Kafka(t, 0))
	register(t, d, o.hanging)
	hang(t, d, o.hanging)
	d.Exec("UPDATE order_transitions SET changed_at = changed_at - interval '1 hour'")
	d.Exec("VACUUM ANALYZE")

	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	server := &http.Server{Handler: provider, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Shutdown(context.Background()) })
	file := filepath.Join(t.TempDir(), "endpoints.yaml")
	text := fmt.Sprintf("endpoints:\n  - {name: mollie, provider: mollie_classic, lookup: {base_url: 'http://%s', credentials: ['env:API'], rate: %d, pending: 1m, sweep: off}}\n", l.Addr(), providerLimit)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"SLUICE_ENDPOINTS=" + file, "API=api-secret"}
	await(t.Context(), o.patience)
	processes := []*harness.Process{d.Start("processor", env...)}
	for range reconcilers {
		processes = append(processes, d.Begin("reconciler", env...))
	}
	wait := time.Duration(o.hanging)*time.Second/(providerLimit/2) + 2*time.Minute
	harness.Eventually(t, "every order is paid", wait, func() error {
		if n := d.Count("SELECT count(*) FROM orders WHERE status = $1", int16(order.Paid)); n != int64(o.hanging) {
			return fmt.Errorf("%d of %d are", n, o.hanging)
		}
		return nil
	})
	provider.mu.Lock()
	applied = time.Since(provider.times[len(provider.times)-1])
	provider.mu.Unlock()
	for _, p := range processes[1:] {
		memory = max(memory, p.PeakMemory())
	}
	for _, p := range processes {
		p.Stop()
	}
	if n := len(provider.times) - provider.refused; n != o.hanging {
		t.Fatalf("%d orders were asked about %d times", o.hanging, n)
	}
	return memory, applied
}

// hang begins a payment of each order that no webhook tells the end of.
func hang(t *scope, d *harness.Deployment, orders int) {
	store, err := postgres.Open(t.Context(), d.Database, 2)
	if err != nil {
		t.Fatalf("reach the database: %v", err)
	}
	defer store.Close()
	now := time.Now()
	facts := make([]postgres.Fact, orders)
	for o := range facts {
		id := "pending-" + orderID(o)
		sum := sha256.Sum256([]byte(id))
		facts[o] = postgres.Fact{
			Entry: order.Entry{Hash: [16]byte(sum[:16]), Source: "mollie", Kind: order.KindPending, Time: now.Add(-time.Hour).UnixMilli(),
				Payment: "tr_" + orderID(o), Currency: "USD"},
			OrderID: orderID(o), EventID: id, EventType: "open", Endpoint: "mollie", AppendedAt: now, Partition: -1, Offset: -1,
		}
	}
	for some := range slices.Chunk(facts, 2_000) {
		err := store.InTx(t.Context(), func(tx postgres.Tx) error {
			_, err := tx.Apply(t.Context(), now, some)
			return err
		})
		if err != nil {
			t.Fatalf("begin payments: %v", err)
		}
	}
}

package effects

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/pkg/postgres"
)

// Two dispatchers on one database: each effect is called once, by one of them.
func TestTwoDispatchersShareTheEffectsAndCallEachOnce(t *testing.T) { // O41
	const n = 1000
	s, got := server(t, func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(5 * time.Millisecond)
		w.WriteHeader(http.StatusNoContent)
	})
	w := newWorld(t)
	w.add("fulfil", n)
	_, stopA := w.start("a", config(), declaration("fulfil", s.URL))
	_, stopB := w.start("b", config(), declaration("fulfil", s.URL))
	w.until("all are done", func() bool { return w.number("SELECT count(*) FROM effects WHERE state = 2") == n })
	stopA()
	stopB()
	keys := map[string]bool{}
	for _, r := range got.list() {
		keys[r.header.Get("Idempotency-Key")] = true
	}
	if len(got.list()) != n || len(keys) != n {
		t.Errorf("%d calls with %d keys, want %d", len(got.list()), len(keys), n)
	}
	if both := w.number("SELECT count(DISTINCT claimed_by) FROM effects"); both != 2 {
		t.Errorf("%d dispatchers had work, want 2", both)
	}
}

// What a dispatcher that died had claimed is called again once its lease is over, and
// not before.
func TestWhatADeadDispatcherHeldIsCalledAfterItsLease(t *testing.T) { // O41
	s, got := server(t, ok)
	w := newWorld(t)
	w.add("fulfil", 3)
	const lease = 2 * time.Second
	began := time.Now()
	claimed, err := w.store.ClaimEffects(t.Context(), began, "dead", postgres.Wanted{Name: "fulfil", N: 2, Lease: lease})
	must(t, err)
	if len(claimed) != 2 {
		t.Fatalf("%d claimed", len(claimed))
	}
	w.start("alive", config(), declaration("fulfil", s.URL))
	w.until("the third is done", func() bool { return w.number("SELECT count(*) FROM effects WHERE state = 2") == 1 })
	if time.Since(began) < lease && len(got.list()) != 1 {
		t.Errorf("%d calls within the lease, want 1", len(got.list()))
	}
	w.until("all are done", func() bool { return w.number("SELECT count(*) FROM effects WHERE state = 2") == 3 })
	if took := time.Since(began); took < lease {
		t.Errorf("taken over after %v, within the lease", took)
	}
	if n := w.number("SELECT count(*) FROM effect_attempts WHERE class = 'lost' AND attempt = 1"); n != 2 {
		t.Errorf("%d attempts are lost, want 2", n)
	}
	// The dead one wakes up: what it has to say decides nothing.
	stands, err := w.store.FinishEffects(t.Context(), time.Now(), postgres.Attempt{Effect: claimed[0], Outcome: postgres.AttemptFailed, StartedAt: began, Class: "timeout"})
	must(t, err)
	if stands[0] || w.number("SELECT count(*) FROM effects WHERE state = 2") != 3 {
		t.Error("a dispatcher whose lease was over has overwritten what another did")
	}
}

// No transaction is open while a call is under way.
func TestNoLockIsHeldDuringACall(t *testing.T) {
	inside := make(chan struct{})
	release := make(chan struct{})
	s, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
		close(inside)
		<-release
		w.WriteHeader(http.StatusNoContent)
	})
	w := newWorld(t)
	w.add("fulfil", 1)
	w.start("a", config(), declaration("fulfil", s.URL))
	<-inside
	if n := w.number("SELECT count(*) FROM (SELECT 1 FROM effects FOR UPDATE SKIP LOCKED) free"); n != 1 {
		t.Error("the effect is locked while it is called")
	}
	if n := w.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`); n != 0 {
		t.Errorf("%d transactions are open", n)
	}
	close(release)
	w.until("it is done", func() bool { return w.number("SELECT count(*) FROM effects WHERE state = 2") == 1 })
}

// Every attempt can be seen: when, how it ended, how long it took, how the answer began.
func TestEveryAttemptIsWrittenDown(t *testing.T) { // O42
	calls := 0
	s, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls == 1 {
			http.Error(w, "out of order; you sent "+r.Header.Get("Webhook-Signature"), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("<html><title>Sign in</title>"))
	})
	w := newWorld(t)
	w.add("fulfil", 1)
	cfg := config()
	cfg.BackoffBase, cfg.BackoffMax = time.Millisecond, time.Millisecond
	w.start("a", cfg, declaration("fulfil", s.URL))
	w.until("it is done", func() bool { return w.number("SELECT count(*) FROM effects WHERE state = 2") == 1 })
	rows, err := w.db.QueryContext(t.Context(), "SELECT attempt, status, class, answer, started_at > now() - interval '1 minute' FROM effect_attempts ORDER BY attempt")
	must(t, err)
	defer rows.Close()
	type row struct {
		attempt, status int
		class, answer   string
		recent          bool
	}
	var all []row
	for rows.Next() {
		var r row
		must(t, rows.Scan(&r.attempt, &r.status, &r.class, &r.answer, &r.recent))
		all = append(all, r)
	}
	must(t, rows.Err())
	if len(all) != 2 || all[0].status != 503 || all[0].class != "unavailable" || !all[0].recent || all[1].status != 200 || all[1].class != "" {
		t.Fatalf("attempts %+v", all)
	}
	if !strings.HasPrefix(all[0].answer, "out of order; you sent v1,"+masked) || all[1].answer != "<html><title>Sign in</title>" {
		t.Errorf("answers %q and %q", all[0].answer, all[1].answer)
	}
}

package effects

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"sluice/pkg/effect"
	"sluice/pkg/postgres"
)

// ledger is a store in memory, for virtual time; that the real one keeps its promises
// is tested against PostgreSQL.
type ledger struct {
	mu       sync.Mutex
	due      map[string][]postgres.Effect
	at       map[effect.Key]time.Time
	finished []postgres.Attempt
	failing  bool
}

func (l *ledger) add(name string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		k := effect.Key{byte(len(l.at)), byte(len(l.at) >> 8), byte(len(l.at) >> 16)}
		l.at[k] = time.Time{}
		l.due[name] = append(l.due[name], postgres.Effect{Key: k, Name: name, Body: bodyOf(name, k)})
	}
}

func (l *ledger) ClaimEffects(_ context.Context, now time.Time, _ string, wanted ...postgres.Wanted) (out []postgres.Effect, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failing {
		return nil, errors.New("the database is away")
	}
	for _, w := range wanted {
		var left []postgres.Effect
		n := w.N
		for _, e := range l.due[w.Name] {
			if n == 0 || l.at[e.Key].After(now) {
				left = append(left, e)
				continue
			}
			n--
			e.Attempt++
			e.Try++
			out = append(out, e)
		}
		l.due[w.Name] = left
	}
	return out, nil
}

func (l *ledger) FinishEffects(_ context.Context, _ time.Time, attempts ...postgres.Attempt) ([]bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failing {
		return nil, errors.New("the database is away")
	}
	stands := make([]bool, len(attempts))
	for i, a := range attempts {
		stands[i] = true
		if a.Outcome == postgres.AttemptUnmade {
			a.Effect.Try--
		} else {
			l.finished = append(l.finished, a)
		}
		if a.Outcome == postgres.AttemptRetry || a.Outcome == postgres.AttemptUnmade {
			l.at[a.Effect.Key] = a.RetryAt
			l.due[a.Effect.Name] = append(l.due[a.Effect.Name], a.Effect)
		}
	}
	return stands, nil
}

// attempts are those of one effect's name, in the order of their ends.
func (l *ledger) attempts(name string) (out []postgres.Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.finished {
		if a.Effect.Name == name {
			out = append(out, a)
		}
	}
	return out
}

func (l *ledger) done(name string) (n int) {
	for _, a := range l.attempts(name) {
		if a.Outcome == postgres.AttemptDone {
			n++
		}
	}
	return n
}

// answering is a caller that answers as it is told.
type answering func(ctx context.Context) answer

func (f answering) call(ctx context.Context, _ postgres.Effect, _ time.Time) answer { return f(ctx) }
func (answering) close()                                                            {}

func after(d time.Duration, a answer) answering {
	return func(ctx context.Context) answer {
		select {
		case <-time.After(d):
			return a
		case <-ctx.Done():
			return answer{class: stopped}
		}
	}
}

// virtual is a dispatcher of the ledger; each effect goes to a destination of its own.
func virtual(t *testing.T, cfg Config, callers map[string]answering) (*ledger, *Dispatcher) {
	t.Helper()
	list := ""
	for name := range callers {
		list += fmt.Sprintf("  - {name: %s, on: {to: paid}, url: \"https://%s.example/\", secret: env:SECRET}\n", name, name)
	}
	l := &ledger{due: map[string][]postgres.Effect{}, at: map[effect.Key]time.Time{}}
	d, err := New(cfg, Deps{Log: logTo(t), Registry: prometheus.NewRegistry(), Owner: "test", Store: l, Effects: declared(t, list), Now: time.Now})
	must(t, err)
	for name, c := range callers {
		d.lines[name].caller = c
	}
	return l, d
}

// during runs the dispatcher for a time and stops it.
func during(t *testing.T, d *Dispatcher, span time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), span)
	defer cancel()
	if err := d.Run(ctx); err != nil {
		t.Errorf("the dispatcher ended with %v", err)
	}
}

func TestADeadDestinationSlowsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		callers := map[string]answering{"dead": after(10*time.Second, answer{class: timedOut})}
		for i := range 9 {
			callers[fmt.Sprintf("good-%d", i)] = after(20*time.Millisecond, answer{status: 200})
		}
		l, d := virtual(t, config(), callers)
		for name := range callers {
			l.add(name, 200)
		}
		// 64 calls over ten destinations are 6 each: 200 calls of 20 ms take 34 rounds.
		during(t, d, time.Second)
		for name := range callers {
			if n := l.done(name); name != "dead" && n != 200 {
				t.Errorf("%s: %d of 200 done while another destination hangs", name, n)
			}
		}
		if n := len(l.attempts("dead")); n > 6 {
			t.Errorf("the dead destination got %d calls in a second, more than its part", n)
		}
	})
}

func TestACircuitOpensTriesOneAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		c := func(ctx context.Context) answer {
			if up.Load() {
				return after(time.Millisecond, answer{status: 204})(ctx)
			}
			return after(time.Millisecond, answer{status: 503})(ctx)
		}
		cfg := config()
		cfg.PerDestination, cfg.BackoffBase, cfg.BackoffMax = 1, time.Millisecond, time.Millisecond
		l, d := virtual(t, cfg, map[string]answering{"fulfil": c})
		l.add("fulfil", 100)
		began := time.Now()
		var stop context.CancelFunc
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()

		time.Sleep(5 * time.Second)
		if n := len(l.attempts("fulfil")); n != 5 {
			t.Errorf("%d calls before it opened, want 5", n)
		}
		time.Sleep(64 * time.Second) // open for 10 s, 20 s, 40 s
		times := l.attempts("fulfil")
		if len(times) != 7 {
			t.Fatalf("%d calls after 69 s, want a try after 10 s and one after 20 s more", len(times))
		}
		for i, want := range []time.Duration{10 * time.Second, 30 * time.Second} {
			if at := times[5+i].StartedAt.Sub(began); at < want || at > want+time.Second {
				t.Errorf("try %d was made after %v, want %v", i+1, at, want)
			}
		}
		up.Store(true)
		time.Sleep(10 * time.Second)
		if n := l.done("fulfil"); n != 100 {
			t.Errorf("%d done after the destination came back, want 100", n)
		}
		stop()
		must(t, <-ended)
	})
}

func TestADestinationThatAsksForQuietGetsIt(t *testing.T) { // O43
	synctest.Test(t, func(t *testing.T) {
		n := 0
		l, d := virtual(t, config(), map[string]answering{"fulfil": func(ctx context.Context) answer {
			if n++; n == 1 {
				return answer{status: 429, retryAfter: "30"}
			}
			return answer{status: 200}
		}})
		l.add("fulfil", 1)
		began := time.Now()
		during(t, d, 29*time.Second)
		l.add("fulfil", 1)
		d.ended, d.written = make(chan ended, 64), make(chan []*line, 64)
		during(t, d, 100*time.Second)
		all := l.attempts("fulfil")
		if len(all) != 3 {
			t.Fatalf("%d attempts, want 3", len(all))
		}
		for _, a := range all[1:] {
			if at := a.StartedAt.Sub(began); at < 30*time.Second {
				t.Errorf("called after %v, although it asked for 30 s", at)
			}
		}
	})
}

func TestEveryAttemptFailsAndThenAPersonIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Poll = time.Minute
		l, d := virtual(t, cfg, map[string]answering{"fulfil": after(time.Second, answer{class: timedOut})})
		l.add("fulfil", 1)
		during(t, d, 48*time.Hour)
		all := l.attempts("fulfil")
		if len(all) != 12 || all[11].Outcome != postgres.AttemptFailed || all[10].Outcome != postgres.AttemptRetry {
			t.Errorf("%d attempts", len(all))
		}
		if n := testutil.ToFloat64(d.metrics.failed.WithLabelValues("fulfil")); n != 1 {
			t.Errorf("%v effects are counted as failed", n)
		}
		for i, a := range all {
			if a.Effect.Attempt != i+1 || a.Latency != time.Second {
				t.Errorf("attempt %d is numbered %d and took %v", i+1, a.Effect.Attempt, a.Latency)
			}
		}
	})
}

func TestAStopWaitsForCallsAndCutsThemInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d := virtual(t, config(), map[string]answering{"quick": after(3*time.Second, answer{status: 200}), "slow": after(time.Minute, answer{status: 200})})
		l.add("quick", 1)
		l.add("slow", 1)
		began := time.Now()
		during(t, d, time.Second)
		if took := time.Since(began); took != 6*time.Second {
			t.Errorf("the stop took %v, want the drain timeout", took-time.Second)
		}
		if a := l.attempts("quick"); len(a) != 1 || a[0].Outcome != postgres.AttemptDone {
			t.Errorf("what ended while it drained: %+v", a)
		}
		if a := l.attempts("slow"); len(a) != 1 || a[0].Outcome != postgres.AttemptRetry || a[0].Class != "stopped" {
			t.Errorf("what was cut: %+v", a)
		}
	})
}

func TestTheDatabaseMayBeAwayWhileCallsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d := virtual(t, config(), map[string]answering{"fulfil": after(time.Second, answer{status: 200})})
		l.add("fulfil", 10)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		time.Sleep(500 * time.Millisecond)
		if err := d.Ready(); err != nil {
			t.Errorf("not ready: %v", err)
		}
		set := func(failing bool) { l.mu.Lock(); l.failing = failing; l.mu.Unlock() }
		set(true)
		time.Sleep(10 * time.Second)
		if d.Ready() == nil {
			t.Error("ready without a database")
		}
		set(false)
		time.Sleep(10 * time.Second)
		if n := l.done("fulfil"); n != 10 || d.Ready() != nil {
			t.Errorf("%d done, and %v", n, d.Ready())
		}
		stop()
		must(t, <-ended)
		// It never comes back: the stop is bounded nevertheless.
		l, d = virtual(t, config(), map[string]answering{"fulfil": after(time.Second, answer{status: 200})})
		l.add("fulfil", 10)
		ctx, stop = context.WithCancel(t.Context())
		go func() { ended <- d.Run(ctx) }()
		time.Sleep(500 * time.Millisecond)
		l.mu.Lock()
		l.failing = true
		l.mu.Unlock()
		began := time.Now()
		stop()
		if err := <-ended; err == nil || time.Since(began) > 12*time.Second {
			t.Errorf("a stop that lost attempts ended after %v with %v", time.Since(began), err)
		}
	})
}

func TestAFrozenDispatcherMakesNoCallAfterItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		called := 0
		l, d := virtual(t, config(), map[string]answering{"fulfil": func(context.Context) answer { called++; return answer{status: 200} }})
		l.add("fulfil", 1)
		e, err := l.ClaimEffects(t.Context(), time.Now(), "test", postgres.Wanted{Name: "fulfil", N: 1})
		must(t, err)
		got := d.attempt(t.Context(), t.Context(), d.lines["fulfil"], e[0], time.Now().Add(-time.Minute))
		if called != 0 || got.attempt.Outcome != postgres.AttemptUnmade {
			t.Errorf("%d calls, %+v", called, got.attempt)
		}
	})
}

func TestDestinationsShareTheWholeAndSettingsAreChecked(t *testing.T) {
	set := declared(t, `
  - {name: a, on: {to: paid}, url: "https://one.example/a", secret: env:SECRET}
  - {name: b, on: {to: paid}, url: "https://one.example:443/b", secret: env:SECRET}
  - {name: c, on: {to: paid}, url: "https://two.example/", secret: env:SECRET}
`)
	cfg := config()
	cfg.Concurrency, cfg.PerDestination = 10, 256
	d, err := New(cfg, Deps{Log: logTo(t), Registry: prometheus.NewRegistry(), Effects: set, Now: time.Now})
	must(t, err)
	if len(d.destinations) != 2 || d.destinations[0].limit != 5 || len(d.destinations[0].lines) != 2 {
		t.Errorf("destinations %+v", d.destinations)
	}
	bad := Config{Proxy: "socks5://user:hunter2@proxy"}
	err = bad.Check()
	if err == nil || contains(err.Error(), "hunter2") || !contains(err.Error(), "BREAK_AFTER") {
		t.Errorf("problems: %v", err)
	}
}

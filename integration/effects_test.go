package integration

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"sluice/integration/harness"
	"sluice/integration/receiver"
	"sluice/pkg/kafka"
	"sluice/pkg/testkit"
)

const effectSecret = "whsec_aW50ZWdyYXRpb24tdGVzdC1lZmZlY3RzLTAwMDE="

// outside is a receiver that is right, with a database of its own, and what stands
// before it: the test sees every call and may keep it from the receiver, or the answer
// from the caller.
type outside struct {
	t      testing.TB
	db     *pgxpool.Pool
	server *httptest.Server
	right  http.Handler

	mu    sync.Mutex
	calls []received
	// before and after, if set, get each call before and after the receiver; false:
	// it goes no further.
	before, after func(call int) bool
}

type received struct{ key, id, body, timestamp string }

func newOutside(t testing.TB) *outside {
	t.Helper()
	o := &outside{t: t}
	var err error
	if o.db, err = pgxpool.New(t.Context(), testkit.Database(t).URL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.db.Close)
	if _, err := o.db.Exec(t.Context(), receiver.Schema); err != nil {
		t.Fatal(err)
	}
	if o.right, err = receiver.New(o.db, slog.New(slog.DiscardHandler), receiver.Ship, effectSecret); err != nil {
		t.Fatal(err)
	}
	o.server = httptest.NewServer(o)
	t.Cleanup(o.server.Close)
	return o
}

func (o *outside) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	o.mu.Lock()
	o.calls = append(o.calls, received{r.Header.Get("Idempotency-Key"), r.Header.Get("webhook-id"), string(body), r.Header.Get("webhook-timestamp")})
	n, before, after := len(o.calls), o.before, o.after
	o.mu.Unlock()
	if before != nil && !before(n) {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	o.right.ServeHTTP(answer, r)
	if after != nil && !after(n) {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(answer.Code)
}

// when sets what happens to calls from now on.
func (o *outside) when(before, after func(call int) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.before, o.after = before, after
}

func (o *outside) seen() []received {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]received(nil), o.calls...)
}

func (o *outside) acts() (n int64) {
	o.t.Helper()
	if err := o.db.QueryRow(context.WithoutCancel(o.t.Context()), "SELECT count(*) FROM shipments").Scan(&n); err != nil {
		o.t.Fatal(err)
	}
	return n
}

// same says that calls with one key carried the same bytes, and were signed anew.
func (o *outside) same() {
	o.t.Helper()
	bodies := map[string]string{}
	for _, c := range o.seen() {
		if c.key == "" || c.key != c.id {
			o.t.Errorf("a call has the key %q and the id %q", c.key, c.id)
		}
		if b, ok := bodies[c.key]; ok && b != c.body {
			o.t.Errorf("two calls with the key %s have different bodies", c.key)
		}
		bodies[c.key] = c.body
	}
}

// declare is the environment of a deployment whose paid orders are shipped by o.
func (o *outside) declare(more string) []string {
	o.t.Helper()
	file := filepath.Join(o.t.TempDir(), "effects.yaml")
	text := fmt.Sprintf("effects:\n  - {name: fulfil, on: {to: paid}, url: %q, secret: env:EFFECT_SECRET, allow: [127.0.0.1], timeout: 5s%s}\n", o.server.URL+"/orders", more)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
	return []string{"SLUICE_EFFECTS=" + file, "EFFECT_SECRET=" + effectSecret, "SLUICE_RELAY_EFFECTS_BACKOFF_BASE=200ms", "SLUICE_RELAY_EFFECTS_BACKOFF_MAX=400ms",
		"SLUICE_RELAY_EFFECTS_LEASE_MARGIN=1s", "SLUICE_RELAY_EFFECTS_BREAK_FOR=100ms", "SLUICE_RELAY_EFFECTS_BREAK_MAX=200ms"}
}

// pay registers an order and pays it.
func pay(d *harness.Deployment, ingress, merchant *harness.Process, id string) {
	d.T.Helper()
	d.Register(merchant, id, 300)
	d.Accept(ingress, harness.Stripe(harness.Intent("evt_"+id, "succeeded", id, "pi_"+id, 300, time.Now())))
}

// waitDone waits until n effects are done and none is left to do.
func waitDone(d *harness.Deployment, n int64) {
	d.T.Helper()
	harness.Eventually(d.T, "the effects are done", 40*time.Second, func() error {
		if done, all := d.Count("SELECT count(*) FROM effects WHERE state = 2"), d.Count("SELECT count(*) FROM effects"); done != n || all != n {
			return fmt.Errorf("%d of %d are done, want %d", done, all, n)
		}
		return nil
	})
}

// The dispatcher is killed at each point of a call (O41, O43): one act, the same key
// and bytes, and the lost attempt is written down.
func TestADispatcherThatIsKilledActsOnceAtTheReceiver(t *testing.T) {
	for name, kill := range map[string]func(t *testing.T, d *harness.Deployment, o *outside, relay *harness.Process){
		"before the receiver has it": func(_ *testing.T, _ *harness.Deployment, o *outside, relay *harness.Process) {
			o.when(func(call int) bool {
				if call == 1 {
					relay.Kill()
				}
				return call > 1
			}, nil)
		},
		"while the receiver acts": func(_ *testing.T, _ *harness.Deployment, o *outside, relay *harness.Process) {
			o.when(func(call int) bool {
				if call == 1 {
					relay.Kill()
				}
				return true
			}, nil)
		},
		"before the answer comes": func(_ *testing.T, _ *harness.Deployment, o *outside, relay *harness.Process) {
			o.when(nil, func(call int) bool {
				if call == 1 {
					relay.Kill()
				}
				return call > 1
			})
		},
		"after the answer, before it is written down": func(t *testing.T, d *harness.Deployment, o *outside, relay *harness.Process) {
			var locker *harness.Locker
			o.when(nil, func(call int) bool {
				if call == 1 {
					locker = harness.Lock(t, d, "SELECT 1 FROM effects FOR UPDATE")
					go func() {
						harness.Eventually(t, "the dispatcher waits for the lock", 20*time.Second, func() error {
							if waiting(t, d) == 0 {
								return fmt.Errorf("nobody waits")
							}
							return nil
						})
						relay.Kill()
						locker.Release()
					}()
				}
				return true
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, o := harness.New(t, 1), newOutside(t)
			env := o.declare("")
			ingress, merchant := d.Start("ingress"), d.Start("merchant", env...)
			d.Start("processor", env...)
			relay := d.Start("relay", env...)
			kill(t, d, o, relay)
			pay(d, ingress, merchant, "E-1")
			if code := relay.Wait(30 * time.Second); code == 0 {
				t.Fatal("the relay was not killed")
			}
			d.Start("relay", env...)
			waitDone(d, 1)
			o.same()
			if calls, acts := len(o.seen()), o.acts(); calls != 2 || acts != 1 {
				t.Errorf("%d calls and %d acts, want 2 and 1", calls, acts)
			}
			if n := d.Count("SELECT count(*) FROM effect_attempts WHERE class = 'lost'"); n != 1 {
				t.Errorf("%d attempts are written down as lost, want 1", n)
			}
		})
	}
}

// waiting is how many sessions of the deployment wait for a lock.
func waiting(t testing.TB, d *harness.Deployment) int64 {
	l := harness.Lock(t, d, "SELECT 1") // a session of its own: this runs beside the test
	defer l.Release()
	return l.Count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
}

// A frozen dispatcher wakes up after its lease: another has done it, and that stands.
func TestAFrozenDispatcherOverwritesNothing(t *testing.T) { // O41
	d, o := harness.New(t, 1), newOutside(t)
	env := o.declare("")
	ingress, merchant := d.Start("ingress"), d.Start("merchant", env...)
	d.Start("processor", env...)
	frozen := d.Start("relay", env...)
	paused := make(chan struct{})
	o.when(func(call int) bool {
		if call == 1 { // cut, which the frozen one will find out late
			frozen.Pause()
			close(paused)
			return false
		}
		return true
	}, nil)
	pay(d, ingress, merchant, "Z-1")
	wait(t, paused, "the first call")
	d.Start("relay", env...)
	waitDone(d, 1)
	frozen.Resume()
	harness.Eventually(t, "the frozen dispatcher has told of its attempt", 20*time.Second, func() error {
		if n := d.Count("SELECT count(*) FROM effect_attempts WHERE attempt = 1 AND class IN ('timeout', 'broken')"); n != 1 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	waitDone(d, 1)
	o.same()
	if n := d.Count("SELECT attempt FROM effects"); n != 2 || o.acts() != 1 {
		t.Errorf("%d attempts, %d acts", n, o.acts())
	}
}

// The second run of O41: kills at random times under load.
func TestKillsUnderLoadActOnceForEachOrder(t *testing.T) { // O41, O43
	d, o := harness.New(t, 2), newOutside(t)
	env := o.declare("")
	ingress, merchant := d.Start("ingress"), d.Start("merchant", env...)
	d.Start("processor", env...)
	relay := d.Start("relay", env...)
	const orders = 100
	o.when(func(call int) bool { return call%7 != 0 }, func(call int) bool { return call%5 != 0 }) // lost calls, lost answers
	for i := range orders {
		pay(d, ingress, merchant, fmt.Sprintf("L-%d", i))
		if i%20 == 10 {
			relay.Kill()
			relay = d.Begin("relay", env...)
		}
	}
	waitDone(d, orders)
	o.same()
	if acts := o.acts(); acts != orders || len(o.seen()) <= orders {
		t.Errorf("%d acts over %d calls, want %d acts and repeats among the calls", acts, len(o.seen()), orders)
	}
}

// O44: a replay causes no effect: from the first offset, with half of the ledger gone,
// and by a processor with other rules.
func TestReplaysCauseNoEffectTwice(t *testing.T) { // O44
	d, o := harness.New(t, 3), newOutside(t)
	env := o.declare("")
	ingress, merchant := d.Start("ingress"), d.Start("merchant", env...)
	processor := d.Start("processor", env...)
	d.Start("relay", env...)
	const orders = 100
	var half time.Time
	for i := range orders {
		if i == orders/2 {
			half = time.Now().UTC()
		}
		pay(d, ingress, merchant, fmt.Sprintf("P-%d", i))
	}
	waitDone(d, orders)
	d.Sound(nil)
	published := len(d.Records(kafka.Status))
	topic := d.Kafka.Topic(kafka.Raw)
	replay := func(what string, env []string, to ...string) {
		if code := processor.Stop(); code != 0 {
			t.Fatalf("the processor ended with %d", code)
		}
		args := []string{"--bootstrap-server", d.Kafka.Brokers[0], "--group", d.Kafka.Topic(kafka.Group), "--reset-offsets", "--execute"}
		run(t, kafkaTool(t, "kafka-consumer-groups.sh"), append(args, to...)...)
		all := int64(len(d.Records(kafka.Raw)))
		if n := d.Committed(); n >= all {
			t.Fatalf("%s: the offsets were not reset, they sum to %d", what, n)
		}
		processor = d.Start("processor", env...)
		harness.Eventually(t, what+": everything is read again", 40*time.Second, func() error {
			if n := d.Committed(); n != all {
				return fmt.Errorf("offsets sum to %d of %d", n, all)
			}
			return nil
		})
		waitDone(d, orders)
		if calls, acts := len(o.seen()), o.acts(); calls != orders || acts != orders {
			t.Errorf("%s: %d calls and %d acts, want %d", what, calls, acts, orders)
		}
		if n := d.Count("SELECT count(*) FROM order_transitions"); n != 2*orders {
			t.Errorf("%s: %d transitions, want %d as before", what, n, 2*orders)
		}
		if n := len(d.Records(kafka.Status)); n != published {
			t.Errorf("%s: %d status messages, want %d as before", what, n, published)
		}
	}
	earliest := []string{"--topic", topic, "--to-earliest"}
	replay("from the first offset", env, earliest...)
	replay("from a time", env, "--topic", topic, "--to-datetime", half.Format("2006-01-02T15:04:05.000"))
	replay("one partition from 0", env, "--topic", topic+":1", "--to-offset", "0")
	d.Exec(`DELETE FROM processed_events WHERE get_byte(uuid_send(key), 15) % 2 = 0`)
	replay("with half of the ledger gone", env, earliest...)
	d.Exec(`DELETE FROM processed_events`)
	other := o.declare(", delay: 1ms") // another version of the rules
	replay("by a processor of other rules", other, earliest...)
	o.same()
}

// O42 and O43 on the whole: what is not done stays visible, and once a person has it
// sent again it goes out under the same key.
func TestWhatFailsIsAPersonsAndGoesOutAgainUnderItsKey(t *testing.T) { // O42, O43
	d, o := harness.New(t, 1), newOutside(t)
	var refuse sync.Once
	answers := make(chan int, 1)
	answers <- http.StatusFound
	login := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { refuse.Do(func() { t.Error("the login page was asked") }) }))
	t.Cleanup(login.Close)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case code, ok := <-answers:
			if ok {
				w.Header().Set("Location", login.URL)
				w.WriteHeader(code)
				return
			}
		default:
		}
		if strings.HasSuffix(r.URL.Path, "/orders") {
			o.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(front.Close)
	right := o.server.URL
	o.server.URL = front.URL
	env := o.declare(", attempts: 2")
	o.server.URL = right
	ingress, merchant := d.Start("ingress"), d.Start("merchant", env...)
	d.Start("processor", env...)
	d.Start("relay", env...)

	pay(d, ingress, merchant, "V-1") // a redirect, and then it is taken
	waitDone(d, 1)
	if n := d.Count("SELECT count(*) FROM effect_attempts WHERE attempt = 1 AND status = 302 AND class = 'redirect'"); n != 1 {
		t.Errorf("the redirect is not among the attempts")
	}
	answers <- http.StatusUnprocessableEntity
	pay(d, ingress, merchant, "V-2")
	harness.Eventually(t, "the refused effect is a review item", 30*time.Second, func() error {
		if n := d.Count("SELECT count(*) FROM review_items WHERE kind = 'effect_failed' AND settled_at IS NULL"); n != 1 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	again := harness.Start(t, append(d.Env(), env...), "effects", "send-again", "--failed", "fulfil", "--reason", "the receiver is mended", "--as", "ann")
	if code := again.Wait(30 * time.Second); code != 0 {
		t.Fatalf("send-again ended with %d: %s", code, again.Output())
	}
	waitDone(d, 2)
	if n := d.Count("SELECT count(*) FROM effect_attempts a JOIN effects e USING (key) WHERE e.attempt = 2"); n != 4 || o.acts() != 2 {
		t.Errorf("%d attempts of two effects, %d acts; want 4 and 2", n, o.acts())
	}
}

package integration

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"sluice/integration/harness"
	"sluice/integration/proxy"
	"sluice/pkg/kafka"
)

// A kill between each two steps of the path: received / stored by Kafka /
// answered / applied / committed in the database / offset committed / published /
// marked. Each time the books add up and everything is there once (cases O24,
// O30, O33, O41).

func wait(t *testing.T, held <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-held:
	case <-time.After(30 * time.Second):
		t.Fatalf("not within 30 s: %s", what)
	}
}

func TestKilledAfterKafkaStoredItAndBeforeTheAnswer(t *testing.T) {
	d := harness.New(t, 0)
	ingress, merchant := d.Start("ingress"), d.Start("merchant")
	d.Register(merchant, "K-1", 300)
	w := harness.Stripe(harness.Intent("evt_k1", "succeeded", "K-1", "pi_k1", 300, time.Now()))

	held, release := d.Proxy.HoldResponses(proxy.Produce)
	answer := make(chan int, 1)
	go func() { answer <- d.Post(ingress, w) }()
	wait(t, held, "the produce is answered by the broker")
	ingress.Kill()
	if got := <-answer; got == http.StatusOK {
		t.Fatalf("answered 200 before the broker's answer arrived")
	}
	d.Proxy.Cut()
	release()
	d.Proxy.Restore()

	// The provider sends it again.
	d.Accept(d.Start("ingress"), w)
	if n := len(d.Records(kafka.Raw)); n != 2 {
		t.Errorf("%d records in the raw topic, want the lost answer's and the repeat's", n)
	}
	d.Start("processor")
	d.Start("relay")
	d.Becomes("K-1", "paid")
	d.Sound([]string{"evt_k1"})
	if _, v := d.Order("K-1"); v != 2 {
		t.Errorf("the order is at version %d, want 2", v)
	}
}

func TestKilledBeforeKafkaStoredItIsNotAnswered(t *testing.T) {
	d := harness.New(t, 0)
	ingress := d.Start("ingress")
	held, release := d.Proxy.HoldRequests(proxy.Produce)
	answer := make(chan int, 1)
	go func() {
		answer <- d.Post(ingress, harness.Stripe(harness.Intent("evt_k2", "succeeded", "K-2", "pi_k2", 300, time.Now())))
	}()
	wait(t, held, "the produce is on its way")
	ingress.Kill()
	if got := <-answer; got == http.StatusOK {
		t.Fatalf("answered 200 for a record the broker never saw")
	}
	d.Proxy.Cut()
	release()
	d.Proxy.Restore()
	if n := len(d.Records(kafka.Raw)); n != 0 {
		t.Errorf("%d records in the raw topic, want none", n)
	}
}

// Case O24 and the first run of O33: the row is locked by the test, so that the
// batch is under way and cannot commit.
func TestKilledInTheMiddleOfItsTransactionAppliesEverythingOnce(t *testing.T) {
	d := harness.New(t, 1)
	ingress, merchant := d.Start("ingress"), d.Start("merchant")
	var ids []string
	for i := range 20 {
		id := fmt.Sprintf("M-%d", i)
		d.Register(merchant, id, 400)
	}
	locker := harness.Lock(t, d, "SELECT 1 FROM orders WHERE order_id = 'M-0' FOR UPDATE")
	processor := d.Start("processor")
	for i := range 20 {
		id := fmt.Sprintf("evt_m%d", i)
		ids = append(ids, id)
		d.Accept(ingress, harness.Stripe(harness.Intent(id, "succeeded", fmt.Sprintf("M-%d", i), fmt.Sprintf("pi_m%d", i), 400, time.Now())))
	}
	harness.Eventually(t, "the processor waits for the locked order", 20*time.Second, func() error {
		if d.Count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 0 {
			return fmt.Errorf("nobody waits")
		}
		return nil
	})
	processor.Kill()
	locker.Release()
	if committed, applied := d.Committed(), d.Count("SELECT count(*) FROM processed_events"); committed > applied {
		t.Errorf("offset %d is committed, %d events are applied", committed, applied)
	}

	d.Start("processor")
	d.Start("relay")
	for i := range 20 {
		d.Becomes(fmt.Sprintf("M-%d", i), "paid")
	}
	d.Sound(ids)
	if n := d.Count("SELECT count(*) FROM order_transitions"); n != 40 {
		t.Errorf("%d transitions, want 40: pending and paid for each", n)
	}
}

func TestKilledAfterTheDatabaseAndBeforeTheOffsetAppliesEverythingOnce(t *testing.T) {
	d := harness.New(t, 2)
	ingress, merchant := d.Start("ingress"), d.Start("merchant")
	held, release := d.Proxy.HoldRequests(proxy.OffsetCommit)
	processor := d.Start("processor")
	d.Register(merchant, "C-1", 600)
	d.Accept(ingress, harness.Stripe(harness.Intent("evt_c1", "succeeded", "C-1", "pi_c1", 600, time.Now())))
	d.Becomes("C-1", "paid")
	wait(t, held, "the offset is on its way")
	processor.Kill()
	d.Proxy.Cut()
	release()
	d.Proxy.Restore()
	if n := d.Committed(); n != 0 {
		t.Fatalf("offset %d is committed, the test wanted none", n)
	}

	d.Start("processor")
	d.Start("relay")
	d.Sound([]string{"evt_c1"})
	if _, v := d.Order("C-1"); v != 2 {
		t.Errorf("the order is at version %d, want 2: the repeat changed something", v)
	}
}

// Case O41: the relay is killed, or frozen until another has taken over, at each
// step of the transaction that publishes: every message is on the topic once.
func TestARelayThatEndsAnywhereInItsTransactionPublishesOnce(t *testing.T) {
	for name, hold := range map[string]func(*proxy.Proxy) (<-chan struct{}, func()){
		"before the broker has the messages": func(p *proxy.Proxy) (<-chan struct{}, func()) { return p.HoldRequests(proxy.Produce) },
		"before the news that it has them":   func(p *proxy.Proxy) (<-chan struct{}, func()) { return p.HoldResponses(proxy.Produce) },
		"before the commit":                  func(p *proxy.Proxy) (<-chan struct{}, func()) { return p.HoldRequests(proxy.EndTxn) },
		"before the news of the commit":      func(p *proxy.Proxy) (<-chan struct{}, func()) { return p.HoldResponses(proxy.EndTxn) },
	} {
		orders := func(d *harness.Deployment, merchant *harness.Process) {
			for i := range 10 {
				d.Register(merchant, fmt.Sprintf("R-%d", i), 100)
			}
		}
		t.Run("killed "+name, func(t *testing.T) {
			d := harness.New(t, 0)
			merchant := d.Start("merchant")
			held, release := hold(d.Proxy)
			relay := d.Start("relay")
			orders(d, merchant)
			wait(t, held, "the relay is at the step")
			if n := d.Count("SELECT count(*) FROM relay_shards WHERE cursor > 0"); n != 0 {
				t.Errorf("%d shards are marked before Kafka's answer came", n)
			}
			relay.Kill()
			d.Proxy.Cut()
			release()
			d.Proxy.Restore()
			d.Start("relay")
			d.Start("processor")
			d.Sound(nil)
		})
		t.Run("frozen "+name, func(t *testing.T) {
			d := harness.New(t, 0)
			merchant := d.Start("merchant")
			held, release := hold(d.Proxy)
			frozen := d.Start("relay")
			orders(d, merchant)
			wait(t, held, "the relay is at the step")
			frozen.Pause()
			release()
			d.Start("relay")
			d.Start("processor")
			d.Sound(nil)
			frozen.Resume()
			d.Register(merchant, "R-after", 100)
			d.Sound(nil)
		})
	}
}

func TestKilledOverAndOverWhileEventsComeInLosesAndRepeatsNothing(t *testing.T) {
	d := harness.New(t, 4)
	ingress, merchant := d.Start("ingress"), d.Start("merchant")
	processor, relay := d.Start("processor"), d.Start("relay")
	const orders = 120
	var accepted []string
	base := time.Now().Add(-time.Hour)
	for i := range orders {
		id, pi := fmt.Sprintf("L-%d", i), fmt.Sprintf("pi_l%d", i)
		if i%2 == 0 {
			d.Register(merchant, id, 800)
		}
		for _, w := range []struct {
			id   string
			body []byte
		}{
			{"evt_lr" + id, harness.RefundTotal("evt_lr"+id, id, pi, 800, 800, base.Add(2*time.Minute))},
			{"evt_lf" + id, harness.Intent("evt_lf"+id, "payment_failed", id, pi, 800, base)},
			{"evt_lp" + id, harness.Intent("evt_lp"+id, "succeeded", id, pi, 800, base.Add(time.Minute))},
			{"evt_lp" + id, harness.Intent("evt_lp"+id, "succeeded", id, pi, 800, base.Add(time.Minute))},
		} {
			// Like a provider: until it is answered 2xx.
			harness.Eventually(t, "event "+w.id+" is accepted", 30*time.Second, func() error {
				if got := d.Post(ingress, harness.Stripe(w.body)); got != http.StatusOK {
					return fmt.Errorf("answered %d", got)
				}
				return nil
			})
			accepted = append(accepted, w.id)
		}
		if i%2 == 1 {
			d.Register(merchant, id, 800)
		}
		switch i % 30 {
		case 7:
			processor.Kill()
			processor = d.Begin("processor")
		case 15:
			relay.Kill()
			relay = d.Begin("relay")
		case 23:
			ingress.Kill()
			ingress = d.Start("ingress")
		}
	}
	for i := range orders {
		d.Becomes(fmt.Sprintf("L-%d", i), "refunded")
	}
	d.Sound(accepted)
}

package integration

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/integration/harness"
	"sluice/integration/proxy"
	"sluice/pkg/kafka"
)

func stripe(i int) (string, harness.Webhook) {
	id := fmt.Sprintf("evt_%d", i)
	return id, harness.Stripe(harness.Intent(id, "succeeded", fmt.Sprintf("order-%d", i), fmt.Sprintf("pi_%d", i), 100, time.Now()))
}

// Case O30: 2xx is a promise of durability.
func TestWhileTheBrokerIsAwayNothingIsAccepted(t *testing.T) {
	d := harness.New(t, 0)
	ingress := d.Start("ingress")
	d.Proxy.Cut()
	sent := make([]harness.Webhook, 20)
	var wg sync.WaitGroup
	for i := range sent {
		_, sent[i] = stripe(i)
		wg.Go(func() {
			at := time.Now()
			if got := d.Post(ingress, sent[i]); got != http.StatusServiceUnavailable {
				t.Errorf("answered %d while the broker is away, want 503", got)
			}
			if took := time.Since(at); took > 5*time.Second {
				t.Errorf("the answer took %s; the strictest provider gives up after 5 s", took)
			}
		})
	}
	wg.Wait()
	if ingress.IsReady() == nil {
		t.Errorf("ingress says it is ready while the broker is away")
	}
	d.Proxy.Restore()
	ingress.Ready()
	var accepted []string
	for i, w := range sent {
		d.Accept(ingress, w)
		accepted = append(accepted, fmt.Sprintf("evt_%d", i))
	}
	d.Start("processor")
	d.Sound(accepted)
	if n := d.Count("SELECT count(*) FROM processed_events"); n != 20 {
		t.Errorf("%d processed events, want 20: each once, however often it was sent", n)
	}
}

// Case O31: a record's life does not hang on one caller's connection.
func TestClientsThatHangUpHurtNobody(t *testing.T) {
	d := harness.New(t, 1)
	ingress := d.Start("ingress")
	d.Proxy.DelayResponses(proxy.Produce, 2*time.Second)
	var (
		wg       sync.WaitGroup
		accepted sync.Map
		again    sync.Map // answered 503: to be sent again
	)
	for i := range 200 {
		id, w := stripe(i)
		wg.Go(func() {
			if i%2 == 0 {
				hangUp(t, ingress.Address, w)
				return
			}
			// A broker this slow may have the door shut for a while, as for any provider.
			switch got := d.Post(ingress, w); got {
			case http.StatusOK:
				accepted.Store(id, true)
			case http.StatusServiceUnavailable:
				again.Store(id, w)
			default:
				t.Errorf("a patient client was answered %d, want 200 or 503", got)
			}
		})
	}
	wg.Wait()
	d.Proxy.DelayResponses(proxy.Produce, 0)
	again.Range(func(id, w any) bool {
		harness.Eventually(t, "a patient client is served", 20*time.Second, func() error {
			if got := d.Post(ingress, w.(harness.Webhook)); got != http.StatusOK {
				return fmt.Errorf("answered %d", got)
			}
			return nil
		})
		accepted.Store(id, true)
		return true
	})
	d.Accept(ingress, func() harness.Webhook { _, w := stripe(1000); return w }())
	ids := []string{"evt_1000"}
	accepted.Range(func(k, _ any) bool { ids = append(ids, k.(string)); return true })
	d.Start("processor")
	d.Sound(ids)
}

// hangUp sends the whole request and resets the connection at once.
func hangUp(t *testing.T, address string, w harness.Webhook) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Errorf("dial ingress: %v", err)
		return
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	_, _ = fmt.Fprintf(c, "POST /webhooks/%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", w.Endpoint, len(w.Body))
	_ = w.Header.Write(c)
	_, _ = fmt.Fprintf(c, "\r\n%s", w.Body)
	_ = c.Close()
}

// Case O48: most processes end by a deploy.
func TestStoppingUnderLoadLosesNoAcceptedEvent(t *testing.T) {
	d := harness.New(t, 0)
	staying := d.Start("ingress")
	processor := d.Start("processor")
	d.Start("relay")
	d.Proxy.DelayResponses(proxy.Produce, 300*time.Millisecond)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var (
		wg       sync.WaitGroup
		n        atomic.Int64
		target   atomic.Pointer[harness.Process]
		accepted sync.Map
	)
	target.Store(staying)
	for range 32 {
		wg.Go(func() {
			for ctx.Err() == nil {
				id, w := stripe(int(n.Add(1)))
				for _, p := range []*harness.Process{target.Load(), staying} { // a balancer tries the other one
					if status, _ := w.Post(context.Background(), d.HTTP, p.Address); status == http.StatusOK {
						accepted.Store(id, true)
						break
					}
				}
			}
		})
	}
	for range 3 {
		p := d.Start("ingress")
		target.Store(p)
		before := n.Load()
		harness.Eventually(t, "traffic flows", 20*time.Second, func() error {
			if n.Load() < before+100 {
				return fmt.Errorf("%d requests", n.Load()-before)
			}
			return nil
		})
		if code := p.Stop(); code != 0 {
			t.Errorf("a drained ingress ended with %d, want 0\n%s", code, p.Output())
		}
		if code := processor.Stop(); code != 0 {
			t.Errorf("a drained processor ended with %d, want 0\n%s", code, processor.Output())
		}
		processor = d.Start("processor")
	}
	cancel()
	wg.Wait()
	d.Proxy.DelayResponses(proxy.Produce, 0)
	var ids []string
	accepted.Range(func(k, _ any) bool { ids = append(ids, k.(string)); return true })
	if len(ids) < 300 {
		t.Errorf("only %d events were accepted; the test wanted load", len(ids))
	}
	d.Sound(ids)
}

// Case O48: with Kafka down the exit is bounded, and a second signal ends at once.
func TestStoppingWithoutABrokerIsBounded(t *testing.T) {
	d := harness.New(t, 0)
	ingress, processor, relay := d.Start("ingress"), d.Start("processor"), d.Start("relay")
	d.Proxy.Cut()
	go func() { _, w := stripe(1); d.Post(ingress, w) }()
	for _, p := range []*harness.Process{ingress, processor, relay} {
		p.Signal(syscall.SIGTERM)
	}
	for _, p := range []*harness.Process{ingress, processor, relay} {
		p.Wait(35 * time.Second)
	}
	waiting := d.Begin("ingress") // never gets ready: waits for Kafka, and says so
	harness.Eventually(t, "it says for what it waits", 20*time.Second, func() error {
		if out := waiting.Output(); !strings.Contains(out, "Kafka") {
			return fmt.Errorf("it does not name Kafka: %q", out)
		}
		return nil
	})
	waiting.Signal(syscall.SIGTERM)
	waiting.Wait(10 * time.Second)
}

// Cases O34, O28: one order's events on many partitions, three processors, and
// the partition with the payments read last.
func TestAnOrdersEventsOnManyPartitionsEndInTheRightStatus(t *testing.T) {
	d := harness.New(t, 12)
	ingress, merchant := d.Start("ingress"), d.Start("merchant")
	for range 3 {
		d.Start("processor")
	}
	d.Start("relay")
	base := time.Now().Add(-time.Hour)
	const orders = 60
	for i := range orders {
		d.Register(merchant, fmt.Sprintf("P-%d", i), 500)
	}
	// The payments of half of the orders are held up by their locked rows.
	locker := harness.Lock(t, d, "SELECT 1 FROM orders WHERE order_no % 2 = 0 ORDER BY order_no FOR UPDATE")
	var accepted []string
	for i := range orders {
		id, pi := fmt.Sprintf("P-%d", i), fmt.Sprintf("pi_p%d", i)
		for _, e := range []struct {
			id   string
			body []byte
		}{
			{"a" + id, harness.RefundTotal("a"+id, id, pi, 500, 500, base.Add(3*time.Minute))},
			{"b" + id, harness.Intent("b"+id, "succeeded", id, pi, 500, base.Add(time.Minute))},
			{"c" + id, harness.RefundTotal("c"+id, id, pi, 500, 200, base.Add(2*time.Minute))},
			{"d" + id, harness.Intent("d"+id, "payment_failed", id, "x"+pi, 500, base)},
		} {
			d.Accept(ingress, harness.Stripe(e.body))
			accepted = append(accepted, e.id)
		}
	}
	locker.Release()
	for i := range orders {
		d.Becomes(fmt.Sprintf("P-%d", i), "refunded")
	}
	d.Sound(accepted)
	used := map[int32]bool{}
	for _, r := range d.Records(kafka.Raw) {
		used[r.Partition] = true
	}
	if len(used) < 12 {
		t.Errorf("the events lie on %d partitions, the test wanted 12", len(used))
	}
}

package ingress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/pkg/kafka"
	"sluice/pkg/testkit"
)

// broker is an in-process broker with all topics, for faults on demand.
func broker(t *testing.T) (*kfake.Cluster, kafka.Config) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cfg := kafka.Config{Brokers: c.ListenAddrs()}
	if _, err := kafka.EnsureTopics(t.Context(), cfg, quiet, kafka.EnsureOptions{}); err != nil {
		t.Fatal(err)
	}
	return c, cfg
}

// startOn runs a whole ingress on brokers.
func startOn(t testing.TB, cfg Config, brokers kafka.Config) *running {
	t.Helper()
	reg := prometheus.NewRegistry()
	in, err := New(t.Context(), cfg, brokers, endpoints(t), quiet, reg)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, in, reg)
}

// hold keeps every produce answer back until release is closed.
func hold(c *kfake.Cluster, release <-chan struct{}) {
	c.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		c.SleepControl(func() { <-release })
		return nil, nil, false
	})
}

// rawIDs counts the keys that lie in the raw topic, once all of want are there.
func rawIDs(t testing.TB, cfg kafka.Config, want []string) map[string]int {
	t.Helper()
	cl := testkit.Client(t, cfg, kgo.ConsumeTopics(cfg.Topic(kafka.Raw)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	got := map[string]int{}
	missing := func() (n int) {
		for _, id := range want {
			if got[id] == 0 {
				n++
			}
		}
		return n
	}
	ctx := t.Context()
	deadline := time.Now().Add(10 * time.Second)
	for missing() > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d ids are not in the raw topic", missing(), len(want))
		}
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { got[string(r.Key)]++ })
	}
	return got
}

// O30: whatever is wrong with the brokers, nothing is called taken, the answer
// comes in time, readiness goes, and the providers' retries all arrive.
func TestNo2xxWithoutAcknowledgement(t *testing.T) {
	for name, f := range map[string]kfake.Fault{
		"min.insync.replicas not met": {Err: kerr.NotEnoughReplicas},
		"right to write taken away":   {Err: kerr.TopicAuthorizationFailed},
		"unknown server error":        {Err: kerr.UnknownServerError},
		"leader moves for ever":       {Err: kerr.NotLeaderForPartition},
	} {
		t.Run(name, func(t *testing.T) {
			c, brokers := broker(t)
			cfg := config()
			cfg.Deadline = time.Second
			r := startOn(t, cfg, brokers)
			f.Keys, f.Count = []kmsg.Key{kmsg.Produce}, -1
			fault := c.Fault(f)
			var ids []string
			var wg sync.WaitGroup
			for i := range 20 {
				id := fmt.Sprint("evt_", i)
				ids = append(ids, id)
				wg.Go(func() {
					begin := time.Now()
					want(t, id, r.send(paid(id)), 503)
					if took := time.Since(begin); took > cfg.Deadline+time.Second {
						t.Errorf("%s: answered after %v", id, took)
					}
				})
			}
			wg.Wait()
			until(t, "not ready", func() bool { // refusals shut the gate after half a second of them
				_ = r.send(paid("evt_x"))
				return r.Ready() != nil
			})
			fault.Remove()
			for _, id := range ids {
				until(t, id+" is taken", func() bool { return r.send(paid(id)) == 200 })
			}
			rawIDs(t, brokers, ids)
			if err := r.Ready(); err != nil {
				t.Error(err)
			}
		})
	}
}

// O31: clients that hang up neither cancel a record nor count as the brokers' fault.
func TestAClientThatHangsUpHarmsNobody(t *testing.T) {
	c, brokers := broker(t)
	r := startOn(t, config(), brokers)
	release := make(chan struct{})
	hold(c, release)
	var wg sync.WaitGroup
	var ids, gone []string
	var conns []net.Conn
	for i := range 25 { // interleaved, so that some are first in a batch
		body := paid(fmt.Sprint("evt_gone_", i))
		conn := r.dial()
		_, _ = fmt.Fprintf(conn, "POST /webhooks/shop HTTP/1.1\r\nHost: x\r\nStripe-Signature: %s\r\nContent-Length: %d\r\n\r\n%s", sign(t, time.Now(), body)["Stripe-Signature"], len(body), body)
		conns, gone = append(conns, conn), append(gone, fmt.Sprint("evt_gone_", i))
		id := fmt.Sprint("evt_", i)
		ids = append(ids, id)
		wg.Go(func() { // a slow machine may take so long that the gate shuts; then a provider sends again
			until(t, id+" is taken", func() bool { return r.send(paid(id)) == 200 })
		})
	}
	until(t, "some are held", func() bool { return r.inFlight.Load() >= 10 })
	for _, conn := range conns {
		_ = conn.(*net.TCPConn).SetLinger(0) // RST
		_ = conn.Close()
	}
	close(release)
	wg.Wait()
	until(t, "all handlers end", func() bool { return r.inFlight.Load() == 0 })
	got := rawIDs(t, brokers, ids)
	for id, n := range got {
		if n != 1 {
			t.Errorf("%s is there %d times", id, n)
		}
	}
	if len(got) == len(ids) {
		t.Errorf("none of %d hung-up events came through: the test showed nothing", len(gone))
	}
	want(t, "afterwards", r.send(paid("evt_after")), 200)
	if n := r.counted("shop", unavailable, "deadline") + r.counted("shop", unavailable, "refused"); n != 0 {
		t.Errorf("%v hang-ups were counted as the brokers' fault", n)
	}
}

// O32: a body that no record can hold is the sender's affair, and his alone.
func TestALargeBodyAmongSmallOnesIsRefusedAlone(t *testing.T) {
	_, brokers := broker(t)
	r := startOn(t, config(), brokers)
	var wg sync.WaitGroup
	var ids []string
	for i := range 50 {
		id := fmt.Sprint("evt_", i)
		ids = append(ids, id)
		wg.Go(func() { want(t, id, r.send(paid(id)), 200) })
	}
	wg.Go(func() { want(t, "1.5 MiB", r.send(padded("evt_large", 1536<<10)), 413) })
	wg.Go(func() { want(t, "the limit", r.send(padded("evt_limit", kafka.MaxBody)), 200) })
	wg.Wait()
	rawIDs(t, brokers, append(ids, "evt_limit"))
}

// O48: what is in flight is finished and flushed, in this order, and nobody new is taken.
func TestAStopFinishesRequestsAndFlushes(t *testing.T) {
	c, brokers := broker(t)
	var log testkit.Buffer
	reg := prometheus.NewRegistry()
	in, err := New(t.Context(), config(), brokers, endpoints(t), testLog(&log), reg)
	if err != nil {
		t.Fatal(err)
	}
	r := serve(t, in, reg)
	want(t, "before", r.send(paid("evt_before")), 200)
	release := make(chan struct{})
	hold(c, release)
	var wg sync.WaitGroup
	ids := []string{"evt_before"}
	for i := range 10 {
		id := fmt.Sprint("evt_", i)
		ids = append(ids, id)
		wg.Go(func() { want(t, id, r.send(paid(id)), 200) })
	}
	until(t, "they are held", func() bool { return r.inFlight.Load() == 10 })
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	until(t, "not ready", func() bool { return r.Ready() != nil })
	until(t, "nobody new is taken", func() bool {
		conn, err := net.Dial("tcp", r.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	close(release)
	wg.Wait()
	if err := <-stopped; err != nil {
		t.Errorf("the drain was not clean: %v", err)
	}
	rawIDs(t, brokers, ids)
	at := -1
	for _, step := range []string{"not ready any more", "accepting no more", "flushing the producer"} {
		i := strings.Index(log.String(), step)
		if i <= at {
			t.Errorf("%q is not in its place:\n%s", step, log.String())
		}
		at = i
	}
}

// O48: a load balancer hears of the stop before anything is refused.
func TestAStopIsToldBeforeItIsDone(t *testing.T) {
	cfg := config()
	cfg.Unready = time.Second
	p := &fakeProducer{}
	r := start(t, cfg, p)
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	until(t, "not ready", func() bool { return r.Ready() != nil })
	want(t, "between", r.send(paid("evt_1")), 200)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if len(p.all()) != 1 || !p.closed {
		t.Error("the producer was not closed, or the record is missing")
	}
}

// O48: with Kafka away the end is bounded, and it is not called clean.
func TestAStopWithoutKafkaIsBoundedAndNotClean(t *testing.T) {
	c, brokers := broker(t)
	cfg := config()
	cfg.Deadline, cfg.Drain = 300*time.Millisecond, 600*time.Millisecond
	r := startOn(t, cfg, brokers)
	release := make(chan struct{})
	defer close(release)
	hold(c, release)
	want(t, "held", r.send(paid("evt_1")), 503)
	begin := time.Now()
	if err := r.stop(); err == nil || !strings.Contains(err.Error(), "flush 1 records") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// No log line, at any level, holds a secret, a body or a header's value.
func TestNothingConfidentialIsLogged(t *testing.T) {
	c, brokers := broker(t)
	var log testkit.Buffer
	reg := prometheus.NewRegistry()
	cfg := config()
	cfg.Deadline, cfg.Drain = 300*time.Millisecond, 300*time.Millisecond
	in, err := New(t.Context(), cfg, brokers, endpoints(t), testLog(&log), reg)
	if err != nil {
		t.Fatal(err)
	}
	r := serve(t, in, reg)
	secretBody := []byte(`{"id":"evt_cardholder","type":"x","created":1764500000,"livemode":true,"data":{"object":{"metadata":{"order_id":"ord_cardholder"}}}}`)
	signature := sign(t, time.Now(), secretBody)["Stripe-Signature"]
	want(t, "accepted", r.send(secretBody), 200)
	want(t, "unreadable", r.send([]byte("cardholder")), 200)
	want(t, "refused", r.post("/webhooks/shop", map[string]string{"Stripe-Signature": signature + "0"}, secretBody), 401)
	_, _ = io.WriteString(r.dial(), "cardholder\r\n\r\n")
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	want(t, "unavailable", r.send(secretBody), 503)
	_ = r.stop()
	for _, confidential := range []string{"cardholder", secretValue, signature[12:]} {
		if strings.Contains(log.String(), confidential) {
			t.Errorf("the log holds %q:\n%s", confidential, log.String())
		}
	}
}

// O48: a stop while Kafka is away at the start ends at once; until then it says
// for what it waits.
func TestAStopDuringTheStartIsPrompt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // an address where nobody answers
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	var log testkit.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := New(ctx, config(), kafka.Config{Brokers: []string{l.Addr().String()}}, endpoints(t), testLog(&log), prometheus.NewRegistry())
		done <- err
	}()
	until(t, "it says that it waits", func() bool { return strings.Contains(log.String(), "waiting for Kafka and its topic webhooks.raw.v1") })
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it still waits")
	}
}

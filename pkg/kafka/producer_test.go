package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/pkg/event"
)

var quiet = slog.New(slog.DiscardHandler)

// fakeBroker is an in-process broker with all topics, for faults that a real one
// cannot be made to show.
func fakeBroker(t *testing.T, opts ...kfake.Opt) (*kfake.Cluster, Config) {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cfg := Config{Brokers: c.ListenAddrs()}
	if _, err := EnsureTopics(t.Context(), cfg, quiet, EnsureOptions{}); err != nil {
		t.Fatal(err)
	}
	return c, cfg
}

func newProducer(t *testing.T, cfg Config) *Producer {
	t.Helper()
	p, err := NewProducer(t.Context(), cfg, "ingress", cfg.Topic(Raw), quiet, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = p.Close(ctx)
	})
	return p
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func record(key string, size int) Record {
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(rand.Uint32()) // incompressible
	}
	return Record{Key: []byte(key), Value: body, Headers: []event.Header{{Name: "ce_id", Value: []byte(key)}}}
}

// stored counts how often each key lies in the raw topic.
func stored(t *testing.T, cfg Config) map[string]int {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(cfg.Brokers...), kgo.ConsumeTopics(cfg.Topic(Raw)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), cfg.Topic(Raw))
	if err != nil {
		t.Fatal(err)
	}
	var want, got int64
	ends.Each(func(o kadm.ListedOffset) { want += o.Offset })
	keys := map[string]int{}
	for ctx := within(t, 10*time.Second); got < want; {
		fs := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("read %d of %d records: %v", got, want, err)
		}
		fs.EachRecord(func(r *kgo.Record) { got++; keys[string(r.Key)]++ })
	}
	return keys
}

func unavailable(t *testing.T, err error, reason string) {
	t.Helper()
	var u *Unavailable
	if !errors.Is(err, ErrUnavailable) || !errors.As(err, &u) || u.Reason != reason || u.RetryAfter < time.Second {
		t.Fatalf("got %v, want unavailable: %s", err, reason)
	}
}

// O30, O31: a held answer is never taken for a yes; the waiting ends at the
// caller's deadline, the record is still written once, and others behind it too.
func TestAHeldAcknowledgementEndsTheWaitNotTheRecord(t *testing.T) {
	c, cfg := fakeBroker(t)
	p := newProducer(t, cfg)
	if err := p.Produce(within(t, 5*time.Second), record("evt_before", 10)); err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	c.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		c.SleepControl(func() { <-release })
		return nil, nil, false
	})
	hungUp, cancel := context.WithCancel(t.Context())
	cancel()
	unavailable(t, p.Produce(hungUp, record("evt_hung_up", 10)), "deadline")
	unavailable(t, p.Produce(within(t, 700*time.Millisecond), record("evt_held", 10)), "deadline")

	begin := time.Now()
	unavailable(t, func() error { // the first after 500 ms is a probe
		_ = p.Produce(hungUp, record("evt_probe", 10))
		return p.Produce(within(t, 5*time.Second), record("evt_refused", 10))
	}(), "shut")
	if took := time.Since(begin); took > 250*time.Millisecond {
		t.Errorf("a refusal took %v", took)
	}
	if p.Ready() == nil {
		t.Error("ready while acknowledgements are overdue")
	}
	close(release)
	until(t, func() bool { return p.Ready() == nil })
	if err := p.Produce(within(t, 5*time.Second), record("evt_after", 10)); err != nil {
		t.Fatal(err)
	}
	got := stored(t, cfg)
	for _, key := range []string{"evt_before", "evt_hung_up", "evt_held", "evt_probe", "evt_after"} {
		if got[key] != 1 {
			t.Errorf("%s is there %d times", key, got[key])
		}
	}
	if got["evt_refused"] != 0 {
		t.Error("a record refused by the gate was written")
	}
}

func until(t *testing.T, ok func() bool) {
	t.Helper()
	ctx := within(t, 15*time.Second)
	for tick := time.Tick(5 * time.Millisecond); !ok(); {
		select {
		case <-tick:
		case <-ctx.Done():
			t.Fatal("condition did not come true")
		}
	}
}

// O30: min.insync.replicas not met.
func TestNotEnoughReplicasIsNoAcknowledgement(t *testing.T) {
	c, cfg := fakeBroker(t)
	p := newProducer(t, cfg)
	f := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	unavailable(t, p.Produce(within(t, 700*time.Millisecond), record("evt_1", 10)), "deadline")
	if p.Ready() == nil {
		t.Error("ready without enough replicas")
	}
	f.Remove()
	until(t, func() bool { return p.Ready() == nil })
	if err := p.Produce(within(t, 5*time.Second), record("evt_2", 10)); err != nil {
		t.Fatal(err)
	}
	if got := stored(t, cfg); got["evt_1"] != 1 || got["evt_2"] != 1 {
		t.Errorf("stored %v", got)
	}
}

// O30: the right to write was taken away: refused at once, an outage all the same.
func TestALostRightToWriteIsUnavailable(t *testing.T) {
	c, cfg := fakeBroker(t)
	p := newProducer(t, cfg)
	f := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	unavailable(t, p.Produce(within(t, 5*time.Second), record("evt_1", 10)), "refused")
	until(t, func() bool {
		_ = p.Produce(within(t, 5*time.Second), record("evt_x", 10))
		return p.Ready() != nil
	})
	f.Remove()
	until(t, func() bool { return p.Produce(within(t, 5*time.Second), record("evt_2", 10)) == nil })
	if err := p.Ready(); err != nil {
		t.Error(err)
	}
}

// O30: the topic is missing, at the start and later.
func TestAMissingTopicIsSaidAtTheStartAndUnavailableLater(t *testing.T) {
	_, cfg := fakeBroker(t)
	other := cfg
	other.TopicPrefix = "nowhere."
	if _, err := NewProducer(t.Context(), other, "ingress", other.Topic(Raw), quiet, prometheus.NewRegistry()); err == nil || !strings.Contains(err.Error(), "sluice migrate") || !strings.Contains(err.Error(), "nowhere.webhooks.raw.v1") {
		t.Fatalf("got %v", err)
	}
	p := newProducer(t, cfg)
	cl, err := kgo.NewClient(kgo.SeedBrokers(cfg.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).DeleteTopic(t.Context(), Raw); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return p.Ready() != nil }) // seen without any traffic
	if err := p.Produce(within(t, time.Second), record("evt_1", 10)); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
}

// O32: one large record among small ones, each in the same millisecond.
func TestATooLargeRecordDoesNotTakeItsNeighboursAlong(t *testing.T) {
	_, cfg := fakeBroker(t)
	p := newProducer(t, cfg)
	results := make(map[string]error)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 51 {
		key, size := fmt.Sprintf("evt_%d", i), 200
		if i == 25 {
			key, size = "evt_large", 1500<<10
		}
		wg.Go(func() {
			err := p.Produce(within(t, 5*time.Second), record(key, size))
			mu.Lock()
			defer mu.Unlock()
			results[key] = err
		})
	}
	wg.Wait()
	got := stored(t, cfg)
	for key, err := range results {
		if key == "evt_large" {
			if !errors.Is(err, ErrTooLarge) || got[key] != 0 {
				t.Errorf("%s: %v, stored %d times", key, err, got[key])
			}
		} else if err != nil || got[key] != 1 {
			t.Errorf("%s: %v, stored %d times", key, err, got[key])
		}
	}
	if err := p.Produce(within(t, 5*time.Second), record("evt_limit", MaxBody)); err != nil {
		t.Errorf("a body of the documented limit: %v", err)
	}
}

// O32: the topic's limit was lowered behind our back.
func TestOnlyALargeRecordIsToldThatItIsTooLarge(t *testing.T) {
	c, cfg := fakeBroker(t)
	p := newProducer(t, cfg)
	f := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.MessageTooLarge, Count: -1})
	if err := p.Produce(within(t, 5*time.Second), record("evt_large", 600<<10)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("large: %v", err)
	}
	unavailable(t, p.Produce(within(t, 5*time.Second), record("evt_small", 100)), "refused")
	f.Remove()
	if err := p.Produce(within(t, 5*time.Second), record("evt_small", 100)); err != nil {
		t.Error(err)
	}
}

func TestATopicThatTakesLessThanABodyIsRefusedAtTheStart(t *testing.T) {
	_, cfg := fakeBroker(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(cfg.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	small := "1048588"
	if _, err := kadm.NewClient(cl).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: maxMessageKey, Value: &small}}, Raw); err != nil {
		t.Fatal(err)
	}
	_, err = NewProducer(t.Context(), cfg, "ingress", Raw, quiet, prometheus.NewRegistry())
	if err == nil || !strings.Contains(err.Error(), "max.message.bytes=1048588") {
		t.Fatalf("got %v", err)
	}
}

// O30: the broker dies and comes back on its data.
func TestABrokerThatDiesAndComesBackLosesAndDoublesNothing(t *testing.T) {
	dir := t.TempDir()
	c, cfg := fakeBroker(t, kfake.DataDir(dir))
	p := newProducer(t, cfg)
	if err := p.Produce(within(t, 5*time.Second), record("evt_before", 10)); err != nil {
		t.Fatal(err)
	}
	var port int
	if _, err := fmt.Sscanf(cfg.Brokers[0], "127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	c.Close()
	until(t, func() bool { return p.Ready() != nil }) // idle, and still seen
	for i := range 20 {
		if err := p.Produce(within(t, 50*time.Millisecond), record(fmt.Sprintf("evt_%d", i), 10)); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("got %v from a dead broker", err)
		}
	}
	again, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Close)
	for i := range 20 { // the provider sends all of them again
		key := fmt.Sprintf("evt_%d", i)
		until(t, func() bool { return p.Produce(within(t, time.Second), record(key, 10)) == nil })
	}
	got := stored(t, cfg)
	for i := range 20 { // once from the buffer at most, and once from the retry
		if n := got[fmt.Sprintf("evt_%d", i)]; n < 1 || n > 2 {
			t.Errorf("evt_%d is there %d times", i, n)
		}
	}
	if got["evt_before"] != 1 {
		t.Errorf("evt_before is there %d times", got["evt_before"])
	}
	if err := p.Ready(); err != nil {
		t.Error(err)
	}
}

// O48: with the broker away the end is bounded, and not called clean.
func TestCloseFlushesOrSaysWhatItGaveUp(t *testing.T) {
	c, cfg := fakeBroker(t)
	p := newProducer(t, cfg)
	release := make(chan struct{})
	c.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		c.SleepControl(func() { <-release })
		return nil, nil, false
	})
	defer close(release)
	unavailable(t, p.Produce(within(t, 50*time.Millisecond), record("evt_1", 10)), "deadline")
	if err := p.Close(within(t, 300*time.Millisecond)); err == nil || !strings.Contains(err.Error(), "1 record") {
		t.Fatalf("got %v", err)
	}
}

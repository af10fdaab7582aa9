package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/integration/harness"
	"sluice/pkg/kafka"
	"sluice/pkg/status"
	"sluice/pkg/testkit"
)

// pathRate is how many webhooks a second take the whole path.
const pathRate = 1_000

// wholePath measures from each webhook's 2xx to its status message's arrival at
// a consumer: ingress, processor and relay, a process each.
func wholePath(t *scope, o options, say progress) []row {
	d := harness.Direct(t, testkit.Kafka(t, 0))
	total := int(o.path.Seconds() * pathRate)
	orders := total / lifetime
	register(t, d, orders)
	processes := []*harness.Process{d.Start("ingress"), d.Start("processor"), d.Start("relay")}
	seen := follow(t, d)
	seen.wait(t, d, 0) // the registrations' own messages
	say("%s orders registered and published", thousands(int64(orders)))

	ds := stepByStep(orders)
	signed := requests(processes[0].Address, ds)
	await(t.Context(), o.patience)
	accepted := make([]time.Time, total)
	r, err := openLoop(processes[0].Address, 128, pathRate, o.path, func(n int) []byte { return signed[n] }, func(n int, at time.Time) { accepted[n] = at })
	if err != nil || r.Failures > 0 {
		t.Fatalf("%d webhooks failed: %v", r.Failures, err)
	}
	seen.wait(t, d, total)
	// An event that was overtaken by a later one of its order has no message of its own.
	var latencies []time.Duration
	for n, at := range accepted {
		if published, ok := seen.at[ds[n].eventID()]; ok {
			latencies = append(latencies, max(0, published.Sub(at)))
		}
	}
	slices.Sort(latencies)
	p50, p99 := quantile(latencies, .5), quantile(latencies, .99)
	say("%s webhooks, %s messages: p50 %s, p99 %s, longest %s", thousands(int64(total)), thousands(int64(len(latencies))),
		milliseconds(p50), milliseconds(p99), milliseconds(latencies[len(latencies)-1]))
	var memory int64
	for _, p := range processes {
		memory += p.PeakMemory()
	}
	return []row{{
		Measure: fmt.Sprintf("from 2xx to orders.status.v1, open loop, %s", persecond(pathRate)), Reached: persecond(r.rate()),
		Beside: "p99 " + milliseconds(r.quantile(.99)) + " to the 2xx", Ratio: fmt.Sprintf("%.1f", float64(p99)/float64(r.quantile(.99))),
		P50: p50, P99: p99, Memory: memory,
		Targets: []target{atMost("p50", float64(p50)/1e6, 25, "ms"), atMost("p99", float64(p99)/1e6, 150, "ms")},
	}}
}

// messages are what a consumer of the status topic saw: which ones, and when
// each event's first one came.
type messages struct {
	mu  sync.Mutex
	ids map[string]bool
	at  map[string]time.Time
}

// follow consumes the status topic from its beginning until t ends.
func follow(t *scope, d *harness.Deployment) *messages {
	m := &messages{ids: map[string]bool{}, at: map[string]time.Time{}}
	consumer := testkit.Client(t, d.Kafka, kgo.ConsumeTopics(d.Kafka.Topic(kafka.Status)),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		for ctx.Err() == nil {
			fetches := consumer.PollFetches(ctx)
			now := time.Now()
			m.mu.Lock()
			fetches.EachRecord(func(r *kgo.Record) {
				if message, err := status.Decode(r.Value); err == nil {
					m.ids[message.ID()] = true
					if _, ok := m.at[message.Cause.EventID]; !ok {
						m.at[message.Cause.EventID] = now
					}
				}
			})
			m.mu.Unlock()
		}
	}()
	return m
}

// wait waits until the processor has applied n events and every transition they
// made has been seen.
func (m *messages) wait(t *scope, d *harness.Deployment, n int) {
	harness.Eventually(t, "everything is published", time.Minute, func() error {
		if applied := d.Count("SELECT coalesce(sum(events), 0)::bigint FROM books"); applied < int64(n) {
			return fmt.Errorf("%d of %d events applied", applied, n)
		}
		made := d.Count("SELECT count(*) FROM order_transitions")
		m.mu.Lock()
		defer m.mu.Unlock()
		if int64(len(m.ids)) < made {
			return fmt.Errorf("%d of %d messages", len(m.ids), made)
		}
		return nil
	})
}

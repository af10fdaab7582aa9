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
	seen.wait(t, orders) // the registrations' own messages
	say("%s orders registered and published", thousands(int64(orders)))

	ds := stepByStep(orders)
	signed := requests(processes[0].Address, ds)
	await(t.Context(), o.patience)
	accepted := make([]time.Time, total)
	r, err := openLoop(processes[0].Address, 128, pathRate, o.path, func(n int) []byte { return signed[n] }, func(n int, at time.Time) { accepted[n] = at })
	if err != nil || r.Failures > 0 {
		t.Fatalf("%d webhooks failed: %v", r.Failures, err)
	}
	seen.wait(t, orders+total)
	var latencies []time.Duration
	for n, at := range accepted {
		latencies = append(latencies, max(0, seen.at[ds[n].eventID()].Sub(at)))
	}
	slices.Sort(latencies)
	p50, p99 := quantile(latencies, .5), quantile(latencies, .99)
	say("%s webhooks: p50 %s, p99 %s, longest %s", thousands(int64(total)), milliseconds(p50), milliseconds(p99), milliseconds(latencies[total-1]))
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

// messages are what a consumer of the status topic saw, by the event that
// caused each, and when.
type messages struct {
	mu sync.Mutex
	at map[string]time.Time
}

// follow consumes the status topic from its beginning until t ends.
func follow(t *scope, d *harness.Deployment) *messages {
	m := &messages{at: map[string]time.Time{}}
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
					m.at[message.Cause.EventID] = now
				}
			})
			m.mu.Unlock()
		}
	}()
	return m
}

// wait waits until n different events have caused a message.
func (m *messages) wait(t *scope, n int) {
	harness.Eventually(t, "everything is published", time.Minute, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.at) < n {
			return fmt.Errorf("%d of %d messages", len(m.at), n)
		}
		return nil
	})
}

package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"sluice/integration/harness"
	"sluice/pkg/kafka"
	"sluice/pkg/testkit"
)

// site is one ingress under load: without Kafka, or on one of the brokers.
type site struct {
	name    string
	process *harness.Process
	share   float64 // of the ceiling's throughput, to reach
}

// sites starts the three that are compared.
func sites(t *scope) []site {
	real := harness.Direct(t, testkit.Kafka(t, 0))
	dev := harness.Direct(t, devBroker(t))
	return []site{
		{"no Kafka", startCeiling(real), 1},
		{"development broker", dev.Start("ingress"), 0.70},
		{"Apache Kafka", real.Start("ingress"), 0.50},
	}
}

// devBroker starts the development broker on disk, with its topics.
func devBroker(t *scope) kafka.Config {
	address := harness.FreeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	harness.Start(t, nil, "broker", "--data-dir", t.TempDir(), "--port", port)
	cfg := kafka.Config{Brokers: []string{address}}
	harness.Eventually(t, "the development broker has its topics", 20*time.Second, func() error {
		_, err := kafka.EnsureTopics(t.Context(), cfg, slog.New(slog.DiscardHandler), kafka.EnsureOptions{Dev: true})
		return err
	})
	return cfg
}

// ingressThroughput holds ingress with durable acknowledgements against the same
// ingress without Kafka. The sites take turns and each round has a ratio of its
// own, so that a disturbed moment does not decide.
func ingressThroughput(t *scope, o options, say progress) (rows []row) {
	all := sites(t)
	for _, s := range all {
		flood(t, s, 64, o.warm) // Kafka's machine code gets faster, too
	}
	for _, clients := range []int{64, 256} {
		seen := make([][]result, len(all))
		ratios := make([][]float64, len(all))
		for round := range o.rounds {
			await(t.Context(), o.patience)
			for i, s := range all {
				before, own := s.process.CPU(), ownCPU()
				r := flood(t, s, clients, o.flood)
				each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(r.Requests) }
				seen[i] = append(seen[i], r)
				ratios[i] = append(ratios[i], r.rate()/seen[0][round].rate())
				say("round %d of %d, %d clients, %s: %s, p99 %s, ratio %.2f; CPU a webhook: %.0f µs, generator %.0f µs", round+1, o.rounds, clients, s.name,
					persecond(r.rate()), milliseconds(r.quantile(.99)), ratios[i][round], each(s.process.CPU()-before), each(ownCPU()-own))
			}
		}
		ceiling := median(seen[0])
		for i, s := range all[1:] {
			r, ratio := median(seen[i+1]), middle(ratios[i+1])
			rows = append(rows, row{
				Measure: fmt.Sprintf("ingress on %s, closed loop, %d clients", s.name, clients), Reached: persecond(r.rate()),
				Beside: persecond(ceiling.rate()) + " without Kafka", Ratio: fmt.Sprintf("%.2f", ratio),
				P50: r.quantile(.5), P99: r.quantile(.99), Memory: s.process.PeakMemory(),
				Targets: []target{atLeast("share of the ceiling", ratio, s.share, "")},
			})
		}
	}
	return rows
}

// flood is one round of closed-loop load with freshly signed webhooks.
func flood(t *scope, s site, clients int, d time.Duration) result {
	signed := requests(s.process.Address, stepByStep(distinct/lifetime))
	r, err := closedLoop(s.process.Address, clients, d, func(n int) []byte { return signed[n%len(signed)] })
	if err != nil || r.Failures > 0 {
		t.Fatalf("ingress, %s: %d of %d requests failed: %v", s.name, r.Failures, r.Failures+r.Requests, err)
	}
	return r
}

// middle is the median.
func middle(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }

// distinct is how many different webhooks a run sends in turn.
const distinct = 20_000

// median is the run with the middle throughput.
func median(runs []result) result {
	slices.SortFunc(runs, func(a, b result) int { return cmp.Compare(a.rate(), b.rate()) })
	return runs[len(runs)/2]
}

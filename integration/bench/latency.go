package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"sluice/integration/harness"
	"sluice/pkg/testkit"
)

// ingressLatency holds ingress on Apache Kafka to its latency at a steady rate,
// beside the same ingress without Kafka. The two take turns.
func ingressLatency(t *scope, o options, say progress) []row {
	d := harness.Direct(t, testkit.Kafka(t, 0))
	bare, onKafka := startCeiling(d), d.Start("ingress")
	steady(t, onKafka, o.warm)
	var without, with []result
	for round := range o.rounds {
		await(t.Context(), o.patience)
		without = append(without, steady(t, bare, o.steady/4))
		with = append(with, steady(t, onKafka, o.steady))
		say("round %d of %d, %s: %s; without Kafka: %s", round+1, o.rounds, persecond(steadyRate), quantiles(with[round]), quantiles(without[round]))
	}
	failures := 0
	for _, r := range with {
		failures += r.Failures
	}
	r, beside, memory := middling(with), middling(without), onKafka.PeakMemory()
	return []row{{
		Measure: fmt.Sprintf("ingress on Apache Kafka, open loop, %s", persecond(steadyRate)), Reached: persecond(r.rate()),
		Beside: "p99 " + milliseconds(beside.quantile(.99)) + " without Kafka", Ratio: fmt.Sprintf("%.1f", float64(r.quantile(.99))/float64(beside.quantile(.99))),
		P50: r.quantile(.5), P99: r.quantile(.99), Memory: memory,
		Targets: []target{
			atMost("p99", float64(r.quantile(.99))/1e6, 15, "ms"),
			atMost("failures", float64(failures), 0, ""),
			atMost("memory", float64(memory>>20), 100, "MiB"),
		},
	}}
}

const (
	steadyRate    = 5_000
	steadyClients = 256
)

// steady is one run at the steady rate with freshly signed webhooks.
func steady(t *scope, p *harness.Process, d time.Duration) result {
	signed := requests(p.Address, stepByStep(distinct/lifetime))
	r, err := openLoop(p.Address, steadyClients, steadyRate, d, func(n int) []byte { return signed[n%len(signed)] }, nil)
	if err != nil {
		t.Fatalf("ingress at %s: %v", persecond(steadyRate), err)
	}
	return r
}

func quantiles(r result) string {
	return fmt.Sprintf("p50 %s, p99 %s, %d failures", milliseconds(r.quantile(.5)), milliseconds(r.quantile(.99)), r.Failures)
}

// middling is the run with the middle p99.
func middling(runs []result) result {
	slices.SortFunc(runs, func(a, b result) int { return cmp.Compare(a.quantile(.99), b.quantile(.99)) })
	return runs[len(runs)/2]
}

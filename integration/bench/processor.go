package main

import (
	"fmt"
	"time"

	"sluice/integration/harness"
	"sluice/pkg/kafka"
	"sluice/pkg/testkit"
)

// repeatsInTen is how many of ten arrivals are duplicates.
const repeatsInTen = 3

// processed is one round: three rates in events a second.
type processed struct {
	applied, replayed, single float64
	memory                    int64
}

// processorThroughput holds the processor against the usual design, one event in
// one transaction on one connection, on the same server and the same events.
func processorThroughput(t *scope, o options, say progress) []row {
	ds := day(o.orders, repeatsInTen)
	var rounds []processed
	for round := range o.rounds {
		// A scope for each round: what it made is gone before the next begins.
		err := within(t.Context(), t.Name(), func(t *scope) { rounds = append(rounds, processOnce(t, ds, o)) })
		if err != nil {
			t.Fatal(err)
		}
		r := rounds[round]
		say("round %d of %d, %s events: %s applied, %s replayed; one by one %s", round+1, o.rounds, thousands(int64(len(ds))), persecond(r.applied), persecond(r.replayed), persecond(r.single))
	}
	each := func(of func(processed) float64) (values []float64) {
		for _, r := range rounds {
			values = append(values, of(r))
		}
		return values
	}
	applied := middle(each(func(p processed) float64 { return p.applied }))
	replayed := middle(each(func(p processed) float64 { return p.replayed }))
	single := middle(each(func(p processed) float64 { return p.single }))
	ratio := middle(each(func(p processed) float64 { return p.applied / p.single }))
	memory := int64(middle(each(func(p processed) float64 { return float64(p.memory) })))
	beside := persecond(single) + " one event a transaction"
	return []row{
		{Measure: "processor on Apache Kafka, 1 KiB, 30 % duplicates", Reached: persecond(applied), Beside: beside,
			Ratio: fmt.Sprintf("%.1f", ratio), Memory: memory,
			Targets: []target{atLeast("events applied", applied, 25_000, "/s"), atLeast("times one by one", ratio, 15, "×")}},
		{Measure: "processor, replay from the first offset, all duplicates", Reached: persecond(replayed), Beside: beside,
			Ratio: fmt.Sprintf("%.1f", replayed/single), Memory: memory,
			Targets: []target{atLeast("records replayed", replayed, 200_000, "/s")}},
	}
}

func processOnce(t *scope, ds []delivery, o options) (out processed) {
	d := harness.Direct(t, testkit.Kafka(t, 0))
	register(t, d, o.orders)
	now := time.Now()
	fill(t, d, ds, now)
	d.Exec("CHECKPOINT")

	await(t.Context(), o.patience)
	p := d.Start("processor")
	out.applied = pace(t, len(ds), often, func() int64 {
		return d.Count("SELECT coalesce(sum(applied_offset + 1), 0)::bigint FROM partitions")
	})
	out.memory = p.PeakMemory()
	if code := p.Stop(); code != 0 {
		t.Fatalf("the processor ended with %d: %s", code, p.Output())
	}
	expect(t, d, ds, 1)

	// Twice more, as a provider that sends its day again: a replay of the day alone is
	// over in two seconds, and ends with one worker idle.
	const times = 3
	for range times - 1 {
		fill(t, d, ds, now)
	}
	rewind(t, d)
	p = d.Start("processor")
	out.replayed = pace(t, times*len(ds), often, d.Committed)
	out.memory = max(out.memory, p.PeakMemory())
	p.Stop()
	expect(t, d, ds, times)

	d.Exec("CHECKPOINT")
	out.single = oneByOne(t, d.Database.URL, ds, o.orders, o.single)
	return out
}

// often is how often progress is looked at in a measure of a second or two; each look
// is a request to the broker or a query.
const often = 10 * time.Millisecond

// pace is how many events a second go through from the first that is seen done
// to the last of total; done is asked for every so long.
func pace(t *scope, total int, every time.Duration, done func() int64) float64 {
	var first int64
	var began time.Time
	deadline := time.Now().Add(5 * time.Minute)
	for {
		n, now := done(), time.Now()
		switch {
		case n >= int64(total):
			return float64(int64(total)-first) / max(now.Sub(began), time.Millisecond).Seconds()
		case n > 0 && first == 0:
			first, began = n, now
		case now.After(deadline):
			t.Fatalf("the processor has done %d of %d events in time", n, total)
		}
		time.Sleep(every)
	}
}

// expect checks that a fast processor was also right: every order refunded, each
// event once, and each record of so many times the day in the books.
func expect(t *scope, d *harness.Deployment, ds []delivery, times int) {
	orders := d.Count("SELECT count(*) FROM orders")
	whole := d.Count("SELECT count(*) FROM orders WHERE paid = $1 AND refunded = $1 AND n_held = 0 AND n_events = $2", price, lifetime)
	counted := d.Count("SELECT coalesce(sum(events), 0)::bigint FROM books WHERE partition >= 0")
	if whole != orders || counted != int64(times*len(ds)) {
		t.Fatalf("%d of %d orders are as they must be, the books count %d of %d events", whole, orders, counted, times*len(ds))
	}
}

// rewind sets the group's offsets to the beginning, as Kafka's own tool does.
func rewind(t *scope, d *harness.Deployment) {
	starts, err := d.Admin().ListStartOffsets(t.Context(), d.Kafka.Topic(kafka.Raw))
	if err != nil {
		t.Fatalf("read where the raw topic begins: %v", err)
	}
	harness.Eventually(t, "the group's offsets are reset", 30*time.Second, func() error {
		answers, err := d.Admin().CommitOffsets(t.Context(), d.Kafka.Topic(kafka.Group), starts.Offsets())
		if err != nil {
			return err
		}
		return answers.Error()
	})
}

package main

import (
	"encoding/json"
	"fmt"
	"time"

	"sluice/integration/harness"
	"sluice/pkg/testkit"
)

// forecast has the command plan a replay of a whole topic: of records that are all
// known, and of records of which every tenth is new, an order's life in four events.
func forecast(t *scope, o options, say progress) []row {
	rows := make([]row, 2)
	for i, fresh := range []bool{false, true} {
		rows[i] = forecastOf(t, o, fresh, say)
	}
	return rows
}

func forecastOf(t *scope, o options, fresh bool, say progress) row {
	d := harness.Direct(t, testkit.Kafka(t, 0))
	n := o.dryRun / (10 * lifetime) * (10 * lifetime)
	orders, what := 0, "all known"
	if fresh {
		orders, what = n/(10*lifetime), "one in ten new"
	}
	register(t, d, orders)
	fillKnown(t, d, n, say, func(i int) (delivery, bool) {
		order, step := int32(i/lifetime), int32(i%lifetime)
		if fresh && order%10 == 0 {
			return delivery{order / 10, step}, false
		}
		return delivery{int32(orders) + order, step}, true
	})
	d.Exec("ANALYZE orders")
	await(t.Context(), o.patience)
	written := d.Count("SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_user_tables")

	harness.Program(t) // is built the first time
	began := time.Now()
	plan := harness.Start(t, d.Env(), "replay", "--to-earliest", "--json")
	ended := make(chan int, 1)
	go func() { ended <- plan.Wait(10 * time.Minute) }()
	var used time.Duration
	var memory int64
	for code := -1; code < 0; {
		select {
		case code = <-ended:
			if code != 0 {
				t.Fatalf("the plan ended with %d:\n%s", code, plan.Output())
			}
		case <-time.After(20 * time.Millisecond):
			used, memory = max(used, plan.CPU()), max(memory, plan.PeakMemory())
		}
	}
	took := time.Since(began)
	var told struct {
		DryRun struct {
			Duplicates, New, Applied, Orders, Messages int64
		} `json:"dry_run"`
	}
	if err := json.Unmarshal([]byte(plan.Output()), &told); err != nil {
		t.Fatalf("read the plan: %v", err)
	}
	a, events := told.DryRun, int64(orders*lifetime)
	if a.Duplicates != int64(n)-events || a.New != events || a.Applied != events || a.Orders != int64(orders) {
		t.Fatalf("of %d records, %d of them new, the plan says: %+v", n, events, a)
	}
	if n := d.Count("SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_user_tables"); n != written {
		t.Fatalf("%d rows were written by a dry run", n-written)
	}
	rate := float64(n) / took.Seconds()
	say("a plan over %s records, %s, in %s: %s, %.2f µs of the command's CPU each, %d MiB; %s messages foretold", thousands(int64(n)), what,
		took.Round(time.Millisecond), persecond(rate), float64(used.Microseconds())/float64(n), memory>>20, thousands(a.Messages))
	return row{Measure: fmt.Sprintf("dry run of %s records, %s", thousands(int64(n)), what), Reached: persecond(rate), Memory: memory,
		Targets: []target{atLeast("records", rate, 50_000, "/s")}}
}

package main

import (
	"fmt"
	"time"

	"sluice/integration/harness"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// ledger is one round: the processor on an empty processed_events and on a full
// one, in events a second; bytes an event, and the time of forgetting all of them.
type ledger struct {
	empty, full float64
	bytes       map[string]float64
	dropped     time.Duration
}

// ledgerGrowth asks what the events that were processed before cost: bytes each,
// rate, and how long their dropping takes. One round: filling the table takes longer
// than all it is filled for.
func ledgerGrowth(t *scope, o options, say progress) []row {
	ds := day(o.orders, repeatsInTen)
	var rounds []ledger
	const total = 1
	for round := range total {
		err := within(t.Context(), t.Name(), func(t *scope) { rounds = append(rounds, ledgerOnce(t, ds, o)) })
		if err != nil {
			t.Fatal(err)
		}
		r := rounds[round]
		say("round %d of %d: %s on an empty table, %s with %s rows; an event takes %.0f B, and %.0f B in its order's set; all dropped in %s",
			round+1, total, persecond(r.empty), persecond(r.full), thousands(int64(o.rows)), r.bytes["processed_events"], r.bytes["order_events"], milliseconds(r.dropped))
	}
	each := func(of func(ledger) float64) float64 {
		var values []float64
		for _, r := range rounds {
			values = append(values, of(r))
		}
		return middle(values)
	}
	table := func(name string) float64 { return each(func(l ledger) float64 { return l.bytes[name] }) }
	slower := each(func(l ledger) float64 { return 100 * (1 - l.full/l.empty) })
	dropped := each(func(l ledger) float64 { return l.dropped.Seconds() })
	full, empty := each(func(l ledger) float64 { return l.full }), each(func(l ledger) float64 { return l.empty })
	return []row{
		{Measure: fmt.Sprintf("processor with %s processed events before", thousands(int64(o.rows))), Reached: persecond(full),
			Beside: persecond(empty) + " with none", Ratio: fmt.Sprintf("%.2f", full/empty),
			Targets: []target{atMost("slower", max(0, slower), 20, "%")}},
		{Measure: "a processed event in PostgreSQL, table and indexes", Reached: quantity(table("processed_events"), "B"),
			Beside:  fmt.Sprintf("%.0f B in its order's set, %.0f B a transition, %.0f B an order", table("order_events"), table("order_transitions"), table("orders")),
			Targets: []target{atMost("bytes", table("processed_events"), 160, "B")}},
		{Measure: fmt.Sprintf("drop %s processed events", thousands(int64(o.rows))), Reached: milliseconds(time.Duration(dropped * 1e9)),
			Targets: []target{atMost("time", dropped, 1, "s")}},
	}
}

func ledgerOnce(t *scope, ds []delivery, o options) (out ledger) {
	run := func(rows int) (rate float64, d *harness.Deployment, grown map[string]float64) {
		d = harness.Direct(t, testkit.Kafka(t, 0))
		register(t, d, o.orders)
		remember(d, rows)
		fill(t, d, ds, time.Now())
		d.Exec("CHECKPOINT")
		before := sizes(d)
		await(t.Context(), o.patience)
		p := d.Start("processor")
		rate = pace(t, len(ds), often, func() int64 {
			return d.Count("SELECT coalesce(sum(applied_offset + 1), 0)::bigint FROM partitions")
		})
		if code := p.Stop(); code != 0 {
			t.Fatalf("the processor ended with %d: %s", code, p.Output())
		}
		expect(t, d, ds, 1)
		grown = sizes(d)
		for table := range grown {
			grown[table] -= before[table]
		}
		return rate, d, grown
	}
	var d *harness.Deployment
	var grown map[string]float64
	out.empty, d, grown = run(0)
	events := float64(o.orders * lifetime)
	grown["orders"] = sizes(d)["orders"]
	out.bytes = map[string]float64{
		"processed_events": grown["processed_events"] / events,
		"order_events":     grown["order_events"] / events,
		// A registration is one too, from before.
		"order_transitions": grown["order_transitions"] / float64(d.Count("SELECT count(*) FROM order_transitions")-int64(o.orders)),
		"orders":            grown["orders"] / float64(o.orders),
	}
	out.full, d, _ = run(o.rows)
	store, err := postgres.Open(t.Context(), d.Database, 1)
	if err != nil {
		t.Fatalf("reach the database: %v", err)
	}
	defer store.Close()
	began := time.Now()
	if dropped, err := store.DropBehind(t.Context(), began.AddDate(0, 0, 130), postgres.Retention{}); err != nil || dropped.Later {
		t.Fatalf("dropped %v: %v", dropped, err)
	}
	out.dropped = time.Since(began)
	if left := d.Count("SELECT count(*) FROM processed_events"); left > 0 {
		t.Fatalf("%d processed events are left", left)
	}
	return out
}

// remember enters events in processed_events as if they had come in evenly over
// the last three weeks, and leaves the table as autovacuum would.
func remember(d *harness.Deployment, rows int) {
	if rows == 0 {
		return
	}
	const span = 21 * 24 * time.Hour
	begin := time.Now().Add(-span - 3*time.Hour).UnixMilli()
	d.Exec(`INSERT INTO processed_events (key, body_fingerprint)
		SELECT (lpad(to_hex($1::bigint + n * $2::bigint / $3::bigint), 12, '0') || substr(md5(n::text), 1, 20))::uuid, n
		FROM generate_series(0, $3::bigint - 1) n`, begin, span.Milliseconds(), rows)
	d.Exec("VACUUM (ANALYZE) processed_events")
}

// sizes are the bytes of the tables that events grow, with their indexes.
func sizes(d *harness.Deployment) map[string]float64 {
	bytes := map[string]float64{}
	for _, table := range []string{"processed_events", "order_events", "order_transitions", "orders"} {
		bytes[table] = float64(d.Count(`SELECT pg_total_relation_size($1::regclass) + coalesce(sum(pg_total_relation_size(inhrelid)), 0)::bigint
			FROM pg_inherits WHERE inhparent = $1::regclass`, table))
	}
	return bytes
}

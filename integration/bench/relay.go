package main

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"sluice/integration/harness"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// relayRate is how many transitions a second are committed for the latency.
const relayRate = 1_000

// relayed measures the relay: how fast it publishes a backlog, in how much memory,
// and how long after its commit a transition is on the topic; that also beside
// somebody else's long transactions.
func relayed(t *scope, o options, say progress) []row {
	rows := []row{drain(t, o, say)}
	alone := latencyOfRelay(t, o, say, false)
	beside := latencyOfRelay(t, o, say, true)
	alone.Targets = []target{atMost("p50", float64(alone.P50)/1e6, 10, "ms")}
	beside.Targets = []target{atMost("p99", float64(beside.P99)/1e6, 100, "ms")}
	beside.Beside, beside.Ratio = "p99 "+milliseconds(alone.P99)+" alone", fmt.Sprintf("%.1f", float64(beside.P99)/float64(alone.P99))
	return append(rows, alone, beside)
}

// transitions writes version v of n orders, beginning with the one numbered first, as
// the processor does.
const transitions = `
	INSERT INTO order_transitions (shard, order_no, order_id, version, from_status, to_status, amount, currency,
		paid, refunded, cause_source, cause_event_id, occurred_at)
	SELECT o % $4::int, o, 'order-' || o, $3::bigint, CASE WHEN $3::bigint = 1 THEN 0 ELSE 1 END, 1, 100, 'USD', 0, 0, 'stripe', 'evt_' || o || '_' || $3::bigint, 1764522000123
	FROM generate_series($1::int, $1::int + $2::int - 1) o`

func open(t *scope, d *harness.Deployment) *sql.DB {
	db, err := sql.Open("pgx", d.Database.URL)
	if err != nil {
		t.Fatalf("reach the database: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// drain publishes a backlog. Afterwards the table must be as it was: the relay
// updates and deletes nothing in it.
func drain(t *scope, o options, say progress) row {
	d := harness.Direct(t, testkit.Kafka(t, 0))
	db := open(t, d)
	const versions = 10
	orders := o.backlog / versions
	for v := 1; v <= versions; v++ {
		if _, err := db.ExecContext(t.Context(), transitions, 1, orders, v, postgres.Shards); err != nil {
			t.Fatalf("write the backlog: %v", err)
		}
	}
	if _, err := db.ExecContext(t.Context(), `VACUUM ANALYZE order_transitions`); err != nil {
		t.Fatalf("analyse: %v", err)
	}
	size := d.Count(`SELECT sum(pg_total_relation_size(relid))::bigint FROM pg_partition_tree('order_transitions')`)
	await(t.Context(), o.patience)
	began := time.Now()
	relay := d.Start("relay")
	harness.Eventually(t, "the backlog is published", 5*time.Minute, func() error {
		if n := d.Count(`SELECT count(*) FROM relay_shards WHERE cursor < (SELECT max(id) FROM order_transitions)`); n > 0 {
			return fmt.Errorf("%d shards are behind", n)
		}
		return nil
	})
	took := time.Since(began)
	rate := float64(versions*orders) / took.Seconds()
	grown := d.Count(`SELECT sum(pg_total_relation_size(relid))::bigint FROM pg_partition_tree('order_transitions')`) - size
	cursors := d.Count(`SELECT pg_total_relation_size('relay_shards')::bigint`)
	say("%s messages and their copies on orders.latest.v1 in %s; the outbox grew by %d bytes, the cursors take %d KiB",
		thousands(int64(versions*orders)), took.Round(time.Millisecond), grown, cursors>>10)
	return row{Measure: fmt.Sprintf("relay, a backlog of %s, on Apache Kafka", thousands(int64(versions*orders))), Reached: persecond(rate),
		Memory: relay.PeakMemory(),
		Targets: []target{atLeast("published", rate, 60_000, "/s"), atMost("memory", float64(relay.PeakMemory()>>20), 100, "MiB"),
			atMost("growth of the outbox", float64(grown)/1024, 0, "KiB")}}
}

// latencyOfRelay is from the commit of a transition to its message's arrival. With
// others, somebody holds a snapshot all the time, and somebody else writes for 4 s
// in one transaction, over and over.
func latencyOfRelay(t *scope, o options, say progress, others bool) row {
	d := harness.Direct(t, testkit.Kafka(t, 0))
	db := open(t, d)
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16) // else each commit costs the server a new process
	store, err := postgres.Open(t.Context(), d.Database, 4)
	if err != nil {
		t.Fatalf("reach the database: %v", err)
	}
	t.Cleanup(store.Close)
	d.Start("relay")
	seen := follow(t, d)
	what := ""
	if others {
		what = ", beside a held snapshot and writers of 4 s"
		disturb(t, db)
	}
	total := int(o.path.Seconds() * relayRate)
	warm := min(total/5, 2*relayRate)
	committed := make([]time.Time, total+1)
	// One wake is under way at a time, as each role wakes once for a batch.
	wake := make(chan struct{}, 1)
	defer close(wake)
	go func() {
		for range wake {
			_ = store.WakeRelays(t.Context())
		}
	}()
	var writers sync.WaitGroup
	next := time.NewTicker(time.Second / relayRate)
	defer next.Stop()
	for i := 1; i <= total; i++ {
		<-next.C
		writers.Go(func() {
			if _, err := db.ExecContext(t.Context(), transitions, i, 1, 1, postgres.Shards); err != nil {
				t.Errorf("commit a transition: %v", err)
			}
			committed[i] = time.Now()
			select {
			case wake <- struct{}{}:
			default:
			}
		})
	}
	writers.Wait()
	harness.Eventually(t, "everything is published", time.Minute, func() error {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		if len(seen.ids) < total {
			return fmt.Errorf("%d of %d messages", len(seen.ids), total)
		}
		return nil
	})
	var latencies []time.Duration
	for i := warm; i <= total; i++ { // the first ones find a cold broker
		latencies = append(latencies, max(0, seen.at[fmt.Sprintf("evt_%d_1", i)].Sub(committed[i])))
	}
	slices.Sort(latencies)
	r := row{Measure: fmt.Sprintf("from commit to orders.status.v1, %s%s", persecond(relayRate), what), Reached: persecond(relayRate),
		P50: quantile(latencies, .5), P99: quantile(latencies, .99)}
	say("%s messages%s: p50 %s, p99 %s", thousands(int64(len(latencies))), what, milliseconds(r.P50), milliseconds(r.P99))
	return r
}

// disturb is other people's work in the same database.
func disturb(t *scope, db *sql.DB) {
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE others (n int)`); err != nil {
		t.Fatalf("make a table: %v", err)
	}
	snapshot, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err == nil {
		_, err = snapshot.ExecContext(t.Context(), `SELECT count(*) FROM order_transitions`)
	}
	if err != nil {
		t.Fatalf("hold a snapshot: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() {
		for ctx.Err() == nil {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return
			}
			_, _ = tx.ExecContext(ctx, `INSERT INTO others SELECT generate_series(1, 1000)`)
			_, _ = tx.ExecContext(ctx, `SELECT pg_sleep(4)`)
			_ = tx.Commit()
		}
	})
	t.Cleanup(func() {
		cancel()
		writing.Wait()
		_ = snapshot.Rollback()
	})
}

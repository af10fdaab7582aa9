package main

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/integration/harness"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// replayLive is how many webhooks a second come in while a replay runs.
const replayLive = 500

// replayAtLeast is what the live load's length is made for, in records a second: it
// must last longer than the replay.
const replayAtLeast = 150_000

// replayBesideLive has one processor read records again that are all known, while live
// traffic goes the whole path beside it: ingress, processor and relay, a process each.
func replayBesideLive(t *scope, o options, say progress) []row {
	d := harness.Direct(t, testkit.Kafka(t, 0))
	lasts := time.Duration(o.replay)*time.Second/replayAtLeast + 5*time.Second
	live := int(lasts.Seconds()*replayLive) / lifetime * lifetime
	lasts = time.Duration(live) * time.Second / replayLive
	register(t, d, live/lifetime)
	ends := fillKnown(t, d, o.replay, say, func(i int) (delivery, bool) {
		return delivery{int32((live + i) / lifetime), int32(i % lifetime)}, true
	})
	processes := []*harness.Process{d.Start("ingress"), d.Start("relay")}
	seen := follow(t, d)
	seen.wait(t, d, 0) // the registrations' own messages
	rewind(t, d)
	signed := requests(processes[0].Address, stepByStep(live/lifetime))
	await(t.Context(), o.patience)

	processor := d.Start("processor")
	accepted := make([]time.Time, live)
	loaded := make(chan error, 1)
	var load result
	go func() {
		r, err := openLoop(processes[0].Address, 64, replayLive, lasts, func(n int) []byte { return signed[n] }, func(n int, at time.Time) { accepted[n] = at })
		if err == nil && r.Failures > 0 {
			err = fmt.Errorf("%d webhooks failed", r.Failures)
		}
		load = r
		loaded <- err
	}()
	began, used := time.Now(), processor.CPU()
	rate := pace(t, o.replay, seldom, func() int64 { return replayedTo(t, d, ends) })
	ended := time.Now()
	if ended.Sub(began) > lasts {
		say("the replay took %s, and live traffic lasted %s only", ended.Sub(began).Round(time.Second), lasts.Round(time.Second))
	}
	each := float64((processor.CPU() - used).Microseconds()) / float64(o.replay)
	if err := <-loaded; err != nil {
		t.Fatalf("live traffic: %v", err)
	}
	seen.wait(t, d, load.Requests)
	if n := d.Count("SELECT coalesce(sum(events), 0)::bigint FROM books WHERE partition >= 0"); n != int64(load.Requests) {
		t.Fatalf("the books count %d of %d events of the live traffic", n, load.Requests)
	}
	during, after := seen.latencies(accepted, stepByStep(live/lifetime), began, ended)
	p50, p99 := quantile(during, .5), quantile(during, .99)
	alone, ratio := "", ""
	if len(after) > 0 {
		alone = "p99 " + milliseconds(quantile(after, .99)) + " without a replay"
		ratio = fmt.Sprintf("%.1f", float64(p99)/float64(quantile(after, .99)))
	}
	say("%s records again in %s: %s, %.2f µs of the processor's CPU each; live meanwhile: %s messages, p50 %s, p99 %s; %s",
		thousands(int64(o.replay)), ended.Sub(began).Round(time.Millisecond), persecond(rate), each, thousands(int64(len(during))),
		milliseconds(p50), milliseconds(p99), alone)
	return []row{{
		Measure: fmt.Sprintf("replay of %s known records beside %s live", thousands(int64(o.replay)), persecond(replayLive)), Reached: persecond(rate),
		Beside: alone, Ratio: ratio, P50: p50, P99: p99, Memory: processor.PeakMemory(),
		Targets: []target{atLeast("records", rate, 200_000, "/s"), atMost("live p99", p99.Seconds(), 2, "s")},
	}}
}

// seldom is how often a replay's progress is looked at. A hundred looks a second took a
// tenth of a core from what they look at (2026-12).
const seldom = 200 * time.Millisecond

// fillKnown writes n events to the raw topic, as if they had been applied, and notes
// those that are known as taken over; their orders are not there. It returns where
// each partition ends.
func fillKnown(t *scope, d *harness.Deployment, n int, say progress, which func(i int) (one delivery, known bool)) map[int32]int64 {
	conn, err := pgx.Connect(t.Context(), d.Database.URL)
	if err != nil {
		t.Fatalf("reach the database: %v", err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	now := time.Now().Add(-3 * time.Hour)
	const part = 100_000
	for at := 0; at < n; at += part {
		ds, known := make([]delivery, min(part, n-at)), make([]bool, min(part, n-at))
		for i := range ds {
			ds[i], known[i] = which(at + i)
		}
		rows, i := make([][]any, 0, len(ds)), 0
		fillEach(t, d, ds, now, func(e event.Event) {
			if known[i] {
				rows = append(rows, []any{e.Key(), postgres.Fingerprint(e.Fingerprint())})
			}
			i++
		})
		if _, err := conn.CopyFrom(t.Context(), pgx.Identifier{"processed_events"}, []string{"key", "body_fingerprint"}, pgx.CopyFromRows(rows)); err != nil {
			t.Fatalf("enter processed events: %v", err)
		}
		if done := at + len(ds); done%1_000_000 == 0 {
			say("%s of %s records written", thousands(int64(done)), thousands(int64(n)))
		}
	}
	d.Exec("VACUUM (ANALYZE) processed_events")
	offsets, err := kafka.NewOffsets(t.Context(), d.Kafka, slog.New(slog.DiscardHandler), d.Kafka.Topic(kafka.Raw))
	if err != nil {
		t.Fatalf("reach Kafka: %v", err)
	}
	defer offsets.Close()
	extent, err := offsets.Extent(t.Context())
	if err != nil {
		t.Fatalf("read where the raw topic ends: %v", err)
	}
	for p, end := range extent.End {
		d.Exec(`INSERT INTO partitions (topic_id, partition, topic, owner, epoch, applied_offset) VALUES ($1, $2, $3, 'bench', 1, $4)`,
			extent.TopicID, p, d.Kafka.Topic(kafka.Raw), end-1)
	}
	d.Exec("CHECKPOINT")
	return extent.End
}

// replayedTo is how many records lie between the topic's beginning and where the group
// is, up to ends: beyond, the group's offset is the live traffic's again.
func replayedTo(t *scope, d *harness.Deployment, ends map[int32]int64) (sum int64) {
	offsets, err := d.Admin().FetchOffsets(t.Context(), d.Kafka.Topic(kafka.Group))
	if err != nil {
		t.Fatalf("read the group's offsets: %v", err)
	}
	for p, end := range ends {
		if o, ok := offsets.Lookup(d.Kafka.Topic(kafka.Raw), p); ok {
			sum += min(o.At, end)
		}
	}
	return sum
}

// latencies are from each 2xx to the event's message, sorted: of events accepted
// between two times, and of those accepted later.
func (m *messages) latencies(accepted []time.Time, ds []delivery, from, to time.Time) (between, later []time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, at := range accepted {
		published, ok := m.at[ds[n].eventID()]
		switch {
		case !ok || at.Before(from): // an event that was overtaken has no message of its own
		case at.Before(to):
			between = append(between, max(0, published.Sub(at)))
		case at.After(to.Add(time.Second)):
			later = append(later, max(0, published.Sub(at)))
		}
	}
	slices.Sort(between)
	slices.Sort(later)
	return between, later
}

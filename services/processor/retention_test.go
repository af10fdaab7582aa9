package processor

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kadm"

	"sluice/pkg/archive"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

func TestTheProcessorDoesNotStartWhereTheRawTopicOutlivesTheWindow(t *testing.T) {
	w := newWorld(t, 1)
	long := "8640000000" // 100 days
	_, err := w.admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "retention.ms", Value: &long}}, w.kafka.Topic(kafka.Raw))
	if err != nil {
		t.Fatal(err)
	}
	w.until("the broker knows it", func() bool {
		all, err := kafka.ReadRetention(t.Context(), w.kafka, slog.New(slog.DiscardHandler), w.kafka.Topic(kafka.Raw))
		r := all[w.kafka.Topic(kafka.Raw)]
		return err == nil && r.Time == 100*day && r.Segment == 7*day && r.Bytes == -1
	})
	if _, err := New(t.Context(), small(), w.deps()); err == nil || !strings.Contains(err.Error(), "100.0 days") || !strings.Contains(err.Error(), "90 days") {
		t.Errorf("started with %v", err)
	}
}

// warnings starts a processor and returns its log.
func (w *world) warnings() string {
	var log strings.Builder
	deps := w.deps()
	deps.Reg = prometheus.NewRegistry()
	deps.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	p, err := New(w.Context(), small(), deps)
	if err != nil {
		w.Fatal(err)
	}
	p.publisher.Close()
	p.auditor.Close()
	return log.String()
}

func TestAProviderThatRepeatsForLongerThanTheWindowIsWarnedOf(t *testing.T) {
	w := newWorld(t, 1)
	if log := w.warnings(); log != "" {
		t.Errorf("of stripe's three days it says %q", log)
	}
	w.endpoints = load(t, `endpoints:
  - name: patient
    provider: declared
    secrets: [env:S]
    declared:
      retries: 1440h
      signature: {header: X-S, algorithm: sha256, encoding: hex}
      reading: {id: id, type: type}
`)
	if log := w.warnings(); !strings.Contains(log, "SLUICE_WINDOW") || !strings.Contains(log, "about=patient") {
		t.Errorf("the log says %q", log)
	}
}

func TestSettingsInDaysAreHeldToDays(t *testing.T) {
	bad := Config{Workers: 1, Batch: 1, Chores: time.Second, KeepBodies: -1, KeepTransitions: 5000}
	err := bad.Check()
	if err == nil || !strings.Contains(err.Error(), "SLUICE_PROCESSOR_KEEP_BODIES") || !strings.Contains(err.Error(), "SLUICE_PROCESSOR_KEEP_TRANSITIONS") {
		t.Errorf("got %v", err)
	}
}

func TestAFailedArchiveIsToldOnceAndKeepsThePartitionUntilItCanBeWritten(t *testing.T) {
	w := newWorld(t, 1)
	var log strings.Builder
	deps, at := w.deps(), time.Now()
	deps.Log, deps.Now = slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return at }
	cfg := small()
	cfg.KeepBodies, cfg.Archive = 1, archive.Dir(filepath.Join(t.TempDir(), "mount"))
	if _, err := New(t.Context(), cfg, deps); err == nil || !strings.Contains(err.Error(), "SLUICE_PROCESSOR_ARCHIVE") {
		t.Fatalf("started without its directory: %v", err)
	}
	if err := os.Mkdir(string(cfg.Archive), 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := New(t.Context(), cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	defer p.publisher.Close()
	defer p.auditor.Close()
	w.exec(`INSERT INTO raw_bodies (event_hash, kept_at, record_offset, partition, record_headers, body) VALUES (gen_random_uuid(), now(), 1, 0, '[]', 'confidential')`)
	if err := os.Remove(string(cfg.Archive)); err != nil {
		t.Fatal(err)
	}
	at = at.AddDate(0, 0, 5)
	for range 3 {
		p.keepPartitions(t.Context())
	}
	said := log.String()
	if n := strings.Count(said, "cannot be archived"); n != 1 || strings.Contains(said, "confidential") {
		t.Errorf("told %d times:\n%s", n, said)
	}
	if n := w.number(`SELECT count(*) FROM raw_bodies`); n != 1 || testutil.ToFloat64(p.metrics.unarchived) != 3 || !strings.Contains(strings.Join(p.Notes(), "\n"), "stays") {
		t.Errorf("%d bodies, %v partitions, notes %v", n, testutil.ToFloat64(p.metrics.unarchived), p.Notes())
	}
	if err := os.Mkdir(string(cfg.Archive), 0o700); err != nil {
		t.Fatal(err)
	}
	if !p.keepPartitions(t.Context()) || w.number(`SELECT count(*) FROM raw_bodies`) != 0 || testutil.ToFloat64(p.metrics.unarchived) != 0 || len(p.Notes()) != 0 {
		t.Errorf("it is not dropped: notes %v", p.Notes())
	}
	if all, _, err := cfg.Archive.List(); err != nil || len(all) != 1 || all[0].Rows != 1 {
		t.Errorf("archived %+v, %v", all, err)
	}
	if ahead := testutil.ToFloat64(p.metrics.ahead.WithLabelValues("processed_events")); ahead < 59*24*3600 {
		t.Errorf("months are made for %v s ahead", ahead)
	}
	if kept := testutil.ToFloat64(p.metrics.horizons.WithLabelValues("raw_topic")); kept != 30*24*3600 {
		t.Errorf("the raw topic is said to keep for %v s", kept)
	}
}

func TestTheJournalHasEveryEventsBytesOnceAndVerifiesThemAgain(t *testing.T) {
	w := newWorld(t, 1)
	w.register(1000, "ord_1")
	cfg := small()
	cfg.KeepBodies = 7
	_, stop := w.start(cfg, w.deps())
	paid := stated{id: "evt_1", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000}
	held := stated{id: "evt_2", order: "ord_2", payment: "pi_2", kind: order.KindPaid, amount: 1000}
	nothing := stated{id: "evt_3", kind: order.KindNone}
	old := stated{id: "evt_4", kind: order.KindNone, at: now.AddDate(-1, 0, 0)}
	other := paid
	other.extra = `,"pending_webhooks":2`
	w.send(paid, held, paid, nothing, old, other, other)
	unreadable := paid.event()
	unreadable.ID, unreadable.Body = "evt_bad", []byte("{")
	w.produce(w.record(unreadable, 0))
	w.caughtUp()
	check := func(when string) {
		t.Helper()
		for s, want := range map[*stated]int{&paid: 3, &held: 1, &nothing: 1, &old: 1} {
			bodies, err := w.store.RawBodies(t.Context(), s.event().Hash())
			if err != nil || len(bodies) != want {
				t.Errorf("%s: event %s is %d times in the journal, want %d: %v", when, s.id, len(bodies), want, err)
			}
		}
		if n := w.number(`SELECT count(*) FROM raw_bodies`); n != 6 {
			t.Errorf("%s: %d bodies, want 6", when, n)
		}
	}
	check("first")
	bodies, err := w.store.RawBodies(t.Context(), paid.event().Hash())
	if err != nil {
		t.Fatal(err)
	}
	sent := paid.event()
	got, err := event.Parse([]byte(sent.ID), bodies[0].Body, bodies[0].Headers)
	if err != nil || string(got.Body) != string(sent.Body) || got.ContentType != sent.ContentType || got.Endpoint != sent.Endpoint ||
		got.SecretName != sent.SecretName || got.ReceivedAt.IsZero() || len(webhook.StoredHeaders(got.Signature)("Stripe-Signature")) != 1 {
		t.Errorf("the journal has %+v, %v", got, err)
	}
	stop()
	w.rewind()
	w.start(cfg, w.deps())
	w.caughtUp()
	check("after a replay")
}

// Time is not in the name of an event.
func TestADeliveryWithAnotherTimeIsTheSameEventWhereTimesDoNotRepeat(t *testing.T) {
	w := newWorld(t, 1)
	w.register(1000, "ord_1")
	w.start(small(), w.deps())
	s := stated{id: "evt_1", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000}
	for i, at := range []time.Time{now, now.Add(-time.Hour), now.AddDate(0, -2, 0), now.AddDate(-1, 0, 0), {}} {
		s.at = at
		e := s.event()
		e.Time, e.TimeRepeats = at, false
		w.produce(w.record(e, 0))
		w.caughtUp()
		if n := w.number(`SELECT count(*) FROM order_events WHERE partition >= 0`); n != 1 {
			t.Fatalf("after delivery %d the set has %d events", i+1, n)
		}
	}
	if got := w.history("ord_1"); got != "pending paid" {
		t.Errorf("history is %q", got)
	}
	if a, d, r := w.booked(order.Applied), w.booked(order.Duplicate), w.number(`SELECT count(*) FROM review_items`); a != 1 || d != 4 || r != 0 {
		t.Errorf("%d applied, %d duplicates, %d review items", a, d, r)
	}
}

// The same where the time does repeat, and lies outside the window or leads to
// another place in it: the set knows the event.
func TestASetKnowsItsEventWhateverTheFilterForgot(t *testing.T) {
	w := newWorld(t, 1)
	w.register(1000, "ord_1")
	w.start(small(), w.deps())
	s := stated{id: "evt_1", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000, at: now.AddDate(0, 0, -80)}
	w.send(s)
	w.caughtUp()
	// The window passes over it.
	if _, err := w.db.Exec(`DROP TABLE processed_events_` + s.at.Format("2006_01")); err != nil {
		t.Fatal(err)
	}
	w.send(s) // the worker makes the month again: it thinks it is in the window
	w.caughtUp()
	if a, d := w.booked(order.Applied), w.booked(order.Duplicate); a != 1 || d != 1 {
		t.Errorf("%d applied, %d duplicates", a, d)
	}
	if got := w.history("ord_1"); got != "pending paid" {
		t.Errorf("history is %q", got)
	}
}

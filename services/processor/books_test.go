package processor

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/audit"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/testkit"
)

func (w *world) auditor() *audit.Auditor {
	w.Helper()
	a, err := audit.Open(w.Context(), w.kafka, w.store, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(a.Close)
	return a
}

// figure is the books' sums.
func (w *world) figure(a *audit.Auditor) audit.Books {
	w.Helper()
	b, err := a.Figure(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return b
}

// hours audits every hour, and examines those that do not add up.
func (w *world) hours(a *audit.Auditor) (*audit.Report, []audit.Finding) {
	w.Helper()
	r, err := a.Hours(w.Context(), time.Unix(0, 0), time.Now())
	if err != nil {
		w.Fatal(err)
	}
	findings, err := r.Examine(w.Context(), a, func(int) {}, func(int) {})
	if err != nil {
		w.Fatal(err)
	}
	return r, findings
}

// byTheHour lets tests write records of several hours: the broker keeps the times
// that they bring.
func (w *world) byTheHour() {
	w.Helper()
	kind := "CreateTime"
	set := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "message.timestamp.type", Value: &kind}}
	if _, err := w.admin.AlterTopicConfigs(w.Context(), set, w.kafka.Topic(kafka.Raw)); err != nil {
		w.Fatal(err)
	}
	w.until("the broker keeps the records' own times", func() bool {
		configs, err := w.admin.DescribeTopicConfigs(w.Context(), w.kafka.Topic(kafka.Raw))
		if err != nil {
			return false
		}
		c, err := configs.On(w.kafka.Topic(kafka.Raw), nil)
		return err == nil && slices.ContainsFunc(c.Configs, func(c kadm.Config) bool {
			return c.Key == "message.timestamp.type" && c.Value != nil && *c.Value == kind
		})
	})
}

func (w *world) sendAt(at time.Time, partition int32, events ...stated) {
	w.Helper()
	for _, s := range events {
		r := w.record(s.event(), partition)
		r.Timestamp = at
		w.produce(r)
	}
}

// everyVerdict sends records that end in each verdict, in three hours of two
// partitions; 11 in all.
func (w *world) everyVerdict() {
	w.Helper()
	w.register(1000, "ord_1")
	paid := stated{id: "evt_paid", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000}
	hour := time.Now().Truncate(time.Hour)
	first, second := hour.Add(-3*time.Hour), hour.Add(-2*time.Hour)
	w.sendAt(first, 0, paid, stated{id: "evt_none", kind: order.KindNone}, paid)
	w.sendAt(first.Add(time.Minute), 1, paid, stated{id: "evt_early", order: "ord_late", payment: "pi_2", kind: order.KindPaid, amount: 500})
	w.sendAt(second, 0, stated{id: "evt_other", order: "ord_1", payment: "pi_1", kind: order.KindRefund, object: "re_1", amount: 100, mode: event.Test},
		stated{id: "evt_refund", order: "ord_1", payment: "pi_1", kind: order.KindRefund, object: "re_2", amount: 100, endpoint: "stripe-us"})
	w.produce(&kgo.Record{Topic: w.kafka.Topic(kafka.Raw), Value: []byte("nobody can read this"), Timestamp: second},
		&kgo.Record{Topic: w.kafka.Topic(kafka.Raw), Key: []byte("tombstone"), Timestamp: second, Partition: 1})
	w.sendAt(hour, 1, stated{id: "evt_over", order: "ord_1", payment: "pi_1", kind: order.KindRefund, object: "re_3", amount: 9000}, paid)
}

// O24: the books are one figure, and it is 0.
func TestTheBooksAddUpByTheHourWhateverBecameOfTheRecords(t *testing.T) {
	w := newWorld(t, 2)
	w.byTheHour()
	w.everyVerdict()
	a := w.auditor()
	if b := w.figure(a); b.Accepted != 11 || b.InFlight != 11 || b.Unaccounted() != 0 {
		t.Errorf("before anything is applied: %+v", b)
	}
	_, stop := w.start(small(), w.deps())
	w.caughtUp()
	check := func(when string, held, applied int64) {
		t.Helper()
		b := w.figure(a)
		if b.Accepted != 11 || b.InFlight != 0 || b.Counted != 11 {
			t.Errorf("%s: %+v", when, b)
		}
		r, findings := w.hours(a)
		if r.Unaccounted() != 0 || len(findings) != 0 || len(r.Lines) != 3 {
			t.Fatalf("%s: unaccounted %d, findings %v, %d lines", when, r.Unaccounted(), findings, len(r.Lines))
		}
		v := r.Lines[0].Verdicts()
		if v[order.Held] != held || v[order.Applied] != applied || r.Lines[0].Accepted != 5 || r.Lines[1].Accepted != 4 {
			t.Errorf("%s: the first hour is %v of %d", when, v, r.Lines[0].Accepted)
		}
	}
	check("at the end", 1, 1)

	// A later verdict moves within the hour of its event.
	w.register(500, "ord_late")
	check("after the late registration", 0, 2)

	// In the middle of a replay nothing is in flight.
	stop()
	w.rewind()
	tx, err := w.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(`SELECT FROM partitions FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	_, stop = w.start(small(), w.deps())
	check("during a replay", 0, 2)
	if w.committed() != 0 {
		t.Error("the replay did not wait for the check")
	}
	_ = tx.Rollback()
	w.caughtUp()
	stop()
	check("after a replay", 0, 2)
}

func TestAnEventThatDisappearedIsFoundAndNamed(t *testing.T) {
	w := newWorld(t, 2)
	w.byTheHour()
	w.everyVerdict()
	w.start(small(), w.deps())
	w.caughtUp()
	a := w.auditor()
	lost := stated{id: "evt_none", kind: order.KindNone}.event()
	key := lost.Key()
	w.exec(`DELETE FROM processed_events WHERE key = $1::uuid`, fmt.Sprintf("%x", key))
	w.exec(`UPDATE books SET events = events - 1 WHERE ctid = (SELECT ctid FROM books WHERE verdict = 1 AND events > 0 ORDER BY hour LIMIT 1)`)
	if n := w.figure(a).Unaccounted(); n != 1 {
		t.Errorf("unaccounted is %d, want 1", n)
	}
	r, findings := w.hours(a)
	if r.Unaccounted() != 1 || len(findings) != 1 {
		t.Fatalf("unaccounted %d, findings %+v; want one", r.Unaccounted(), findings)
	}
	if f := findings[0]; f.Problem != audit.NoVerdict || f.EventID != "evt_none" || f.Source != "stripe-eu" || f.Partition != 0 || f.Offset != 1 {
		t.Errorf("the finding is %+v", f)
	}
	if l := r.Lines[0]; l.ByEndpoint["stripe-eu"] != 5 {
		t.Errorf("the hour's records by endpoint are %v", l.ByEndpoint)
	}

	// An event of an order, of which only the filter's row is gone, is named too.
	w.exec(`DELETE FROM processed_events`)
	_, findings = w.hours(a)
	if !slices.ContainsFunc(findings, func(f audit.Finding) bool { return f.EventID == "evt_early" && f.Detail != "" }) {
		t.Errorf("findings %+v do not say what is known of evt_early", findings)
	}
}

func TestAVerdictWithoutARecordIsNamed(t *testing.T) {
	w := newWorld(t, 2)
	w.byTheHour()
	w.everyVerdict()
	w.start(small(), w.deps())
	w.caughtUp()
	w.exec(`UPDATE order_events SET record_offset = 77, partition = 0 WHERE event_id = 'evt_early'`)
	w.exec(`UPDATE partitions SET applied_offset = 90 WHERE partition = 0`)
	w.exec(`UPDATE books SET events = events + 1 WHERE ctid = (SELECT ctid FROM books WHERE verdict = 2 ORDER BY hour LIMIT 1)`)
	r, findings := w.hours(w.auditor())
	if r.Unaccounted() != 1 || len(findings) != 1 || findings[0].Problem != audit.NoRecord || findings[0].EventID != "evt_early" {
		t.Errorf("unaccounted %d, findings %+v", r.Unaccounted(), findings)
	}
}

func TestAnEventThatWasReadAnewIsNotMissingInItsHour(t *testing.T) {
	w := newWorld(t, 2)
	w.byTheHour()
	w.everyVerdict()
	w.sendAt(time.Now().Truncate(time.Hour), 0, stated{id: "evt_early", order: "ord_late", payment: "pi_2", kind: order.KindPaid, amount: 500})
	w.start(small(), w.deps())
	w.caughtUp()
	w.exec(`UPDATE order_events SET partition = 0, record_offset = (SELECT applied_offset FROM partitions WHERE partition = 0) WHERE event_id = 'evt_early'`)
	w.exec(`UPDATE books SET events = events + 1 WHERE ctid = (SELECT ctid FROM books WHERE verdict = 2 ORDER BY hour LIMIT 1)`)
	r, findings := w.hours(w.auditor())
	if r.Unaccounted() != 1 || len(findings) != 0 {
		t.Errorf("unaccounted %d, findings %+v; want 1, and no event is missing", r.Unaccounted(), findings)
	}
}

func TestTheBooksAddUpWhenRecordsExpireAndWhenTheTopicIsMadeAgain(t *testing.T) {
	w := newWorld(t, 2)
	w.byTheHour()
	w.everyVerdict()
	_, stop := w.start(small(), w.deps())
	w.caughtUp()
	a := w.auditor()
	topic := w.kafka.Topic(kafka.Raw)
	gone := kadm.Offsets{}
	gone.Add(kadm.Offset{Topic: topic, Partition: 0, At: 2})
	if _, err := w.admin.DeleteRecords(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	check := func(when string, accepted int64, lines int) {
		t.Helper()
		r, findings := w.hours(a)
		if b := w.figure(a); b.Unaccounted() != 0 || b.Accepted != accepted || r.Unaccounted() != 0 || len(findings) != 0 || len(r.Lines) != lines {
			t.Errorf("%s: %+v, by the hour %d, findings %v, %d lines", when, b, r.Unaccounted(), findings, len(r.Lines))
		}
	}
	check("after two records of the first hour expired", 11, 3)
	gone[topic][0] = kadm.Offset{Topic: topic, Partition: 0, At: 5}
	if _, err := w.admin.DeleteRecords(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	check("after the first hour expired", 11, 2)

	stop()
	if _, err := w.admin.DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	w.until("the topic is made again", func() bool {
		_, err := w.admin.CreateTopic(t.Context(), 2, 1, nil, topic)
		return err == nil
	})
	w.client = testkit.Client(t, w.kafka, kgo.RecordPartitioner(kgo.ManualPartitioner())) // the old one knows the old topic
	w.start(small(), w.deps())
	w.send(stated{id: "evt_new", kind: order.KindNone}, stated{id: "evt_none", kind: order.KindNone})
	w.until("both are applied", func() bool { return w.figure(a).Accepted == 13 && w.figure(a).InFlight == 0 })
	check("after the topic was made again", 13, 3)
}

func TestTheFigureIsAMetric(t *testing.T) {
	w := newWorld(t, 1)
	w.payments(1, 3, 1)
	p, _ := w.start(Config{Workers: 1, Batch: 10, Chores: 10 * time.Millisecond}, w.deps())
	w.until("the books were looked at", func() bool { return testutil.ToFloat64(p.metrics.unaccounted) == 0 })
	w.caughtUp()
	w.exec(`UPDATE books SET events = events - 2 WHERE verdict = 0`)
	p.auditBooks(t.Context())
	if n := testutil.ToFloat64(p.metrics.unaccounted); n != 2 {
		t.Errorf("the metric is %v, want 2", n)
	}
}

// BenchmarkFigure is what every minute costs (23 ms, 2026-11), BenchmarkMonth what
// `sluice audit` of every hour does.
func BenchmarkFigure(b *testing.B) {
	w, a := month(b)
	for b.Loop() {
		w.figure(a)
	}
}

func BenchmarkMonth(b *testing.B) {
	_, a := month(b)
	for b.Loop() {
		if _, err := a.Hours(b.Context(), time.Unix(0, 0), time.Now()); err != nil {
			b.Fatal(err)
		}
	}
}

// month is books of 30 days, 10 endpoints, 3 verdicts and 6 partitions (130,000 rows).
func month(b *testing.B) (*world, *audit.Auditor) {
	w := newWorld(b, 6)
	w.exec(`INSERT INTO names (name) SELECT 'e' || n FROM generate_series(1, 10) n`)
	w.exec(`INSERT INTO books SELECT '00000000-0000-0000-0000-000000000001', p, now() - h * interval '1 hour', n.name_no, v, 100
		FROM generate_series(0, 5) p, generate_series(1, 720) h, names n, generate_series(0, 2) v WHERE n.name LIKE 'e%'`)
	w.exec(`ANALYZE books`)
	return w, w.auditor()
}

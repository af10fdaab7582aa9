package processor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kadm"

	"sluice/pkg/kafka"
	"sluice/pkg/order"
)

// place is where the group goes on with a partition, -1 if it has no offset there.
func (w *world) place(partition int32) int64 {
	w.Helper()
	offsets, err := w.admin.FetchOffsets(context.Background(), w.kafka.Topic(kafka.Group))
	if err != nil {
		w.Fatal(err)
	}
	if o, ok := offsets.Lookup(w.kafka.Topic(kafka.Raw), partition); ok {
		return o.At
	}
	return -1
}

// reset sets the group's offset of a partition, as Kafka's own tool does.
func (w *world) reset(partition int32, at int64) {
	w.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset(w.kafka.Topic(kafka.Raw), partition, at, -1)
	w.until("the group's offset is reset", func() bool {
		return w.admin.CommitAllOffsets(w.Context(), w.kafka.Topic(kafka.Group), offsets) == nil
	})
}

// trace is everything that a replay of what is known must leave as it was.
func (w *world) trace() string {
	w.Helper()
	var trace strings.Builder
	for _, query := range []string{
		`SELECT count(*) FROM order_transitions`, `SELECT coalesce(max(id), 0) FROM order_transitions`, `SELECT count(*) FROM effects`,
		`SELECT count(*) FROM processed_events`, `SELECT count(*) FROM order_events`, `SELECT coalesce(sum(events), 0) FROM books`,
		`SELECT coalesce(sum(version), 0) FROM orders`, `SELECT count(*) FROM review_items`, `SELECT count(*) FROM dead_letters`,
		`SELECT coalesce(sum(applied_offset), 0) FROM partitions`,
	} {
		fmt.Fprintf(&trace, "%s: %d\n", query, w.number(query))
	}
	return trace.String()
}

// hold keeps every lane that meets the event from getting on: the event is not in
// processed_events any more, and its order is locked. What returns lets it go.
func (w *world) hold(id, orderID string) (free func()) {
	w.Helper()
	key := stated{id: id}.event().Key()
	w.exec(`DELETE FROM processed_events WHERE key = $1`, fmt.Sprintf("%x", key[:]))
	tx, err := w.db.Begin()
	if err != nil {
		w.Fatal(err)
	}
	if _, err := tx.Exec(`SELECT FROM orders WHERE order_id = $1 FOR UPDATE`, orderID); err != nil {
		w.Fatal(err)
	}
	free = func() { _ = tx.Rollback() }
	w.Cleanup(free)
	return free
}

// held waits until a lane waits for what hold has locked.
func (w *world) held() {
	w.Helper()
	w.until("the lane waits", func() bool {
		return w.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	})
}

func TestLiveTrafficIsNotHeldUpBehindAReplay(t *testing.T) {
	w := newWorld(t, 1)
	w.payments(1, 20, 1)
	_, stop := w.start(small(), w.deps())
	w.caughtUp()
	stop()

	w.reset(0, 0)
	free := w.hold("evt_5", "ord_5")
	p, _ := w.start(small(), w.deps())
	w.held() // in the middle of the replay
	w.payments(21, 5, 1)
	w.until("what is new is applied", func() bool { return w.status("ord_25") == order.Paid })
	if n := w.place(0); n >= 5 {
		t.Errorf("the group's offset is %d while the replay waits at 4", n)
	}
	if n := testutil.ToFloat64(p.metrics.replaying); n != 1 {
		t.Errorf("%v partitions are being replayed, want 1", n)
	}
	if notes := strings.Join(p.Notes(), "\n"); !strings.Contains(notes, "replay: partition 0 is read again from 0, 20 offsets are left") {
		t.Errorf("no note of the replay in %q", notes)
	}
	free()
	w.caughtUp()
	w.until("no replay is left", func() bool { return testutil.ToFloat64(p.metrics.replaying) == 0 })
	if notes := p.Notes(); len(notes) != 0 {
		t.Errorf("notes after the replay: %q", notes)
	}
	w.paidOnce(25)
	if n := w.place(0); n != 25 {
		t.Errorf("the group's offset is %d after the replay, want 25", n)
	}
	if n := testutil.ToFloat64(p.metrics.again.WithLabelValues("taken")); n != 1 {
		t.Errorf("%v records went through a transaction, want the one that was not known", n)
	}
}

func TestAReplayOfWhatIsKnownWritesNothing(t *testing.T) {
	w := newWorld(t, 3)
	w.payments(1, 60, 3)
	_, stop := w.start(small(), w.deps())
	w.caughtUp()
	stop()
	before := w.trace()
	for p := range int32(3) {
		w.reset(p, 0)
	}
	// Whoever writes or locks any of these is refused.
	for _, table := range []string{"processed_events", "orders", "order_events", "books", "dead_letters", "review_items"} {
		w.exec(`CREATE FUNCTION refuse_` + table + `() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'a replay wrote'; END $$`)
		w.exec(`CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON ` + table + ` FOR EACH STATEMENT EXECUTE FUNCTION refuse_` + table + `()`)
	}
	tx, err := w.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.Exec(`SELECT FROM orders FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	p, _ := w.start(small(), w.deps())
	w.caughtUp()
	if after := w.trace(); after != before {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
	if n := testutil.ToFloat64(p.metrics.again.WithLabelValues("known")); n != 60 {
		t.Errorf("%v records were known, want 60", n)
	}
	if n := testutil.ToFloat64(p.metrics.retries); n != 0 {
		t.Errorf("%v transactions were refused", n)
	}
}

// O36
func TestWhateverBecameOfTheGroupsOffsetsNothingLeftIsSkipped(t *testing.T) {
	for _, c := range []struct {
		name      string
		lose      func(w *world)
		paid      int64 // of 100 orders
		gap, from string
	}{
		{"the group is gone", func(w *world) { w.rewind() }, 100, "", ""},
		{"the committed offset expired", func(w *world) { w.deleteRecords(60) }, 90, kafka.Expired, "50-59"},
		{"everything expired", func(w *world) { w.deleteRecords(100) }, 50, kafka.Expired, "50-99"},
		{"the committed offset and the group are gone", func(w *world) { w.deleteRecords(60); w.rewind() }, 90, kafka.Expired, "50-59"},
		{"what expired was applied", func(w *world) { w.deleteRecords(40); w.rewind() }, 100, "", ""},
		{"the log ends before the offset", func(w *world) {
			w.reset(0, 180) // as if 80 records were lost with a broker
			w.exec(`UPDATE partitions SET applied_offset = 179`)
		}, 100, kafka.Truncated, "100-179"},
		{"the database is older than the group's offset", func(w *world) { w.reset(0, 100) }, 100, kafka.Rewound, "50-99"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.payments(1, 50, 1)
			_, stop := w.start(small(), w.deps())
			w.caughtUp()
			stop()
			w.payments(51, 50, 1)
			c.lose(w)
			p, _ := w.start(small(), w.deps())
			if c.gap != "" {
				w.until("a gap is reported", func() bool { return testutil.CollectAndCount(p.metrics.gaps) > 0 })
			}
			w.caughtUp()
			w.until("what is left is applied", func() bool { return w.number(`SELECT count(*) FROM orders WHERE status = 2`) == c.paid })
			if n := w.number(`SELECT count(*) FROM order_transitions WHERE to_status = 2`); n != c.paid {
				t.Errorf("%d payments were published, want %d", n, c.paid)
			}
			gaps := w.number(`SELECT count(*) FROM review_items WHERE kind = 'offset_gap'`)
			if c.gap == "" {
				if gaps != 0 {
					t.Error("a gap was reported though nothing is missing")
				}
				return
			}
			if n := testutil.ToFloat64(p.metrics.gaps.WithLabelValues(c.gap)); n != 1 || gaps != 1 {
				t.Errorf("%v gaps counted, %d noted, want 1", n, gaps)
			}
			subject := fmt.Sprintf("%s/0/%s", w.kafka.Topic(kafka.Raw), c.from)
			if n := w.number(`SELECT count(*) FROM review_items WHERE kind = 'offset_gap' AND subject = $1`, subject); n != 1 {
				t.Errorf("no review item for %s", subject)
			}
		})
	}
}

// deleteRecords has partition 0 begin at an offset, as retention would.
func (w *world) deleteRecords(before int64) {
	w.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset(w.kafka.Topic(kafka.Raw), 0, before, -1)
	if _, err := w.admin.DeleteRecords(w.Context(), offsets); err != nil {
		w.Fatal(err)
	}
}

func TestACrashInTheMiddleOfAReplayGoesOnFromThere(t *testing.T) {
	w := newWorld(t, 1)
	w.payments(1, 40, 1)
	_, stop := w.start(small(), w.deps())
	w.caughtUp()
	stop()
	w.reset(0, 10)
	free := w.hold("evt_31", "ord_31") // at offset 30
	cfg := small()
	_, stop = w.start(cfg, w.deps())
	w.held()
	w.payments(41, 10, 1)
	w.until("what is new is applied", func() bool { return w.status("ord_50") == order.Paid })
	// Killed: nothing more is written, and another claims the partition.
	free()
	stop()
	w.reset(0, 25) // as if so far had been told
	p, _ := w.start(cfg, w.deps())
	w.caughtUp()
	if known := testutil.ToFloat64(p.metrics.again.WithLabelValues("known")) + testutil.ToFloat64(p.metrics.again.WithLabelValues("taken")); known != 25 {
		t.Errorf("%v records were read again, want those from 25 to 49", known)
	}
	w.paidOnce(50)
}

func TestALaneWhosePartitionWasClaimedByAnotherReadsNoFurther(t *testing.T) {
	w := newWorld(t, 1)
	w.payments(1, 20, 1)
	_, stop := w.start(small(), w.deps())
	w.caughtUp()
	stop()
	w.reset(0, 0)
	w.hold("evt_10", "ord_1")() // unknown, and free
	free := w.hold("evt_5", "ord_5")
	p, _ := w.start(Config{Workers: 1, Batch: 1, Chores: time.Hour}, w.deps())
	w.held()
	// As if this process had been frozen while another took over.
	if _, _, err := w.store.ClaimPartition(t.Context(), w.topicID(), w.kafka.Topic(kafka.Raw), 0, "another"); err != nil {
		t.Fatal(err)
	}
	free()
	w.until("it is noticed", func() bool { return testutil.ToFloat64(p.metrics.fenced) == 1 })
	w.caughtUp() // it joined again and claimed anew
	w.paidOnce(20)
}

func TestARebalanceInTheMiddleOfAReplayHandsItOver(t *testing.T) {
	w := newWorld(t, 4)
	w.quick()
	w.payments(1, 80, 4)
	_, stop := w.start(small(), w.deps())
	w.caughtUp()
	stop()
	for p := range int32(4) {
		w.reset(p, 0)
	}
	free := w.hold("evt_77", "ord_77") // partition 1
	first, _ := w.start(small(), w.deps())
	w.held()
	second, _ := w.start(small(), w.deps())
	w.until("the second has partitions", func() bool {
		second.workers[0].mu.Lock()
		defer second.workers[0].mu.Unlock()
		return len(second.workers[0].claims) == 2
	})
	second.workers[0].mu.Lock()
	for p := range second.workers[0].claims {
		if notes := strings.Join(first.Notes(), "\n"); strings.Contains(notes, fmt.Sprintf("partition %d ", p)) {
			t.Errorf("the first goes on reading partition %d, which the second has: %s", p, notes)
		}
	}
	second.workers[0].mu.Unlock()
	free()
	w.caughtUp()
	for _, p := range []*Processor{first, second} {
		w.until("no replay is left", func() bool { return testutil.ToFloat64(p.metrics.replaying) == 0 })
	}
	w.paidOnce(80)
	for p := range int32(4) {
		if n := w.place(p); n != 20 {
			t.Errorf("the group's offset of partition %d is %d, want 20", p, n)
		}
	}
}

func TestALaneThatIsStuckIsToldThoughLiveTrafficGoesOn(t *testing.T) {
	w := newWorld(t, 1)
	w.quick()
	w.payments(1, 20, 1)
	_, stop := w.start(small(), w.deps())
	w.caughtUp()
	stop()
	w.reset(0, 0)
	free := w.hold("evt_5", "ord_5")
	p, _ := w.start(small(), w.deps())
	w.until("it was refused for the fifth time, and waits", func() bool { return testutil.ToFloat64(p.metrics.retries) >= 5 })
	w.payments(21, 1, 1)
	w.until("what is new is applied", func() bool { return w.status("ord_21") == order.Paid })
	if p.Ready() == nil {
		t.Error("it is ready though its lane is not")
	}
	free()
	w.caughtUp()
	if err := p.Ready(); err != nil {
		t.Errorf("it is not ready: %v", err)
	}
}

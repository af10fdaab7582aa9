package processor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// ask asks for a replay of partitions from the given offsets on, as the tool does.
func (w *world) ask(targets ...postgres.ReplayTarget) (id int64) {
	w.Helper()
	id, err := w.store.BeginReplay(w.Context(), postgres.NewReplay{TopicID: w.topicID(), Topic: w.kafka.Topic(kafka.Raw),
		Who: "ada", Reason: "a bug was fixed", Plan: map[string]int{}, Partitions: targets})
	if err != nil {
		w.Fatal(err)
	}
	return id
}

func (w *world) topicID() [16]byte {
	w.Helper()
	details, err := w.admin.ListTopics(w.Context(), w.kafka.Topic(kafka.Raw))
	if err != nil {
		w.Fatal(err)
	}
	return details[w.kafka.Topic(kafka.Raw)].ID
}

// asked is how a replay is now.
func (w *world) asked(id int64) *postgres.Replay {
	w.Helper()
	r, err := w.store.Replay(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// paused waits until every partition of a replay is reported.
func (w *world) paused(id int64) {
	w.Helper()
	w.until("every partition is paused", func() bool {
		for _, p := range w.asked(id).Partitions {
			if p.PausedBy == "" {
				return false
			}
		}
		return true
	})
}

func (w *world) begin(id int64) {
	w.Helper()
	if err := w.store.StartReplay(w.Context(), id); err != nil {
		w.Fatal(err)
	}
}

func (w *world) over(id int64, how postgres.ReplayState) {
	w.Helper()
	w.until("the replay is over", func() bool { return w.asked(id).Ended() })
	if s := w.asked(id).State; s != how {
		w.Errorf("the replay is %s, want %s", s, how)
	}
}

func TestAReplayThatIsAskedForPausesEveryProcessorAndIsCarriedOut(t *testing.T) {
	w := newWorld(t, 4)
	w.payments(1, 80, 4)
	var ps []*Processor
	for range 2 {
		p, _ := w.start(Config{Workers: 2, Batch: 10, Chores: time.Hour}, w.deps())
		ps = append(ps, p)
	}
	w.caughtUp()
	key := stated{id: "evt_9"}.event().Key()
	w.exec(`DELETE FROM processed_events WHERE key = $1`, fmt.Sprintf("%x", key[:])) // forgotten; its order's set knows it
	id := w.ask(postgres.ReplayTarget{Partition: 0, From: 0}, postgres.ReplayTarget{Partition: 1, From: 0},
		postgres.ReplayTarget{Partition: 2, From: 20}, postgres.ReplayTarget{Partition: 3, From: 15})
	w.paused(id)
	applied := w.number(`SELECT sum(applied_offset) FROM partitions`)
	w.payments(81, 8, 4)
	if n := w.number(`SELECT sum(applied_offset) FROM partitions`); n != applied {
		t.Errorf("%d records were applied while everything is paused", n-applied)
	}
	w.begin(id)
	w.over(id, postgres.ReplayDone)
	w.caughtUp()
	w.paidOnce(88)
	read := 0.0
	for _, p := range ps {
		read += testutil.ToFloat64(p.metrics.again.WithLabelValues("known")) + testutil.ToFloat64(p.metrics.again.WithLabelValues("taken"))
	}
	if read != 45 {
		t.Errorf("%v records were read again, want 20 and 20 and 5", read)
	}
	for _, p := range w.asked(id).Partitions {
		if p.Counts != (postgres.ReplayCounts{}) {
			t.Errorf("partition %d counts %+v, but everything was known", p.Partition, p.Counts)
		}
		if n := w.place(p.Partition); n != 22 {
			t.Errorf("the group's offset of partition %d is %d, want 22", p.Partition, n)
		}
	}
}

func TestWhoClaimsAPartitionOfARunningReplayTakesIt(t *testing.T) {
	w := newWorld(t, 2)
	w.payments(1, 20, 2)
	_, stop := w.start(small(), w.deps())
	w.caughtUp()
	id := w.ask(postgres.ReplayTarget{Partition: 0, From: 4}, postgres.ReplayTarget{Partition: 1, From: 10})
	w.paused(id)
	stop() // killed while it is paused
	w.begin(id)
	p, _ := w.start(small(), w.deps())
	w.over(id, postgres.ReplayDone)
	w.caughtUp()
	w.paidOnce(20)
	if n := testutil.ToFloat64(p.metrics.again.WithLabelValues("known")); n != 6 {
		t.Errorf("%v records were read again, want 6", n)
	}
}

func TestAReplayGoesOnAfterACrashAndCountsWhatItDid(t *testing.T) {
	w := newWorld(t, 1)
	w.quick()
	w.payments(1, 20, 1)
	_, stop := w.start(small(), w.deps())
	w.caughtUp()
	stop()
	// One record became unknown, with all that it did.
	w.exec(`DELETE FROM order_transitions WHERE order_id = 'ord_15' AND version > 1`)
	w.exec(`DELETE FROM order_events WHERE event_id = 'evt_15'`)
	w.exec(`UPDATE orders SET status = 1, paid = 0, version = 1, n_events = 0 WHERE order_id = 'ord_15'`)
	free := w.hold("evt_15", "ord_15")
	_, stop = w.start(small(), w.deps())
	w.caughtUp()
	id := w.ask(postgres.ReplayTarget{Partition: 0, From: 0})
	w.paused(id)
	w.begin(id)
	w.held()
	stop() // it waits for its transaction, which is refused in the end
	w.until("the transaction is gone", func() bool {
		return w.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 0
	})
	if w.asked(id).Ended() {
		t.Error("the replay has ended though a record is not through")
	}
	free()
	w.start(small(), w.deps())
	w.over(id, postgres.ReplayDone)
	w.caughtUp()
	w.paidOnce(20)
	want := postgres.ReplayCounts{Applied: 1, Changes: 1}
	if got := w.asked(id).Partitions[0].Counts; got != want {
		t.Errorf("it counts %+v, want %+v", got, want)
	}
}

func TestAReplayThatIsStoppedReadsNoFurther(t *testing.T) {
	w := newWorld(t, 1)
	w.payments(1, 20, 1)
	p, _ := w.start(Config{Workers: 1, Batch: 5, Chores: time.Hour}, w.deps())
	w.caughtUp()
	free := w.hold("evt_15", "ord_15")
	id := w.ask(postgres.ReplayTarget{Partition: 0, From: 0})
	w.paused(id)
	w.begin(id)
	w.held()
	if err := w.store.StopReplay(t.Context(), id, "ada", "enough"); err != nil {
		t.Fatal(err)
	}
	free()
	w.until("no replay is left", func() bool { return testutil.ToFloat64(p.metrics.replaying) == 0 })
	w.caughtUp()
	w.over(id, postgres.ReplayAbandoned)
	w.paidOnce(20)
}

func TestASkippingReplayLeavesAGapThatSomebodyAnswersFor(t *testing.T) {
	w := newWorld(t, 2)
	w.payments(1, 20, 2)
	p, _ := w.start(small(), w.deps())
	w.caughtUp()
	id := w.ask(postgres.ReplayTarget{Partition: 0, From: 15, Skip: true})
	w.paused(id)
	w.payments(21, 20, 2) // partition 0 has 20 now
	w.begin(id)
	w.over(id, postgres.ReplayDone)
	w.caughtUp()
	w.until("what lies behind it is applied", func() bool { return w.number(`SELECT count(*) FROM orders WHERE status = 2`) == 35 })
	if n := testutil.CollectAndCount(p.metrics.gaps); n != 0 {
		t.Error("what somebody left out was reported as missing")
	}
	if n := w.number(`SELECT count(*) FROM review_items WHERE kind = 'offset_gap' AND settled_by = 'ada'`); n != 1 {
		t.Errorf("%d gaps are somebody's, want 1", n)
	}
	if w.status("ord_22") == order.Paid {
		t.Error("a record that was skipped was applied") // ord_22 is at offset 10
	}
}

// A partition is in the group's hands before its lane has begun: the lane may be busy
// with another's chunk.
func TestAPartitionWhoseLaneHasNotBegunYetIsNotTakenForReadThrough(t *testing.T) {
	w := newWorld(t, 4)
	w.payments(1, 80, 4)
	p, _ := w.start(small(), w.deps())
	owns := func(p *Processor, n int64) {
		t.Helper()
		w.until("the partitions are shared out", func() bool {
			return w.number(`SELECT count(*) FROM partitions WHERE owner = '`+p.workers[0].owner+`'`) == n
		})
	}
	owns(p, 4)
	w.quick()
	second, stop := w.start(small(), w.deps())
	owns(second, 2)
	w.caughtUp()
	var free []func() // the first record of each partition
	for p := range 4 {
		free = append(free, w.hold(fmt.Sprintf("evt_%d", p+1), fmt.Sprintf("ord_%d", p+1)))
	}
	id := w.ask(postgres.ReplayTarget{Partition: 0}, postgres.ReplayTarget{Partition: 1}, postgres.ReplayTarget{Partition: 2}, postgres.ReplayTarget{Partition: 3})
	w.paused(id)
	w.begin(id)
	w.until("both lanes wait", func() bool {
		return w.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 2
	})
	stop() // the first gets its partitions while its lane is busy
	owns(p, 4)
	for range 100 {
		p.workers[0].wake()
		for _, part := range w.asked(id).Partitions {
			if part.Ended {
				t.Fatalf("partition %d counts as read, and no record of it was", part.Partition)
			}
		}
	}
	for _, f := range free {
		f()
	}
	w.over(id, postgres.ReplayDone)
	w.caughtUp()
	w.paidOnce(80)
	if n := testutil.ToFloat64(p.metrics.again.WithLabelValues("known")) + testutil.ToFloat64(p.metrics.again.WithLabelValues("taken")); n != 80 {
		t.Errorf("%v records were read again, want 80", n)
	}
}

// halfTaken has a processor that did the first of two steps of taking partition 0 from
// its first record on: the group's offset is set, and nothing is read.
func halfTaken(t *testing.T) (w *world, p *Processor, id int64) {
	t.Helper()
	w = newWorld(t, 1)
	w.payments(1, 20, 1)
	p, _ = w.start(small(), w.deps())
	w.caughtUp()
	id = w.ask(postgres.ReplayTarget{Partition: 0})
	w.paused(id)
	if _, err := p.workers[0].lane.Load().c.Replay(t.Context(), 0, 0); err != nil {
		t.Fatal(err)
	}
	return w, p, id
}

func TestAPartitionThatWasTakenThoughTheAnswerWasLostIsReadAllTheSame(t *testing.T) {
	w, p, id := halfTaken(t)
	w.exec(`UPDATE replay_partitions SET taken_at = clock_timestamp(), until_offset = 20`)
	w.begin(id)
	w.over(id, postgres.ReplayDone)
	w.caughtUp()
	if n := testutil.ToFloat64(p.metrics.again.WithLabelValues("known")); n != 20 {
		t.Errorf("%v records were read again, want 20", n)
	}
}

func TestAReplayThatEndsBeforeItsPartitionIsTakenLeavesNoLag(t *testing.T) {
	w, p, id := halfTaken(t)
	if err := w.store.AbandonReplay(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.caughtUp()
	if n := testutil.CollectAndCount(p.metrics.again); n != 0 {
		t.Error("something was read again")
	}
}

func TestAnIdleGroupIsToldWhatACommitThatFailedDidNot(t *testing.T) {
	w := newWorld(t, 1)
	w.payments(1, 20, 1)
	p, _ := w.start(small(), w.deps())
	w.caughtUp()
	c := p.workers[0].lane.Load().c
	until := func(last int64) kafka.Batch {
		return kafka.Batch{Records: []kafka.Record{{Partition: 0, Offset: last}}}
	}
	if err := c.Commit(t.Context(), until(9)); err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Commit(late, until(19)); err == nil {
		t.Fatal("it was committed after its time")
	}
	p.workers[0].wake()
	w.caughtUp()
}

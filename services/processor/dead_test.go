package processor

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/testkit"
)

// O35
func TestRecordsNobodyCanReadAreKeptOnceAndStopNothing(t *testing.T) {
	w := newWorld(t, 1)
	w.register(1000, "ord_1")
	raw := w.kafka.Topic(kafka.Raw)
	noise := make([]byte, 900<<10)
	_, _ = rand.Read(noise)
	good := stated{id: "evt_ok", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000}
	unknown := w.record(good.event(), 0)
	for i, h := range unknown.Headers {
		if h.Key == "sluice_endpoint" {
			unknown.Headers[i].Value = []byte("nobody")
		}
	}
	unreadable := good.event()
	unreadable.ID, unreadable.Body = "evt_bad", []byte("not JSON")
	bad := []*kgo.Record{
		{Topic: raw, Value: []byte("hello")}, {Topic: raw, Value: []byte{}}, {Topic: raw, Value: []byte("{}")},
		{Topic: raw, Value: []byte("[]")}, {Topic: raw, Value: noise}, unknown,
		w.record(unreadable, 0), w.record(unreadable, 0),
	}
	w.produce(bad...)
	w.produce(&kgo.Record{Topic: raw, Key: []byte("k")}) // a tombstone
	w.send(good)
	_, stop := w.start(small(), w.deps())
	w.caughtUp()
	if got := w.status("ord_1"); got != order.Paid {
		t.Errorf("the valid event behind them left the order %v", got)
	}
	check := func(when string) {
		t.Helper()
		for query, want := range map[string]int64{
			`SELECT count(*) FROM dead_letters`:                            int64(len(bad)),
			`SELECT count(*) FROM review_items WHERE kind = 'dead_letter'`: int64(len(bad)),
			`SELECT count(*) FROM processed_events`:                        1,
			`SELECT sum(events) FROM books WHERE verdict = 3`:              int64(len(bad)),
			`SELECT sum(events) FROM books`:                                int64(len(bad)) + 2, // the tombstone too
		} {
			if n := w.number(query); n != want {
				t.Errorf("%s: %s is %d, want %d", when, query, n, want)
			}
		}
	}
	check("first")
	letters := func() int64 {
		n, err := kafka.Count(t.Context(), w.kafka, testkit.Log(t), w.kafka.Topic(kafka.DeadLetters))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	w.until("all are in the dead-letter topic", func() bool { return letters() == int64(len(bad)) })

	// Again from the beginning: nothing is added.
	stop()
	w.rewind()
	_, stop = w.start(small(), w.deps())
	w.caughtUp()
	stop()
	check("after a replay")
	if n := letters(); n != int64(len(bad)) {
		t.Errorf("%d dead letters in the topic after a replay, want %d", n, len(bad))
	}
	first := w.firstDeadLetter()
	if string(first.Value) != "hello" {
		t.Errorf("the dead letter's body is %q", first.Value)
	}
	want := map[string]string{"sluice_dead_reason": "headers", "sluice_dead_topic": raw, "sluice_dead_partition": "0", "sluice_dead_offset": "0"}
	for _, h := range first.Headers {
		if v, ok := want[h.Key]; ok && v == string(h.Value) {
			delete(want, h.Key)
		}
	}
	if len(want) > 0 {
		t.Errorf("the dead letter lacks headers %v", want)
	}
}

func (w *world) firstDeadLetter() *kgo.Record {
	w.Helper()
	cl := testkit.Client(w, w.kafka, kgo.ConsumeTopics(w.kafka.Topic(kafka.DeadLetters)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	fetches := cl.PollRecords(ctx, 1)
	if err := fetches.Err(); err != nil {
		w.Fatal(err)
	}
	return fetches.Records()[0]
}

// rewind resets the group to the beginning, as an engineer does for a replay.
func (w *world) rewind() {
	w.Helper()
	if _, err := w.admin.DeleteGroup(w.Context(), w.kafka.Topic(kafka.Group)); err != nil {
		w.Fatal(err)
	}
}

func TestADeadLetterThatCanBeReadAfterAFixIsTakenOverByAReplay(t *testing.T) {
	w := newWorld(t, 1)
	w.register(1000, "ord_1")
	w.send(stated{id: "evt_1", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000})
	deps := w.deps()
	deps.Endpoints = testEmpty
	_, stop := w.start(small(), deps)
	w.caughtUp()
	stop()
	if n := w.booked(order.Dead); n != 1 {
		t.Fatalf("%d dead, want 1", n)
	}
	w.rewind()
	w.start(small(), w.deps())
	w.until("it is paid", func() bool { return w.status("ord_1") == order.Paid })
	if d, a := w.booked(order.Dead), w.booked(order.Applied); d != 0 || a != 1 {
		t.Errorf("books: %d dead, %d applied; want 0 and 1", d, a)
	}
	if n := w.number(`SELECT count(*) FROM review_items WHERE settled_at IS NULL`); n != 0 {
		t.Errorf("%d review items are open", n)
	}
}

// O17, O35: what validation misses, the database refuses.
func TestARecordThatTheDatabaseRefusesIsFoundAndPutAside(t *testing.T) {
	w := newWorld(t, 1)
	w.exec(`ALTER TABLE orders ADD CONSTRAINT no_such_order CHECK (order_id <> 'ord_37')`)
	var events []stated
	for i := range 100 {
		id := "ord_" + string(rune('0'+i/10)) + string(rune('0'+i%10))
		events = append(events, stated{id: "evt_" + id, order: id, payment: "pi_" + id, kind: order.KindPaid, amount: 1000})
	}
	w.send(events...)
	w.start(small(), w.deps())
	w.caughtUp()
	if h, d := w.booked(order.Held), w.booked(order.Dead); h != 99 || d != 1 {
		t.Errorf("books: %d held, %d dead; want 99 and 1", h, d)
	}
	if n := w.number(`SELECT count(*) FROM dead_letters WHERE reason = 'refused' AND record_offset = 37`); n != 1 {
		t.Error("the refused record is not the dead letter")
	}
}

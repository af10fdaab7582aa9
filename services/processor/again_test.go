package processor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// acme is one event of acme's: what the wrong rule reads, and what the right one does.
type acme struct {
	id, status, order, ref, amount string
	total                          int
}

func (a acme) event() event.Event {
	body := fmt.Sprintf(`{"id":%q,"status":%q,"updated":%d,"order":%q,"ref":%q,"payment":"pay_%s","amount":%s,"total":%d,"currency":"EUR"}`,
		a.id, a.status, now.Unix(), a.order, a.ref, a.id, a.amount, a.total)
	return event.Event{
		Source: "acme", ID: a.id, Type: a.status, Time: now, TimeRepeats: true, Mode: event.Live, Provider: "acme", Endpoint: "acme", Order: a.order, Payment: "pay_" + a.id,
		Trust: event.Signed, ContentType: "application/json", ReceivedAt: time.Now(), SecretName: "env:S", Body: []byte(body),
	}
}

// again is a tool that looks again at records.
func (w *world) again(set endpoint.Set, anew *Anew) *Again {
	w.Helper()
	window, err := w.store.EnsurePartitions(w.Context(), time.Now())
	if err != nil {
		w.Fatal(err)
	}
	return NewAgain(AgainDeps{Store: w.store, Endpoints: set, Mode: event.Live, Log: slog.New(slog.DiscardHandler), Now: time.Now, Window: window, Anew: anew})
}

// raw are all records of the raw topic, and its id.
func (w *world) raw() (topicID [16]byte, records []kafka.Record) {
	w.Helper()
	name := w.kafka.Topic(kafka.Raw)
	o, err := kafka.NewOffsets(w.Context(), w.kafka, slog.New(slog.DiscardHandler), name)
	if err != nil {
		w.Fatal(err)
	}
	defer o.Close()
	extent, err := o.Extent(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	var ranges []kafka.Range
	for p := range extent.Start {
		ranges = append(ranges, kafka.Range{Partition: p, From: extent.Start[p], Before: extent.End[p]})
	}
	if err := kafka.Read(w.Context(), w.kafka, slog.New(slog.DiscardHandler), name, ranges, func(r kafka.Record) bool {
		records = append(records, r)
		return true
	}); err != nil {
		w.Fatal(err)
	}
	return extent.TopicID, records
}

// rows is a digest of everything that the tables say.
func (w *world) rows() string {
	w.Helper()
	var out []string
	for _, table := range []string{"orders", "order_events", "order_transitions", "held_events", "dead_letters", "payments", "books", "effects", "review_items", "processed_events", "raw_bodies", "partitions"} {
		out = append(out, fmt.Sprintf("%s %d", table, w.number(`SELECT coalesce(sum(hashtextextended(t::text, 0)) % 1000000007, 0)::bigint FROM `+table+` t`)))
	}
	return strings.Join(out, "\n")
}

// misread makes a world in which every way of misreading an event has happened.
func misread(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, 2)
	w.store.WithEffects(effects(t, declaredEffects))
	w.endpoints = load(t, testkit.MisreadLayout)
	w.register(1000, "amount", "right", "nothing", "kind", "wrong-order", "right-order", "dead", "moved-stub")
	for i, a := range []acme{
		{"e_amount", "paid", "amount", "amount", "999", 1000},
		{"e_right", "paid", "right", "right", "1000", 1000},
		{"e_nothing", "settled", "nothing", "nothing", "1", 1000},
		{"e_kind", "void", "kind", "kind", "1000", 1000},
		{"e_order", "paid", "wrong-order", "right-order", "1000", 1000},
		{"e_dead", "paid", "dead", "dead", `"confidential"`, 1000},
		{"e_stub", "paid", "", "moved-stub", "1000", 1000},
	} {
		r := w.record(a.event(), int32(i%2))
		w.produce(r, r) // each comes twice
	}
	_, stop := w.start(small(), w.deps())
	w.caughtUp()
	stop()
	if n := w.figure(w.auditor()).Unaccounted(); n != 0 {
		t.Fatalf("%d unaccounted", n)
	}
	return w
}

// looked is the world after it was mended.
func (w *world) looked() {
	w.Helper()
	for id, want := range map[string]order.Status{"amount": order.Paid, "right": order.Paid, "nothing": order.Paid, "kind": order.Failed,
		"wrong-order": order.Pending, "right-order": order.Paid, "dead": order.Paid, "moved-stub": order.Paid} {
		if got := w.status(id); got != want {
			w.Errorf("order %s is %v (%s), want %v", id, got, w.history(id), want)
		}
	}
	if got := w.history("kind"); got != "pending paid failed*" {
		w.Errorf("order kind went %s", got)
	}
	if got := w.history("wrong-order"); got != "pending paid pending*" {
		w.Errorf("order wrong-order went %s", got)
	}
	for v, want := range map[order.Verdict]int64{order.Applied: 7, order.NoChange: 0, order.Held: 0, order.Dead: 0, order.Duplicate: 7} {
		if got := w.booked(v); got != want {
			w.Errorf("the books have %d %v, want %d", got, v, want)
		}
	}
	if n := w.number(`SELECT count(*) FROM (SELECT hour, endpoint_no, verdict FROM books GROUP BY 1, 2, 3 HAVING sum(events) < 0) n`); n != 0 {
		w.Errorf("%d counts are below nothing", n)
	}
	if n := w.figure(w.auditor()).Unaccounted(); n != 0 {
		w.Errorf("%d unaccounted", n)
	}
	if n := w.number(`SELECT count(*) FROM review_items WHERE settled_at IS NULL AND kind <> 'effect_outdated'`); n != 0 {
		w.Errorf("%d review items are open", n)
	}
	if n := w.number(`SELECT count(*) FROM held_events`); n != 0 {
		w.Errorf("%d events are held", n)
	}
	if n := w.number(`SELECT count(*) FROM (SELECT order_no, effect FROM effects WHERE state <> 3 AND NOT outdated GROUP BY 1, 2 HAVING count(*) > 1) n`); n != 0 {
		w.Errorf("%d effects stand twice", n)
	}
	if n := w.number(`SELECT count(*) FROM effects WHERE effect = 'fulfil' AND state <> 3 AND NOT outdated`); n != 6 {
		w.Errorf("%d orders are to be fulfilled, want 6", n)
	}
}

// O44, "a new consumer version whose rules differ": a plain look changes nothing; one
// that reads anew mends every order, once.
func TestWhatAWrongLayoutMisreadIsMendedByReadingAnew(t *testing.T) {
	w := misread(t)
	topicID, records := w.raw()
	before := w.rows()
	plain := w.again(load(t, testkit.MisreadLayout), nil)
	if err := plain.Look(t.Context(), topicID, records); err != nil {
		t.Fatal(err)
	}
	if after := w.rows(); after != before {
		t.Errorf("a plain look under the same rules changes rows:\n%s\n%s", before, after)
	}
	same := w.again(load(t, testkit.MisreadLayout), &Anew{})
	if err := same.Look(t.Context(), topicID, records); err != nil {
		t.Fatal(err)
	}
	if after := w.rows(); after != before {
		t.Errorf("reading anew under the same rules changes rows:\n%s\n%s", before, after)
	}
	a := w.again(load(t, testkit.MendedLayout), &Anew{})
	if err := a.Look(t.Context(), topicID, records); err != nil {
		t.Fatal(err)
	}
	w.looked()
	if got := a.Counts(); got.Records != 14 || got.Mended != 4 || got.Entered != 1 || got.Revived != 2 || got.Dead != 0 {
		t.Errorf("counted %+v", got)
	}
	before = w.rows()
	for _, anew := range []*Anew{{}, nil} {
		if err := w.again(load(t, testkit.MendedLayout), anew).Look(t.Context(), topicID, records); err != nil {
			t.Fatal(err)
		}
		if after := w.rows(); after != before {
			t.Errorf("looking once more changes rows:\n%s\n%s", before, after)
		}
	}
}

// Batches of one, two tools at once, a processor that works meanwhile, and a stop half way end the same.
func TestToolsThatReadAnewAtOnceEndWhereOneDoes(t *testing.T) {
	w := misread(t)
	topicID, records := w.raw()
	deps := w.deps()
	deps.Endpoints = load(t, testkit.MendedLayout)
	w.start(small(), deps)
	half := w.again(load(t, testkit.MendedLayout), &Anew{})
	for i := range records[:5] {
		if err := half.Look(t.Context(), topicID, records[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			a := w.again(load(t, testkit.MendedLayout), &Anew{})
			for i := 0; i < len(records); i += 2 {
				if err := a.Look(context.Background(), topicID, records[i:min(i+2, len(records))]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	w.looked()
}

func TestOnlyEventsOfTheVerdictsAskedForAreReadAnew(t *testing.T) {
	w := misread(t)
	topicID, records := w.raw()
	look := func(verdicts ...order.Verdict) AgainCounts {
		a := w.again(load(t, testkit.MendedLayout), &Anew{Verdicts: verdicts})
		if err := a.Look(t.Context(), topicID, records); err != nil {
			t.Fatal(err)
		}
		return a.Counts()
	}
	if c := look(order.Held); c.Mended != 2 || c.Entered+c.Revived != 0 || w.status("amount") != order.Paid || w.status("kind") != order.Paid {
		t.Errorf("held: %+v", c)
	}
	if c := look(order.Dead); c.Revived != 2 || c.Mended+c.Entered != 0 || w.status("dead") != order.Paid || w.status("nothing") != order.Pending {
		t.Errorf("dead: %+v", c)
	}
	if c := look(order.NoChange); c.Entered != 1 || c.Mended+c.Revived != 0 || w.status("nothing") != order.Paid || w.status("kind") != order.Paid {
		t.Errorf("no change: %+v", c)
	}
	if c := look(order.Applied); c.Mended != 2 {
		t.Errorf("applied: %+v", c)
	}
	w.looked()
}

// An event that nobody has taken over is not known for having been looked at, and is in
// no line of the books.
func TestWhatIsNotAskedForIsNotTakenOver(t *testing.T) {
	w := misread(t)
	w.register(1000, "lost", "left-out")
	for _, id := range []string{"lost", "left-out"} {
		w.produce(w.record(acme{"e_" + id, "paid", id, id, "1000", 1000}.event(), 0))
	}
	topicID, records := w.raw()
	look := func(anew *Anew, records []kafka.Record) AgainCounts {
		t.Helper()
		a := w.again(load(t, testkit.MisreadLayout), anew)
		if err := a.Look(t.Context(), topicID, records); err != nil {
			t.Fatal(err)
		}
		return a.Counts()
	}
	before := w.rows()
	for _, v := range []order.Verdict{order.Held, order.Dead, order.Applied} {
		if c := look(&Anew{Verdicts: []order.Verdict{v}}, records); c.New+c.Entered != 0 {
			t.Errorf("%v: %+v", v, c)
		}
	}
	if after := w.rows(); after != before {
		t.Errorf("what is not asked for changes rows:\n%s\n%s", before, after)
	}
	of := func(id string) []kafka.Record {
		return slices.DeleteFunc(slices.Clone(records), func(r kafka.Record) bool { return string(r.Key) != id })
	}
	if c := look(nil, of("e_lost")); c.New != 1 || w.status("lost") != order.Paid {
		t.Errorf("a replay: %+v", c)
	}
	booked := w.booked(order.NoChange)
	if c := look(&Anew{Verdicts: []order.Verdict{order.NoChange}}, of("e_left-out")); c.New != 1 || w.status("left-out") != order.Paid {
		t.Errorf("read anew: %+v", c)
	}
	if n := w.booked(order.NoChange); n != booked {
		t.Errorf("the books had %d of no change, and have %d", booked, n)
	}
}

// What a person decided about an event goes with it, and where a person put it, it
// stays, whatever its bytes say now.
func TestReadingAnewUndoesNoDecision(t *testing.T) {
	w := misread(t)
	topicID, records := w.raw()
	decide := func(event string, d postgres.Decision) {
		t.Helper()
		w.exec(`UPDATE held_events SET due_at = now() - interval '1 s'`)
		if err := w.store.InTx(t.Context(), func(tx postgres.Tx) error {
			_, err := tx.ReviewDueHeldEvents(t.Context(), time.Now(), 100)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		d.Item = w.number(`SELECT id FROM review_items WHERE kind = 'held' AND event_hash = (SELECT event_hash FROM order_events WHERE event_id = $1)`, event)
		d.Who, d.Reason = "anna", "ticket"
		if err := w.store.ClaimReviewItem(t.Context(), time.Now(), d.Item, d.Who); err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.Decide(t.Context(), time.Now(), d); err != nil {
			t.Fatal(err)
		}
	}
	decide("e_amount", postgres.Decision{Action: postgres.Dismiss})
	decide("e_stub", postgres.Decision{Action: postgres.Link, OrderID: "nothing"}) // the right rule says moved-stub
	if err := w.again(load(t, testkit.MendedLayout), &Anew{}).Look(t.Context(), topicID, records); err != nil {
		t.Fatal(err)
	}
	if got := w.status("amount"); got != order.Pending {
		t.Errorf("the dismissed event counts: %v", got)
	}
	if n := w.number(`SELECT count(*) FROM order_events e JOIN orders USING (order_no) WHERE event_id = 'e_stub' AND order_id = 'nothing'`); n != 1 {
		t.Error("the event left the order that a person linked it to")
	}
	if n := w.figure(w.auditor()).Unaccounted(); n != 0 {
		t.Errorf("%d unaccounted", n)
	}
}

// Of an object's states the latest counts after reading anew too, whatever came first
// and however they are cut into batches.
func TestOfAnObjectsStatesTheLatestIsReadAnew(t *testing.T) {
	w := newWorld(t, 1)
	w.endpoints = load(t, strings.Replace(updates, "amount: amount", "amount: fee", 1))
	for _, states := range [][]string{{"open", "paid"}, {"paid", "open"}} {
		id := "pay_" + states[0]
		w.register(1000, "ord_"+id)
		for _, status := range states {
			at := map[string]int{"open": 0, "paid": 1}[status]
			e := version(id, "ord_"+id, status, 1000, at)
			e.Body = []byte(strings.Replace(string(e.Body), `"amount"`, `"fee":7,"amount"`, 1))
			w.produce(w.record(e, 0))
		}
	}
	_, stop := w.start(small(), w.deps())
	w.caughtUp()
	stop()
	topicID, records := w.raw()
	if n := w.booked(order.Held); n != 2 {
		t.Fatalf("%d held, want 2", n)
	}
	a := w.again(load(t, updates), &Anew{})
	for _, some := range [][]kafka.Record{records[:1], records[1:2], records[2:]} {
		if err := a.Look(t.Context(), topicID, some); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"ord_pay_open", "ord_pay_paid"} {
		if got := w.status(id); got != order.Paid {
			t.Errorf("order %s is %v (%s)", id, got, w.history(id))
		}
	}
	if c := a.Counts(); c.Mended != 2 || c.Unchanged != 2 {
		t.Errorf("counted %+v", c)
	}
	if n := w.figure(w.auditor()).Unaccounted(); n != 0 {
		t.Errorf("%d unaccounted", n)
	}
}

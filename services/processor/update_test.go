package processor

import (
	"fmt"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// updates is an endpoint of a provider that sends a payment's state anew under
// the payment's id.
const updates = `endpoints:
  - name: acme
    provider: declared
    secrets: [env:S]
    declared:
      signature: {header: x-signature, algorithm: sha256, encoding: hex}
      reading:
        id: id
        type: status
        time: updated
        changed_body: update
        order: order
        payment: id
        amount: amount
        currency: currency
        facts:
          - {type: open, kind: pending}
          - {type: failed, kind: failed}
          - {type: paid, kind: paid}
`

// version is one state of a payment, as the provider sends it.
func version(id, ord, status string, amount int64, updated int) event.Event {
	at := now.Add(time.Duration(updated) * time.Second)
	return event.Event{
		Source: "acme", ID: id, Type: status, Time: at, Mode: event.Live, Provider: "acme", Endpoint: "acme", Order: ord, Payment: id,
		Trust: event.Signed, ContentType: "application/json", ReceivedAt: time.Now(), SecretName: "env:S",
		Body: fmt.Appendf(nil, `{"id":%q,"status":%q,"updated":%d,"order":%q,"amount":%d,"currency":"EUR"}`, id, status, at.Unix(), ord, amount),
	}
}

// O26, of a provider whose rule is update.
func TestOfAStateThatIsSentAnewTheLatestReadingCountsWhateverCameFirst(t *testing.T) {
	w := newWorld(t, 3)
	w.endpoints = load(t, updates)
	w.start(small(), w.deps())
	w.start(small(), w.deps()) // two consumers
	type state struct {
		status string
		amount int64
	}
	cases := []struct {
		name    string
		states  []state // by time
		want    order.Status
		verdict order.Verdict
	}{
		{"ends paid", []state{{"open", 1000}, {"failed", 1000}, {"paid", 1000}}, order.Paid, order.Applied},
		{"ends failed", []state{{"open", 1000}, {"paid", 1000}, {"failed", 1000}}, order.Failed, order.Applied},
		{"ends held", []state{{"paid", 1000}, {"paid", 998}, {"paid", 999}}, order.Pending, order.Held},
		{"ends unknown", []state{{"paid", 999}, {"paid", 1000}, {"archived", 1000}}, order.Pending, order.NoChange},
		{"begins unknown", []state{{"archived", 1}, {"failed", 999}, {"paid", 1000}}, order.Paid, order.Applied},
	}
	permutations := [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	n := 0
	for c, test := range cases {
		for p, arrival := range permutations {
			for _, oneBatch := range []bool{true, false} {
				id := fmt.Sprintf("pay_%d_%d_%t", c, p, oneBatch)
				w.register(1000, "ord_"+id)
				for _, i := range arrival {
					e := version(id, "ord_"+id, test.states[i].status, test.states[i].amount, i)
					partition := int32(0)
					if !oneBatch {
						partition = int32(i) // races with the others
					}
					w.produce(w.record(e, partition), w.record(e, partition))
					n += 2
				}
			}
		}
	}
	w.caughtUp()
	for c, test := range cases {
		for p, arrival := range permutations {
			for _, oneBatch := range []bool{true, false} {
				id := fmt.Sprintf("pay_%d_%d_%t", c, p, oneBatch)
				if got := w.status("ord_" + id); got != test.want {
					t.Errorf("%s: arrival %v: the order is %v (%s), want %v", test.name, arrival, got, w.history("ord_"+id), test.want)
				}
				if got := order.Verdict(w.number(`SELECT verdict FROM order_events WHERE event_id = $1`, id)); got != test.verdict {
					t.Errorf("%s: arrival %v: the event is %v, want %v", test.name, arrival, got, test.verdict)
				}
				last := version(id, "ord_"+id, test.states[2].status, test.states[2].amount, 2)
				if n := w.number(`SELECT count(*) FROM held_events h JOIN order_events e USING (order_no, event_hash)
					WHERE e.event_id = $1 AND h.body = $2`, id, last.Body); (n == 1) != (test.verdict == order.Held) {
					t.Errorf("%s: arrival %v: %d held events have the bytes that count", test.name, arrival, n)
				}
			}
		}
	}
	if n := w.number(`SELECT count(*) FROM review_items`); n != 0 {
		t.Errorf("%d review items", n)
	}
	if got := w.number(`SELECT sum(events)::bigint FROM books`); got != int64(n) {
		t.Errorf("the books hold %d events, want %d", got, n)
	}
	if a, h := w.booked(order.Applied), w.booked(order.Held); a != 36 || h != 12 {
		t.Errorf("books: %d applied, %d held; want 36 and 12", a, h)
	}
}

func TestAnUpdateThatNamesAnotherOrderIsForAPerson(t *testing.T) {
	w := newWorld(t, 1)
	w.endpoints = load(t, updates)
	w.register(1000, "ord_1", "ord_2")
	w.produce(w.record(version("pay", "ord_1", "paid", 1000, 0), 0), w.record(version("pay", "ord_2", "paid", 1000, 1), 0))
	w.start(small(), w.deps())
	w.caughtUp()
	if a, b := w.status("ord_1"), w.status("ord_2"); a != order.Paid || b != order.Pending {
		t.Errorf("orders are %v and %v: the payment counts twice or not at all", a, b)
	}
	if n := w.number(`SELECT count(*) FROM review_items WHERE kind = 'body_changed'`); n != 1 {
		t.Errorf("%d review items, want 1", n)
	}
}

package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// fact is a fact as a test writes it down; second is its provider time.
func fact(id, orderID, payment string, kind order.Kind, amount int64, second int) postgres.Fact {
	e := event.Event{Source: "psp", Mode: event.Live, ID: id}
	f := postgres.Fact{
		Entry:   order.Entry{Hash: e.Hash(), Source: "psp", Kind: kind, Time: at.Add(time.Duration(second) * time.Second).UnixMilli(), Payment: payment, Amount: amount, Currency: "EUR"},
		OrderID: orderID, EventID: id, EventType: kind.String(), Endpoint: "psp", AppendedAt: at, Body: []byte("{}"), ReadingHash: amount,
	}
	if kind == order.KindRefund {
		f.Object = id
	}
	return f
}

func registered(orderID string, amount int64) postgres.Fact {
	f := fact("registration "+orderID, orderID, "", order.KindRegistered, amount, 0)
	f.Source, f.Endpoint, f.Partition = postgres.Merchant, postgres.Merchant, -1
	return f
}

func apply(t *testing.T, s *postgres.Store, facts ...postgres.Fact) postgres.Applied {
	t.Helper()
	var a postgres.Applied
	err := s.InTx(context.Background(), func(tx postgres.Tx) (err error) {
		a, err = tx.Apply(context.Background(), at, facts)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return a
}

func statusOf(t *testing.T, s *postgres.Store, id string) (order.Status, string) {
	t.Helper()
	story, err := s.Story(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	steps := ""
	for i, tr := range story.History {
		if tr.Version != int64(i+1) {
			t.Errorf("order %s: version %d stands at place %d", id, tr.Version, i+1)
		}
		steps += " " + tr.To.String()
	}
	return story.Status, steps
}

func permutations(n int) (all [][]int) {
	var walk func(p []int)
	walk = func(p []int) {
		if len(p) == n {
			all = append(all, append([]int{}, p...))
			return
		}
	next:
		for i := range n {
			for _, j := range p {
				if i == j {
					continue next
				}
			}
			walk(append(p, i))
		}
	}
	walk(nil)
	return all
}

// An event that names only its payment, one that names both, and the
// registration, in every order and cut into batches in every way.
func TestEventsFindTheirOrderByPaymentWhateverComesFirst(t *testing.T) {
	s := testkit.Store(t)
	for n, p := range permutations(4) {
		for cut := range 8 {
			id := fmt.Sprintf("ord_%d_%d", n, cut)
			all := []postgres.Fact{
				registered(id, 1000),
				fact("paid "+id, id, "pi_"+id, order.KindPaid, 1000, 1),
				fact("refund1 "+id, "", "pi_"+id, order.KindRefund, 300, 2),
				fact("refund2 "+id, "", "pi_"+id, order.KindRefund, 700, 3),
			}
			var batch []postgres.Fact
			for i, j := range p {
				batch = append(batch, all[j])
				if i == 3 || cut>>i&1 == 1 {
					apply(t, s, batch...)
					apply(t, s, batch...) // again changes nothing
					batch = nil
				}
			}
			if got, steps := statusOf(t, s, id); got != order.Refunded {
				t.Errorf("arrival %v, cut %03b: %s is %v (%s)", p, cut, id, got, steps)
			}
		}
	}
}

func TestConcurrentWritersOfTheSameOrdersConverge(t *testing.T) {
	const orders, writers = 60, 4
	s := testkit.Store(t)
	var all []postgres.Fact
	for i := range orders {
		id := fmt.Sprintf("ord_%d", i)
		pay := fmt.Sprintf("pi_%d", i)
		all = append(all, registered(id, 1000),
			fact("failed "+id, id, "old"+pay, order.KindFailed, 1000, 1),
			fact("paid "+id, id, pay, order.KindPaid, 1000, 2),
			fact("refund1 "+id, "", pay, order.KindRefund, 300, 3),
			fact("refund2 "+id, "", pay, order.KindRefund, 700, 4))
	}
	var running sync.WaitGroup
	for n := range writers { // every writer applies all of them, in its own order
		running.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 1))
			mine := append([]postgres.Fact{}, all...)
			random.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
			for len(mine) > 0 {
				k := min(1+random.IntN(40), len(mine))
				apply(t, s, mine[:k]...)
				mine = mine[k:]
			}
		})
	}
	running.Wait()
	for i := range orders {
		id := fmt.Sprintf("ord_%d", i)
		if got, steps := statusOf(t, s, id); got != order.Refunded {
			t.Errorf("%s is %v (%s)", id, got, steps)
		}
	}
}

func TestAFactThatSaysSomethingElseUnderOneIdIsReportedAndTheFirstStands(t *testing.T) {
	s := testkit.Store(t)
	a := apply(t, s, registered("o", 1000), fact("e", "o", "p", order.KindPaid, 1000, 1))
	if a.Verdicts[1].Verdict != order.Applied || a.Changes != 2 {
		t.Fatalf("applied %+v", a)
	}
	a = apply(t, s, fact("e", "o", "p", order.KindPaid, 1000, 1), fact("e", "o", "p", order.KindPaid, 999, 1))
	if a.Verdicts[0].Verdict != order.Duplicate || a.Verdicts[1].Verdict != order.Duplicate || len(a.OtherReadings) != 1 || a.OtherReadings[0] != 1 {
		t.Errorf("applied %+v", a)
	}
}

func TestEveryMonthOfTheWindowAndUndatedKeysHaveAPlace(t *testing.T) {
	s := testkit.Store(t)
	now := time.Now()
	w, err := s.EnsurePartitions(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	var events []postgres.Seen
	for d := w.From; d.Before(w.Before); d = d.Add(12 * time.Hour) {
		e := event.Event{ID: d.String(), Time: d, TimeRepeats: true, ReceivedAt: d}
		events = append(events, postgres.Seen{Key: e.Key()})
	}
	last := w.Before.Add(-time.Millisecond)
	events = append(events, postgres.Seen{Key: event.Event{ID: "last", Time: last, TimeRepeats: true, ReceivedAt: last}.Key()},
		postgres.Seen{Key: event.Event{ID: "undated"}.Key()})
	for _, lookFirst := range []bool{false, true} {
		err = s.InTx(t.Context(), func(tx postgres.Tx) error {
			known, err := tx.TakeProcessedEvents(t.Context(), events, lookFirst)
			if want := map[bool]int{false: 0, true: len(events)}[lookFirst]; err == nil && len(known) != want {
				t.Errorf("%d of %d events are known, want %d", len(known), len(events), want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// A year on, with nothing in between: the new months are there, the old ones stay.
	if _, err := s.EnsurePartitions(t.Context(), now.AddDate(1, 0, 0)); err != nil {
		t.Fatal(err)
	}
}

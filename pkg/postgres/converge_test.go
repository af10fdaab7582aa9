package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// told is one reading of one event, as a provider sends it.
type told struct {
	postgres.Fact
	// processed: a provider's event, which the filter sees first; registrations and
	// decisions are none.
	processed bool
}

// history is the set of one order, drawn at random, and what must become of it.
type history struct {
	id    string
	told  []told
	want  order.Outcome
	facts []order.Entry // by place in want
	reg   *order.Registration
}

func drawHistory(t *rapid.T, id string) history {
	h := history{id: id}
	entry := func(source, name string, kind order.Kind) order.Entry {
		return order.Entry{Hash: event.Event{Source: source, ID: id + name}.Hash(), Source: source, Kind: kind}
	}
	add := func(e order.Entry, name string, reading int64, processed bool) {
		h.told = append(h.told, told{postgres.Fact{Entry: e, OrderID: id, EventID: id + name, EventType: e.Kind.String(), Endpoint: id, AppendedAt: at,
			ReadingHash: reading, Body: []byte(name)}, processed})
	}
	linked := map[string]bool{}
	for n := range rapid.IntRange(1, 8).Draw(t, "events") {
		name := fmt.Sprintf("/e%d", n)
		e := entry(rapid.SampledFrom([]string{"psp", "psp", "other"}).Draw(t, "source"), name, 0)
		// An event of a state that is sent anew has up to three readings.
		readings := rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "readings")
		var counts order.Entry
		for reading := range readings {
			e.Kind = order.Kind(rapid.IntRange(0, int(order.KindCancelled)).Draw(t, "kind"))
			e.Time = rapid.SampledFrom([]int64{0, 700, 1400, 2100, 2800}).Draw(t, "time")
			e.Object = rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "object")
			e.Amount = rapid.SampledFrom([]int64{100, 100, 100, 30, 60}).Draw(t, "amount")
			e.Currency = rapid.SampledFrom([]string{"EUR", "EUR", "EUR", "USD"}).Draw(t, "currency")
			if e.Payment = rapid.SampledFrom([]string{"A", "A", "A", "B", ""}).Draw(t, "payment"); e.Payment != "" {
				e.Payment = id + e.Payment
			}
			add(e, name, int64(reading), true)
			if reading == 0 || e.Time >= counts.Time { // the greatest (time, reading hash)
				counts = e
			}
			last := &h.told[len(h.told)-1]
			if key := e.Source + e.Payment; readings == 1 && e.Payment != "" && linked[key] && rapid.Bool().Draw(t, "by its payment") {
				last.OrderID = "" // the link may come before or after it
			} else {
				linked[key] = true
			}
		}
		h.facts = append(h.facts, counts)
	}
	for n := range rapid.IntRange(0, 3).Draw(t, "decisions") {
		name := fmt.Sprintf("/d%d", n)
		d := entry(postgres.Review, name, rapid.SampledFrom([]order.Kind{order.KindAccept, order.KindDismiss}).Draw(t, "decision"))
		d.Time, d.Target = at.UnixMilli()+int64(n%2), rapid.SampledFrom(h.facts).Draw(t, "about").Hash
		if d.Kind == order.KindAccept && rapid.Bool().Draw(t, "states an amount") {
			d.Amount, d.Currency = 30, "EUR"
		}
		add(d, name, 0, false)
		h.facts = append(h.facts, d)
	}
	if rapid.IntRange(0, 9).Draw(t, "registered") > 0 {
		r := entry(postgres.Merchant, "/r", order.KindRegistered)
		r.Amount, r.Currency, r.Time = 100, "EUR", at.UnixMilli()
		add(r, "/r", 0, false)
		h.reg = &order.Registration{Hash: r.Hash, Amount: r.Amount, Currency: r.Currency, Time: r.Time}
	}
	h.want = order.Fold(h.reg, h.facts)
	return h
}

// deliver is one batch of one consumer, as the processor takes it.
func deliver(ctx context.Context, s *postgres.Store, consumer int32, batch []told) error {
	return s.InTx(ctx, func(tx postgres.Tx) error {
		books := postgres.Books{}
		var facts []postgres.Fact
		var seen []postgres.Seen
		first := map[[16]byte]int64{} // keys of this batch: the reading that came first
		key := func(f *told) [16]byte {
			k := f.Hash
			copy(k[:6], make([]byte, 6)) // undated: time is in no key
			return k
		}
		for i := range batch {
			if f := &batch[i]; f.processed {
				if _, ok := first[key(f)]; !ok {
					first[key(f)] = f.ReadingHash
					seen = append(seen, postgres.Seen{Key: key(f), Fingerprint: f.ReadingHash})
				}
			}
		}
		known, err := tx.TakeProcessedEvents(ctx, seen, consumer == 1)
		if err != nil {
			return err
		}
		taken := map[[16]byte]bool{}
		for i := range batch {
			f := &batch[i]
			if !f.processed {
				facts = append(facts, f.Fact)
				continue
			}
			k := key(f)
			stands, was := known[k]
			if !was && !taken[k] {
				taken[k] = true
				facts = append(facts, f.Fact)
				continue
			}
			books.Add(f.AppendedAt, f.Endpoint, order.Duplicate, 1)
			if !was {
				stands = first[k]
			}
			if stands != f.ReadingHash {
				other := f.Fact
				other.Replaces = true
				facts = append(facts, other)
			}
		}
		applied, err := tx.Apply(ctx, at, facts)
		if err != nil {
			return err
		}
		for i := range facts {
			switch f := &facts[i]; {
			case f.Kind.IsDecision(), f.Kind == order.KindRegistered, f.Replaces:
			default:
				books.Add(f.AppendedAt, f.Endpoint, applied.Verdicts[i].Verdict, 1)
			}
		}
		for k, n := range applied.Moved {
			books[k] += n
		}
		return tx.AddToBooks(ctx, [16]byte{1}, consumer, books)
	})
}

// The store ends where the pure fold does, whatever the arrival: batches cut at
// random places, two consumers at once, repeats, decisions before what they are
// about, and states that are sent anew. (O34, O37)
func TestTwoConsumersEndWhereThePureFoldDoes(t *testing.T) {
	s := testkit.Store(t)
	var n atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t, fmt.Sprintf("o%d", n.Add(1)))
		arrival := rapid.Permutation(append(append([]told{}, h.told...), rapid.SliceOfN(rapid.SampledFrom(h.told), 0, 5).Draw(t, "repeats")...)).Draw(t, "arrival")
		var batches [2][][]told
		for i := 0; i < len(arrival); {
			end := min(len(arrival), i+rapid.IntRange(1, 5).Draw(t, "cut"))
			c := rapid.IntRange(0, 1).Draw(t, "consumer")
			batches[c] = append(batches[c], arrival[i:end])
			i = end
		}
		var both sync.WaitGroup
		var errs [2]error
		for c := range batches {
			both.Go(func() {
				for _, b := range batches[c] {
					if err := deliver(context.Background(), s, int32(c), b); err != nil {
						errs[c] = err
						return
					}
				}
			})
		}
		both.Wait()
		if errs[0] != nil || errs[1] != nil {
			t.Fatal(errs)
		}
		deliveries := 0
		for _, f := range arrival {
			if f.processed {
				deliveries++
			}
		}
		h.check(t, s, int64(deliveries))
	})
}

// check holds everything that is stored about the order to the pure fold.
func (h *history) check(t *rapid.T, s *postgres.Store, deliveries int64) {
	t.Helper()
	story, err := s.Story(context.Background(), h.id)
	if err != nil {
		t.Fatal(err)
	}
	want := h.want.State
	if got := (order.State{Status: story.Status, Amount: story.Amount, Currency: story.Currency, Paid: story.Paid, Refunded: story.Refunded,
		Dispute: story.Dispute, PaymentSource: want.PaymentSource, Payment: want.Payment}); h.reg != nil && got != want || story.Status != want.Status {
		t.Errorf("the store says %+v, the fold %+v", got, want)
	}
	judged := map[string]order.Judgement{}
	for _, e := range story.Events {
		judged[e.ID] = order.Judgement{Verdict: e.Verdict, Reason: e.Reason}
	}
	counts := map[order.Verdict]int64{}
	for _, f := range h.told {
		for i, e := range h.facts {
			if e.Hash == f.Hash && judged[f.EventID] != h.want.Judgements[i] {
				t.Errorf("%s (%v) is %+v, the fold says %+v", strings.TrimPrefix(f.EventID, h.id), e.Kind, judged[f.EventID], h.want.Judgements[i])
			}
		}
	}
	for i, e := range h.facts {
		if v := h.want.Judgements[i].Verdict; !e.Kind.IsDecision() {
			counts[v]++
			deliveries--
		}
	}
	counts[order.Duplicate] = deliveries
	at := order.StatusNone
	for i, v := range story.History {
		if v.Version != int64(i+1) || v.From != at {
			t.Errorf("version %d leads from %v to %v, at place %d after %v", v.Version, v.From, v.To, i+1, at)
		}
		at = v.To
	}
	if len(story.History) > 0 {
		if last := story.History[len(story.History)-1]; last.To != want.Status || last.Paid != want.Paid || last.Refunded != want.Refunded || last.Dispute != want.Dispute {
			t.Errorf("the last version is %+v, the fold %+v", last, want)
		}
	}
	books, err := s.BooksSince(context.Background(), time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	for k, n := range books {
		if k.Endpoint == h.id {
			counts[k.Verdict] -= n
		}
	}
	for v, n := range counts {
		if n != 0 {
			t.Errorf("the books lack %d %v", n, v)
		}
	}
}

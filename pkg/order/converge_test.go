package order

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The nightly run: go test ./pkg/order -run Converges -long
var long = flag.Bool("long", false, "fold every arrival of sets of five, not four")

// symbols is a small world of facts: enough of every kind, time and amount that
// two, three or four of them meet each rule of the fold.
func symbols() []Entry {
	world := []Entry{
		{Kind: KindPending, Time: 1000, Payment: "A"},
		{Kind: KindFailed, Time: 1000, Payment: "A"},
		{Kind: KindFailed, Time: 5000, Payment: "A"},
		{Kind: KindFailed, Payment: "B"},
		{Kind: KindPaid, Time: 2000, Payment: "A", Amount: 100},
		{Kind: KindPaid, Time: 2400, Payment: "A", Object: "order.paid", Amount: 100},
		{Kind: KindPaid, Time: 4000, Payment: "B", Amount: 100},
		{Kind: KindPaid, Payment: "A", Amount: 100},
		{Kind: KindPaid, Time: 1000, Payment: "A", Amount: 99},
		{Kind: KindPaid, Time: 1000, Payment: "A", Amount: 100, Currency: "USD"},
		{Kind: KindRefund, Time: 2000, Payment: "A", Object: "r1", Amount: 40},
		{Kind: KindRefund, Time: 3000, Payment: "A", Object: "r2", Amount: 60},
		{Kind: KindRefund, Time: 1000, Payment: "B", Object: "r3", Amount: 100},
		{Kind: KindRefund, Payment: "A", Object: "r4", Amount: 70},
		{Kind: KindRefund, Time: 3000, Payment: "A", Object: "r1", Amount: 40},
		{Kind: KindRefundTotal, Time: 3000, Payment: "A", Amount: 40},
		{Kind: KindRefundTotal, Time: 1000, Payment: "A", Amount: 100},
		{Kind: KindRefundFailed, Time: 4000, Payment: "A", Object: "r1", Amount: 40},
		{Kind: KindRefundFailed, Time: 2000, Payment: "A", Object: "r2", Amount: 60},
		{Kind: KindDisputeOpened, Time: 3000, Payment: "A", Object: "d1"},
		{Kind: KindDisputeOpened, Payment: "A", Object: "d2"},
		{Kind: KindDisputeWon, Time: 4000, Payment: "A", Object: "d1"},
		{Kind: KindDisputeLost, Time: 1000, Payment: "A", Object: "d1"},
		{Kind: KindCancelled, Time: 2000},
		{Kind: KindCancelled, Time: 1000, Payment: "A"},
		{Kind: KindCancelled},
	}
	for i := range world {
		world[i].Source = "shop"
		world[i].Hash = hash(100 + i*7919%1000) // an order of hashes unlike that of the table
		if world[i].Currency == "" {
			world[i].Currency = "EUR"
		}
	}
	return world
}

var registered = &Registration{Hash: hash(1), Amount: 100, Currency: "EUR", Time: 500}

func TestEveryArrivalOfASmallSetConverges(t *testing.T) { // O27, O34
	size := 4
	if *long {
		size = 5
	}
	sets, arrivals := 0, 0
	for n := 1; n <= size; n++ {
		subsets(symbols(), n, func(set []Entry) {
			sets++
			w := walk{want: Fold(registered, set)}
			checkOutcome(t, set, w.want)
			w.facts(set)
			permute(set, func(arrival []Entry) {
				w.run(t, arrival, arrivals%(n+1), arrivals%n)
				arrivals++
			})
		})
	}
	t.Logf("%d sets, %d arrivals", sets, arrivals)
}

func TestRandomSetsConvergeWhateverTheArrival(t *testing.T) { // O34
	rapid.Check(t, func(t *rapid.T) {
		set := rapid.SliceOfNDistinct(fact(), 1, 12, func(e Entry) [16]byte { return e.Hash }).Draw(t, "set")
		w := walk{want: Fold(registered, set)}
		checkOutcome(t, set, w.want)
		w.facts(set)
		arrival := rapid.Permutation(set).Draw(t, "arrival")
		w.run(t, arrival, rapid.IntRange(0, len(set)).Draw(t, "registered after"), rapid.IntRange(0, len(set)-1).Draw(t, "repeated"))
	})
}

func TestFactsThatArriveInTheirOwnOrderNeedNoCorrection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := rapid.SliceOfNDistinct(fact(), 1, 12, func(e Entry) [16]byte { return e.Hash }).Draw(t, "set")
		slices.SortFunc(set, func(a, b Entry) int { return compare(&a, &b) })
		before := Fold(registered, nil)
		for i := range set {
			after := Fold(registered, set[:i+1])
			for _, c := range Changes(before, after) {
				if c.Correction {
					t.Fatalf("%v corrected to %v by %+v", c.From, c.To, set[i])
				}
			}
			before = after
		}
	})
}

func fact() *rapid.Generator[Entry] {
	return rapid.Custom(func(t *rapid.T) Entry {
		return Entry{
			Hash:     hash(rapid.IntRange(100, 10_000).Draw(t, "hash")),
			Source:   rapid.SampledFrom([]string{"shop", "shop", "shop", "other"}).Draw(t, "source"),
			Kind:     Kind(rapid.IntRange(0, kinds-1).Draw(t, "kind")),
			Time:     rapid.Int64Range(0, 8).Draw(t, "time") * 700,
			Payment:  rapid.SampledFrom([]string{"A", "A", "A", "B", ""}).Draw(t, "payment"),
			Object:   rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "object"),
			Amount:   rapid.SampledFrom([]int64{100, 100, 100, 10, 30, 60, 0, -5, 1 << 62, 1<<63 - 1, -1 << 63}).Draw(t, "amount"),
			Currency: rapid.SampledFrom([]string{"EUR", "EUR", "EUR", "EUR", "USD", ""}).Draw(t, "currency"),
		}
	})
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// walk lets the facts of one set arrive one at a time and checks what is
// published on the way.
type walk struct {
	want          Outcome
	verdict       map[[16]byte]Judgement
	kind          map[[16]byte]Kind
	before, after Outcome
}

func (w *walk) facts(set []Entry) {
	w.verdict, w.kind = map[[16]byte]Judgement{}, map[[16]byte]Kind{registered.Hash: KindRegistered}
	for i, e := range set {
		w.verdict[e.Hash], w.kind[e.Hash] = w.want.Judgements[i], e.Kind
	}
}

// run registers the order after so many facts, and delivers one fact twice.
func (w *walk) run(t fataler, arrival []Entry, registeredAfter, repeated int) {
	t.Helper()
	var reg *Registration
	var published State
	version := 0
	w.before = Outcome{}
	grow := func(set []Entry) {
		w.after = Outcome{Steps: w.after.Steps, Judgements: w.after.Judgements}
		w.after.Fold(reg, set)
		for _, c := range Changes(w.before, w.after) {
			version++
			if c.From != published {
				t.Fatalf("version %d comes from %+v, but %+v was published", version, c.From, published)
			}
			if kind, ok := w.kind[c.Cause]; !ok || (!c.Correction && !Allowed(c.From, kind, c.To)) {
				t.Fatalf("version %d: %v does not lead from %+v to %+v", version, kind, c.From, c.To)
			}
			published = c.To
		}
		if published != w.after.State {
			t.Fatalf("published %+v, state %+v", published, w.after.State)
		}
		w.before, w.after = w.after, w.before
	}
	for i := range arrival {
		if i == registeredAfter {
			reg = registered
			grow(arrival[:i])
		}
		grow(arrival[:i+1])
	}
	if reg == nil {
		reg = registered
		grow(arrival)
	}
	grow(append(slices.Clone(arrival), arrival[repeated]))
	if published != w.want.State {
		t.Fatalf("%v ended in %+v, in other orders in %+v", arrival, published, w.want.State)
	}
	for i, e := range arrival {
		if w.before.Judgements[i] != w.verdict[e.Hash] && i != repeated {
			t.Fatalf("%v: %+v is %v, in other orders %v", arrival, e, w.before.Judgements[i], w.verdict[e.Hash])
		}
	}
}

// checkOutcome holds for the fold of every set.
func checkOutcome(t fataler, set []Entry, o Outcome) {
	t.Helper()
	s := o.State
	var from State
	causes := map[[16]byte]bool{}
	for _, step := range o.Steps {
		if step.From != from || causes[step.Cause] {
			t.Fatalf("%+v does not follow %+v", step, from)
		}
		from, causes[step.Cause] = step.To, true
	}
	if from != s {
		t.Fatalf("the steps end in %+v, the state is %+v", from, s)
	}
	for i, j := range o.Judgements {
		if (j.Verdict == Applied) != causes[set[i].Hash] {
			t.Fatalf("%+v is %v, and causes a step: %v", set[i], j, causes[set[i].Hash])
		}
		if (j.Verdict == Held) != (j.Reason != NoReason) {
			t.Fatalf("%+v is %v for the reason %v", set[i], j.Verdict, j.Reason)
		}
	}
	isPaid := s.Status == Paid || s.Status == PartiallyRefunded || s.Status == Refunded
	if s.Refunded < 0 || s.Refunded > s.Paid || (s.Paid != 0 && s.Paid != s.Amount) || (s.Paid != 0 && !isPaid) ||
		(isPaid && s.Status != refundStatus(&s)) || (s.Dispute != NoDispute && !isPaid) {
		t.Fatalf("impossible state %+v", s)
	}
}

// subsets calls do with each choice of n facts, always in the same memory.
func subsets(world []Entry, n int, do func([]Entry)) {
	set := make([]Entry, 0, n)
	var choose func(from int)
	choose = func(from int) {
		if len(set) == n {
			do(set)
			return
		}
		for i := from; i < len(world); i++ {
			set = append(set, world[i])
			choose(i + 1)
			set = set[:len(set)-1]
		}
	}
	choose(0)
}

// permute calls do with each order of the set.
func permute(set []Entry, do func([]Entry)) {
	p := slices.Clone(set)
	var place func(at int)
	place = func(at int) {
		if at == len(p) {
			do(p)
			return
		}
		for i := at; i < len(p); i++ {
			p[at], p[i] = p[i], p[at]
			place(at + 1)
			p[at], p[i] = p[i], p[at]
		}
	}
	place(0)
}

func (e Entry) String() string {
	return fmt.Sprintf("{%v %dms %s/%s/%s %d %s}", e.Kind, e.Time, e.Source, e.Payment, e.Object, e.Amount, e.Currency)
}

var _ fmt.Stringer = Entry{}

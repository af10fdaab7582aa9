package order

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The nightly run (make nightly): larger sets, for some minutes.
var long = flag.Bool("long", false, "larger sets: all arrivals of five facts, all sets of seven, all batches of six")

var registered = &Registration{Hash: hash(1), Amount: 100, Currency: "EUR", Time: 500}

func TestEveryArrivalOfASmallSetConverges(t *testing.T) { // O27, O34
	size := 4
	if *long {
		size = 5
	}
	sets, arrivals := 0, 0
	for n := 1; n <= size; n++ {
		subsets(world(), n, func(set []Entry) {
			sets++
			w := walk{want: Fold(registered, set)}
			checkOutcome(t, set, &w.want)
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
		set := drawSet(t)
		w := walk{want: Fold(registered, set)}
		checkOutcome(t, set, &w.want)
		w.facts(set)
		arrival := rapid.Permutation(set).Draw(t, "arrival")
		w.run(t, arrival, rapid.IntRange(0, len(set)).Draw(t, "registered after"), rapid.IntRange(0, len(set)-1).Draw(t, "repeated"))
	})
}

func TestFactsThatArriveInTheirOwnOrderNeedNoCorrection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawFacts(t, 12)
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

func drawFacts(t *rapid.T, most int) []Entry {
	return rapid.SliceOfNDistinct(fact(), 1, most, func(e Entry) [16]byte { return e.Hash }).Draw(t, "set")
}

// drawSet draws up to 8 facts, and up to 4 decisions about them, about each other
// or about nothing.
func drawSet(t *rapid.T) []Entry {
	set := drawFacts(t, 8)
	for i := range rapid.IntRange(0, 4).Draw(t, "decisions") {
		target := hash(99)
		if at := rapid.IntRange(0, len(set)).Draw(t, "about"); at < len(set) {
			target = set[at].Hash
		}
		set = append(set, Entry{
			Hash: hash(20_000 + i), Source: "review", Target: target,
			Kind:     rapid.SampledFrom([]Kind{KindAccept, KindAccept, KindDismiss}).Draw(t, "decision"),
			Time:     rapid.Int64Range(0, 3).Draw(t, "decided") * 700,
			Amount:   rapid.SampledFrom([]int64{100, 30, 0, -5, 1<<63 - 1}).Draw(t, "decided amount"),
			Currency: rapid.SampledFrom([]string{"", "", "EUR", "USD"}).Draw(t, "decided currency"),
		})
	}
	return set
}

func fact() *rapid.Generator[Entry] {
	return rapid.Custom(func(t *rapid.T) Entry {
		return Entry{
			Hash:     hash(rapid.IntRange(100, 10_000).Draw(t, "hash")),
			Source:   rapid.SampledFrom([]string{"shop", "shop", "shop", "other"}).Draw(t, "source"),
			Kind:     Kind(rapid.IntRange(0, int(KindRegistered)).Draw(t, "kind")),
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
	before, after Outcome
}

func (w *walk) facts(set []Entry) {
	w.verdict = map[[16]byte]Judgement{}
	for i, e := range set {
		w.verdict[e.Hash] = w.want.Judgements[i]
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
			if c.From.published() != published.published() {
				t.Fatalf("version %d comes from %+v, but %+v was published", version, c.From, published)
			}
			if kind, ok := kindOf(set, c.Cause); !ok || (!c.Correction && !Allowed(c.From, kind, c.To)) {
				t.Fatalf("version %d: %v does not lead from %+v to %+v", version, kind, c.From, c.To)
			}
			published = c.To
		}
		if published.published() != w.after.State.published() {
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
	if w.before.State != w.want.State {
		t.Fatalf("%v ended in %+v, in other orders in %+v", arrival, w.before.State, w.want.State)
	}
	for i, e := range arrival {
		if w.before.Judgements[i] != w.verdict[e.Hash] && i != repeated {
			t.Fatalf("%v: %+v is %v, in other orders %v", arrival, e, w.before.Judgements[i], w.verdict[e.Hash])
		}
	}
}

// checkOutcome holds for the fold of every set.
func checkOutcome(t fataler, set []Entry, o *Outcome) {
	t.Helper()
	s := o.State
	var from State
	for i, step := range o.Steps {
		if step.From != from || caused(o.Steps[:i], step.Cause) {
			t.Fatalf("%v: %+v does not follow %+v", set, step, from)
		}
		if kind, ok := kindOf(set, step.Cause); !ok || Allowed(step.From, kind, step.To) == step.Override {
			t.Fatalf("%v: override %v: %v from %+v to %+v", set, step.Override, kind, step.From, step.To)
		}
		from = step.To
	}
	if from != s {
		t.Fatalf("%v: the steps end in %+v, the state is %+v", set, from, s)
	}
	decided := false
	for i, j := range o.Judgements {
		decision := set[i].Kind.IsDecision()
		decided = decided || decision
		if (j.Verdict == Applied && !decision) != caused(o.Steps, set[i].Hash) {
			t.Fatalf("%v: %+v is %v, and causes a step or not", set, set[i], j)
		}
		if (j.Verdict == Held || j.Reason == Dismissed) != (j.Reason != NoReason) {
			t.Fatalf("%v: %+v is %v for the reason %v", set, set[i], j.Verdict, j.Reason)
		}
	}
	isPaid := s.Status == Paid || s.Status == PartiallyRefunded || s.Status == Refunded
	if int(s.Status) >= statuses || int(s.Dispute) >= disputes || s.Refunded < 0 || s.Paid < 0 || (isPaid && s.Status != refundStatus(&s)) ||
		(s.Paid != 0 && !isPaid && s.Status != Cancelled) || (s.Refunded != 0 && !isPaid && s.Status != Cancelled) {
		t.Fatalf("%v: impossible state %+v", set, s)
	}
	if !decided && (s.Refunded > s.Paid || (s.Paid != 0 && (s.Paid != s.Amount || !isPaid)) || (s.Dispute != NoDispute && !isPaid)) {
		t.Fatalf("%v: impossible state %+v without a decision", set, s)
	}
}

// kindOf is the kind of the entry with this hash; the registration is one.
func kindOf(set []Entry, hash [16]byte) (Kind, bool) {
	for i := range set {
		if set[i].Hash == hash {
			return set[i].Kind, true
		}
	}
	return KindRegistered, hash == registered.Hash
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

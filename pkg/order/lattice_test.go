package order

import (
	"slices"
	"testing"
)

// Why checking edges proves every arrival.
//
// Fold is a function of the set. So an arrival of a set S, in whatever order, is a
// walk through the lattice of its subsets, from nothing to S, one entry a step;
// what is published on the way is Changes of each step, one after the other. If
// for each pair (R, R+e) of that lattice
//
//   - the changes lead without a gap from the state of R to that of R+e,
//   - each one that is not a correction is in the table, and has a cause in R+e,
//
// then the same holds for every walk, because a walk is nothing but such pairs
// joined at their ends; and every walk ends in the state and the verdicts of S. A
// repeat is a step from R to R, and must publish nothing. The moment at which the
// shop registers the order is one more step, from R without to R with it: before
// that nothing is published. A batch is one step over several entries.
//
// What remains to be shown is that Fold is a function of the set: that the places
// of the entries do not matter. Every set is folded in three orders here, and in
// all orders up to four entries by TestEveryArrivalOfASmallSetConverges, which
// really walks and counts versions.

func TestEverySetOfSixFactsConvergesByEveryPath(t *testing.T) { // O27, O34
	t.Parallel()
	size := 6
	if *long {
		size = 7
	}
	walkLattice(t, world(), size)
}

func TestEverySetOfSixWithDecisionsConvergesByEveryPath(t *testing.T) {
	t.Parallel()
	size := 6
	if *long {
		size = 7
	}
	walkLattice(t, decidedWorld(), size)
}

func TestEveryBatchLeadsWithoutAGapFromAnySubset(t *testing.T) {
	t.Parallel()
	size := 5
	if *long {
		size = 6
	}
	var l lattice
	for _, w := range [][]Entry{world()[1:20], decidedWorld()} {
		for n := 2; n <= size; n++ {
			subsets(w, n, func(set []Entry) {
				l.after.Fold(registered, set)
				for taken := range 1<<n - 1 {
					l.part = l.part[:0]
					for i := range set {
						if taken&(1<<i) != 0 {
							l.part = append(l.part, set[i])
						}
					}
					l.before.Fold(registered, l.part)
					l.edge(t, set)
				}
			})
		}
	}
	t.Logf("%d batches", l.edges)
}

// lattice checks one set after the other in the same memory.
type lattice struct {
	before, after, again Outcome
	part                 []Entry
	edges                int
}

func walkLattice(t *testing.T, world []Entry, size int) {
	var l lattice
	sets := 0
	for n := range size + 1 {
		subsets(world, n, func(set []Entry) {
			sets++
			l.set(t, set)
		})
	}
	t.Logf("%d sets, %d steps", sets, l.edges)
}

// set checks all steps that lead to a set.
func (l *lattice) set(t fataler, set []Entry) {
	l.after.Fold(registered, set)
	checkOutcome(t, set, &l.after)
	for e := range set {
		l.part = append(append(l.part[:0], set[:e]...), set[e+1:]...)
		l.before.Fold(registered, l.part)
		l.edge(t, set)
	}

	l.before.Fold(nil, set) // the shop registers it last
	if l.before.State != (State{}) || len(l.before.Steps) != 0 {
		t.Fatalf("%v has the state %+v without an order", set, l.before.State)
	}
	l.edge(t, set)

	l.part = append(l.part[:0], set...)
	slices.Reverse(l.part)
	l.same(t, set)
	if n := len(set); n > 2 {
		l.part = append(append(l.part[:0], set[n/2:]...), set[:n/2]...)
		l.same(t, set)
		l.part = append(append(l.part[:0], set...), set[n/2]) // delivered twice
		l.same(t, set)
	}
}

// edge checks what is published between before and after.
func (l *lattice) edge(t fataler, set []Entry) {
	l.edges++
	published := l.before.State
	for _, c := range Changes(l.before, l.after) {
		if c.From.published() != published.published() || c.To.published() == published.published() {
			t.Fatalf("%v: a version leads from %+v to %+v, but %+v was published", set, c.From, c.To, published)
		}
		if kind, ok := kindOf(set, c.Cause); !ok || (!c.Correction && !Allowed(c.From, kind, c.To)) {
			t.Fatalf("%v: %v does not lead from %+v to %+v", set, kind, c.From, c.To)
		}
		published = c.To
	}
	if published.published() != l.after.State.published() {
		t.Fatalf("%v: published %+v, state %+v", set, published, l.after.State)
	}
}

// same checks that part, which holds the entries of set in another order, is
// folded to the same.
func (l *lattice) same(t fataler, set []Entry) {
	l.again.Fold(registered, l.part)
	if l.again.State != l.after.State || !slices.Equal(l.again.Steps, l.after.Steps) {
		t.Fatalf("%v ends in %+v, in another order in %+v", set, l.after.State, l.again.State)
	}
	for i := range l.part[:len(set)] {
		for j := range set {
			if set[j].Hash == l.part[i].Hash && l.again.Judgements[i] != l.after.Judgements[j] {
				t.Fatalf("%v: %v is %v, in another order %v", set, set[j], l.after.Judgements[j], l.again.Judgements[i])
			}
		}
	}
}

// TestTheWorldMeetsEveryVerdict: the small worlds are small, but each verdict and
// each reason that the fold can give occurs in them, for each kind it can occur for.
func TestTheWorldMeetsEveryVerdict(t *testing.T) {
	met := map[Judgement]bool{}
	steps := map[Transition]bool{}
	var o Outcome
	for _, w := range [][]Entry{world(), decidedWorld()} {
		for n := range 4 {
			subsets(w, n, func(set []Entry) {
				for _, reg := range []*Registration{nil, registered} {
					o.Fold(reg, set)
					for _, j := range o.Judgements {
						met[j] = true
					}
					for _, s := range o.Steps {
						kind, _ := kindOf(set, s.Cause)
						steps[Transition{s.From.Status, kind, s.To.Status}] = true
					}
				}
			})
		}
	}
	for _, r := range []Reason{AwaitingOrder, AwaitingPayment, AwaitingPredecessor, IllegalTransition, SecondPayment, AmountMismatch, CurrencyMismatch, OverRefund} {
		if !met[Judgement{Held, r}] {
			t.Errorf("nothing is held for %v", r)
		}
	}
	if !met[Judgement{NoChange, Dismissed}] {
		t.Error("nothing is dismissed")
	}
	for _, tr := range []Transition{
		{Pending, KindPaid, Paid}, {Pending, KindFailed, Failed}, {Pending, KindCancelled, Cancelled}, {Failed, KindPaid, Paid},
		{Paid, KindRefund, PartiallyRefunded}, {PartiallyRefunded, KindRefund, Refunded}, {Paid, KindRefundTotal, Refunded},
		{PartiallyRefunded, KindRefundFailed, Paid}, {Paid, KindDisputeOpened, Paid},
		{Paid, KindCancelled, Cancelled}, {Paid, KindFailed, Failed}, {Cancelled, KindPaid, Paid}, {Paid, KindPaid, Paid}, // overridden
	} {
		if !steps[tr] {
			t.Errorf("no %v leads from %v to %v", tr.Kind, tr.From, tr.To)
		}
	}
}

package order

import (
	"bytes"
	"cmp"
	"math"
	"slices"
)

// Fold is the state of an order whose set is set, how it got there, and the
// verdict on each entry. It is a pure function of the registration and of the
// entries as a set: their order, and repeats of one hash, do not matter. It
// changes neither argument. reg is nil while the shop has not registered the
// order: then every fact is held, and there is no state.
//
// Entries are tried in one total order: second of the provider's time (undated
// last), then rank of the kind, then hash. What cannot be applied waits, and is
// tried again in that order after each success. Nothing is ever refused by an
// error; money that does not fit is held. What a person decided about an entry
// (KindAccept, KindDismiss) holds wherever it lies in that order.
func Fold(reg *Registration, set []Entry) Outcome {
	var o Outcome
	o.Fold(reg, set)
	return o
}

// Fold overwrites the outcome with the fold of another set, in the memory it
// already has. A caller that folds in a loop allocates nothing.
func (o *Outcome) Fold(reg *Registration, set []Entry) {
	o.State, o.Dismissals = State{}, nil
	o.Steps = slices.Grow(o.Steps[:0], len(set)+1)
	o.Judgements = slices.Grow(o.Judgements[:0], len(set))[:len(set)]
	f := folding{Outcome: o, set: set, reg: reg}
	f.decide()
	if reg == nil {
		f.unregistered()
		return
	}
	o.State = State{Status: Pending, Amount: reg.Amount, Currency: reg.Currency}
	o.Steps = append(o.Steps, Step{To: o.State, Cause: reg.Hash, Time: reg.Time})

	var s scratch // stays on the stack: nothing stores a pointer through f
	f.payments = s.payments[:]
	if n := len(set); n <= smallSet {
		f.order, f.waiting, f.object = s.order[:n], s.waiting[:n], s.object[:n]
		f.known, f.refunds = s.known[:n], s.refunds[:n]
		f.linkSmall()
	} else {
		f.order, f.waiting, f.object = make([]int32, n), make([]int32, n), make([]int32, n)
		f.known, f.refunds = make([]kindSet, n), make([]int64, n)
		f.linkLarge()
	}
	f.sort()
	var next proposal // one for all, because it is large
	for at, i := range f.order {
		if at > 0 && set[i].Hash == set[f.order[at-1]].Hash {
			if !set[i].Kind.IsDecision() {
				o.Judgements[i] = noChange // one entry twice
			}
			continue
		}
		if f.rulings != nil && f.setAside(i) {
			continue
		}
		if f.try(i, &next) {
			f.retry(&next)
		}
	}
	if f.rulings != nil {
		f.last = true
		f.retry(&next)
	}
	f.silenceEchoes()
	f.settle()
}

// unregistered judges the set of an order that the shop has not registered.
func (f *folding) unregistered() {
	for i := range f.set {
		switch k := f.set[i].Kind; {
		case f.rulings != nil && f.setAside(int32(i)):
		case rank(k) > 0:
			f.Judgements[i] = Judgement{Held, AwaitingOrder}
		default:
			f.Judgements[i] = noChange
		}
	}
	f.settle()
}

// folding is one fold under way.
type folding struct {
	*Outcome
	set []Entry
	reg *Registration

	order   []int32 // places in set, in the total order
	waiting []int32 // its first held ones are held so far, in the total order
	held    int
	object  []int32 // for each entry, the first of the set about the same object
	known   []kindSet
	refunds []int64 // for each object, what its refund gave back

	openDisputes int
	// calledOff: the order itself was cancelled, not one attempt to pay it; a payment
	// that comes afterwards is held for a person.
	calledOff bool
	payments  []payment // its first paid ones count, in the order in which they came to
	paid      int

	// rulings is, for each entry, 1 + the place of the decision that rules about it,
	// 0 if none does; nil if nobody decided anything about this order.
	rulings []int32
	last    bool // the whole set was tried: now what is accepted waits no more
}

// kindSet has bit k set for each kind k of fact that counts already.
type kindSet uint16

func (s kindSet) has(k Kind) bool { return s&(1<<k) != 0 }

func (s kindSet) decidedDispute() bool { return s.has(KindDisputeWon) || s.has(KindDisputeLost) }
func (s kindSet) openDispute() bool    { return s.has(KindDisputeOpened) && !s.decidedDispute() }

// smallSet covers nearly every order; larger sets take their scratch memory from
// the heap. Scratch for 16 is half a kilobyte of stack.
const smallSet = 16

type scratch struct {
	order, waiting, object [smallSet]int32
	known                  [smallSet]kindSet
	refunds                [smallSet]int64
	payments               [1]payment
}

func (f *folding) sort() {
	for i := range f.order {
		f.order[i] = int32(i)
	}
	if set := f.set; len(set) > smallSet {
		slices.SortStableFunc(f.order, func(a, b int32) int { return compare(&set[a], &set[b]) })
		return
	}
	for i := 1; i < len(f.order); i++ { // events mostly come in order
		for j := i; j > 0 && compare(&f.set[f.order[j]], &f.set[f.order[j-1]]) < 0; j-- {
			f.order[j], f.order[j-1] = f.order[j-1], f.order[j]
		}
	}
}

// compare is the total order. Times are compared by the second, since some
// providers know no finer time; within one, cause goes before consequence.
func compare(a, b *Entry) int {
	if c := cmp.Compare(second(a.Time), second(b.Time)); c != 0 {
		return c
	}
	if c := cmp.Compare(rank(a.Kind), rank(b.Kind)); c != 0 {
		return c
	}
	return bytes.Compare(a.Hash[:], b.Hash[:])
}

func second(ms int64) int64 {
	if ms <= 0 {
		return math.MaxInt64
	}
	return ms / 1000
}

func rank(k Kind) uint8 {
	if int(k) < kinds {
		return ranks[k]
	}
	return 0
}

// try judges one entry and, if it counts, takes it over. It reports whether
// anything became known that a waiting entry may have waited for.
func (f *folding) try(i int32, next *proposal) bool {
	j, counts := f.judge(i, next)
	f.Judgements[i] = j
	if j.Verdict == Held {
		f.waiting[f.held] = i
		f.held++
	}
	if counts {
		f.take(i, next)
	}
	return counts
}

// retry tries what waits, in order, and starts again after each success, until
// nothing more succeeds.
func (f *folding) retry(next *proposal) {
	for at := 0; at < f.held; {
		i := f.waiting[at]
		j, counts := f.judge(i, next)
		f.Judgements[i] = j
		if j.Verdict == Held {
			at++
			continue
		}
		copy(f.waiting[at:f.held], f.waiting[at+1:f.held])
		f.held--
		if counts {
			f.take(i, next)
			at = 0
		}
	}
}

// silenceEchoes leaves one of several held entries that say the same, so that a
// person sees each fact once.
func (f *folding) silenceEchoes() {
	for at, i := range f.waiting[:f.held] {
		for _, j := range f.waiting[:at] {
			if f.Judgements[j].Verdict == Held && f.object[i] == f.object[j] && sameWords(&f.set[i], &f.set[j]) {
				f.Judgements[i] = Judgement{Verdict: NoChange}
				break
			}
		}
	}
}

func sameWords(a, b *Entry) bool {
	return a.Kind == b.Kind && a.Amount == b.Amount && a.Currency == b.Currency
}

func sameObject(a, b *Entry) bool {
	return a.Source == b.Source && a.Payment == b.Payment && a.Object == b.Object
}

// linkSmall and linkLarge find for each entry the first one about the same object
// of a provider, whatever its kind.
func (f *folding) linkSmall() {
	for i := range f.set {
		f.object[i] = int32(i)
		for j := range i {
			if sameObject(&f.set[i], &f.set[j]) {
				f.object[i] = int32(j)
				break
			}
		}
	}
}

func (f *folding) linkLarge() {
	type object struct{ source, payment, object string }
	first := make(map[object]int32, len(f.set))
	for i, e := range f.set {
		o := object{e.Source, e.Payment, e.Object}
		if _, ok := first[o]; !ok {
			first[o] = int32(i)
		}
		f.object[i] = first[o]
	}
}

package order

import (
	"bytes"
	"cmp"
)

// A person's decisions are entries of the set like any other, so that folding
// again never undoes one and folding anew reproduces it. They have no place of
// their own in the total order: a decision changes what its target means there.
//
// A dismissed entry is not tried at all, so it shadows no other. An accepted one
// is tried like any other; only if it is held does the decision count, which is
//
//   - at once where no other fact could mend it (illegal_transition,
//     second_payment, amount_mismatch, currency_mismatch): it counts at its place,
//   - else (awaiting_predecessor, awaiting_payment, over_refund) after the whole
//     set was tried: what fits is never forced.

// decide finds the decision that rules about each entry: of several about one
// target the latest by time, then by hash. The others change nothing. One whose
// target is not in the set waits for it; one about what cannot move an order (a
// registration, another decision) changes nothing.
func (f *folding) decide() {
	for d := range f.set {
		if f.set[d].Kind.IsDecision() {
			f.decideBy(int32(d))
		}
	}
}

func (f *folding) decideBy(d int32) {
	if f.rulings == nil {
		f.rulings = make([]int32, len(f.set))
	}
	decision := &f.set[d]
	f.Judgements[d] = noChange
	for i := range f.set {
		if f.set[i].Kind.IsDecision() && f.set[i].Target == decision.Target && rulesOver(f.set, int32(i), d) {
			return
		}
	}
	found := false
	for i := range f.set {
		if f.set[i].Hash != decision.Target {
			continue
		}
		found = true
		if rank(f.set[i].Kind) > 0 {
			f.rulings[i] = d + 1
			if decision.Kind == KindDismiss {
				f.Judgements[d] = Judgement{Verdict: Applied}
			}
		}
	}
	switch {
	case !found:
		f.Judgements[d] = Judgement{Held, AwaitingPredecessor}
	case f.Judgements[d].Verdict == Applied:
		f.Dismissals = append(f.Dismissals, Dismissal{decision.Hash, decision.Time})
	}
}

// rulesOver says whether the decision at a is later than the one at b.
func rulesOver(set []Entry, a, b int32) bool {
	c := cmp.Compare(set[a].Time, set[b].Time)
	if c == 0 {
		c = bytes.Compare(set[a].Hash[:], set[b].Hash[:])
	}
	return c > 0 || c == 0 && a < b // one decision twice
}

// setAside judges what is not tried: decisions, which decide judged, and what
// they dismissed.
func (f *folding) setAside(i int32) bool {
	if f.set[i].Kind.IsDecision() {
		return true
	}
	if r := f.rulings[i]; r > 0 && f.set[r-1].Kind == KindDismiss {
		f.Judgements[i] = Judgement{NoChange, Dismissed}
		return true
	}
	return false
}

// acceptance is the decision that accepts an entry, nil if none does.
func (f *folding) acceptance(i int32) *Entry {
	if f.rulings == nil {
		return nil
	}
	if r := f.rulings[i]; r > 0 && f.set[r-1].Kind == KindAccept {
		return &f.set[r-1]
	}
	return nil
}

// judge is propose with the word of whoever accepted the entry.
func (f *folding) judge(i int32, p *proposal) (j Judgement, counts bool) {
	d := f.acceptance(i)
	if d == nil {
		return f.propose(i, p, false)
	}
	j, counts = f.propose(i, p, false)
	forced := j.Verdict == Held && (f.last || !mendable[j.Reason])
	if forced {
		j, counts = f.propose(i, p, true)
	}
	e := &f.set[i]
	if counts && (forced || p.stated && (d.Amount != e.Amount || d.Currency != e.Currency)) {
		f.Judgements[f.rulings[i]-1] = Judgement{Verdict: Applied}
	}
	return j, counts
}

// mendable are the reasons that another fact can make go away.
var mendable = [...]bool{Dismissed: false, AwaitingPredecessor: true, AwaitingPayment: true, OverRefund: true}

// settle holds each acceptance that could not be carried out, for the reason for
// which its target is still held: nothing a person decided is lost.
func (f *folding) settle() {
	for i, r := range f.rulings {
		if r > 0 && f.Judgements[i].Verdict == Held {
			f.Judgements[r-1] = f.Judgements[i]
		}
	}
}

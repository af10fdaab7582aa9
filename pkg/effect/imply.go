package effect

import (
	"slices"

	"sluice/pkg/order"
)

// Implied is one effect that an order's story implies: a step that stands, a rule
// that it matches, and the fact behind it.
type Implied struct {
	Name string
	Key  Key
	Fact Fact
	Step order.Step
	// Corrections: it is caused even if the step became true by a correction.
	Corrections bool
}

// Implied is what the steps of an order's fold imply, in their order, each key once.
// It follows from the fold alone, so it does not depend on the order in which facts
// arrived. cause is the entry behind a step; without one it is the registration, as
// merchant names itself.
func (s Set) Implied(orderID string, steps []order.Step, cause func(hash [16]byte) (order.Entry, bool)) (out []Implied) {
	for _, step := range steps {
		e, known := cause(step.Cause)
		if !known {
			e = order.Entry{Source: "merchant", Kind: order.KindRegistered}
		}
		for i := range s.all {
			d := &s.all[i]
			matches, corrections := false, false
			for _, r := range d.On {
				if r.Matches(step, e.Kind) {
					matches, corrections = true, corrections || !r.NoCorrections
				}
			}
			if !matches {
				continue
			}
			f := FactOf(e)
			one := Implied{Name: d.Name, Key: KeyOf(orderID, d.Name, f), Fact: f, Step: step, Corrections: corrections}
			if !slices.ContainsFunc(out, func(o Implied) bool { return o.Key == one.Key }) {
				out = append(out, one)
			}
		}
	}
	return out
}

// State is where an effect stands. The numbers are stored; never reuse one.
type State uint8

const (
	// Pending: it must be done, at once or after its delay or a failed attempt.
	Pending State = iota
	// Leased: an attempt is under way.
	Leased
	// Done: the receiver took it over.
	Done
	// Withdrawn: the order's story does not imply it any more.
	Withdrawn
	// Failed: its last attempt failed; a person may have it sent again.
	Failed
)

// Row is an effect that was written down.
type Row struct {
	Name  string
	Key   Key
	State State
	// Attempted: it was, or may have been, sent at least once.
	Attempted bool
	// Outdated: it was attempted, and the order's story implied it no more.
	Outdated bool
}

// Plan is what must become of an order's rows. The numbers are places in the rows.
type Plan struct {
	// Insert are effects to write down.
	Insert []Implied
	// Withdraw were never attempted, and nothing implies them any more.
	Withdraw []int
	// Outdate were attempted, and nothing implies them any more.
	Outdate []int
	// Revive were withdrawn or outdated, and are implied again.
	Revive []int
}

// Reconcile holds an order's rows against what its story implied before a
// transaction and implies after it.
//
// A row whose step merely got another cause is not sent again: if one effect's fact
// gave way to another while the order stays as it is (two payments whose events
// crossed), what was attempted stands for what is implied now. So an effect that an
// order's story implies once is done once, whatever the arrival; and as long as
// nothing was attempted, the rows that stand are exactly what the story implies.
// Effects that were declared after their step was taken are not made up for.
func Reconcile(before, after []Implied, rows []Row) (p Plan) {
	has := func(list []Implied, k Key) bool {
		return slices.ContainsFunc(list, func(o Implied) bool { return o.Key == k })
	}
	type count struct{ old, lost, missed, bare, stand, back int }
	counts := map[string]*count{}
	of := func(name string) *count {
		if counts[name] == nil {
			counts[name] = &count{}
		}
		return counts[name]
	}
	bare := func(t Implied) bool {
		return !slices.ContainsFunc(rows, func(r Row) bool { return r.Key == t.Key })
	}
	// What was implied and has no row: others stood for it, or nothing did, because it
	// was not declared. One of the others may be implied itself now: then it stands for
	// itself, and what it stood for is missed.
	for _, t := range before {
		if bare(t) {
			of(t.Name).bare++
		}
	}
	for _, r := range rows {
		if r.Attempted && r.State != Withdrawn && !r.Outdated && !has(before, r.Key) {
			c := of(r.Name)
			if c.stand++; has(after, r.Key) {
				c.back++
			}
		}
	}
	for _, t := range after {
		if bare(t) && has(before, t.Key) {
			of(t.Name).old++
		}
	}
	// What is implied and nothing stands for.
	var fresh []Implied
	left := map[string]int{}
	for name, c := range counts {
		undeclared := max(0, c.bare-c.stand)
		left[name] = min(c.back, max(0, c.old-(c.stand-c.back)-undeclared))
	}
	for _, t := range after {
		if !bare(t) {
			continue
		}
		c := of(t.Name)
		if has(before, t.Key) { // what it has stands, but for as many as went back
			if left[t.Name] == 0 {
				continue
			}
			left[t.Name]--
			c.old--
		}
		fresh = append(fresh, t)
		c.missed++
	}
	// Those that stood for another fact before come first: they go on doing so.
	var orphans []int
	for _, stood := range []bool{true, false} {
		for i, r := range rows {
			switch {
			case has(after, r.Key):
				if stood && (r.State == Withdrawn || r.Outdated) {
					p.Revive = append(p.Revive, i)
				}
			case r.State == Withdrawn || r.Outdated || has(before, r.Key) == stood:
			case !r.Attempted:
				p.Withdraw = append(p.Withdraw, i)
			default:
				orphans = append(orphans, i)
			}
		}
	}
	for _, i := range orphans {
		c := of(rows[i].Name)
		switch {
		case c.old > 0 && !has(before, rows[i].Key):
			c.old--
		case c.missed > 0:
			c.missed--
			c.lost++
		default:
			p.Outdate = append(p.Outdate, i)
		}
	}
	for _, t := range fresh {
		if c := of(t.Name); c.lost > 0 {
			c.lost--
			continue
		}
		p.Insert = append(p.Insert, t)
	}
	return p
}

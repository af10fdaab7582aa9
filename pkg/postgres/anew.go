package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// Anew says that an event's bytes were read anew, and its fact is what they say
// under the present rules: it takes the place of the reading in the set that has the
// event. The fact may lead to another order, or to none (KindNone without order and
// payment: the event states nothing any more, and stays where it is). An event that
// no set has is added, if it states anything. What a person decided about the event
// goes with it; where a person put it, it stays. Its hash and the hour in which it
// counts stay, so that nothing is done or counted twice.
type Anew struct {
	// OrderID, Payment and OrderNos lead to where the event may be, beside where the
	// new reading leads: what the record's headers name, and what a search found.
	OrderID, Payment string
	OrderNos         []int64
	// SameBytes: the record is another than the set names, with the very same bytes.
	SameBytes bool
	// Verdicts are those that the event may have now, to be read anew; nil: any. Added
	// says whether it may if no set has it.
	Verdicts []order.Verdict
	Added    bool
}

// wants: the event is one of those that are to be read anew.
func (r *Anew) wants(hs []holding) bool {
	if len(hs) == 0 {
		return r.Added
	}
	return r.Verdicts == nil || slices.ContainsFunc(hs, func(h holding) bool { return slices.Contains(r.Verdicts, order.Verdict(h.Verdict)) })
}

// holding is an entry of an order's set.
type holding = dbgen.LoadOrderEventsRow

// anewFacts is what an Apply must know of the events that are read anew, before it
// takes any lock on an order. nil: there are none.
type anewFacts struct {
	// holders are the sets that have an event, by the place of the fact that counts.
	holders map[int][]holding
	// homes are the orders in which events stay whatever they say.
	homes map[int]int64
	// idle facts change nothing: another reading of their event counts; or, nothing, no
	// set has it and it states nothing.
	idle, nothing map[int]bool
	// leaving are the events that said which order a payment belongs to, and do not
	// say so any more.
	leaving map[[16]byte]bool
	// unlearnt are the payments that nothing else led to an order; follows is, of those
	// that did lead there, where from and where to.
	unlearnt map[home]bool
	follows  map[payment]stray
	lost     int // of those that follow nobody
}

// errMeanwhile: a set changed between the search for an event and the lock on its order.
var errMeanwhile = errors.New("an event's place changed while its locks were awaited")

// findAnew looks for the events that are read anew. It makes nothing and locks nothing.
func (tx Tx) findAnew(ctx context.Context, facts []Fact, nos map[string]int16) (*anewFacts, error) {
	places := map[[16]byte][]int{}
	for i := range facts {
		if facts[i].Anew != nil {
			places[facts[i].Hash] = append(places[facts[i].Hash], i)
		}
	}
	if len(places) == 0 {
		return nil, nil
	}
	a := &anewFacts{holders: map[int][]holding{}, homes: map[int]int64{}, idle: map[int]bool{}, nothing: map[int]bool{},
		leaving: map[[16]byte]bool{}, unlearnt: map[home]bool{}, follows: map[payment]stray{}}
	orders, sets, err := tx.findSets(ctx, facts, nos, places)
	if err != nil {
		return nil, err
	}
	holders := map[[16]byte][]holding{}
	for _, h := range sets {
		if hash := h.EventHash.Bytes; places[hash] != nil {
			holders[hash] = append(holders[hash], h)
		}
	}
	linked, err := tx.linkedByPeople(ctx, slices.Collect(maps.Keys(places)))
	if err != nil {
		return nil, err
	}
	left := map[int64]bool{}
	for hash, at := range places {
		hs := holders[hash]
		best := choose(facts, at, hs)
		for _, i := range at {
			a.idle[i] = i != best
		}
		if best < 0 {
			continue
		}
		f := &facts[best]
		if !f.Anew.wants(hs) {
			a.idle[best] = true
			continue
		}
		a.holders[best] = hs
		says := f.OrderID != "" || f.Payment != ""
		switch {
		case len(hs) == 0:
			a.idle[best], a.nothing[best] = !says, !says
			continue
		case len(hs) > 1 || linked[hash]:
			a.homes[best] = homeOf(hs)
			continue
		case !says:
			a.homes[best] = hs[0].OrderNo
		}
		h := hs[0]
		says = f.Payment == h.PaymentID && f.OrderID != "" && orders[f.OrderID] == h.OrderNo
		if h.Named && h.PaymentID != "" && !says {
			a.leaving[hash] = true
			left[h.OrderNo] = true
		}
	}
	a.unlearn(sets, left)
	return a, nil
}

// choose is the place of the reading that counts, of those of one event; -1: the one
// that stands. The record that a set names, or its very bytes, comes first; of an
// object's states the latest counts, and of any other event the first.
func choose(facts []Fact, at []int, hs []holding) int {
	best := -1
	for _, i := range at {
		f := &facts[i]
		if f.Anew.SameBytes || slices.ContainsFunc(hs, func(h holding) bool { return h.Partition == f.Partition && h.RecordOffset == f.Offset }) {
			best = i
			break
		}
	}
	if best < 0 && len(hs) == 0 {
		best = at[0]
	}
	for _, i := range at {
		if f := &facts[i]; f.Replaces && i != best {
			var stands member
			if best >= 0 {
				stands.OccurredAt, stands.ReadingHash = facts[best].Time, facts[best].ReadingHash
			} else {
				stands.OccurredAt, stands.ReadingHash = hs[0].OccurredAt, hs[0].ReadingHash
			}
			if stands.older(f) {
				best = i
			}
		}
	}
	return best
}

// homeOf is, of several sets that have an event, the one in which it counts: a person
// linked it there, and it was dismissed in the others.
func homeOf(hs []holding) int64 {
	for _, h := range hs {
		if h.Reason != int16(order.Dismissed) {
			return h.OrderNo
		}
	}
	return hs[0].OrderNo
}

// findSets finds the entries of all orders where the events may be, and the numbers of
// the orders that the new readings name.
func (tx Tx) findSets(ctx context.Context, facts []Fact, nos map[string]int16, places map[[16]byte][]int) (map[string]int64, []holding, error) {
	orders, payments := map[string]int64{}, map[payment]link{}
	candidates := map[int64]bool{}
	for _, at := range places {
		for _, i := range at {
			f := &facts[i]
			for _, id := range [...]string{f.OrderID, f.Anew.OrderID} {
				if id != "" {
					orders[id] = 0
				}
			}
			for _, id := range [...]string{f.Payment, f.Anew.Payment} {
				if id != "" {
					payments[payment{nos[f.Source], id}] = link{}
				}
			}
			for _, no := range f.Anew.OrderNos {
				candidates[no] = true
			}
		}
	}
	if err := tx.findOrders(ctx, slices.Collect(maps.Keys(orders)), orders); err != nil {
		return nil, nil, err
	}
	if err := tx.findPayments(ctx, slices.Collect(maps.Keys(payments)), payments); err != nil {
		return nil, nil, err
	}
	for _, no := range orders {
		candidates[no] = true
	}
	for _, l := range payments {
		candidates[l.orderNo] = true
	}
	sets, err := tx.q.LoadOrderEvents(ctx, slices.Sorted(maps.Keys(candidates)))
	if err != nil {
		return nil, nil, fmt.Errorf("read the sets that may have events: %w", err)
	}
	return orders, sets, nil
}

// linkedByPeople are, of the events, those that a person put where they are.
func (tx Tx) linkedByPeople(ctx context.Context, hashes [][16]byte) (map[[16]byte]bool, error) {
	subjects := make([]string, len(hashes))
	for i, hash := range hashes {
		subjects[i] = HeldSubject(hash)
	}
	rows, err := tx.q.LinkedByPeople(ctx, string(ReviewHeld), subjects, string(Link))
	if err != nil {
		return nil, fmt.Errorf("read what people linked: %w", err)
	}
	linked := make(map[[16]byte]bool, len(rows))
	for _, r := range rows {
		linked[r.Bytes] = true
	}
	return linked, nil
}

// placed: routing does not decide where the fact belongs.
func (a *anewFacts) placed(i int) bool {
	if a == nil {
		return false
	}
	_, stays := a.homes[i]
	return stays || a.idle[i]
}

// touch adds the orders that events leave or stay in.
func (a *anewFacts) touch(orders map[int64]bool) {
	if a == nil {
		return
	}
	for _, hs := range a.holders {
		for _, h := range hs {
			orders[h.OrderNo] = orders[h.OrderNo] || false
		}
	}
	for _, s := range a.follows {
		orders[s.to] = orders[s.to] || false
	}
}

// put brings the new readings into the sets, under the locks of their orders. added
// are the places of those that no set had, and changed of all that are written.
func (a *anewFacts) put(facts []Fact, r *routes, orders map[int64]*lockedOrder, w *writes, nos map[string]int16) (added []int, changed map[int]bool, err error) {
	for p, s := range a.follows { // nobody else may have said it meanwhile
		if orders[s.from].named(p, a.leaving) {
			return nil, nil, errMeanwhile
		}
	}
	changed = map[int]bool{}
	for i := range facts {
		f := &facts[i]
		if f.Anew == nil || a.idle[i] {
			continue
		}
		to := orders[r.orderNos[i]]
		if len(a.holders[i]) == 0 {
			if to.find(f.Hash) != nil {
				return nil, nil, errMeanwhile
			}
			to.add(f, nos)
			added, changed[i] = append(added, i), true
			continue
		}
		_, stays := a.homes[i]
		for _, h := range a.holders[i] {
			no := h.OrderNo
			if moved, ok := r.moved[no]; ok { // a stub's events are the order's now
				no = moved
			}
			o := orders[no]
			m := o.find(f.Hash)
			if m == nil || m.ReadingHash != h.ReadingHash || m.Partition != h.Partition || m.RecordOffset != h.RecordOffset {
				return nil, nil, errMeanwhile
			}
			goes := !stays && o != to
			if !goes && m.says(f) {
				continue
			}
			if goes {
				m = w.move(o, to, f.Hash)
			}
			named := m.Named && stays || f.OrderID != ""
			m.replace(f)
			m.Named = named
			o.grew, to.grew, changed[i] = true, true, true
		}
	}
	a.drag(facts, orders, w)
	return added, changed, nil
}

// says: the entry says the same already.
func (m *member) says(f *Fact) bool {
	return m.ReadingHash == f.ReadingHash && m.Kind == int16(f.Kind) && m.OccurredAt == f.Time && m.Amount == f.Amount &&
		m.Currency == f.Currency && m.PaymentID == f.Payment && m.ObjectID == f.object()
}

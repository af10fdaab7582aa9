package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// home is a payment with the order that it belongs to.
type home struct {
	payment
	orderNo int64
}

// stray is an entry that goes from one order's set to another's.
type stray struct {
	from, to int64
	hash     [16]byte
}

// unlearn notes the payments that nothing but what leaves said to belong to one of the
// orders left.
func (a *anewFacts) unlearn(sets []holding, left map[int64]bool) {
	stays := map[home]bool{}
	for _, e := range sets {
		if left[e.OrderNo] && e.Named && e.PaymentID != "" {
			h := home{payment{e.SourceNo, e.PaymentID}, e.OrderNo}
			stays[h] = stays[h] || !a.leaving[e.EventHash.Bytes]
		}
	}
	for h, yes := range stays {
		if !yes {
			a.unlearnt[h] = true
		}
	}
}

// forgets: nothing says any more that the payment belongs to the order it leads to.
func (a *anewFacts) forgets(p payment, l link) bool {
	return a != nil && l.linked && a.unlearnt[home{p, l.orderNo}]
}

// forget lets payments lead to where they are wanted now, or to stubs of their own.
func (tx Tx) forget(ctx context.Context, ps []payment, wanted map[payment]int64, links map[payment]link, a *anewFacts) error {
	if len(ps) == 0 {
		return nil
	}
	var n int32
	for _, p := range ps {
		if wanted[p] == 0 {
			n++
		}
	}
	stubs, err := tx.q.AddStubs(ctx, n)
	if err != nil {
		return fmt.Errorf("add stubs: %w", err)
	}
	var arg dbgen.SetPaymentsParams
	for _, p := range ps {
		l := link{wanted[p], true}
		if l.orderNo == 0 {
			l, stubs = link{orderNo: stubs[0]}, stubs[1:]
			a.lost++
		}
		if from := links[p].orderNo; from != l.orderNo {
			a.follows[p] = stray{from: from, to: l.orderNo}
		}
		links[p] = l
		arg.SourceNos, arg.PaymentIds = append(arg.SourceNos, p.source), append(arg.PaymentIds, p.id)
		arg.OrderNos, arg.Linked = append(arg.OrderNos, l.orderNo), append(arg.Linked, l.linked)
	}
	if err := tx.q.SetPayments(ctx, arg); err != nil {
		return fmt.Errorf("lead payments elsewhere: %w", err)
	}
	return nil
}

// drag moves what only a payment led to an order to where the payment leads now.
func (a *anewFacts) drag(facts []Fact, orders map[int64]*lockedOrder, w *writes) {
	here := map[[16]byte]bool{}
	for i := range facts {
		here[facts[i].Hash] = facts[i].Anew != nil && !a.idle[i]
	}
	for p, s := range a.follows {
		var along [][16]byte
		for _, m := range orders[s.from].set {
			if m.SourceNo == p.source && m.PaymentID == p.id && !m.Named && !here[m.EventHash.Bytes] && !order.Kind(m.Kind).IsDecision() {
				along = append(along, m.EventHash.Bytes)
			}
		}
		for _, hash := range along {
			w.move(orders[s.from], orders[s.to], hash)
		}
	}
}

// named: an entry of the set that does not leave says that the payment belongs to its order.
func (o *lockedOrder) named(p payment, leaving map[[16]byte]bool) bool {
	return slices.ContainsFunc(o.set, func(m member) bool {
		return m.Named && m.SourceNo == p.source && m.PaymentID == p.id && !leaving[m.EventHash.Bytes]
	})
}

// move takes an event out of one set and puts it into another, with what people
// decided about it.
func (w *writes) move(from, to *lockedOrder, hash [16]byte) *member {
	from.grew, to.grew = true, true
	for i := 0; i < len(from.set); {
		m := &from.set[i]
		if m.EventHash.Bytes != hash && (!order.Kind(m.Kind).IsDecision() || targetOf(m.ObjectID) != hash) {
			i++
			continue
		}
		moved := *m
		if m.fact == nil && m.from == 0 {
			from.left = append(from.left, m.before())
		}
		if m.fact == nil {
			moved.from = from.no
		}
		moved.OrderNo = to.no
		w.strays = append(w.strays, stray{from.no, to.no, m.EventHash.Bytes})
		to.set = append(to.set, moved)
		from.set = slices.Delete(from.set, i, i+1)
	}
	return to.find(hash)
}

// writeStrays moves the rows of entries that went to another order.
func (tx Tx) writeStrays(ctx context.Context, strays []stray) error {
	if len(strays) == 0 {
		return nil
	}
	from, to, hashes := make([]int64, len(strays)), make([]int64, len(strays)), make([]pgtype.UUID, len(strays))
	for i, s := range strays {
		from[i], to[i], hashes[i] = s.from, s.to, uuid(s.hash)
	}
	if err := tx.q.DeleteEntries(ctx, from, hashes); err != nil {
		return fmt.Errorf("move entries: %w", err)
	}
	if err := tx.q.MoveHeldEntries(ctx, from, to, hashes); err != nil {
		return fmt.Errorf("move held entries: %w", err)
	}
	if err := tx.q.MoveReviewItemsOf(ctx, from, to, hashes); err != nil {
		return fmt.Errorf("move review items of entries: %w", err)
	}
	return nil
}

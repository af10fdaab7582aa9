package postgres

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// Apply adds facts to the sets of their orders, folds those orders again and
// writes what became of them: state, verdicts, held events, transitions, effects. It
// is the only writer of all these. A fact that its order's set holds already changes
// nothing, so repeating a transaction is safe. Verdicts do not depend on the order
// of the facts or on how they are cut into batches. now decides when a person
// should look at what is held.
func (tx Tx) Apply(ctx context.Context, now time.Time, facts []Fact) (Applied, error) {
	applied := Applied{Verdicts: make([]order.Judgement, len(facts)), Moved: Books{}}
	if len(facts) == 0 {
		return applied, nil
	}
	wanted := make([]string, 0, 4)
	for i := range facts {
		f := &facts[i]
		if f.OrderID == "" && f.Payment == "" && f.OrderNo == 0 && f.Anew == nil {
			return applied, errors.New("apply: a fact names no order and no payment")
		}
		for _, n := range [2]string{f.Source, f.Endpoint} {
			if !slices.Contains(wanted, n) {
				wanted = append(wanted, n)
			}
		}
	}
	nos, err := tx.nameNos(ctx, wanted...)
	if err != nil {
		return applied, err
	}
	anew, err := tx.findAnew(ctx, facts, nos)
	if err != nil {
		return applied, err
	}
	r, err := tx.route(ctx, facts, nos, anew)
	if err != nil {
		return applied, err
	}
	applied.OrderNos, applied.Crossed = r.orderNos, r.crossed
	touched := make(map[int64]bool, len(facts)) // true: a registration comes, which may be there already
	for i, no := range r.orderNos {
		if no != 0 {
			touched[no] = touched[no] || facts[i].Kind == order.KindRegistered
		}
	}
	anew.touch(touched)
	for from := range r.moved { // to an order that a fact names, so it is here already
		touched[from] = true
	}
	orders, err := tx.lockOrders(ctx, touched)
	if err != nil {
		return applied, err
	}
	for from, to := range r.moved {
		orders[to].take(orders[from])
		delete(orders, from)
	}
	var w writes
	var rewritten map[int]bool
	if anew != nil {
		if applied.Added, rewritten, err = anew.put(facts, &r, orders, &w, nos); err != nil {
			return applied, err
		}
		applied.Unlearnt = anew.lost
	}
	for i := range facts {
		f := &facts[i]
		if f.Anew != nil {
			switch {
			case rewritten[i]:
			case anew.nothing[i]:
				applied.Verdicts[i] = order.Judgement{Verdict: order.NoChange}
			default:
				applied.Verdicts[i] = order.Judgement{Verdict: order.Duplicate}
			}
			continue
		}
		o := orders[r.orderNos[i]]
		m := o.find(f.Hash)
		switch {
		case m == nil && !f.Replaces:
			o.add(f, nos)
			continue
		case m == nil, !f.Replaces && m.ReadingHash != f.ReadingHash:
			applied.OtherReadings = append(applied.OtherReadings, i)
		case f.Replaces && m.older(f):
			o.grew = true
			m.replace(f)
		case m.from != 0: // it moved to the order that a person names now
			m.Named = m.Named || f.OrderID != ""
		}
		applied.Verdicts[i] = order.Judgement{Verdict: order.Duplicate}
	}
	for _, o := range orders {
		if o.grew {
			w.orders = append(w.orders, o)
		}
	}
	slices.SortFunc(w.orders, func(a, b *lockedOrder) int { return cmp.Compare(a.no, b.no) })
	for _, o := range w.orders {
		if err := tx.fold(ctx, o, now, &w, applied.Moved); err != nil {
			return applied, err
		}
	}
	for i := range facts {
		if facts[i].Anew != nil && !rewritten[i] {
			continue
		}
		if applied.Verdicts[i].Verdict != order.Duplicate {
			applied.Verdicts[i] = orders[r.orderNos[i]].find(facts[i].Hash).judgement()
		}
	}
	applied.Changes = len(w.transitions)
	if err := w.write(ctx, tx, r.moved); err != nil {
		return applied, err
	}
	if applied.Effects, err = tx.writeEffects(ctx, now, &w); err != nil {
		return applied, err
	}
	return applied, tx.askAboutRefunds(ctx, now, facts, applied, nos)
}

// askAboutRefunds arms the look-ups of refunds that are under way, for when their end
// should long have been told, and has those of refunds looked at that have ended. What is
// new to a set does it once, whatever is repeated.
func (tx Tx) askAboutRefunds(ctx context.Context, now time.Time, facts []Fact, applied Applied, nos map[string]int16) error {
	bySource := map[int16][]arming{}
	var endedSources []int16
	var ended []string
	for i := range facts {
		f := &facts[i]
		due, source := now.Add(f.AskAfter), nos[f.Source]
		switch {
		case f.AskAfter == 0 || f.Payment == "" || applied.Verdicts[i].Verdict == order.Duplicate:
			continue
		case f.Kind == order.KindRefund || f.Kind == order.KindRefundFailed:
			endedSources, ended = append(endedSources, source), append(ended, f.Payment)
			continue
		case !order.UnderWay(f.Kind, f.Payment, f.Object):
			continue
		}
		bySource[source] = append(bySource[source], arming{object: object{source, f.Payment}, endpointNo: nos[f.Endpoint], lane: LaneHanging,
			orderNo: applied.OrderNos[i], event: uuid(f.Hash), dueAt: due, reviewAt: tx.store.graces.due(order.AwaitingProvider, due),
			target: Target{Object: f.Payment, Type: f.EventType, Order: f.OrderID, Payment: f.Payment, Subject: f.Object, Amount: f.Amount, Currency: f.Currency, Time: atMillis(f.Time)}})
	}
	for _, source := range slices.Sorted(maps.Keys(bySource)) {
		if err := tx.armBeside(ctx, now, source, bySource[source]); err != nil {
			return err
		}
	}
	if len(ended) == 0 {
		return nil
	}
	return wrap("look at the look-ups of refunds that have ended", tx.q.HastenRefunds(ctx, timestamp(now), endedSources, ended))
}

// add puts a fact into the set.
func (o *lockedOrder) add(f *Fact, nos map[string]int16) {
	o.grew = true
	o.set = append(o.set, member{source: f.Source, fact: f, AddOrderEventsParams: dbgen.AddOrderEventsParams{
		OrderNo: o.no, EventHash: uuid(f.Hash), SourceNo: nos[f.Source], EndpointNo: nos[f.Endpoint],
		Kind: int16(f.Kind), OccurredAt: f.Time, AppendedAt: timestamp(f.AppendedAt), ReadingHash: f.ReadingHash,
		Amount: f.Amount, Currency: f.Currency, EventID: f.EventID, EventType: f.EventType,
		PaymentID: f.Payment, ObjectID: f.object(), Partition: f.Partition, RecordOffset: f.Offset, Named: f.OrderID != "",
	}})
}

// take moves the events of a stub into the set.
func (o *lockedOrder) take(stub *lockedOrder) {
	for _, m := range stub.set {
		if o.find(m.EventHash.Bytes) == nil {
			o.grew = true
			m.from, m.OrderNo = stub.no, o.no
			o.set = append(o.set, m)
		}
	}
}

// fold judges a set that grew, and notes what must be written for it.
func (tx Tx) fold(ctx context.Context, o *lockedOrder, now time.Time, w *writes, moved Books) error {
	var (
		registered, registration = o.registrations()
		before, all, members     = w.before[:0], w.all[:0], w.members[:0]
		nEvents, nHeld           int32
	)
	for i := range o.set {
		m := &o.set[i]
		if m.Kind == int16(order.KindRegistered) {
			continue
		}
		nEvents++
		all, members = append(all, m.entry()), append(members, m)
		if m.fact == nil && m.from == 0 {
			before = append(before, m.before())
		}
	}
	before = append(before, o.left...)
	w.before, w.all, w.members = before, all, members
	old, folded := &w.old, &w.folded
	old.Fold(registered, before)
	folded.Fold(registration, all)
	for i, m := range members {
		judged := folded.Judgements[i]
		// Which of the two it awaits is not the fold's to know: both wait for the order.
		if judged.Reason == order.AwaitingOrder && (m.Reason == int16(order.OutsideWindow) || m.fact != nil && m.fact.OutsideWindow) {
			judged.Reason = order.OutsideWindow
		}
		// A person had the provider asked; what it answers is an event of its own.
		if judged.Verdict == order.Held && m.Reason == int16(order.AwaitingProvider) && (m.replaced == nil || m.replaced.Anew != nil) {
			judged.Reason = order.AwaitingProvider
		}
		if judged.Verdict == order.Held {
			nHeld++
		}
		was := m.judgement()
		m.Verdict, m.Reason = int16(judged.Verdict), int16(judged.Reason)
		w.judged(m, was, judged, tx.store.graces.due(judged.Reason, now))
		if m.fact == nil && was.Verdict != judged.Verdict && !order.Kind(m.Kind).IsDecision() {
			endpoint, err := tx.nameOf(ctx, m.EndpointNo)
			if err != nil {
				return err
			}
			moved.Add(m.AppendedAt.Time, endpoint, was.Verdict, -1)
			moved.Add(m.AppendedAt.Time, endpoint, judged.Verdict, 1)
		}
	}
	s := &o.state
	for i := range o.set {
		m := &o.set[i]
		if m.Kind != int16(order.KindRegistered) || m.fact == nil {
			continue
		}
		w.events = append(w.events, m.AddOrderEventsParams)
		if m.EventHash.Bytes == registration.Hash {
			s.RegisteredAt, s.Reference = timestamp(time.UnixMilli(m.OccurredAt)), m.ObjectID
			s.Amount, s.Currency = m.Amount, m.Currency
			w.registered = append(w.registered, o)
		}
	}
	s.NEvents, s.NHeld = nEvents, nHeld
	s.Status, s.Dispute = int16(folded.State.Status), int16(folded.State.Dispute)
	s.Paid, s.Refunded = folded.State.Paid, folded.State.Refunded
	changes := order.Changes(*old, *folded)
	if len(tx.store.effects.All()) > 0 {
		w.imply(tx.store.effects, o, old, folded, changes)
	}
	for _, c := range changes {
		s.Version++
		w.transitions = append(w.transitions, o.transition(c))
	}
	return nil
}

// registrations are what the shop said last: before this transaction, and now.
// An order without events was read without its set; its row says the same, but
// not which entry it came from.
func (o *lockedOrder) registrations() (before, now *order.Registration) {
	if s := &o.state; s.RegisteredAt.Valid {
		before = &order.Registration{Amount: s.Amount, Currency: s.Currency, Time: s.RegisteredAt.Time.UnixMilli()}
	}
	for i := range o.set {
		if m := &o.set[i]; before != nil && m.fact == nil && m.Kind == int16(order.KindRegistered) && m.OccurredAt == before.Time {
			before.Hash = m.EventHash.Bytes
		}
	}
	now = before
	for i := range o.set {
		m := &o.set[i]
		if m.Kind != int16(order.KindRegistered) || m.fact == nil || now != nil && m.OccurredAt < now.Time {
			continue
		}
		now = &order.Registration{Hash: m.EventHash.Bytes, Amount: m.Amount, Currency: m.Currency, Time: m.OccurredAt}
	}
	return before, now
}

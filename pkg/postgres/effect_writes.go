package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/effect"
	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
	"sluice/pkg/status"
)

// WithEffects is the store of a role that decides on orders: what it applies causes
// the effects of the set. Every such role of a deployment must be given the same
// set; without one, changes cause nothing.
func (s *Store) WithEffects(set effect.Set) *Store {
	s.effects = set
	return s
}

// orderEffects is what the story of one order implied before a transaction and
// implies after it.
type orderEffects struct {
	o             *lockedOrder
	before, after []effect.Implied
	// grown: the story only went on; after is what the new steps imply.
	grown bool
	// changes are what is published, from the version after first on.
	changes []order.Change
	first   int64
}

// imply notes which effects the fold of an order's set implies now and did not
// before, and the reverse.
func (w *writes) imply(declared effect.Set, o *lockedOrder, old, folded *order.Outcome, changes []order.Change) {
	cause := func(hash [16]byte) (order.Entry, bool) {
		if m := o.find(hash); m != nil {
			return m.entry(), true
		}
		return order.Entry{}, false
	}
	e := orderEffects{o: o, changes: changes, first: o.state.Version}
	if n := len(old.Steps); n <= len(folded.Steps) && slices.Equal(old.Steps, folded.Steps[:n]) && !o.readAnew(old.Steps) {
		e.grown, e.after = true, declared.Implied(o.id, folded.Steps[n:], cause)
		if len(e.after) == 0 {
			return
		}
	} else {
		e.after = declared.Implied(o.id, folded.Steps, cause)
		e.before = declared.Implied(o.id, old.Steps, o.entryBefore)
		if slices.EqualFunc(e.before, e.after, func(a, b effect.Implied) bool { return a.Key == b.Key }) {
			return
		}
	}
	w.effects = append(w.effects, e)
}

// readAnew: another reading of an event counts now that caused one of the steps.
func (o *lockedOrder) readAnew(steps []order.Step) bool {
	for i := range o.set {
		if m := &o.set[i]; m.replaced != nil && slices.ContainsFunc(steps, func(s order.Step) bool { return s.Cause == m.EventHash.Bytes }) {
			return true
		}
	}
	return false
}

// change is the step as the status topic tells it: with the version that published
// it, or, where none did by itself, the last one.
func (e *orderEffects) change(t effect.Implied, now time.Time) status.Message {
	s := t.Step
	m := status.Message{Source: status.Source, OrderID: e.o.id, Version: e.first + int64(len(e.changes)), Previous: s.From.Status, Status: s.To.Status,
		Amount: s.To.Amount, Currency: s.To.Currency, Paid: s.To.Paid, Refunded: s.To.Refunded, Dispute: s.To.Dispute, ChangedAt: now}
	m.Cause.Source, m.Cause.EventID = e.o.cause(s.Cause)
	if s.Time > 0 {
		m.OccurredAt = time.UnixMilli(s.Time)
	}
	for i, c := range e.changes {
		if c.Cause == s.Cause && c.To == s.To {
			m.Version, m.Correction = e.first+int64(i)+1, c.Correction
			return m
		}
		m.Correction = m.Correction || c.Correction
	}
	return m
}

// writeEffects writes down what must be done outside, and takes back what was not
// done yet and need not be done any more.
func (tx Tx) writeEffects(ctx context.Context, now time.Time, w *writes) (added int, err error) {
	if len(w.effects) == 0 {
		return 0, nil
	}
	adding := effectRows{set: tx.store.effects, now: now}
	unsettled := map[int64]*orderEffects{}
	for i := range w.effects {
		e := &w.effects[i]
		if !e.grown {
			unsettled[e.o.no] = e
			continue
		}
		for _, t := range e.after {
			adding.add(e, t)
		}
	}
	known, err := tx.addEffects(ctx, &adding)
	if err != nil {
		return 0, err
	}
	added = len(adding.Keys) - len(known)
	for i := range w.effects { // a row is there already: it may have been withdrawn
		if e := &w.effects[i]; e.grown && slices.ContainsFunc(e.after, func(t effect.Implied) bool { return known[t.Key] }) {
			e.after = slices.DeleteFunc(e.after, func(t effect.Implied) bool { return !known[t.Key] })
			unsettled[e.o.no] = e
		}
	}
	if len(unsettled) == 0 {
		return added, nil
	}
	n, err := tx.reconcileEffects(ctx, now, unsettled)
	return added + n, err
}

// effectRows are rows on their way in.
type effectRows struct {
	dbgen.AddEffectsParams
	set effect.Set
	now time.Time
}

func (r *effectRows) add(e *orderEffects, t effect.Implied) {
	m := e.change(t, r.now)
	if m.Correction && !t.Corrections {
		return
	}
	r.Keys, r.OrderNos, r.Effects = append(r.Keys, uuid(t.Key)), append(r.OrderNos, e.o.no), append(r.Effects, t.Name)
	r.FactSources, r.FactKinds = append(r.FactSources, t.Fact.Source), append(r.FactKinds, int16(t.Fact.Kind))
	r.FactPayments, r.FactObjects = append(r.FactPayments, t.Fact.Payment), append(r.FactObjects, t.Fact.Object)
	r.Versions, r.DueAt = append(r.Versions, m.Version), append(r.DueAt, timestamp(r.due(t.Name)))
	r.Bodies = append(r.Bodies, effect.Body(t.Name, t.Key, t.Fact, m))
}

// due is when an effect that is implied from now on may be attempted.
func (r *effectRows) due(name string) time.Time {
	d, _ := r.set.Get(name)
	return r.now.Add(d.Delay)
}

// addEffects adds rows and returns the keys that were there already.
func (tx Tx) addEffects(ctx context.Context, r *effectRows) (known map[effect.Key]bool, err error) {
	if len(r.Keys) == 0 {
		return nil, nil
	}
	r.Now = timestamp(r.now)
	fresh, err := tx.q.AddEffects(ctx, r.AddEffectsParams)
	if err != nil {
		return nil, fmt.Errorf("add effects: %w", err)
	}
	if len(fresh) == len(r.Keys) {
		return nil, nil
	}
	known = make(map[effect.Key]bool, len(r.Keys)-len(fresh))
	for _, k := range r.Keys {
		known[k.Bytes] = true
	}
	for _, k := range fresh {
		delete(known, k.Bytes)
	}
	return known, nil
}

// reconcileEffects holds the rows of orders against what their stories imply.
func (tx Tx) reconcileEffects(ctx context.Context, now time.Time, orders map[int64]*orderEffects) (added int, err error) {
	nos := make([]int64, 0, len(orders))
	for no := range orders {
		nos = append(nos, no)
	}
	rows, err := tx.q.LockEffectsOfOrders(ctx, nos)
	if err != nil {
		return 0, fmt.Errorf("lock effects: %w", err)
	}
	of := map[int64][]effect.Row{}
	for _, r := range rows {
		if _, declared := tx.store.effects.Get(r.Effect); !declared {
			continue // what causes it is not known here
		}
		e := orders[r.OrderNo]
		row := effect.Row{Name: r.Effect, Key: r.Key.Bytes, State: effect.State(r.State), Attempted: r.Attempt > 0, Outdated: r.Outdated}
		if !e.grown || slices.ContainsFunc(e.after, func(t effect.Implied) bool { return t.Key == row.Key }) {
			of[r.OrderNo] = append(of[r.OrderNo], row)
		}
	}
	adding := effectRows{set: tx.store.effects, now: now}
	var withdraw, outdate [][16]byte
	var revive struct {
		Keys  []pgtype.UUID
		DueAt []pgtype.Timestamptz
	}
	var outdated []ReviewItem
	var wanted, unwanted []string
	for no, e := range orders {
		rows := of[no]
		plan := effect.Reconcile(e.before, e.after, rows)
		for _, t := range plan.Insert {
			adding.add(e, t)
		}
		for _, i := range plan.Withdraw {
			withdraw = append(withdraw, rows[i].Key)
		}
		for _, i := range plan.Outdate {
			text := rows[i].Key.Text(rows[i].Name)
			outdate, unwanted = append(outdate, rows[i].Key), append(unwanted, text)
			outdated = append(outdated, ReviewItem{Kind: ReviewEffectOutdated, Subject: text, OrderNo: no,
				Detail: fmt.Sprintf("effect %q of order %s was attempted, and what caused it does not count any more", rows[i].Name, e.o.id)})
		}
		for _, i := range plan.Revive {
			revive.Keys, wanted = append(revive.Keys, uuid(rows[i].Key)), append(wanted, rows[i].Key.Text(rows[i].Name))
			revive.DueAt = append(revive.DueAt, timestamp(adding.due(rows[i].Name)))
		}
	}
	if len(withdraw) > 0 {
		if err := tx.q.WithdrawEffects(ctx, timestamp(now), uuids(withdraw)); err != nil {
			return 0, fmt.Errorf("withdraw effects: %w", err)
		}
	}
	if len(outdate) > 0 {
		if err := tx.q.OutdateEffects(ctx, timestamp(now), uuids(outdate)); err != nil {
			return 0, fmt.Errorf("outdate effects: %w", err)
		}
	}
	if len(revive.Keys) > 0 {
		if err := tx.q.ReviveEffects(ctx, revive.Keys, revive.DueAt); err != nil {
			return 0, fmt.Errorf("revive effects: %w", err)
		}
	}
	if _, err := tx.addEffects(ctx, &adding); err != nil {
		return 0, err
	}
	if err := tx.settleReviewItems(ctx, ReviewEffectOutdated, wanted, ImpliedAgain); err != nil {
		return 0, err
	}
	if err := tx.settleReviewItems(ctx, ReviewEffectFailed, unwanted, NotImplied); err != nil {
		return 0, err
	}
	return len(adding.Keys) + len(revive.Keys), tx.openReviewItems(ctx, outdated)
}

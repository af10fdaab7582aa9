package processor

import (
	"context"
	"slices"

	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/webhook"
)

// applyAnew is apply for records that were met before and whose bodies are all read
// again: what the sets have of their events gives way to what they say now. A record
// that cannot be read now changes nothing, for its event was taken over, or it is a
// dead letter already.
func (b *batch) applyAnew(ctx context.Context) error {
	readable, facts, err := b.readAnew(ctx)
	if err != nil {
		return err
	}
	applied, err := b.tx.Apply(ctx, b.now, facts)
	if err != nil {
		return err
	}
	for i, r := range readable {
		r.verdict = applied.Verdicts[i].Verdict
		r.entered = slices.Contains(applied.Added, i)
		r.mended = r.verdict != order.Duplicate && applied.OrderNos[i] != 0 && !r.entered
		r.fresh = r.entered && r.stands == 0 // else the journal has had it
	}
	for _, i := range applied.Crossed {
		if readable[i].entered || readable[i].mended {
			if err := b.noteCrossed(ctx, readable[i], applied.OrderNos[i]); err != nil {
				return err
			}
		}
	}
	for k, n := range applied.Moved {
		b.books[k] += n
	}
	b.versions, b.effects, b.unlearnt = applied.Changes, applied.Effects, applied.Unlearnt
	if b.anew.wants(order.Dead) {
		if err := b.holdHints(ctx); err != nil {
			return err
		}
	}
	if err := b.countAnew(ctx, readable); err != nil {
		return err
	}
	if err := b.keepBodies(ctx); err != nil {
		return err
	}
	return b.tx.AddToBooks(ctx, b.topicID, b.writer, b.books)
}

// readAnew opens the bodies and makes a fact of each that can be read, also of one that
// states nothing.
func (b *batch) readAnew(ctx context.Context) (readable []*record, facts []postgres.Fact, err error) {
	places := make([]postgres.Place, len(b.records))
	for i, r := range b.records {
		places[i] = r.place()
	}
	dead, err := b.tx.DeadLettersAt(ctx, b.topicID, places)
	if err != nil {
		return nil, nil, err
	}
	// What is only looked at is not entered: an event that nobody has taken over stays
	// one that a replay takes over.
	var take, look []postgres.Seen
	taken := map[[16]byte]bool{}
	for _, r := range b.records {
		r.fresh, r.entered, r.mended, r.verdict, r.stands = false, false, false, order.Dead, 0
		if r.skip || r.hint && r.dead == "" || r.dead == "" && !b.anew.mayWant(dead[r.place()]) {
			r.verdict = order.Duplicate
			continue
		}
		if r.dead == "" && r.event.Mode == b.mode {
			b.open(r)
		}
		if r.dead != "" {
			continue
		}
		readable = append(readable, r)
		switch {
		case !r.windowed || taken[r.key]:
		case b.anew.adds(dead[r.place()]):
			taken[r.key], take = true, append(take, r.seen)
		default:
			look = append(look, r.seen)
		}
	}
	known, err := b.tx.TakeProcessedEvents(ctx, take, true)
	if err != nil {
		return nil, nil, err
	}
	look = slices.DeleteFunc(look, func(e postgres.Seen) bool { return taken[e.Key] })
	if err := b.tx.KnownProcessedEvents(ctx, look, known); err != nil {
		return nil, nil, err
	}
	b.known = len(known)
	facts = make([]postgres.Fact, len(readable))
	for i, r := range readable {
		r.stands = known[r.key]
		f := b.factAnew(r)
		f.Anew.Verdicts = b.anew.Verdicts
		f.Anew.Added = b.anew.adds(dead[r.place()])
		facts[i] = f
	}
	return readable, facts, nil
}

// factAnew is what the body says now. The time too is the reading's: what the headers
// say was read under the rules of then.
func (b *batch) factAnew(r *record) postgres.Fact {
	f := r.fact
	if !r.stated {
		f = r.factOf(webhook.Reading{})
		f.ReadingHash, f.Time = 0, 0
	}
	e := &r.event
	update := r.changedBody(b.endpoint(r)) == webhook.Update
	f.Replaces = update
	f.Anew = &postgres.Anew{OrderID: e.Order, Payment: e.Payment, SameBytes: !update && r.stands != 0 && r.stands == r.seen.Fingerprint}
	if b.anew.Orders != nil {
		f.Anew.OrderNos = b.anew.Orders(f.Hash)
	}
	if r.stated && !r.time.IsZero() {
		dated := event.Event{Time: r.time, ReceivedAt: e.ReceivedAt}
		if f.Time = 0; dated.Dated() {
			f.Time = r.time.UnixMilli()
		}
	}
	return f
}

// countAnew moves what the books say. Each record is in them already: as a dead
// letter that is settled now, or else, where its event was in no set, as no change. One
// that was never taken over was left out on purpose, and is in no line of theirs.
func (b *batch) countAnew(ctx context.Context, readable []*record) error {
	places := make([]postgres.Place, len(readable))
	for i, r := range readable {
		places[i] = r.place()
	}
	settled, err := b.tx.SettleDeadLetters(ctx, b.topicID, places, b.books)
	if err != nil {
		return err
	}
	for _, r := range readable {
		switch {
		case settled[r.place()]:
			b.revive(r)
		case r.entered && (r.stands != 0 || !r.windowed):
			b.books.Add(r.Timestamp, b.bookedAs(r), order.NoChange, -1)
			b.books.Add(r.Timestamp, b.bookedAs(r), r.verdict, 1)
		}
	}
	return nil
}

package processor

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/webhook"
)

// batch is one transaction's work.
type batch struct {
	reader
	ground
	tx        postgres.Tx
	records   []*record
	books     postgres.Books
	now       time.Time
	lookFirst bool
	journal   bool
	anew      *Anew

	known       int // events that had been taken over before
	versions    int // of orders
	effects     int
	deadLetters int // newly kept
	unlearnt    int // payments that lead nowhere any more
	revived     map[*record]bool
}

// apply is the transaction, step by step, on the ground that it stands on.
func (b *batch) apply(ctx context.Context) error {
	if err := b.leaveDiscarded(ctx); err != nil {
		return err
	}
	if b.anew != nil {
		return b.applyAnew(ctx)
	}
	fresh, repeated, err := b.dedupe(ctx)
	if err != nil {
		return err
	}
	updates, others := b.updates(repeated)
	if err := b.applyFacts(ctx, fresh, updates); err != nil {
		return err
	}
	if err := b.compare(ctx, others); err != nil {
		return err
	}
	if err := b.holdHints(ctx); err != nil {
		return err
	}
	if err := b.keepBodies(ctx); err != nil {
		return err
	}
	if err := b.keepDeadLetters(ctx); err != nil {
		return err
	}
	if err := b.count(ctx); err != nil {
		return err
	}
	return b.tx.AddToBooks(ctx, b.topicID, b.writer, b.books)
}

// dedupe sorts out what was taken over before. repeated are those whose body
// differs from the one that was.
func (b *batch) dedupe(ctx context.Context) (fresh, repeated []*record, err error) {
	var (
		firsts    = make(map[[16]byte]*record, len(b.records))
		seen      = make([]postgres.Seen, 0, len(b.records))
		lookFirst = b.lookFirst
	)
	for _, r := range b.records {
		r.fresh, r.verdict, r.stands, r.fact.Replaces = false, order.Dead, 0, false
		if r.skip {
			r.verdict = order.NoChange
		}
		if r.skip || r.hint || r.dead != "" {
			continue
		}
		lookFirst = lookFirst || b.replayed(r)
		if first := firsts[r.key]; first != nil {
			r.verdict = order.Duplicate
			if r.stands = first.seen.Fingerprint; r.stands != r.seen.Fingerprint {
				repeated = append(repeated, r)
			}
			continue
		}
		firsts[r.key] = r
		r.fresh = true
		if r.windowed {
			seen = append(seen, r.seen)
		}
	}
	known, err := b.tx.TakeProcessedEvents(ctx, seen, lookFirst)
	if err != nil {
		return nil, nil, err
	}
	b.known = len(known)
	for _, r := range b.records {
		if !r.fresh {
			continue
		}
		fingerprint, was := known[r.key]
		if !was || !r.windowed {
			fresh = append(fresh, r)
			continue
		}
		r.fresh, r.verdict = false, order.Duplicate
		if r.stands = fingerprint; fingerprint != r.seen.Fingerprint {
			repeated = append(repeated, r)
		}
	}
	return fresh, repeated, nil
}

// updates picks out of the events that came again with another body those whose
// provider sends a state anew under one id: the latest reading counts.
func (b *batch) updates(repeated []*record) (updates, others []*record) {
	for _, r := range repeated {
		if r.event.Mode == b.mode && r.changedBody(b.endpoint(r)) == webhook.Update {
			if b.open(r); r.stated {
				r.fact.Replaces = true
				updates = append(updates, r)
				continue
			}
		}
		others = append(others, r)
	}
	return updates, others
}

// applyFacts reads the bodies of what is new and applies what they state, and
// what the updates of what is known state.
func (b *batch) applyFacts(ctx context.Context, fresh, updates []*record) error {
	facts, stated := make([]postgres.Fact, 0, len(fresh)+len(updates)), make([]*record, 0, len(fresh)+len(updates))
	unreadable := map[[16]byte]bool{}
	for _, r := range fresh {
		if r.event.Mode != b.mode {
			r.verdict = order.NoChange // other_mode
			continue
		}
		b.open(r)
		switch {
		case r.dead != "":
			unreadable[r.key] = true
		case !r.stated:
			r.verdict = order.NoChange
		default:
			facts, stated = append(facts, r.fact), append(stated, r)
		}
	}
	if len(unreadable) > 0 {
		for _, r := range b.records { // its copies too, or each would start over again
			if unreadable[r.key] && !r.hint {
				b.open(r)
			}
		}
		return errUnreadable
	}
	for _, r := range updates { // in the one Apply, which takes all locks in their order
		facts, stated = append(facts, r.fact), append(stated, r)
	}
	applied, err := b.tx.Apply(ctx, b.now, facts)
	if err != nil {
		return err
	}
	for i, r := range stated {
		r.verdict = applied.Verdicts[i].Verdict
		r.fresh = r.verdict != order.Duplicate
		if r.fresh && ahead(r) {
			if err := b.note(ctx, postgres.ReviewFutureTime, r, applied.OrderNos[i], "is dated more than a day after its receipt, and counts as undated"); err != nil {
				return err
			}
		}
	}
	for _, i := range applied.Crossed {
		if stated[i].fresh {
			if err := b.noteCrossed(ctx, stated[i], applied.OrderNos[i]); err != nil {
				return err
			}
		}
	}
	for _, i := range applied.OtherReadings {
		what, orderNo := "came again and says something else; the first stands", applied.OrderNos[i]
		if stated[i].fact.Replaces {
			orderNo, what = 0, "came again and leads to another order, which does not have it; the first stands"
		}
		if err := b.note(ctx, postgres.ReviewBodyChanged, stated[i], orderNo, what); err != nil {
			return err
		}
	}
	for k, n := range applied.Moved {
		b.books[k] += n
	}
	b.versions, b.effects = applied.Changes, applied.Effects
	return nil
}

func (b *batch) noteCrossed(ctx context.Context, r *record, orderNo int64) error {
	return b.note(ctx, postgres.ReviewCrossed, r, orderNo, "names an order with a payment that was named with another order before; "+
		"it counts in this one, what names only the payment in the other")
}

// ahead: its time lies so far ahead of its receipt that it cannot be true.
func ahead(r *record) bool { return r.event.Time.UnixMilli() > 0 && !r.event.Dated() }

// compare looks at events that came again with another body. If they say the
// same they are duplicates like any other; else the first stands and a person
// is told.
func (b *batch) compare(ctx context.Context, repeated []*record) error {
	var facts []postgres.Fact
	var stated []*record
	for _, r := range repeated {
		if r.event.Mode != b.mode {
			continue
		}
		switch b.open(r); {
		case r.dead != "":
			// The event is taken over; a body that cannot be read says nothing else.
			r.dead, r.detail, r.read = "", "", false
			if err := b.note(ctx, postgres.ReviewBodyChanged, r, 0, "came again and cannot be read; the first stands"); err != nil {
				return err
			}
		case r.stated:
			facts, stated = append(facts, r.fact), append(stated, r)
		}
	}
	same, holders, err := b.tx.SameReadings(ctx, facts)
	if err != nil {
		return err
	}
	for i, r := range stated {
		if !same[i] {
			if err := b.note(ctx, postgres.ReviewBodyChanged, r, holders[i], "came again and says something else; the first stands"); err != nil {
				return err
			}
		}
	}
	return nil
}

// note asks a person about an event, once for each kind; orderNo is the order
// that has it, 0 if that is not known.
func (b *batch) note(ctx context.Context, kind postgres.ReviewKind, r *record, orderNo int64, what string) error {
	hash := r.event.Hash()
	body := fmt.Sprintf("body %016x at %s/%d/%d", uint64(r.seen.Fingerprint), r.Topic, r.Partition, r.Offset)
	if r.stands != 0 {
		body += fmt.Sprintf("; the first was %016x", uint64(r.stands))
	}
	_, err := b.tx.AddReviewItem(ctx, postgres.ReviewItem{
		Kind: kind, Subject: hex.EncodeToString(hash[:]), OrderNo: orderNo, Event: hash, Detail: fmt.Sprintf("%s %s (%s)", describe(&r.event), what, body),
	})
	return err
}

// keepDeadLetters keeps the records that could not be taken over.
func (b *batch) keepDeadLetters(ctx context.Context) error {
	for _, r := range b.records {
		if r.dead == "" {
			continue
		}
		added, err := b.tx.AddDeadLetter(ctx, b.deadLetter(r))
		if err != nil {
			return err
		}
		if added {
			b.deadLetters++
		}
	}
	return nil
}

func (b *batch) deadLetter(r *record) postgres.DeadLetter {
	return postgres.DeadLetter{
		TopicID: b.topicID, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Endpoint: b.bookedAs(r),
		Reason: r.dead, Detail: r.detail, Key: r.Key, Headers: r.Headers, Body: r.Value, AppendedAt: r.Timestamp,
	}
}

// count enters each record in the books once, the first time it is met. One that
// was a dead letter and is not any more moves.
func (b *batch) count(ctx context.Context) error {
	var revived []postgres.Place
	for _, r := range b.records {
		switch {
		case !b.replayed(r):
			b.books.Add(r.Timestamp, b.bookedAs(r), r.verdict, 1)
		case r.skip:
		case r.verdict != order.Dead && (r.verdict != order.Duplicate || b.applied == nil): // of what is selected nothing stays open that can be read
			revived = append(revived, r.place())
		}
	}
	settled, err := b.tx.SettleDeadLetters(ctx, b.topicID, revived, b.books)
	if err != nil {
		return err
	}
	for _, r := range b.records {
		if settled[r.place()] {
			b.revive(r)
		}
	}
	return nil
}

// revive counts a record that was a dead letter as what it became.
func (b *batch) revive(r *record) {
	b.books.Add(r.Timestamp, b.bookedAs(r), r.verdict, 1)
	if b.revived == nil {
		b.revived = map[*record]bool{}
	}
	b.revived[r] = true
}

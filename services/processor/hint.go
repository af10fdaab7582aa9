package processor

import (
	"cmp"
	"context"

	"sluice/pkg/endpoint"
	"sluice/pkg/lookup"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/webhook"
)

// holdHints holds what nobody has signed until its provider was asked. A hint is
// counted once, when its record is met first; a replay arms nothing and holds
// nothing, unless the record was a dead letter until now.
func (b *batch) holdHints(ctx context.Context) error {
	var again []postgres.Place
	for _, r := range b.records {
		if !r.hint || r.dead != "" {
			continue
		}
		if r.event.Mode == b.mode {
			r.aim(b.endpoint(r))
		}
		if r.dead == "" && b.replayed(r) {
			again = append(again, r.place())
		}
	}
	revived, err := b.tx.SettleDeadLetters(ctx, b.topicID, again, b.books)
	if err != nil {
		return err
	}
	var hints []postgres.Hint
	var of []*record
	for _, r := range b.records {
		switch {
		case !r.hint || r.dead != "":
			continue
		case b.replayed(r) && !revived[r.place()]:
			r.verdict = order.Duplicate
		case r.event.Mode != b.mode:
			r.verdict = order.NoChange // other_mode
		default:
			hints, of = append(hints, r.asHint()), append(of, r)
		}
	}
	verdicts, err := b.tx.HoldHints(ctx, b.now, hints)
	if err != nil {
		return err
	}
	for i, r := range of {
		r.verdict, r.fresh = verdicts[i], true
	}
	for _, r := range b.records { // count has met them before
		if r.hint && revived[r.place()] {
			b.revive(r)
		}
	}
	return nil
}

// aim reads what a hint's provider is to be asked about, once. Afterwards the record
// is dead, or has its target.
func (r *record) aim(ep endpoint.Endpoint) {
	if r.read {
		return
	}
	r.read = true
	reading, err := r.reading(ep)
	if err != nil {
		r.die(deadBody, err.Error())
		return
	}
	t := lookup.TargetOf(reading)
	name := unstorable(reading)
	for _, id := range [...]string{t.Object, t.Subject} { // one that no fact needs may be among them
		if name == "" && unstorable(webhook.Reading{Object: id}) != "" {
			name = "what its provider is to be asked about"
		}
	}
	if name != "" {
		r.die(deadBody, name+" is longer than 1024 bytes or not text that can be stored")
		return
	}
	at := t.Time
	if at.IsZero() {
		at = r.event.ReceivedAt
	}
	r.target = postgres.Target{Object: cmp.Or(t.Object, r.event.ID), Type: r.event.Type, Order: t.Order, Payment: t.Payment,
		Subject: t.Subject, Amount: t.Amount, Currency: t.Currency, Time: at}
}

func (r *record) asHint() postgres.Hint {
	e := &r.event
	return postgres.Hint{Event: e.Hash(), Source: e.Source, EventID: e.ID, Endpoint: e.Endpoint, AppendedAt: r.Timestamp,
		Place: r.place(), Target: r.target}
}

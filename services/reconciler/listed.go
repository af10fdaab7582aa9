package reconciler

import (
	"context"
	"crypto/sha256"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/lookup"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/webhook"
)

// listed is one thing that a provider lists, read.
type listed struct {
	// record and key are of the provider's own event; an object has none.
	record *kafka.Record
	key    postgres.EventKey
	id     string
	// target is what an object's look-up asks about, or a hint's.
	target lookup.Target
	// facts are what it states that an order can use.
	facts []webhook.Reading
}

// readItems reads the items of a page. What states nothing about an order, or is of
// the other mode, or cannot be read, is only counted.
func readItems(e endpoint.Endpoint, items []lookup.Item, now time.Time) (out []listed, t tally) {
	for _, item := range items {
		l := listed{target: item.Target, id: item.Target.Payment}
		facts := item.Facts
		if item.Event != nil {
			reading, err := l.own(e, item.Event, now)
			if err != nil {
				t.unread++
				continue
			}
			facts = []webhook.Reading{reading}
		}
		other := false
		for _, f := range facts {
			switch {
			case f.Mode != "" && f.Mode != e.Mode:
				other = true
			case decides(f.Fact):
				l.facts = append(l.facts, f)
			}
		}
		switch {
		case len(l.facts) > 0:
			out = append(out, l)
		case other:
			t.otherMode++
		default:
			t.undecided++
		}
	}
	return out, t
}

// decides: a fact of that kind says something about its order.
func decides(k order.Kind) bool { return k != order.KindNone && k != order.KindPending }

// own makes the record of a provider's own event as the webhook of it would have made
// it, but for the signature: nobody has signed it, and we have asked for it ourselves.
// Where its decisive fields are not in it, it is a hint as the webhook is.
func (l *listed) own(e endpoint.Endpoint, body []byte, now time.Time) (webhook.Reading, error) {
	unsigned := webhook.StoredHeaders(nil)
	reading, err := e.Read(unsigned, body)
	if err != nil {
		return reading, err
	}
	ev, _, err := e.Identify(event.Event{Source: e.Source, Provider: e.Provider.Name(), Endpoint: e.Name, TimeRepeats: e.Provider.TimeRepeats(),
		ContentType: "application/json", ReceivedAt: now, Body: body, BodySHA256: sha256.Sum256(body)}, unsigned)
	if err != nil {
		return reading, err
	}
	if ev.Trust == event.Hint {
		l.target = lookup.TargetOf(reading)
	} else {
		ev.Trust = event.LookedUp
	}
	headers, err := ev.Headers()
	if err != nil {
		return reading, err
	}
	l.record = &kafka.Record{Key: []byte(ev.ID), Value: body, Headers: headers}
	l.key, l.id = postgres.EventKey{Key: ev.Key(), Hash: ev.Hash(), ID: ev.ID}, ev.ID
	return reading, nil
}

// findings are what a page holds that is not known here: records to be written, and
// objects to be asked about.
type findings struct {
	tally
	records []kafka.Record
	targets []lookup.Target
	// first and firstDiffering name a few of them.
	first, firstDiffering []string
}

// compare holds a page against what the database knows. It writes nothing.
func (a *account) compare(ctx context.Context, store *postgres.Store, page lookup.Page, now time.Time) (findings, error) {
	items, t := readItems(a.endpoint, page.Items, now)
	t.unread += page.Unread
	f := findings{tally: t}
	told, err := store.Told(ctx, question(a.endpoint.Source, items))
	if err != nil {
		return findings{}, err
	}
	for _, l := range items {
		switch knowledge(told, l) {
		case lookup.Known:
			f.known++
		case lookup.Differs:
			f.differs++
			f.firstDiffering = first(f.firstDiffering, l.id)
		case lookup.Missing:
			f.missing++
			f.first = first(f.first, l.id)
			if l.record != nil {
				f.records = append(f.records, *l.record)
			} else {
				f.targets = append(f.targets, l.target)
			}
		}
	}
	return f, nil
}

func question(source string, items []listed) postgres.Question {
	q := postgres.Question{Source: source}
	for _, l := range items {
		if l.record != nil {
			q.Events = append(q.Events, l.key)
		}
		if l.target.Object != "" {
			q.Objects = append(q.Objects, l.target.Object)
		}
		for _, f := range l.facts {
			if f.Payment != "" {
				q.Payments = append(q.Payments, f.Payment)
			}
			if f.Order != "" {
				q.Orders = append(q.Orders, f.Order)
			}
		}
	}
	return q
}

// knowledge is what is known of an item: of an event whether it came in, or another one
// told its fact; of an object whether all of its facts were told, or a look-up of it is
// open.
func knowledge(told postgres.Told, l listed) lookup.Knowledge {
	if l.record != nil && told.Events[l.key.Hash] || told.Asked[l.target.Object] {
		return lookup.Known
	}
	answer := lookup.Known
	for _, f := range l.facts {
		switch lookup.Knows(about(told, f), f) {
		case lookup.Missing:
			return lookup.Missing
		case lookup.Differs:
			answer = lookup.Differs
		}
	}
	if answer == lookup.Differs && l.record != nil {
		return lookup.Missing // an event that never came in, whatever another one said
	}
	return answer
}

// about are the entries that can be about what a fact is about.
func about(told postgres.Told, f webhook.Reading) (set []order.Entry) {
	for _, e := range told.Facts {
		if f.Payment != "" && e.Payment == f.Payment || f.Order != "" && e.OrderID == f.Order {
			set = append(set, e.Entry)
		}
	}
	return set
}

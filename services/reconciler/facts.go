package reconciler

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/lookup"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/webhook"
)

// decided says whether an answer tells how a payment ended, or that it did.
func decided(facts []webhook.Reading) bool {
	for _, f := range facts {
		if f.Fact != order.KindPending {
			return true
		}
	}
	return false
}

// underWay is a refund whose end is not known yet; nil if there is none.
func underWay(said []postgres.Said) *postgres.Said {
	for i, f := range said {
		if order.UnderWay(f.Kind, f.Payment, f.Object) {
			return &said[i]
		}
	}
	return nil
}

// records are the events that the facts of an answer become: trusted ones, of the
// endpoint's source. The same answer gives the same events, whoever asked. said are the
// same facts, as they are compared later.
func records(e endpoint.Endpoint, facts []webhook.Reading, receivedAt time.Time) (list []kafka.Record, said []postgres.Said, err error) {
	for _, f := range facts {
		body, err := lookup.Encode(f)
		if err != nil {
			return nil, nil, err
		}
		r, err := lookup.Decode(body) // the id and type that every reader will see
		if err != nil {
			return nil, nil, err
		}
		ev := event.Event{Source: e.Source, ID: r.ID, Type: r.Type, Time: r.Time, TimeRepeats: true, Mode: cmp.Or(r.Mode, e.Mode),
			Provider: e.Provider.Name(), Endpoint: e.Name, Order: r.Order, Payment: r.Payment, Trust: event.LookedUp,
			ContentType: lookup.ContentType, ReceivedAt: receivedAt, Body: body}
		headers, err := ev.Headers()
		if err != nil {
			return nil, nil, err
		}
		list = append(list, kafka.Record{Key: []byte(ev.ID), Value: body, Headers: headers})
		said = append(said, postgres.Said{Event: ev.Hash(), Kind: r.Fact, Payment: r.Payment, Object: r.Object, Amount: r.Amount, Currency: r.Currency})
	}
	return list, said, nil
}

// produce returns nil once Kafka has all of them.
func (s *source) produce(ctx context.Context, records []kafka.Record) error {
	answers := make(chan error, len(records))
	for _, r := range records {
		go func() { answers <- s.owner.deps.Producer.Produce(ctx, r) }()
	}
	var first error
	for range records {
		if err := <-answers; err != nil && first == nil {
			first = err
		}
	}
	if first != nil {
		return fmt.Errorf("write %d looked-up events of source %s: %w", len(records), s.name, first)
	}
	return nil
}

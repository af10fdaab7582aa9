package processor

import (
	"errors"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/webhook"
)

// Readable is what a dead letter's record says by the present rules.
type Readable struct {
	// Records are what to send to the raw topic, so that it is taken over: the record
	// as it was; or, where ingress could not read its body then, what ingress would make
	// of it now, one an event. Else its event would have another name than the
	// provider's own repeats.
	Records []kafka.Record
	// Event and Reading are of the first of them.
	Event   event.Event
	Reading webhook.Reading
	// Dead and Detail say why it would be a dead letter again; Dead is empty if it
	// would not, as far as can be known without the database. There are no Records then
	// but the one as it was.
	Dead, Detail string
}

// ReadNow reads a record's bytes by the rules of the endpoints, as a processor would
// if the record came in now.
func ReadNow(endpoints endpoint.Set, r kafka.Record) Readable {
	r.Topic, r.Partition, r.Offset = "", 0, 0
	now := Readable{Records: []kafka.Record{r}}
	e, err := event.Parse(r.Key, r.Value, r.Headers)
	now.Event = e
	ep, known := endpoints.Get(e.Endpoint)
	switch {
	case errors.Is(err, event.ErrTombstone):
		return now
	case err == nil && known && e.Type == event.Unreadable:
		events, headers, err := ep.IdentifyAnew(e)
		if err != nil {
			now.Dead, now.Detail = deadBody, err.Error()
			return now
		}
		sent := now.Records
		now.Records = nil
		for i, one := range events {
			now.Records = append(now.Records, kafka.Record{Key: []byte(one.ID), Value: one.Body, Headers: headers[i]})
		}
		now.Event = events[0]
		if now.read(ep, endpoints); now.Dead != "" {
			now.Records = sent
		}
		return now
	}
	now.read(ep, endpoints)
	return now
}

// read reads each record; the first that would die says why.
func (now *Readable) read(ep endpoint.Endpoint, endpoints endpoint.Set) {
	rd := reader{endpoints: endpoints}
	for i, r := range rd.parse(now.Records) {
		switch {
		case r.dead != "":
		case r.hint:
			r.aim(ep)
		default:
			r.open(ep)
		}
		if r.dead != "" {
			now.Dead, now.Detail = r.dead, r.detail
			return
		}
		if i == 0 {
			now.Reading, _ = r.reading(ep)
		}
	}
}

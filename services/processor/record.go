package processor

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// Why a record is a dead letter: a bounded set, in the database and as a label.
const (
	deadHeaders  = "headers"   // they do not describe an event
	deadEndpoint = "endpoint"  // this deployment does not know it
	deadBody     = "body"      // its provider's rules cannot read it
	deadNoOrder  = "no_order"  // states a fact, and names neither order nor payment
	deadRefused  = "refused"   // PostgreSQL refuses its data
	unknownName  = "(unknown)" // the endpoint of a record that does not say
	maxDetail    = 500         // bytes of a dead letter's detail
)

// record is one record on its way through a batch.
type record struct {
	*kafka.Record
	event event.Event
	key   [16]byte
	seen  postgres.Seen
	// skip: a tombstone. It is no event and changes nothing; the books count it,
	// since its offset was given.
	skip bool
	// hint: nobody has signed it. It is no event yet: target is what its provider is
	// asked about.
	hint   bool
	target postgres.Target
	// windowed: processed_events has a place for it.
	windowed bool
	// dead and detail say why it cannot be taken over; dead is empty if it can.
	dead, detail string
	// read: fact and stated are what the body says; stated is false if that is
	// nothing about an order.
	read, stated bool
	fact         postgres.Fact

	verdict order.Verdict
	fresh   bool
	// time is the reading's.
	time time.Time
	// entered: its event was in no set, and is in one now; mended: a set has another
	// reading of it now.
	entered, mended bool
	// stands is the fingerprint of the body under which its event is known, 0 if it
	// is not, or not any more.
	stands int64
}

// reader reads records: all that it needs is which endpoints there are, the times
// that processed_events has a place for, and the deployment's mode.
type reader struct {
	endpoints endpoint.Set
	window    postgres.Window
	mode      event.Mode
}

// parse reads the headers of records, each in its place. Bodies stay closed: most
// duplicates are known by their headers.
func (rd *reader) parse(in []kafka.Record) []*record {
	records := make([]*record, len(in))
	all := make([]record, len(in))
	for i := range in {
		r := &all[i]
		r.Record = &in[i]
		r.Timestamp = appended(r.Timestamp)
		records[i] = r
		e, err := event.Parse(r.Key, r.Value, r.Headers)
		r.event = e
		switch {
		case errors.Is(err, event.ErrTombstone):
			r.skip = true
			continue
		case err != nil:
			r.die(deadHeaders, err.Error())
			continue
		case e.Type == event.Unreadable:
			r.die(deadBody, rd.unreadable(r))
			continue
		}
		rd.identify(r)
		if _, ok := rd.endpoints.Get(e.Endpoint); !ok {
			r.die(deadEndpoint, "endpoint "+e.Endpoint+" is not configured")
		}
	}
	return records
}

// identify notes what dedupe needs of the event.
func (rd *reader) identify(r *record) {
	e := &r.event
	r.hint = e.Trust == event.Hint
	r.key = e.Key()
	r.seen = postgres.Seen{Key: r.key, Fingerprint: postgres.Fingerprint(e.Fingerprint())}
	r.windowed = [6]byte(r.key[:6]) == [6]byte{} || rd.window.Contains(e.Time)
}

// unreadable says why the body of a record cannot be read, without any of it.
func (rd *reader) unreadable(r *record) string {
	ep, ok := rd.endpoints.Get(r.event.Endpoint)
	if !ok {
		return "its provider's rules cannot read the body"
	}
	_, err := ep.Read(storedHeaders(r.event.Signature), r.Value)
	if err != nil {
		return err.Error()
	}
	// Its id or another name in it fits into no record header, or the rules changed.
	return "the body can be read now; when it came in it could not, or a name in it was too long to keep"
}

// endpoint is where the record came in. What is not configured is dead already.
func (rd *reader) endpoint(r *record) endpoint.Endpoint {
	ep, _ := rd.endpoints.Get(r.event.Endpoint)
	return ep
}

// open reads the body, once.
func (rd *reader) open(r *record) { r.open(rd.endpoint(r)) }

// bookedAs is the endpoint under which the books count it.
func (rd *reader) bookedAs(r *record) string {
	if e := r.event.Endpoint; e != "" {
		if _, ok := rd.endpoints.Get(e); ok {
			return e
		}
	}
	return unknownName
}

// place is where it lies.
func (r *record) place() postgres.Place {
	return postgres.Place{Partition: r.Partition, Offset: r.Offset}
}

// recover makes an event of a record that ingress could not read and that can be read
// now. Its id is the one that its provider's next delivery will have.
func (rd *reader) recover(r *record) {
	ep, ok := rd.endpoints.Get(r.event.Endpoint)
	if !ok || r.dead != deadBody || r.event.Type != event.Unreadable {
		return
	}
	events, _, err := ep.IdentifyAnew(r.event)
	if err != nil || len(events) != 1 || !bytes.Equal(events[0].Body, r.Value) {
		return // what is wrong with it is told already; a batch is sent again as its events
	}
	r.event, r.dead, r.detail = events[0], "", ""
	rd.identify(r)
}

// die makes the record a dead letter. Its detail is always text that can be
// stored: nothing may keep a dead letter from being kept.
func (r *record) die(reason, detail string) {
	detail = strings.ReplaceAll(detail, "\x00", "")
	detail = strings.ToValidUTF8(detail[:min(len(detail), maxDetail)], "")
	r.dead, r.detail = reason, detail
}

// appended is the broker's append time, or the epoch where a record carries a
// time of its own making that no calendar has.
func appended(t time.Time) time.Time {
	if y := t.Year(); y < 2000 || y > 2200 {
		return time.Unix(0, 0)
	}
	return t
}

package endpoint

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/webhook"
)

// Identify reads the verified body of e and returns it with what the body says of
// itself (id, type, time, mode, trust, order, payment), and the headers of its record.
// It fails if the body cannot be read, or a name in it fits into no header.
func (ep Endpoint) Identify(e event.Event, header webhook.Headers) (event.Event, []event.Header, error) {
	r, err := ep.Read(header, e.Body)
	if err != nil {
		return e, nil, err
	}
	e.ID, e.Type, e.Time, e.Mode, e.Trust, e.Order, e.Payment = r.ID, r.Type, statable(r.Time), r.Mode, r.Trust, r.Order, r.Payment
	headers, err := e.Headers()
	return e, headers, err
}

// statable is a provider's time, or none where no record can state it.
func statable(t time.Time) time.Time {
	if year := t.UTC().Year(); year < 1 || year > 9999 {
		return time.Time{}
	}
	return t
}

// errNoBatch: a batch that holds nothing.
var errNoBatch = errors.New("it is a batch without events")

// IdentifyAnew takes an event that was kept as unreadable (event.Unreadable) for what
// its body says by the present rules: one event, or each of its batch, with the
// headers of their records; or why it still cannot be read.
func (ep Endpoint) IdentifyAnew(e event.Event) (events []event.Event, headers [][]event.Header, err error) {
	items := [][]byte{e.Body}
	if batched, ok := ep.Provider.(webhook.Batched); ok {
		if items, err = batched.Split(e.Body); err != nil {
			return nil, nil, err
		}
		if len(items) == 0 {
			return nil, nil, errNoBatch
		}
	}
	e.TimeRepeats = ep.Provider.TimeRepeats()
	for _, item := range items {
		one := e
		one.Body, one.BodySHA256 = item, sha256.Sum256(item)
		stored := webhook.StoredHeaders(e.Signature)
		if !bytes.Equal(item, e.Body) {
			one.Signature = nil // it signs the whole
		}
		one, hs, err := ep.Identify(one, stored)
		if err != nil {
			return nil, nil, err
		}
		events, headers = append(events, one), append(headers, hs)
	}
	return events, headers, nil
}

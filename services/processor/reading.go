package processor

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/lookup"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/webhook"
)

// open reads the body, once. Afterwards the record is dead, or states nothing
// about an order, or has its fact.
func (r *record) open(ep endpoint.Endpoint) {
	if r.read || r.dead != "" {
		return
	}
	r.read = true
	reading, err := r.reading(ep)
	if err != nil {
		r.die(deadBody, err.Error())
		return
	}
	// A state that is sent anew may come to mean something: the set keeps its place.
	updated := r.changedBody(ep) == webhook.Update && (reading.Order != "" || reading.Payment != "")
	if reading.Fact == order.KindNone && !updated {
		return
	}
	if reading.Order == "" && reading.Payment == "" {
		r.die(deadNoOrder, "it names no order and no payment")
		return
	}
	if name := unstorable(reading); name != "" {
		r.die(deadBody, name+" is longer than 1024 bytes or not text that can be stored")
		return
	}
	r.stated, r.time = true, reading.Time
	r.fact = r.factOf(reading)
	if ep.Lookup != nil {
		r.fact.AskAfter = ep.Lookup.Pending
	}
}

// reading is what the body says: in its provider's form, or in our own if that is what
// we wrote down of an answer.
func (r *record) reading(ep endpoint.Endpoint) (webhook.Reading, error) {
	if r.ours() {
		return lookup.Decode(r.Value)
	}
	return ep.Read(storedHeaders(r.event.Signature), r.Value)
}

// changedBody is the rule for another reading under a known id. The id of what was
// looked up is made of its bytes.
func (r *record) changedBody(ep endpoint.Endpoint) webhook.ChangedBody {
	if r.ours() {
		return webhook.Final
	}
	return ep.Provider.ChangedBody()
}

// ours: the body is in the form in which look-ups are written. What a provider lists of
// its own events is looked up too, and stays in the provider's.
func (r *record) ours() bool { return lookup.IsOurs(r.event) }

func (r *record) factOf(reading webhook.Reading) postgres.Fact {
	e := &r.event
	f := postgres.Fact{
		Entry: order.Entry{
			Hash: e.Hash(), Source: e.Source, Kind: reading.Fact, Payment: reading.Payment, Object: reading.Object,
			Amount: reading.Amount, Currency: reading.Currency,
		},
		OrderID: reading.Order, EventID: e.ID, EventType: e.Type, Endpoint: e.Endpoint,
		AppendedAt: r.Timestamp, ReadingHash: readingHash(reading, e.TimeRepeats), OutsideWindow: !r.windowed,
		Partition: r.Partition, Offset: r.Offset, Headers: r.Headers, Body: r.Value,
	}
	if e.Dated() {
		f.Time = e.Time.UnixMilli()
	}
	return f
}

// storedHeaders looks up the request headers that were kept with the body.
func storedHeaders(hs []event.Header) webhook.Headers {
	return func(name string) (values []string) {
		for _, h := range hs {
			if strings.EqualFold(h.Name, name) {
				values = append(values, string(h.Value))
			}
		}
		return values
	}
}

// maxName bounds what lies in an index (bytes); ingress holds headers to the same.
const maxName = 1 << 10

// unstorable names the first field that PostgreSQL would refuse.
func unstorable(r webhook.Reading) string {
	for _, f := range [...]struct{ name, value string }{
		{"the order reference", r.Order}, {"the payment id", r.Payment}, {"the object id", r.Object}, {"the currency", r.Currency},
	} {
		if len(f.value) > maxName || !utf8.ValidString(f.value) || strings.IndexByte(f.value, 0) >= 0 {
			return f.name
		}
	}
	return ""
}

// readingHash is equal for two bodies that say the same: white space, the order
// of keys and delivery counters are not in it. Neither is a time that differs
// between deliveries.
func readingHash(r webhook.Reading, timeRepeats bool) int64 {
	b := make([]byte, 0, 256)
	for _, s := range [...]string{r.Order, r.Payment, r.Object, r.Currency} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	b = append(b, byte(r.Fact), byte(r.Extent))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Amount))
	b = binary.BigEndian.AppendUint64(b, uint64(r.PaymentAmount))
	if timeRepeats && !r.Time.IsZero() {
		b = binary.BigEndian.AppendUint64(b, uint64(r.Time.UnixMilli()))
	}
	sum := sha256.Sum256(b)
	return postgres.Fingerprint(sum)
}

// describe names an event in a review note.
func describe(e *event.Event) string { return fmt.Sprintf("event %q of source %q", e.ID, e.Source) }

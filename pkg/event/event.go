// Package event is the envelope of one webhook's event: the attributes that
// travel with the body from ingress to the order's set. It is pure: no I/O, no
// clock, no logger.
package event

import (
	"crypto/sha256"
	"time"
)

// Trust says how far an event's decisive fields may be believed.
type Trust string

const (
	// Signed: the provider's signature covers the fields that decide.
	Signed Trust = "signed"
	// Hint: the decisive fields are unsigned or absent; the provider's API must
	// be asked before anything is applied.
	Hint Trust = "hint"
	// LookedUp: Sluice asked the provider's API itself. The body is what it learnt, in
	// a form of its own (pkg/lookup, by its content type), or an event that the provider
	// has listed, as its webhook carries it.
	LookedUp Trust = "looked_up"
)

// Mode is the world an event belongs to: real money or a provider's test data.
type Mode string

const (
	// Live is real money.
	Live Mode = "live"
	// Test is a provider's sandbox.
	Test Mode = "test"
)

// Event is one thing that happened, as it lies in the raw topic: immutable, and
// named by (Source, Mode, ID).
type Event struct {
	// Source names the sending account (CloudEvents source); set per endpoint.
	Source string
	// ID is the provider's event id, or a derived one (CloudEvents id). It is
	// also the record's key.
	ID string
	// Type is the provider's own event type (CloudEvents type).
	Type string
	// Time is when it happened, by the provider's clock; zero if not stated.
	Time time.Time
	// TimeRepeats: the provider repeats Time unchanged on every delivery of this
	// event. Only then may it lead the dedupe key.
	TimeRepeats bool
	// Mode is the event's own mode, or the endpoint's where the provider states none.
	Mode Mode
	// Provider and Endpoint say who spoke, and at which receiving address.
	Provider string
	Endpoint string
	// Order is the order reference and Payment the provider's payment id, each
	// empty if the event names none.
	Order   string
	Payment string
	// Trust is Signed, Hint or LookedUp.
	Trust Trust
	// ContentType is the body's, as received.
	ContentType string
	// Traceparent is the W3C trace context; may be empty.
	Traceparent string
	// ReceivedAt is when ingress had the whole body.
	ReceivedAt time.Time
	// SecretName names the secret whose signature matched; never its value.
	SecretName string
	// Signature holds the request headers that are needed to verify Body again at
	// ReceivedAt (lower-case names). Static credentials are never in it.
	Signature []Header
	// Body is the request body, byte for byte.
	Body []byte
	// BodySHA256 is SHA-256(Body) as ingress recorded it; zero: not computed yet.
	BodySHA256 [32]byte
}

// Header is one record header, in Kafka's own shape.
type Header struct {
	Name  string
	Value []byte
}

// futureLimit is how far ahead of its receipt an event may be dated before it
// counts as undated (DESIGN section 4: a time ahead of the clock).
const futureLimit = 24 * time.Hour

// Dated says whether Time may order this event: it is stated, lies after the
// epoch, and not more than a day ahead of the receipt.
func (e Event) Dated() bool {
	return e.Time.UnixMilli() > 0 && !e.Time.After(e.ReceivedAt.Add(futureLimit))
}

// Hash identifies the event in its order's set: the first 16 bytes of
// SHA-256(source, 0, mode, 0, id). Time is not in it.
func (e Event) Hash() [16]byte {
	sum := e.sum()
	return [16]byte(sum[:16])
}

// Key identifies the event in processed_events: 48 bits of provider time in
// milliseconds (0 where the event is undated or its time may differ between
// deliveries), then the first 80 bits of the same SHA-256. Leading with the time
// keeps neighbours together in the index; see docs/adr for the measurement.
func (e Event) Key() [16]byte {
	return keyOf(&e, e.Source, e.ID)
}

// keyOf is the key of an event whose source and id may be text or bytes.
func keyOf[T string | []byte](e *Event, source, id T) [16]byte {
	var key [16]byte
	if e.TimeRepeats && e.Dated() {
		ms := uint64(e.Time.UnixMilli())
		for i := range 6 {
			key[i] = byte(ms >> (40 - 8*i))
		}
	}
	sum := sumOf(source, e.Mode, id)
	copy(key[6:], sum[:10])
	return key
}

// Fingerprint is the SHA-256 of the body: the recorded one, else computed now.
func (e Event) Fingerprint() [32]byte {
	if e.BodySHA256 != [32]byte{} {
		return e.BodySHA256
	}
	return sha256.Sum256(e.Body)
}

func (e Event) sum() [32]byte { return sumOf(e.Source, e.Mode, e.ID) }

func sumOf[T string | []byte](source T, mode Mode, id T) [32]byte {
	b := make([]byte, 0, 96)
	b = append(b, source...)
	b = append(b, 0)
	b = append(b, mode...)
	b = append(b, 0)
	b = append(b, id...)
	return sha256.Sum256(b)
}

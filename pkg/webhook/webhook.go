// Package webhook knows the providers: how each signs a webhook, and how its
// body is read. It is pure: no I/O, no clock, no logger; headers come in as a
// look-up function and the time as an argument.
package webhook

import (
	"strings"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// Headers looks up all values of a request header, in order of appearance;
// names are matched without case. http.Header.Values is one.
type Headers func(name string) []string

// StoredHeaders are Headers of a list, such as a record's signature headers.
func StoredHeaders(list []event.Header) Headers {
	return func(name string) (values []string) {
		for _, h := range list {
			if strings.EqualFold(h.Name, name) {
				values = append(values, string(h.Value))
			}
		}
		return values
	}
}

// Request is a webhook as it came in. Body is the exact bytes.
type Request struct {
	Method string
	// URL is the address the provider was given, for schemes that sign it.
	URL    string
	Header Headers
	Body   []byte
}

// Outcome is what verification found.
type Outcome uint8

const (
	// Invalid: no configured secret made this signature.
	Invalid Outcome = iota
	// Valid: the signature is right and, where the scheme has a time, fresh.
	Valid
	// Stale: the signature is right, its time lies outside the tolerance.
	Stale
)

// Reason is why a webhook was refused; a bounded set, fit for a metric label.
type Reason string

const (
	ReasonNone      Reason = ""
	ReasonMissing   Reason = "missing"   // a header that the scheme needs is absent
	ReasonMalformed Reason = "malformed" // a header cannot be what the scheme sends
	ReasonMismatch  Reason = "mismatch"  // no secret made this signature
	ReasonStale     Reason = "stale"     // right signature, time outside the tolerance
)

// Verdict is the answer of Verify. The zero value is Invalid.
type Verdict struct {
	Outcome Outcome
	Reason  Reason
	// Secret names the secret that matched (Valid and Stale only).
	Secret string
	// SignedAt is the signed time (Valid and Stale only); zero where the scheme
	// has none. How far it is off tells a wrong clock from an old request.
	SignedAt time.Time
}

// Extent says whether a refund gave back all or a part, where the provider says so.
type Extent uint8

const (
	ExtentUnknown Extent = iota
	Full
	Partial
)

// Reading is what a body says, in Sluice's terms.
type Reading struct {
	// ID is the provider's event id, Type its event type, both as sent.
	ID, Type string
	// Time is when it happened, by the provider's clock; zero if not stated.
	Time time.Time
	// Mode is empty where the provider states none.
	Mode event.Mode
	// Trust is Signed unless the scheme leaves the decisive fields unsigned.
	Trust event.Trust
	// Order is the order reference, Payment the payment id, Object the id of the
	// refund or dispute, each empty if not named.
	Order, Payment, Object string
	// Subject is the id of the provider's object the event is about (data.id).
	Subject string
	// Fact is what it states; KindNone for unused and unknown types.
	Fact order.Kind
	// Amount is the fact's amount in minor units of Currency (upper case ISO 4217).
	Amount   int64
	Currency string
	// PaymentAmount is the whole payment's amount where a refund states it, else 0.
	PaymentAmount int64
	// Extent is the provider's own word on a refund.
	Extent Extent
}

// Provider is one provider's scheme: verification and reading. Implementations
// are values without state and safe for concurrent use.
type Provider interface {
	// Name is the provider's name in configuration, records and metrics.
	Name() string
	// CheckSecret says what is wrong with a secret's form, never its value.
	CheckSecret(Secret) error
	// Verify checks the signature over the raw bytes against every secret, in
	// constant time for each, and then the signed time against the provider's
	// Tolerance. Stale therefore always means that the signature is right.
	Verify(req Request, secrets []Secret, now time.Time) Verdict
	// Read reads the body. It is deterministic: the same headers and bytes give
	// the same reading or error for ever. An error means that an authentic body
	// cannot be interpreted; its text names fields, and carries no part of the body.
	Read(header Headers, body []byte) (Reading, error)
	// Sign makes the headers the provider would send, for tests and `sluice send`.
	// id is the delivery's id where the scheme has one in the headers.
	Sign(secret Secret, id string, at time.Time, body []byte) (map[string]string, error)
	// SignatureHeaders names the request headers, in lower case, that are needed
	// to verify and read a stored body again.
	SignatureHeaders() []string
	// TimeRepeats: the reading's time is the same on every delivery of one event.
	TimeRepeats() bool
	// ChangedBody is what an event id that comes again with another reading means.
	ChangedBody() ChangedBody
}

// ChangedBody is a provider's rule for an event id that comes again and says
// something else.
type ChangedBody uint8

const (
	// Final: an event never changes. The first reading stands, and a person is told.
	Final ChangedBody = iota
	// Update: the id names an object whose state is sent again as it changes. The
	// reading with the greatest time counts, whatever came first.
	Update
)

var changedBodies = map[string]ChangedBody{"": Final, "final": Final, "update": Update}

// Timed is a Provider whose scheme signs a time.
type Timed interface {
	Provider
	// Tolerance is what Verify holds the signed time to.
	Tolerance() Tolerance
	// WithTolerance is the same provider held to another tolerance.
	WithTolerance(Tolerance) Provider
}

// Package webhook knows the providers: how each signs a webhook, and how its
// body is read. It is pure: no I/O, no clock, no logger; headers come in as a
// look-up function and the time as an argument.
package webhook

import (
	"crypto/x509"
	"net/netip"
	"strings"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// Headers looks up all values of a request header, in order of appearance;
// names are matched without case. QueryHeader is the one that is none.
type Headers func(name string) []string

// QueryHeader looks up the request's raw query, without its "?", as if it were a
// header: some providers state or sign a part there. So a stored record keeps it
// among its signature headers. No HTTP header can have the name.
const QueryHeader = ":query"

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
	// URL is the address that the provider was given, as configured, with the
	// request's query: never made from the Host header. Empty if none is configured.
	URL    string
	Header Headers
	Body   []byte
	// Remote is who sent it, as far as trusted proxies say; the zero Addr if unknown.
	Remote netip.Addr
	// Certificate is what lies at the address that a Certified provider named.
	Certificate Certificate
}

// Certificate is a signing certificate with what it is to be checked against.
type Certificate struct {
	// Chain begins with the signing certificate; the rest are intermediates.
	Chain []*x509.Certificate
	// Roots are whom the receiver trusts.
	Roots *x509.CertPool
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
	ReasonEmpty     Reason = "empty"     // a batch of nothing: no item, so no signature
	ReasonAddress   Reason = "address"   // not from an address that may send here
	ReasonAccount   Reason = "account"   // another account of the provider signed it
	// ReasonCertificate: not the provider's, not trusted, or not valid now.
	ReasonCertificate Reason = "certificate"
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
	// Without a fact it is what is named, if it can be read; nothing follows from it.
	Amount   int64
	Currency string
	// PaymentAmount is the whole payment's amount where a refund states it, else 0.
	PaymentAmount int64
	// Extent is the provider's own word on a refund.
	Extent Extent
}

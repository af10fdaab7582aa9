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
	// Profile is what people should know of it.
	Profile() Profile
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

// What only some providers have. A role asks for it by a type assertion.

// Batched is a Provider that sends many events in one request.
type Batched interface {
	Provider
	// Split takes a verified body apart: for each event the body that the provider
	// would have sent for it alone, made of the body's own bytes, so that Read reads
	// it, and Verify verifies it where items are signed one by one. An error means
	// that the body, though authentic, is no batch; it is then kept whole.
	Split(body []byte) ([][]byte, error)
}

// Addressed is a Provider that publishes the addresses it sends from, and whose
// scheme needs them: without them anybody could send.
type Addressed interface {
	Provider
	Addresses() []netip.Prefix
	// WithAddresses is the same provider with other addresses.
	WithAddresses([]netip.Prefix) Provider
}

// Certified is a Provider whose signatures need a certificate that the request names.
type Certified interface {
	Provider
	// CertificateURL is where the certificate lies: https, and the provider's own
	// host, or a reason to refuse. Who calls Verify puts what it found there into
	// Request.Certificate.
	CertificateURL(Request) (string, Reason)
}

// Answering is a Provider that wants more than a 2xx without a body.
type Answering interface {
	Provider
	// Answer is what an accepted webhook gets.
	Answer(header Headers, body []byte) Answer
}

// Answer is an HTTP answer of status 200.
type Answer struct {
	ContentType string
	Body        []byte
}

// Challenging is a Provider that checks an address by a GET before it sends there.
type Challenging interface {
	Provider
	// Challenge answers it; false if the request is none.
	Challenge(query string, secrets []Secret) (Answer, bool)
}

// Accounted is a Provider whose signatures anybody with an account there can have
// made: an endpoint must say whose it believes.
type Accounted interface {
	Provider
	// Account says what the account is, for people ("the topic's ARN").
	Account() string
	WithAccount(string) Provider
}

// Located is a Provider whose signatures cover the address that it was given
// (Profile.NeedsURL). Verify takes it from the request; Sign needs to be told.
type Located interface {
	Provider
	// WithURL is the same provider, signing for that address.
	WithURL(string) Provider
}

// Sealing is a Provider that carries its signatures within the body.
type Sealing interface {
	Provider
	// Seal is the body with its signatures, as the provider would send it. The
	// headers, if it has any, are Sign's.
	Seal(secret Secret, body []byte) ([]byte, error)
}

// Ordered is a Provider whose webhooks carry the shop's order id wherever the shop
// put it: an endpoint may say where that is.
type Ordered interface {
	Provider
	WithOrder(Paths) (Provider, error)
	// OrderPaths are where it is looked for now, the first that says something first.
	OrderPaths() Paths
}

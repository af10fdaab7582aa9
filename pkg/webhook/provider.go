package webhook

import (
	"net/netip"
	"time"
)

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

// What only some providers have. A role asks for it by a type assertion.

// Timed is a Provider whose scheme signs a time.
type Timed interface {
	Provider
	// Tolerance is what Verify holds the signed time to.
	Tolerance() Tolerance
	// WithTolerance is the same provider held to another tolerance.
	WithTolerance(Tolerance) Provider
}

// Typed is a Provider whose events have types that say whether they state a fact.
type Typed interface {
	Provider
	// Types are those that do, or may, in alphabetical order.
	Types() []string
}

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

package event

import (
	"errors"
	"fmt"
)

// Unreadable is the type of an authentic webhook whose body its provider's rules
// cannot read. Its id is derived from the body, and it ends as a dead letter.
const Unreadable = "unreadable"

// HeaderSpec is one record header of the raw topic as data.
type HeaderSpec struct {
	Name string
	// Required headers are in every record; the others only where there is
	// something to say.
	Required bool
	// Max is the largest size of its value in bytes.
	Max int
	// Doc says what it holds.
	Doc string
}

// The places of the headers in RecordHeaders.
const (
	hSpecVersion = iota
	hID
	hSource
	hType
	hTime
	hContentType
	hTraceparent
	hProvider
	hEndpoint
	hReceivedAt
	hBodySHA256
	hMode
	hTrust
	hOrder
	hPayment
	hTimeRepeats
	hSecret
	nHeaders
)

// RecordHeaders are the headers of a record of the raw topic, in the order in
// which they are written; SignaturePrefix headers follow them. The first five
// are CloudEvents 1.0 in its Kafka binary binding.
var RecordHeaders = [nHeaders]HeaderSpec{
	hSpecVersion: {"ce_specversion", true, 3, "CloudEvents version: 1.0"},
	hID:          {"ce_id", true, 1 << 10, "the provider's event id or a derived one; equals the key"},
	hSource:      {"ce_source", true, 255, "the sending account, set per endpoint"},
	hType:        {"ce_type", true, 1 << 10, "the provider's event type, or unreadable"},
	hTime:        {"ce_time", false, 40, "when it happened by the provider's clock, RFC 3339"},
	hContentType: {"content-type", false, 255, "the body's media type, as received"},
	hTraceparent: {"traceparent", false, 255, "W3C trace context"},
	hProvider:    {"sluice_provider", true, 255, "whose rules read the body"},
	hEndpoint:    {"sluice_endpoint", true, 255, "the receiving address's name"},
	hReceivedAt:  {"sluice_received_at", true, 40, "when ingress had the whole body, RFC 3339"},
	hBodySHA256:  {"sluice_body_sha256", true, 64, "SHA-256 of the body, lower-case hex"},
	hMode:        {"sluice_mode", true, 4, "live or test"},
	hTrust:       {"sluice_trust", true, 9, "signed; hint where the decisive fields are unsigned or absent; looked_up where the provider's API was asked"},
	hOrder:       {"sluice_order", false, 1 << 10, "the order reference, if the body names one"},
	hPayment:     {"sluice_payment", false, 1 << 10, "the provider's payment id, if the body names one"},
	hTimeRepeats: {"sluice_time_repeats", false, 4, "true: ce_time is the same on every delivery of this event"},
	hSecret:      {"sluice_secret", false, 255, "the name of the secret whose signature matched"},
}

// SignaturePrefix is put before the lower-case name of a request header that is
// needed to verify the body again, or before a name such as ":query" for a part of
// the request that is no header. The same one may occur several times.
const SignaturePrefix = "sluice_signature_"

// Bounds of the signature headers, and of all headers of one record.
const (
	MaxSignature   = 4 << 10 // of one value, bytes
	maxSignatures  = 32
	maxHeaders     = 128
	maxHeaderBytes = 160 << 10
)

// ErrTombstone means that a record without a value is no event. By rule it is skipped.
var ErrTombstone = errors.New("record has no value")

var (
	errMissing    = errors.New("is missing or empty")
	errTooLong    = errors.New("is too long")
	errNotText    = errors.New("is not UTF-8 text without NUL")
	errTwice      = errors.New("occurs twice")
	errForm       = errors.New("has a value that is not allowed")
	errNotKey     = errors.New("differs from the record's key")
	errSignatures = errors.New("occurs too often")
	errName       = errors.New("has a name that is not lower-case text")
)

func headerError(name string, err error) error { return fmt.Errorf("header %s %w", name, err) }

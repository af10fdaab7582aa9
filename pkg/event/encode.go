package event

import (
	"encoding/hex"
	"strings"
	"time"
	"unicode/utf8"
)

// Headers encodes everything but the body, for a record whose key is e.ID and
// whose value is e.Body. An error names the header that cannot be stored (too
// long, not UTF-8, holds NUL, empty though required), never its value. What it
// returns, Parse reads to an equal Event with BodySHA256 set, all times in UTC.
func (e Event) Headers() ([]Header, error) {
	sum := e.Fingerprint()
	w := writer{
		headers: make([]Header, 0, nHeaders+len(e.Signature)),
		buf: make([]byte, 0, 192+len(e.ID)+len(e.Source)+len(e.Type)+len(e.ContentType)+len(e.Traceparent)+
			len(e.Provider)+len(e.Endpoint)+len(e.Order)+len(e.Payment)+len(e.SecretName)),
	}
	w.text(hSpecVersion, "1.0")
	w.text(hID, e.ID)
	w.text(hSource, e.Source)
	w.text(hType, e.Type)
	if !e.Time.IsZero() {
		w.time(hTime, e.Time)
	}
	w.text(hContentType, e.ContentType)
	w.text(hTraceparent, e.Traceparent)
	w.text(hProvider, e.Provider)
	w.text(hEndpoint, e.Endpoint)
	w.time(hReceivedAt, e.ReceivedAt)
	w.add(hBodySHA256, hex.AppendEncode(w.buf, sum[:]))
	w.oneOf(hMode, string(e.Mode), e.Mode == Live || e.Mode == Test)
	w.oneOf(hTrust, string(e.Trust), e.Trust == Signed || e.Trust == Hint || e.Trust == LookedUp)
	w.text(hOrder, e.Order)
	w.text(hPayment, e.Payment)
	if e.TimeRepeats {
		w.text(hTimeRepeats, "true")
	}
	w.text(hSecret, e.SecretName)
	if len(e.Signature) > maxSignatures {
		w.fail(SignaturePrefix+"*", errSignatures)
	}
	for _, s := range e.Signature {
		w.signature(s)
	}
	return w.headers, w.err
}

// writer appends headers whose values share one buffer; the first problem stays.
type writer struct {
	headers []Header
	buf     []byte
	err     error
}

func (w *writer) fail(name string, err error) {
	if w.err == nil {
		w.err = headerError(name, err)
	}
}

// add takes the part of grown that is beyond the buffer as the value of header i.
func (w *writer) add(i int, grown []byte) {
	from := len(w.buf)
	w.buf = grown
	w.headers = append(w.headers, Header{Name: RecordHeaders[i].Name, Value: grown[from:len(grown):len(grown)]})
}

func (w *writer) text(i int, s string) {
	h := &RecordHeaders[i]
	switch {
	case s == "":
		if h.Required {
			w.fail(h.Name, errMissing)
		}
	case len(s) > h.Max:
		w.fail(h.Name, errTooLong)
	case !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0:
		w.fail(h.Name, errNotText)
	default:
		w.add(i, append(w.buf, s...))
	}
}

func (w *writer) oneOf(i int, s string, ok bool) {
	if !ok {
		w.fail(RecordHeaders[i].Name, errForm)
	}
	w.text(i, s)
}

func (w *writer) time(i int, t time.Time) {
	t = t.UTC()
	switch year := t.Year(); {
	case t.IsZero():
		w.fail(RecordHeaders[i].Name, errMissing)
	case year < 1 || year > 9999: // RFC 3339 has four digits
		w.fail(RecordHeaders[i].Name, errForm)
	default:
		w.add(i, t.AppendFormat(w.buf, time.RFC3339Nano))
	}
}

func (w *writer) signature(s Header) {
	switch {
	case !signatureName(s.Name):
		w.fail(SignaturePrefix+"*", errName)
	case len(s.Value) > MaxSignature:
		w.fail(SignaturePrefix+s.Name, errTooLong)
	default:
		w.headers = append(w.headers, Header{Name: SignaturePrefix + s.Name, Value: s.Value})
	}
}

// signatureName says whether s is a lower-case HTTP header name, or one that stands
// for another part of the request (webhook.QueryHeader).
func signatureName(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c >= 'A' && c <= 'Z' {
			return false
		}
	}
	return s != "" && len(s) <= 128
}

package event

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Parse reads a record of the raw topic in one pass. It is strict about what
// names and places the event: an error says which header is missing or wrong,
// never its value. Headers it does not know are passed over. It does not compare
// BodySHA256 with the body. Body and Signature share memory with value and
// headers. A nil value is ErrTombstone.
func Parse(key, value []byte, headers []Header) (Event, error) {
	if value == nil {
		return Event{}, ErrTombstone
	}
	if len(headers) > maxHeaders {
		return Event{}, fmt.Errorf("record has more than %d headers", maxHeaders)
	}
	var (
		raw   [nHeaders][]byte
		e     = Event{Body: value}
		next  int // written in order, so the next one is the likely one
		total int
	)
	for _, h := range headers {
		if total += len(h.Name) + len(h.Value); total > maxHeaderBytes {
			return Event{}, fmt.Errorf("record headers are larger than %d bytes", maxHeaderBytes)
		}
		i := place(h.Name, next)
		if i < 0 {
			if name, ok := strings.CutPrefix(h.Name, SignaturePrefix); ok {
				if err := e.addSignature(name, h.Value); err != nil {
					return Event{}, err
				}
			}
			continue
		}
		if err := checkHeader(&RecordHeaders[i], h.Value, raw[i] != nil); err != nil {
			return Event{}, headerError(h.Name, err)
		}
		raw[i] = h.Value
		next = i + 1
	}
	for i := range raw {
		if RecordHeaders[i].Required && raw[i] == nil {
			return Event{}, headerError(RecordHeaders[i].Name, errMissing)
		}
	}
	if !bytes.Equal(raw[hID], key) {
		return Event{}, headerError(RecordHeaders[hID].Name, errNotKey)
	}
	if err := e.setForms(&raw); err != nil {
		return Event{}, err
	}
	e.setTexts(&raw)
	return e, nil
}

// place finds a header's place, looking from next on and then from the start; -1
// if it is none of ours.
func place(name string, next int) int {
	for i := next; i < nHeaders; i++ {
		if RecordHeaders[i].Name == name {
			return i
		}
	}
	for i := range next {
		if RecordHeaders[i].Name == name {
			return i
		}
	}
	return -1
}

func checkHeader(h *HeaderSpec, v []byte, seen bool) error {
	switch {
	case seen:
		return errTwice
	case len(v) == 0:
		return errMissing
	case len(v) > h.Max:
		return errTooLong
	case !utf8.Valid(v) || bytes.IndexByte(v, 0) >= 0:
		return errNotText
	}
	return nil
}

func (e *Event) addSignature(name string, value []byte) error {
	switch {
	case !signatureName(name):
		return headerError(SignaturePrefix+"*", errName)
	case len(value) > MaxSignature:
		return headerError(SignaturePrefix+name, errTooLong)
	case len(e.Signature) == maxSignatures:
		return headerError(SignaturePrefix+"*", errSignatures)
	}
	if e.Signature == nil {
		e.Signature = make([]Header, 0, 4)
	}
	e.Signature = append(e.Signature, Header{Name: name, Value: value})
	return nil
}

// setForms reads the headers that are more than text.
func (e *Event) setForms(raw *[nHeaders][]byte) error {
	if string(raw[hSpecVersion]) != "1.0" {
		return headerError(RecordHeaders[hSpecVersion].Name, errForm)
	}
	for _, t := range [...]struct {
		i  int
		to *time.Time
	}{{hTime, &e.Time}, {hReceivedAt, &e.ReceivedAt}} {
		if raw[t.i] == nil {
			continue
		}
		if err := t.to.UnmarshalText(raw[t.i]); err != nil {
			return headerError(RecordHeaders[t.i].Name, errForm)
		}
		*t.to = t.to.UTC()
		if year := t.to.Year(); year < 1 || year > 9999 || t.to.IsZero() {
			return headerError(RecordHeaders[t.i].Name, errForm)
		}
	}
	// Lower case only: the same sum has one spelling.
	if n, err := hex.Decode(e.BodySHA256[:], raw[hBodySHA256][:len(raw[hBodySHA256])&^1]); err != nil || n != len(e.BodySHA256) ||
		bytes.ContainsAny(raw[hBodySHA256], "ABCDEF") {
		return headerError(RecordHeaders[hBodySHA256].Name, errForm)
	}
	switch string(raw[hMode]) {
	case string(Live):
		e.Mode = Live
	case string(Test):
		e.Mode = Test
	default:
		return headerError(RecordHeaders[hMode].Name, errForm)
	}
	switch string(raw[hTrust]) {
	case string(Signed):
		e.Trust = Signed
	case string(Hint):
		e.Trust = Hint
	case string(LookedUp):
		e.Trust = LookedUp
	default:
		return headerError(RecordHeaders[hTrust].Name, errForm)
	}
	switch string(raw[hTimeRepeats]) {
	case "true":
		e.TimeRepeats = true
	case "":
	default:
		return headerError(RecordHeaders[hTimeRepeats].Name, errForm)
	}
	return nil
}

// setTexts makes all text fields share one string: one allocation a record.
func (e *Event) setTexts(raw *[nHeaders][]byte) {
	fields := [...]struct {
		i  int
		to *string
	}{
		{hID, &e.ID}, {hSource, &e.Source}, {hType, &e.Type}, {hContentType, &e.ContentType}, {hTraceparent, &e.Traceparent},
		{hProvider, &e.Provider}, {hEndpoint, &e.Endpoint}, {hOrder, &e.Order}, {hPayment, &e.Payment}, {hSecret, &e.SecretName},
	}
	size := 0
	for _, f := range fields {
		size += len(raw[f.i])
	}
	var b strings.Builder
	b.Grow(size)
	for _, f := range fields {
		b.Write(raw[f.i])
	}
	all := b.String()
	for _, f := range fields {
		n := len(raw[f.i])
		*f.to, all = all[:n], all[n:]
	}
}

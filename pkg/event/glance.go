package event

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"time"
)

// Glimpse is what tells whether a record's event is known.
type Glimpse struct {
	// Key is Event.Key, and Fingerprint Event.Fingerprint.
	Key         [16]byte
	Fingerprint [32]byte
	// Hint: nobody has signed it. It is never known by its key.
	Hint bool
}

// errGlance: only Parse can say what the record is.
var errGlance = errors.New("the record has to be read whole")

// Glance reads of a record's headers only what Glimpse needs, without allocating: a
// replay looks at every record, and most are known. Where Parse succeeds, it returns
// what the event's own Key and Fingerprint are, or an error; where Parse fails, it
// may return a glimpse of what the sound headers say. An unreadable event is an
// error. A nil value is ErrTombstone.
func Glance(key, value []byte, headers []Header) (Glimpse, error) {
	if value == nil {
		return Glimpse{}, ErrTombstone
	}
	var raw [nHeaders][]byte
	next := 0
	for i := range headers {
		h := &headers[i]
		at := place(h.Name, next)
		if at < 0 {
			continue
		}
		if raw[at] != nil {
			return Glimpse{}, errGlance
		}
		raw[at], next = h.Value, at+1
	}
	var g Glimpse
	mode, sum := Mode(raw[hMode]), raw[hBodySHA256]
	switch {
	case !bytes.Equal(raw[hID], key), len(key) == 0, len(raw[hSource]) == 0, mode != Live && mode != Test:
		return Glimpse{}, errGlance
	case string(raw[hType]) == Unreadable, !unhex(&g.Fingerprint, sum), g.Fingerprint == [32]byte{}:
		return Glimpse{}, errGlance
	}
	switch string(raw[hTrust]) {
	case string(Hint):
		g.Hint = true
	case string(Signed), string(LookedUp):
	default:
		return Glimpse{}, errGlance
	}
	e := Event{Mode: mode, TimeRepeats: string(raw[hTimeRepeats]) == "true"}
	for _, t := range [...]struct {
		raw []byte
		to  *time.Time
	}{{raw[hTime], &e.Time}, {raw[hReceivedAt], &e.ReceivedAt}} {
		if t.raw == nil {
			continue
		}
		if t.to.UnmarshalText(t.raw) != nil {
			return Glimpse{}, errGlance
		}
	}
	g.Key = keyOf(&e, raw[hSource], key)
	return g, nil
}

// unhex decodes 64 lower-case digits.
func unhex(to *[sha256.Size]byte, from []byte) bool {
	if len(from) != 2*len(to) {
		return false
	}
	for i := range to {
		high, low := digits[from[2*i]], digits[from[2*i+1]]
		if high|low > 0xf {
			return false
		}
		to[i] = high<<4 | low
	}
	return true
}

// digits are the values of lower-case hexadecimal digits, and more than that for
// what is none.
var digits = func() (d [256]byte) {
	for i := range d {
		d[i] = 0xff
	}
	for i, c := range "0123456789abcdef" {
		d[c] = byte(i)
	}
	return d
}()

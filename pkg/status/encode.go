package status

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// Times have a fixed width, so that one row is always the same bytes.
const (
	occurredAt = "2006-01-02T15:04:05.000Z"
	changedAt  = "2006-01-02T15:04:05.000000Z"
)

// Append appends the message as the value of its record: JSON on one line, keys
// in a fixed order. The same message gives the same bytes for ever, so that
// publishing again publishes the same; therefore it is written by hand and not by
// a library that may change its mind about escapes. Text that is not UTF-8 gets
// U+FFFD in the place of each wrong byte.
func (m Message) Append(b []byte) []byte {
	b = append(b, `{"specversion":"1.0","id":`...)
	b = appendString(b, m.ID())
	b = append(b, `,"source":`...)
	b = appendString(b, m.Source)
	b = append(b, `,"type":"`+Type+`","subject":`...)
	b = appendString(b, m.OrderID)
	b = append(b, `,"time":`...)
	b = appendTime(b, m.ChangedAt, changedAt)
	b = append(b, `,"datacontenttype":"application/json","dataschema":"`+Schema+`","data":`...)
	return append(m.AppendData(b), '}')
}

// AppendData appends the message's data alone: what an effect carries too. The same
// holds of its bytes.
func (m Message) AppendData(b []byte) []byte {
	b = append(b, `{"order_id":`...)
	b = appendString(b, m.OrderID)
	b = append(b, `,"version":`...)
	b = strconv.AppendInt(b, m.Version, 10)
	b = append(b, `,"status":`...)
	b = appendString(b, m.Status.String())
	b = append(b, `,"previous_status":`...)
	if m.Version == 1 {
		b = append(b, `null`...)
	} else {
		b = appendString(b, m.Previous.String())
	}
	b = append(b, `,"amount":{"value":`...)
	b = strconv.AppendInt(b, m.Amount, 10)
	b = append(b, `,"currency":`...)
	b = appendString(b, m.Currency)
	b = append(b, `},"paid":`...)
	b = strconv.AppendInt(b, m.Paid, 10)
	b = append(b, `,"refunded":`...)
	b = strconv.AppendInt(b, m.Refunded, 10)
	b = append(b, `,"dispute":`...)
	b = appendString(b, m.Dispute.String())
	b = append(b, `,"cause":{"source":`...)
	b = appendString(b, m.Cause.Source)
	b = append(b, `,"event_id":`...)
	b = appendString(b, m.Cause.EventID)
	b = append(b, `},"occurred_at":`...)
	if m.OccurredAt.IsZero() {
		b = append(b, `null`...)
	} else {
		b = appendTime(b, m.OccurredAt, occurredAt)
	}
	b = append(b, `,"changed_at":`...)
	b = appendTime(b, m.ChangedAt, changedAt)
	b = append(b, `,"correction":`...)
	b = strconv.AppendBool(b, m.Correction)
	return append(b, '}')
}

// Encode is Append to a buffer of its own.
func (m Message) Encode() []byte { return m.Append(make([]byte, 0, 640)) }

// AppendString appends a text as this package's messages hold it.
func AppendString(b []byte, s string) []byte { return appendString(b, s) }

// AppendTime appends the time of a change as messages hold it, to the microsecond.
func AppendTime(b []byte, t time.Time) []byte { return appendTime(b, t, changedAt) }

func appendTime(b []byte, t time.Time, layout string) []byte {
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, layout)
	return append(b, '"')
}

// appendString escapes what JSON (RFC 8259) demands and nothing else.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[from:i]...), "\ufffd"...)
				from = i + 1
			}
			i += n
			continue
		}
		if c < ' ' || c == '"' || c == '\\' {
			b = append(b, s[from:i]...)
			if c < ' ' {
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			} else {
				b = append(b, '\\', c)
			}
			from = i + 1
		}
		i++
	}
	return append(append(b, s[from:]...), '"')
}

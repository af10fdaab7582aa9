package webhook

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// value is what lies at a wanted path, or in a header, a query or a form.
type value struct {
	kind valueKind
	raw  []byte // the JSON token; other text as it is
}

type valueKind uint8

const (
	absent valueKind = iota
	null
	boolean
	number
	quoted // a JSON string
	plain  // text that is not JSON: a header's, a form's
	composite
	several // more than one value where one must be, as a JSON array of them
	summed  // the same, where their sum is wanted
)

func jsonValue(token []byte) value {
	v := value{kind: number, raw: token}
	switch token[0] {
	case 'n':
		v.kind = null
	case 't', 'f':
		v.kind = boolean
	case '"':
		v.kind = quoted
	case '{', '[':
		v.kind = composite
	}
	return v
}

// and is the value with another one of the same place.
func (v value) and(w value) value {
	switch v.kind {
	case absent:
		return w
	case several:
		v.raw = v.raw[:len(v.raw)-1]
	default:
		v = value{kind: several, raw: append([]byte{'['}, v.raw...)}
	}
	v.raw = append(append(append(v.raw, ','), w.raw...), ']')
	return v
}

// given: there is something to read. Null and "" say nothing.
func (v value) given() bool {
	switch v.kind {
	case absent, null:
		return false
	case quoted:
		return len(v.raw) > 2
	case plain:
		return len(v.raw) > 0
	}
	return true
}

// maxID is the longest id and event type, in bytes; what is longer is refused,
// never cut, so that two long ids never become one.
const maxID = 255

var (
	errNotText    = errors.New("is not text")
	errSeveral    = errors.New("is there more than once")
	errNotID      = errors.New("is neither text nor an integer of 64 bits")
	errLong       = errors.New("is longer than 255 bytes")
	errBlank      = errors.New("is blank")
	errBroken     = errors.New("holds broken text (invalid UTF-8, U+0000 or half a surrogate pair)")
	errNotInteger = errors.New("is not an integer of 64 bits")
	errFraction   = errors.New("has a fraction of the currency's minor unit")
	errNegative   = errors.New("is negative")
	errNotBool    = errors.New("is not true or false")
	errNotTime    = errors.New("is neither Unix time nor RFC 3339")
	errNotMode    = errors.New("is neither true, false, live nor test")
	errNotCode    = errors.New("is not a currency code of ISO 4217")
)

// text is a string that PostgreSQL and every later reader can hold.
func (v value) text() (string, error) {
	switch v.kind {
	case quoted:
		return unquote(v.raw)
	case plain:
		if !utf8.Valid(v.raw) || bytes.IndexByte(v.raw, 0) >= 0 {
			return "", errBroken
		}
		return string(v.raw), nil
	case several:
		return "", errSeveral
	}
	return "", errNotText
}

// id is an identifier: text, or an integer of 64 bits, whose id is its digits. So
// 42 and "42" are one id, in every layer. 1e3, 1.0 and what is out of range are
// refused, never rounded.
func (v value) id() (string, error) {
	if v.kind == number {
		n, err := v.integer()
		if err != nil {
			return "", errNotID
		}
		return strconv.FormatInt(n, 10), nil
	}
	s, err := v.text()
	switch {
	case errors.Is(err, errNotText):
		return "", errNotID
	case err != nil:
		return "", err
	case len(s) > maxID:
		return "", errLong
	case strings.TrimSpace(s) == "":
		return "", errBlank
	}
	return s, nil
}

// name is an event type: as an id, but text only.
func (v value) name() (string, error) {
	if v.kind == number {
		return "", errNotText
	}
	return v.id()
}

// integer is a whole number written as one, bare or as text.
func (v value) integer() (int64, error) {
	digits := v.raw
	switch v.kind {
	case number, plain:
	case quoted:
		digits = v.raw[1 : len(v.raw)-1]
	default:
		return 0, errNotInteger
	}
	n, err := strconv.ParseInt(string(digits), 10, 64)
	// One spelling a number: no "+1", "-0", "007".
	if err != nil || strconv.FormatInt(n, 10) != string(digits) {
		return 0, errNotInteger
	}
	return n, nil
}

// scalar is the text of anything but an object or array, for conditions.
func (v value) scalar() (string, error) {
	if v.kind == number || v.kind == boolean {
		return string(v.raw), nil
	}
	return v.text()
}

// bool is true or false, bare or as text.
func (v value) bool() (bool, error) {
	switch s, err := v.scalar(); {
	case err == nil && s == "true":
		return true, nil
	case err == nil && s == "false":
		return false, nil
	}
	return false, errNotBool
}

// last is what follows the last slash of a text, without a URL's query: the id in
// the address of a resource.
func (v value) last() value {
	s, err := v.text()
	if err != nil {
		return v
	}
	s, _, _ = strings.Cut(s, "?")
	return value{kind: plain, raw: []byte(s[strings.LastIndexByte(s, '/')+1:])}
}

// unquote resolves a JSON string's escapes. Unlike encoding/json it refuses what
// is not text, in place of replacing it.
func unquote(token []byte) (string, error) {
	s := token[1 : len(token)-1]
	if !utf8.Valid(s) {
		return "", errBroken
	}
	if bytes.IndexByte(s, '\\') < 0 {
		return string(s), nil
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		i++
		if s[i] != 'u' {
			out = append(out, unescaped[s[i]])
			continue
		}
		r := hex4(s[i+1:])
		i += 4
		if utf16.IsSurrogate(r) {
			if i+2 >= len(s) || s[i+1] != '\\' || s[i+2] != 'u' {
				return "", errBroken
			}
			if r = utf16.DecodeRune(r, hex4(s[i+3:])); r == utf8.RuneError {
				return "", errBroken
			}
			i += 6
		}
		if r == 0 {
			return "", errBroken
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out), nil
}

var unescaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// hex4 reads four hexadecimal digits, which the scanner has seen.
func hex4(s []byte) rune {
	n, _ := strconv.ParseUint(string(s[:4]), 16, 16)
	return rune(n)
}

package webhook

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// A provider's body is read through a scanner of our own, in one pass, because
// encoding/json reads signed bytes too kindly: it matches keys without case, lets
// the last of two equal keys win, and puts U+FFFD where text is broken. Two
// readers of one signed body must never see two different events.
//
//   - It accepts what json.Valid accepts (RFC 8259), in the same pass: a second
//     walk over each body was 16 % of the processor's time (2026-11).
//   - Keys match exactly, after their escapes are resolved.
//   - A key on a wanted path that comes twice in its object refuses the body.
//   - Values keep their raw bytes: numbers keep every digit, and broken text is
//     refused only when it is used.
//   - An element chosen by a value in it (links[rel=up]) that is there twice is
//     likewise refused only when it is used.

var (
	errNotJSON   = errors.New("the body is not JSON")
	errNotObject = errors.New("the body is not a JSON object")
	errNotArray  = errors.New("what should be a JSON array is none")
)

// maxDepth is how deep values may lie in each other; json.Valid has the same limit.
const maxDepth = 10_000

// scanner walks a body by the grammar of JSON.
type scanner struct {
	b     []byte
	i     int
	depth int
	out   []value
}

// peek is the byte at i, or 0 at the end; outside of text, 0 is never right.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// value passes over the value at i. n wants it, or parts of it; nil wants nothing.
func (s *scanner) value(n *node) (err error) {
	start := s.i
	switch s.peek() {
	case '{':
		err = s.object(n)
	case '[':
		err = s.array(n)
	case '"':
		err = s.text()
	case 't':
		err = s.word("true")
	case 'f':
		err = s.word("false")
	case 'n':
		err = s.word("null")
	default:
		err = s.number()
	}
	if err == nil && n != nil && n.leaf > 0 {
		s.out[n.leaf-1] = jsonValue(s.b[start:s.i])
	}
	return err
}

// object passes over the object at i; the children of n are wanted.
func (s *scanner) object(n *node) error {
	if s.depth++; s.depth > maxDepth {
		return errNotJSON
	}
	s.i++
	s.space()
	if s.peek() == '}' {
		s.i++
		s.depth--
		return nil
	}
	for seen := uint64(0); ; s.space() {
		start := s.i
		if s.peek() != '"' {
			return errNotJSON
		}
		if err := s.text(); err != nil {
			return err
		}
		var child *node
		if n != nil {
			if at := n.child(s.b[start:s.i]); at >= 0 {
				if seen&(1<<at) != 0 {
					return fmt.Errorf("the body has the key %q twice in one object", n.keys[at])
				}
				seen |= 1 << at
				child = n.next[at]
			}
		}
		if s.space(); s.peek() != ':' {
			return errNotJSON
		}
		s.i++
		s.space()
		if err := s.value(child); err != nil {
			return err
		}
		if more, err := s.more('}'); !more {
			return err
		}
	}
}

// array passes over the array at i; n wants elements of it.
func (s *scanner) array(n *node) error {
	if s.depth++; s.depth > maxDepth {
		return errNotJSON
	}
	s.i++
	s.space()
	if s.peek() == ']' {
		s.i++
		s.depth--
		return nil
	}
	for i := 0; ; i++ {
		start := s.i
		var child *node
		if n != nil {
			child = n.element(i)
		}
		if err := s.value(child); err != nil {
			return err
		}
		if n != nil && len(n.picks) > 0 {
			if err := s.pick(n.picks, s.b[start:s.i]); err != nil {
				return err
			}
		}
		if more, err := s.more(']'); !more {
			return err
		}
		s.space()
	}
}

// pick takes what is wanted of an element, which was passed over and so is JSON.
func (s *scanner) pick(picks []*pick, element []byte) error {
	if element[0] != '{' {
		return nil
	}
	for _, p := range picks {
		in := scanner{b: element, out: make([]value, len(p.of.paths))}
		if err := in.value(&p.of.root); err != nil {
			return err
		}
		if !p.chooses(in.out) {
			continue
		}
		for i, v := range in.out {
			if to := p.to[i]; to >= 0 && v.kind != absent {
				s.out[to] = s.out[to].and(v)
			}
		}
	}
	return nil
}

// elements are the raw elements of a JSON array; an error if it is none.
func elements(array []byte) (all [][]byte, err error) {
	s := scanner{b: array}
	s.space()
	if s.peek() != '[' {
		return nil, errNotArray
	}
	s.i++
	if s.space(); s.peek() == ']' {
		s.i++
	} else {
		for more := true; more; s.space() {
			start := s.i
			if err := s.value(nil); err != nil {
				return nil, err
			}
			all = append(all, array[start:s.i])
			if more, err = s.more(']'); err != nil {
				return nil, err
			}
		}
	}
	if s.space(); s.i < len(array) {
		return nil, errNotJSON
	}
	return all, nil
}

// more passes over what follows an element: a comma, or the end.
func (s *scanner) more(end byte) (bool, error) {
	s.space()
	switch s.peek() {
	case ',':
		s.i++
		return true, nil
	case end:
		s.i++
		s.depth--
		return false, nil
	}
	return false, errNotJSON
}

// text passes over the string at i. Bytes above 0x7f are taken as they are.
func (s *scanner) text() error {
	for s.i++; ; s.i++ {
		s.plain()
		switch s.peek() {
		case '"':
			s.i++
			return nil
		case '\\':
			s.i++
			switch s.peek() {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					if s.i++; !isHex(s.peek()) {
						return errNotJSON
					}
				}
			default:
				return errNotJSON
			}
		default:
			return errNotJSON
		}
	}
}

// plain goes on to the next byte of text that is not just itself: a quote, a
// backslash, a control character. It looks at eight bytes at once, because bodies
// are mostly text: 1 KiB is read in 2.1 µs, byte by byte in 2.9 (2026-11-30).
func (s *scanner) plain() {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; s.i+8 <= len(s.b); s.i += 8 {
		w := binary.LittleEndian.Uint64(s.b[s.i:])
		quote, slash := w^ones*'"', w^ones*'\\'
		// The high bit of each byte that is 0, or in w below a space. A byte above
		// the lowest one found may be found wrongly.
		if found := ((w-ones*' ')&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highs; found != 0 {
			s.i += bits.TrailingZeros64(found) / 8
			return
		}
	}
	for s.i < len(s.b) && s.b[s.i] >= ' ' && s.b[s.i] != '"' && s.b[s.i] != '\\' {
		s.i++
	}
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func (s *scanner) word(w string) error {
	if !bytes.HasPrefix(s.b[s.i:], []byte(w)) {
		return errNotJSON
	}
	s.i += len(w)
	return nil
}

// number passes over the number at i: -? (0 | 1-9 digits) (. digits)? (e ±? digits)?
func (s *scanner) number() error {
	if s.peek() == '-' {
		s.i++
	}
	if s.peek() == '0' {
		s.i++
	} else if !s.digits() {
		return errNotJSON
	}
	if s.peek() == '.' {
		if s.i++; !s.digits() {
			return errNotJSON
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		if !s.digits() {
			return errNotJSON
		}
	}
	return nil
}

// digits passes over digits and says whether there was one.
func (s *scanner) digits() bool {
	start := s.i
	for c := s.peek(); '0' <= c && c <= '9'; c = s.peek() {
		s.i++
	}
	return s.i > start
}

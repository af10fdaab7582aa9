package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A provider's body is read through a scanner of our own, in one pass, because
// encoding/json reads signed bytes too kindly: it matches keys without case, lets
// the last of two equal keys win, and puts U+FFFD where text is broken. Two
// readers of one signed body must never see two different events.
//
//   - Keys match exactly, after their escapes are resolved.
//   - A key on a wanted path that comes twice in its object refuses the body.
//   - Values keep their raw bytes: numbers keep every digit, and broken text is
//     refused only when it is used.

var (
	errNotJSON   = errors.New("the body is not JSON")
	errNotObject = errors.New("the body is not a JSON object")
)

// fields is a set of wanted paths, as a tree. The zero value wants nothing.
type fields struct {
	root  node
	paths []string // by index of the value
}

type node struct {
	keys []string
	next []*node
	leaf int // index of the value + 1; 0: only a step on the way
}

// maxKeys is how many keys of one object can be wanted (bits of node's mask).
const maxKeys = 64

// add wants the value at a path of keys joined by dots, and returns its index in
// what scan returns. A path added twice has one index.
func (f *fields) add(path string) (int, error) {
	n := &f.root
	for key := range strings.SplitSeq(path, ".") {
		if key == "" {
			return 0, fmt.Errorf("path %q has an empty step", path)
		}
		i := slices.Index(n.keys, key)
		if i < 0 {
			if i = len(n.keys); i == maxKeys {
				return 0, fmt.Errorf("path %q: more than %d keys of one object are wanted", path, maxKeys)
			}
			n.keys, n.next = append(n.keys, key), append(n.next, &node{})
		}
		n = n.next[i]
	}
	if n.leaf == 0 {
		f.paths = append(f.paths, path)
		n.leaf = len(f.paths)
	}
	return n.leaf - 1, nil
}

// scan finds the wanted values of a body, each absent until found. It never
// recurses deeper than the longest path; json.Valid refuses 10,000 levels.
func (f *fields) scan(body []byte) ([]value, error) {
	if !json.Valid(body) {
		return nil, errNotJSON
	}
	s := scanner{b: body, out: make([]value, len(f.paths))}
	s.space()
	if s.b[s.i] != '{' {
		return nil, errNotObject
	}
	if err := s.object(&f.root); err != nil {
		return nil, err
	}
	return s.out, nil
}

// scanner walks JSON that json.Valid has passed, so it need not look for ends.
type scanner struct {
	b   []byte
	i   int
	out []value
}

// object reads the object at i for the children of n.
func (s *scanner) object(n *node) error {
	var seen uint64
	s.i++
	for {
		s.space()
		switch s.b[s.i] {
		case '}':
			s.i++
			return nil
		case ',':
			s.i++
			continue
		}
		child := n.child(s.token())
		s.space()
		s.i++ // the colon
		s.space()
		if child < 0 {
			s.token()
			continue
		}
		if seen&(1<<child) != 0 {
			return fmt.Errorf("the body has the key %q twice in one object", n.keys[child])
		}
		seen |= 1 << child
		if err := s.child(n.next[child]); err != nil {
			return err
		}
	}
}

// child reads the value at i, which n wants itself, or parts of.
func (s *scanner) child(n *node) error {
	start := s.i
	if s.b[s.i] == '{' && len(n.keys) > 0 {
		if err := s.object(n); err != nil {
			return err
		}
	} else {
		s.token()
	}
	if n.leaf > 0 {
		s.out[n.leaf-1] = jsonValue(s.b[start:s.i])
	}
	return nil
}

// child is the index of the child with the key, given as a JSON string; -1 if
// it is not wanted.
func (n *node) child(token []byte) int {
	if bytes.IndexByte(token, '\\') < 0 {
		token = token[1 : len(token)-1]
		for i, k := range n.keys {
			if string(token) == k {
				return i
			}
		}
		return -1
	}
	key, err := unquote(token)
	if err != nil {
		return -1
	}
	return slices.Index(n.keys, key)
}

func (s *scanner) space() {
	for s.b[s.i] == ' ' || s.b[s.i] == '\t' || s.b[s.i] == '\n' || s.b[s.i] == '\r' {
		s.i++
	}
}

// token passes over the value at i, whatever it is, and returns its bytes.
func (s *scanner) token() []byte {
	start, depth := s.i, 0
	for {
		switch s.b[s.i] {
		case '"':
			s.text()
		case '{', '[':
			depth++
			s.i++
		case '}', ']':
			depth--
			s.i++
		case ' ', '\t', '\n', '\r', ',', ':':
			s.i++ // only inside an object or array
			continue
		default:
			s.word()
		}
		if depth == 0 {
			return s.b[start:s.i]
		}
	}
}

// text passes over the string at i.
func (s *scanner) text() {
	for s.i++; s.b[s.i] != '"'; s.i++ {
		if s.b[s.i] == '\\' {
			s.i++
		}
	}
	s.i++
}

// word passes over the number or literal at i.
func (s *scanner) word() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return
		}
		s.i++
	}
}

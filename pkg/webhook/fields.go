package webhook

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// fields is a set of wanted paths, as a tree. The zero value wants nothing.
type fields struct {
	root  node
	paths []string // by index of the value
}

// wanted are fields of the paths, by the order in which they are given; they are
// written in this package, and right.
func wanted(paths ...string) *fields {
	f := &fields{}
	for _, path := range paths {
		if _, err := f.add(path); err != nil {
			panic(err)
		}
	}
	return f
}

type node struct {
	keys  []string
	next  []*node
	picks []*pick
	leaf  int // index of the value + 1; 0: only a step on the way
}

// pick wants values of those objects in an array whose keys have certain values.
type pick struct {
	choice string   // as written
	equal  []string // of the first paths
	of     fields   // of the object
	to     []int    // by index there: the index outside, or -1
}

// maxKeys is how many keys of one object can be wanted (bits of node's mask).
const maxKeys = 64

// add wants the value at a path, and returns its index in what scan returns. A
// path is steps joined by dots: keys, a number for an element of an array (from
// 0), or KEY[NAME=VALUE] for that object in the array KEY whose NAME has the value. A
// path added twice has one index.
func (f *fields) add(path string) (int, error) {
	steps, choice, chosen := strings.Cut(path, "[")
	n := &f.root
	for key := range strings.SplitSeq(steps, ".") {
		if key == "" {
			return 0, fmt.Errorf("path %q has an empty step", path)
		}
		next, err := n.step(key)
		if err != nil {
			return 0, fmt.Errorf("path %q: %w", path, err)
		}
		n = next
	}
	if !chosen {
		return f.leaf(&n.leaf, path), nil
	}
	choice, rest, ok := strings.Cut(choice, "].")
	p := n.pick(choice)
	if !ok || p == nil {
		return 0, fmt.Errorf("path %q: what is in brackets is NAME=VALUE[,NAME=VALUE], and a step follows, as in links[rel=up].href", path)
	}
	i, err := p.of.add(rest)
	if err != nil {
		return 0, fmt.Errorf("path %q: %w", path, err)
	}
	for len(p.to) < len(p.of.paths) {
		p.to = append(p.to, -1)
	}
	leaf := p.to[i] + 1
	p.to[i] = f.leaf(&leaf, path)
	return p.to[i], nil
}

// addKey wants the value of one key, whatever characters are in it.
func (f *fields) addKey(key string) (int, error) {
	n, err := f.root.step(key)
	if err != nil {
		return 0, fmt.Errorf("field %q: %w", key, err)
	}
	return f.leaf(&n.leaf, key), nil
}

// leaf is the index of a path's value, given to it now if it has none yet.
func (f *fields) leaf(at *int, path string) int {
	if *at == 0 {
		f.paths = append(f.paths, path)
		*at = len(f.paths)
	}
	return *at - 1
}

func (n *node) step(key string) (*node, error) {
	i := slices.Index(n.keys, key)
	if i < 0 {
		if i = len(n.keys); i == maxKeys {
			return nil, fmt.Errorf("more than %d keys of one object are wanted", maxKeys)
		}
		n.keys, n.next = append(n.keys, key), append(n.next, &node{})
	}
	return n.next[i], nil
}

// pick is the node's pick of a choice, NAME=VALUE[,NAME=VALUE]; nil if it is none.
func (n *node) pick(choice string) *pick {
	for _, p := range n.picks {
		if p.choice == choice {
			return p
		}
	}
	p := &pick{choice: choice}
	for condition := range strings.SplitSeq(choice, ",") {
		key, equal, _ := strings.Cut(condition, "=")
		if _, err := p.of.addKey(key); err != nil || key == "" || equal == "" || strings.ContainsAny(key, ".[") {
			return nil
		}
		p.equal, p.to = append(p.equal, equal), append(p.to, -1)
	}
	n.picks = append(n.picks, p)
	return p
}

// scan finds the wanted values of a body, each absent until found.
func (f *fields) scan(body []byte) ([]value, error) {
	s := scanner{b: body, out: make([]value, len(f.paths))}
	s.space()
	object := s.peek() == '{'
	if err := s.value(&f.root); err != nil {
		return nil, err
	}
	s.space()
	switch {
	case s.i < len(s.b):
		return nil, errNotJSON
	case !object:
		return nil, errNotObject
	}
	return s.out, nil
}

// element is the node of the element at i; nil if it is not wanted.
func (n *node) element(i int) *node {
	if len(n.keys) == 0 {
		return nil
	}
	if at := slices.Index(n.keys, strconv.Itoa(i)); at >= 0 {
		return n.next[at]
	}
	return nil
}

func (p *pick) chooses(of []value) bool {
	for i, equal := range p.equal {
		if text, err := of[i].scalar(); err != nil || text != equal {
			return false
		}
	}
	return true
}

// child is the index of the child with the key, given as a JSON string; -1 if
// it is not wanted.
func (n *node) child(text []byte) int {
	if bytes.IndexByte(text, '\\') < 0 {
		text = text[1 : len(text)-1]
		for i, k := range n.keys {
			if string(text) == k {
				return i
			}
		}
		return -1
	}
	key, err := unquote(text)
	if err != nil {
		return -1
	}
	return slices.Index(n.keys, key)
}

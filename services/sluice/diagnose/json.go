package diagnose

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// style is a way in which programs write JSON.
type style struct {
	what         string
	comma, colon string
	indent       string
}

var styles = []style{
	{what: "compact JSON", comma: ",", colon: ":"},
	{what: "JSON with a space after each comma and colon (as Python writes it)", comma: ", ", colon: ": "},
	{what: "JSON indented by two spaces", comma: ",", colon: ": ", indent: "  "},
	{what: "JSON indented by four spaces", comma: ",", colon: ": ", indent: "    "},
	{what: "JSON indented by tabs", comma: ",", colon: ": ", indent: "\t"},
}

// escapes are what may be escaped in a string and need not be.
type escapes struct {
	what                 string
	slash, unicode, html bool
}

var escaping = []escapes{
	{what: ""},
	{what: ` with / escaped as \/`, slash: true},
	{what: ` with all but ASCII escaped as \u`, unicode: true},
	{what: ` with / and all but ASCII escaped (as PHP writes it)`, slash: true, unicode: true},
	{what: ` with <, > and & escaped as \u (as Go writes it)`, html: true},
	{what: ` with <, >, & and all but ASCII escaped`, html: true, unicode: true},
}

// rewritten writes a JSON body in every style, with its keys as they stand and
// sorted. Numbers keep their text.
func rewritten(body []byte) (all []variant) {
	trimmed := bytes.TrimSpace(body)
	root, err := parseNode(trimmed)
	if err != nil {
		return nil
	}
	for _, order := range []struct {
		what string
		of   *node
	}{{"", root}, {", its keys in alphabetical order", root.sorted()}} {
		for _, s := range styles {
			// First with the strings as they stand: only white space has changed.
			all = append(all, variant{what: s.what + order.what, body: order.of.write(nil, s, nil, "")})
			for _, e := range escaping {
				text := order.of.write(nil, s, &e, "")
				all = append(all, variant{what: s.what + e.what + order.what, body: text}, variant{what: s.what + e.what + order.what + ", with a line end", body: append(slices.Clip(text), '\n')})
			}
		}
	}
	for _, e := range escaping { // only the strings have changed
		all = append(all, variant{what: "JSON" + cmp.Or(e.what, " with nothing escaped that need not be"), body: respell(body, &e)})
	}
	return all
}

// node is a JSON value that remembers the order of its keys and its own text.
type node struct {
	raw    string // of a scalar
	open   byte   // { or [
	keys   []string
	values []*node
}

func parseNode(text []byte) (*node, error) {
	if !json.Valid(text) {
		return nil, errors.New("no JSON")
	}
	p := &parser{text: text}
	return p.value(), nil
}

// parser reads text that is known to be JSON.
type parser struct {
	text []byte
	at   int
}

func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

func (p *parser) value() *node {
	p.space()
	switch p.text[p.at] {
	case '{', '[':
		n := &node{open: p.text[p.at]}
		p.at++
		for {
			p.space()
			switch p.text[p.at] {
			case '}', ']':
				p.at++
				return n
			case ',':
				p.at++
				continue
			}
			if n.open == '{' {
				n.keys = append(n.keys, p.scalar())
				p.space()
				p.at++ // :
			}
			n.values = append(n.values, p.value())
		}
	}
	return &node{raw: p.scalar()}
}

func (p *parser) scalar() string {
	start := p.at
	if p.text[p.at] == '"' {
		for p.at++; p.text[p.at] != '"'; p.at++ {
			if p.text[p.at] == '\\' {
				p.at++
			}
		}
		p.at++
		return string(p.text[start:p.at])
	}
	for p.at < len(p.text) && strings.IndexByte(",]} \t\r\n", p.text[p.at]) < 0 {
		p.at++
	}
	return string(p.text[start:p.at])
}

func (n *node) sorted() *node {
	out := &node{raw: n.raw, open: n.open}
	order := make([]int, len(n.values))
	for i := range order {
		order[i] = i
	}
	if n.keys != nil {
		slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(plainString(n.keys[a]), plainString(n.keys[b])) })
	}
	for _, i := range order {
		if n.keys != nil {
			out.keys = append(out.keys, n.keys[i])
		}
		out.values = append(out.values, n.values[i].sorted())
	}
	return out
}

func (n *node) write(to []byte, s style, e *escapes, margin string) []byte {
	if n.open == 0 {
		return append(to, spelled(n.raw, e)...)
	}
	to = append(to, n.open)
	inner := margin + s.indent
	for i, v := range n.values {
		if i > 0 {
			to = append(to, s.comma...)
		}
		if s.indent != "" {
			to = append(append(to, '\n'), inner...)
		}
		if n.keys != nil {
			to = append(append(to, spelled(n.keys[i], e)...), s.colon...)
		}
		to = v.write(to, s, e, inner)
	}
	if s.indent != "" && len(n.values) > 0 {
		to = append(append(to, '\n'), margin...)
	}
	return append(to, n.open+2) // { } and [ ] lie two apart
}

// respell writes the strings anew and keeps everything between them.
func respell(body []byte, e *escapes) (out []byte) {
	p := &parser{text: body}
	for p.at < len(body) {
		if body[p.at] == '"' {
			out = append(out, spelled(p.scalar(), e)...)
			continue
		}
		out = append(out, body[p.at])
		p.at++
	}
	return out
}

func plainString(raw string) string {
	var text string
	if json.Unmarshal([]byte(raw), &text) != nil {
		return raw
	}
	return text
}

// spelled is a string's text with what e says escaped, and nothing else that need
// not be.
func spelled(raw string, e *escapes) string {
	if e == nil || !strings.HasPrefix(raw, `"`) {
		return raw
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range plainString(raw) {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\b':
			b.WriteString(`\b`)
		case r == '\f':
			b.WriteString(`\f`)
		case r == '/' && e.slash:
			b.WriteString(`\/`)
		case r < 0x20, e.html && strings.ContainsRune("<>&\u2028\u2029", r):
			fmt.Fprintf(&b, `\u%04x`, r)
		case r >= utf8.RuneSelf && e.unicode:
			if r > 0xffff {
				hi, lo := utf16.EncodeRune(r)
				fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
			} else {
				fmt.Fprintf(&b, `\u%04x`, r)
			}
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// keysSorted says whether all objects have their keys in order, and how many keys
// there are.
func keysSorted(text []byte) (sorted bool, keys int) {
	root, err := parseNode(text)
	if err != nil {
		return false, 0
	}
	sorted = true
	var walk func(n *node)
	walk = func(n *node) {
		keys += len(n.keys)
		sorted = sorted && slices.IsSortedFunc(n.keys, func(a, b string) int { return strings.Compare(plainString(a), plainString(b)) })
		for _, v := range n.values {
			walk(v)
		}
	}
	walk(root)
	return sorted, keys
}

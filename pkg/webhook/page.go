package webhook

import (
	"fmt"
	"strings"
)

// page is one webhook being read. err is the first thing that could not be read.
type page struct {
	header Headers
	values []value
	err    error
}

func (p *page) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// find is the first value that says something, and its path.
func (p *page) find(places places) (value, string) {
	for i := range places {
		at, v := &places[i], value{}
		switch at.source {
		case inBody:
			v = p.values[at.index]
		case constant:
			v = value{kind: plain, raw: []byte(at.name)}
		case inHeader:
			v = p.one("header", at.name, p.header(at.name))
		case inQuery:
			v = p.one("parameter", at.name, p.parameters(at.name))
		}
		switch {
		case at.last && v.given():
			v = v.last()
		case at.sum && v.kind == several:
			v.kind = summed
		}
		if v.given() {
			return v, at.path
		}
	}
	return value{}, ""
}

// one is the only one of values, if there is any.
func (p *page) one(what, name string, values []string) value {
	switch {
	case len(values) == 1:
		return value{kind: plain, raw: []byte(values[0])}
	case len(values) > 1:
		p.fail("%s %s comes %d times", what, name, len(values))
	}
	return value{}
}

// parameters are the values of a parameter of the request's URL.
func (p *page) parameters(name string) (values []string) {
	for _, query := range p.header(QueryHeader) {
		list, err := parseForm([]byte(query))
		if err != nil {
			p.fail("the query of the request's URL cannot be read")
		}
		for _, f := range list {
			if f.name == name {
				values = append(values, f.value)
			}
		}
	}
	return values
}

// joined is the event's id or type: the first of the ways that says something,
// joined of its parts. as reads one that has no parts.
func (p *page) joined(ways []places, what string, as func(value) (string, error)) string {
	for _, parts := range ways {
		if len(parts) == 1 {
			if id, ok := given(p, parts, as); ok || p.err != nil {
				return id
			}
			continue
		}
		texts := make([]string, 0, len(parts))
		for _, at := range parts {
			if s, ok := given(p, places{at}, value.part); ok {
				texts = append(texts, s)
			}
		}
		if len(texts) < len(parts) {
			continue
		}
		id := joinID(texts...)
		if len(id) > maxID {
			p.fail("the event's %s %w", what, errLong)
		}
		return id
	}
	p.fail("the event states no %s", what)
	return ""
}

// joinID is an id made of several parts, "a:b". A ":" in a part is written %3A and
// a "%" %25, so that other parts never make the same id (O25).
func joinID(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = idEscapes.Replace(part)
	}
	return strings.Join(escaped, ":")
}

var idEscapes = strings.NewReplacer("%", "%25", ":", "%3A")

// given reads a value, and says whether there was one.
func given[T any](p *page, at places, as func(value) (T, error)) (t T, ok bool) {
	v, path := p.find(at)
	if !v.given() {
		return t, false
	}
	t, err := as(v)
	if err != nil {
		p.fail("%s %w", path, err)
		var zero T
		return zero, false
	}
	return t, true
}

// take reads a value that may be absent.
func take[T any](p *page, at places, as func(value) (T, error)) T {
	t, _ := given(p, at, as)
	return t
}

// need reads a value that must be there.
func need[T any](p *page, at places, what string, as func(value) (T, error)) T {
	t, ok := given(p, at, as)
	if !ok {
		p.fail("the event states no %s", what)
	}
	return t
}

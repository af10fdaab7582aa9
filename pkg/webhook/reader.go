package webhook

import (
	"fmt"
	"strings"
)

// Reader reads documents that are no webhooks, such as the answers of a provider's
// API, by a Layout. It is safe for concurrent use.
type Reader struct {
	layout *layout
	given  places
}

// NewReader reports everything that is wrong with a layout. The reader passes over
// documents in which one of the paths of given says nothing.
func NewReader(l Layout, given ...string) (*Reader, error) {
	c, err := l.compile()
	if err != nil {
		return nil, err
	}
	if len(c.needed) > 0 {
		return nil, fmt.Errorf("reading: %s: a document has no headers and no query", strings.Join(c.needed, ", "))
	}
	r := &Reader{layout: c}
	for _, path := range given {
		i, err := c.fields.add(path)
		if err != nil {
			return nil, err
		}
		r.given = append(r.given, place{path: path, index: i})
	}
	return r, nil
}

// Read reads a document as a webhook's body is read, and says whether it was one to
// read. An error's text names fields, and carries no part of the document.
func (r *Reader) Read(document []byte) (_ Reading, ok bool, err error) {
	if len(r.given) > 0 {
		values, err := r.layout.fields.scan(document)
		if err != nil {
			return Reading{}, false, err
		}
		p := page{values: values}
		for _, at := range r.given {
			if v, _ := p.find(places{at}); !v.given() {
				return Reading{}, false, nil
			}
		}
	}
	reading, err := r.layout.Read(noHeaders, document)
	return reading, err == nil, err
}

func noHeaders(string) []string { return nil }

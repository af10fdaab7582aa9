package lookup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// askable says whether an id may be put into a path. It may come from a request that
// anybody can have made, so nothing that a server could take for more than a name.
func askable(id string) bool {
	return id != "" && id != "." && id != ".." && len(id) <= 255 && !strings.ContainsFunc(id, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune(`/\?#%;`, r)
	})
}

// result is the end of a look-up.
type result struct {
	facts   []webhook.Reading
	outcome Outcome // Answered if zero
	why     string
}

// unaskable is how a look-up ends whose target cannot be put into a request. Where
// the hint names nothing, nothing will ever be learnt, and that is an answer; an id
// with odd letters may be a real one, and a person must look.
func unaskable(id string) result {
	if id == "" {
		return result{outcome: Pointless, why: "the hint names nothing to ask about"}
	}
	return result{outcome: Unknown, why: "the hint's id holds what no request may hold"}
}

var endless = result{outcome: Unreadable, why: fmt.Sprintf("the answer goes on beyond %d requests", MaxRequests)}

var another = result{outcome: Unreadable, why: "the answer is about another object"}

func unreadable(err error) result { return result{outcome: Unreadable, why: err.Error()} }

// and is both results, or the one that is no answer.
func (r result) and(other result) result {
	switch {
	case r.outcome != 0:
		return r
	case other.outcome != 0:
		return other
	}
	r.facts = append(r.facts, other.facts...)
	return r
}

// paid says whether money was taken: then there may be refunds and disputes of it.
func (r result) paid() bool {
	return slices.ContainsFunc(r.facts, func(f webhook.Reading) bool { return f.Fact == order.KindPaid })
}

// step makes facts of the target's: they are what the look-up of its object said.
func (r result) step(t Target, mode event.Mode) Step {
	s := Step{Outcome: r.outcome, Why: r.why}
	if s.Outcome != 0 {
		return s
	}
	s.Outcome = Answered
	type identity struct {
		kind            order.Kind
		payment, object string
	}
	stated := map[identity]bool{}
	for _, f := range r.facts {
		// Several documents may state one fact, as an intent and its session do.
		same := identity{f.Fact, f.Payment, f.Object}
		if f.Fact == order.KindNone || f.Fact == order.KindRefundTotal && f.Amount == 0 || stated[same] {
			continue
		}
		stated[same] = true
		f.ID, f.Type, f.Trust, f.Subject = "", "", "", subject(t.Object)
		if f.Mode == "" {
			f.Mode = mode
		}
		if mode != "" && f.Mode != mode {
			return Step{Outcome: Unreadable, Why: fmt.Sprintf("the answer is about %s money and the endpoint is %s: is the credential of the other mode?", f.Mode, mode)}
		}
		s.Facts = append(s.Facts, f)
	}
	return s
}

// subject is what leads the ids of an object's events: the object, or its hash if it
// is too long for that.
func subject(object string) string {
	if len(object) <= maxObject {
		return object
	}
	sum := sha256.Sum256([]byte(object))
	return hex.EncodeToString(sum[:])
}

// statement is one fact that a document may state.
type statement struct {
	// each leads to a list in the document, and on to lists in its items; every item
	// is then read as {"item": item, "of": document}. Empty: the document is read.
	each []string
	// given are paths without which the fact is not stated.
	given  []string
	layout webhook.Layout
}

// readers are the statements of a provider's documents, by the document's name.
type readers map[string][]reader

type reader struct {
	each []string
	*webhook.Reader
}

func compile(documents map[string][]statement) (readers, error) {
	out := readers{}
	for name, statements := range documents {
		for i, s := range statements {
			r, err := webhook.NewReader(s.layout, s.given...)
			if err != nil {
				return nil, fmt.Errorf("document %s, statement %d: %w", name, i, err)
			}
			out[name] = append(out[name], reader{s.each, r})
		}
	}
	return out, nil
}

// read reads a document about an object. The object's id is that of the statements
// about the whole document; the result is another if it is not id. An empty id is any.
func (r readers) read(document, id string, body []byte) result {
	var out result
	for _, s := range r[document] {
		pages := [][]byte{body}
		for _, path := range s.each {
			var inner [][]byte
			for _, page := range pages {
				items, err := items(page, path)
				if err != nil {
					return unreadable(err)
				}
				inner = append(inner, items...)
			}
			pages = inner
		}
		for _, page := range pages {
			reading, ok, err := s.Read(page)
			switch {
			case err != nil:
				return unreadable(err)
			case ok && len(s.each) == 0 && id != "" && reading.ID != id:
				return another
			case ok:
				out.facts = append(out.facts, reading)
			}
		}
	}
	return out
}

var (
	errNoList  = errors.New("the answer has something other than a list where a list must be")
	errNotJSON = errors.New("the answer is not a JSON object")
	errCircle  = errors.New("a page of the answer leads to itself")
)

// listAt is the list at a path of keys joined by dots; an empty path is the document
// itself. found is false if it is absent or null.
func listAt(document []byte, path string) (list []json.RawMessage, found bool, err error) {
	at := json.RawMessage(document)
	for path != "" {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(at, &object); err != nil {
			return nil, false, errNotJSON
		}
		var key string
		key, path, _ = strings.Cut(path, ".")
		if at = object[key]; len(at) == 0 {
			return nil, false, nil
		}
	}
	if bytes.Equal(bytes.TrimSpace(at), []byte("null")) {
		return nil, false, nil
	}
	if err := json.Unmarshal(at, &list); err != nil {
		return nil, false, errNoList
	}
	return list, true, nil
}

// items wraps each item of the list at a path with the document around it, which is
// without the list: a thousand items are not a thousand times all of them. A list that
// is absent or null has none.
func items(document []byte, path string) ([][]byte, error) {
	list, _, err := listAt(document, path)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	around := without(document, path)
	out := make([][]byte, len(list))
	for i, item := range list {
		out[i] = fmt.Appendf(nil, `{"item":%s,"of":%s}`, item, around)
	}
	return out, nil
}

// with is a document with a list that came apart from it; what is no object stays so.
func with(document []byte, key string, list []json.RawMessage) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(document, &object) != nil || object == nil {
		return document
	}
	if list == nil {
		list = []json.RawMessage{}
	}
	object[key] = written(list)
	return written(object)
}

// without is a document in which listAt has found a path, without what is there.
func without(document []byte, path string) []byte {
	key, rest, deeper := strings.Cut(path, ".")
	var object map[string]json.RawMessage
	_ = json.Unmarshal(document, &object)
	if deeper {
		object[key] = without(object[key], rest)
	} else {
		delete(object, key)
	}
	return written(object)
}

func written(of any) []byte {
	text, err := json.Marshal(of)
	if err != nil {
		panic(err) // of what was just read
	}
	return text
}

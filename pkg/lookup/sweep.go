package lookup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/webhook"
)

// Span is a span of the provider's time: from Since on, before Until.
type Span struct{ Since, Until time.Time }

// Contains says whether a time lies in the span.
func (s Span) Contains(t time.Time) bool { return !t.Before(s.Since) && t.Before(s.Until) }

// Listing is how a provider lists what happened, and what it is swept by unless the
// endpoint says otherwise.
type Listing struct {
	// Docs is where the provider documents it.
	Docs string
	// Says is a part of a sentence that says what is listed.
	Says string
	// Every is how often it is swept, Back how far a sweep reaches back behind what was
	// swept before: what is listed late, or by when it was made and not by when it
	// changed, is met again there.
	Every, Back time.Duration
	// Kept is how long the provider lists a thing; 0: no end is documented.
	Kept time.Duration
	// OwnEvents: it lists its events, under the ids that its webhooks carry.
	OwnEvents bool

	lists []list
}

// Listing is how the provider lists; false if it does not, or nobody knows how.
func (a API) Listing() (Listing, bool) {
	if a.listing != nil {
		return *a.listing, true
	}
	l, ok := listings[a.Provider]
	return l, ok
}

// Sweep lists what happened at one account. It is a value without state, safe for
// concurrent use.
type Sweep struct {
	Listing
	lookup *Lookup
}

// Sweep is the account's; false if its provider does not list.
func (l *Lookup) Sweep() (Sweep, bool) {
	listing, ok := l.api.Listing()
	return Sweep{listing, l}, ok
}

// Item is one thing that a provider lists.
type Item struct {
	// Event is the provider's own event as a webhook of it alone would carry it: the
	// provider's own reader reads it. Nil: the item is an object.
	Event []byte
	// Target is what a look-up of the object asks about. Facts are what the list itself
	// says of it, which may be less than a look-up does.
	Target Target
	Facts  []webhook.Reading
}

// Page is one answer of a list.
type Page struct {
	// Outcome is Answered if it was one, and only then is there more than Why and
	// RetryAfter.
	Outcome Outcome
	Items   []Item
	// Unread is how many items of the page cannot be understood.
	Unread int
	// Next is where to go on, empty at the end.
	Next string
	// RetryAfter is how long the provider asks to be left alone; 0: it does not say.
	RetryAfter time.Duration
	// Why says for people what was wrong. It carries no part of a body, and no secret.
	Why string
}

// Ask is the request for a page of a span: the first one if at is empty, else the one
// that Page.Next led to. token is as in Lookup.Next.
func (s Sweep) Ask(span Span, at, token string, now time.Time) Request {
	i, rest := s.place(at)
	r := s.lists[i].request(s.lookup.account.BaseURL, span, rest)
	s.lookup.authorize(&r, token, now)
	return r
}

// Read reads the answer to Ask of the same span and place. What is no answer, or does
// not hold the list that it must, ends the sweep there and decides nothing.
func (s Sweep) Read(span Span, at string, r Response, now time.Time) Page {
	if end := s.lookup.api.judge(r, now); end.Outcome != Answered {
		return Page{Outcome: end.Outcome, RetryAfter: end.RetryAfter, Why: end.Why}
	}
	i, rest := s.place(at)
	l := s.lists[i]
	raw, err := l.listed(r.Body)
	if err != nil {
		return Page{Outcome: Unreadable, Why: err.Error()}
	}
	next, err := l.next(r.Body, raw, rest)
	switch {
	case err != nil:
		return Page{Outcome: Unreadable, Why: err.Error()}
	case next != "" && (next == rest || len(next) > maxPlace):
		return Page{Outcome: Unreadable, Why: "a page of the list leads to itself"}
	}
	page := Page{Outcome: Answered}
	for _, item := range raw {
		switch when, ok := l.madeAt(item); {
		case !ok:
			page.Unread++
			continue
		case !when.IsZero() && when.Before(span.Since):
			next = "" // newest first: nothing behind it is of the span
			continue
		case !when.IsZero() && !span.Contains(when):
			continue
		}
		it, err := s.item(l, item)
		if err != nil {
			page.Unread++
			continue
		}
		page.Items = append(page.Items, it)
	}
	switch {
	case next != "":
		page.Next = strconv.Itoa(i) + ":" + next
	case i+1 < len(s.lists):
		page.Next = strconv.Itoa(i+1) + ":"
	}
	return page
}

// maxPlace bounds a place in a list, in bytes: it is kept in the database.
const maxPlace = 4 << 10

// place takes a place apart: the list's number and where in it. What Read did not give
// is the beginning.
func (s Sweep) place(at string) (int, string) {
	number, rest, _ := strings.Cut(at, ":")
	i, err := strconv.Atoi(number)
	if err != nil || i < 0 || i >= len(s.lists) {
		return 0, ""
	}
	return i, rest
}

func (s Sweep) item(l list, raw []byte) (Item, error) {
	if l.event != nil {
		return Item{Event: l.event(raw)}, nil
	}
	id := text(raw, l.id)
	if !askable(id) {
		return Item{}, errNoID
	}
	readers := s.lookup.readers
	if l.own != nil {
		readers = l.own
	}
	body := raw
	if l.wrap != "" {
		body = fmt.Appendf(nil, `{%q:%s}`, l.wrap, raw)
	}
	r := readers.read(l.document, id, body)
	if r.outcome != 0 {
		return Item{}, errors.New(r.why)
	}
	payment := id
	if l.payment != "" {
		if payment = text(raw, l.payment); !askable(payment) {
			return Item{}, errNoID
		}
	}
	t := Target{Object: payment, Payment: payment}
	step := r.step(t, s.lookup.account.Mode)
	if step.Outcome != Answered {
		return Item{}, errors.New(step.Why)
	}
	for _, f := range step.Facts {
		if f.Order != "" {
			t.Order = f.Order
		}
	}
	return Item{Target: t, Facts: step.Facts}, nil
}

var (
	errNoID   = errors.New("an item of the list has no id that can be asked for")
	errNoPage = errors.New("the answer does not say how its list goes on")
)

// list is one list of a provider, as data but for how its pages follow each other.
type list struct {
	// path is below the account's address. query has {since} and {until}; form writes
	// such a time.
	path, query string
	form        func(time.Time) string
	// page is the query's parameter for a place in the list; without one a place is the
	// whole query of a page.
	page string
	// next is the place behind an answer, given its items and its own place.
	next func(body []byte, items [][]byte, at string) (string, error)
	// items leads to the list in an answer, by keys joined with dots.
	items string
	// made leads to an item's time, where the list is newest first and takes no span.
	made string

	// event makes a webhook's body of an item; without it an item is an object.
	event func(item []byte) []byte
	// document says which of the API's documents an object is, or of own ones; wrap is
	// the key under which it lies there. id leads to its id, payment to its payment's if
	// it is not one.
	document, wrap, id, payment string
	own                         readers
}

func (l list) request(base string, span Span, at string) Request {
	query := l.query
	for name, t := range map[string]time.Time{"{since}": span.Since, "{until}": span.Until} {
		if strings.Contains(query, name) {
			query = strings.ReplaceAll(query, name, url.QueryEscape(l.form(t)))
		}
	}
	switch {
	case at != "" && l.page == "":
		query = at
	case at != "":
		query += "&" + l.page + "=" + url.QueryEscape(at)
	}
	return Request{Method: "GET", URL: base + l.path + "?" + query}
}

// listed takes the list out of an answer. An answer without one is none: only an empty
// list says that nothing happened.
func (l list) listed(body []byte) ([][]byte, error) {
	at, ok := member(body, l.items)
	if !ok {
		return nil, errNoList
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(at, &raw); err != nil || raw == nil {
		return nil, errNoList
	}
	out := make([][]byte, len(raw))
	for i, r := range raw {
		out[i] = r
	}
	return out, nil
}

// madeAt is an item's time, zero if the list is by itself of the span.
func (l list) madeAt(item []byte) (time.Time, bool) {
	if l.made == "" {
		return time.Time{}, true
	}
	t, err := time.Parse(time.RFC3339Nano, text(item, l.made))
	return t, err == nil
}

// member is what lies at a path of keys joined by dots; false if that is nothing.
func member(document []byte, path string) (json.RawMessage, bool) {
	at := json.RawMessage(document)
	for key := range strings.SplitSeq(path, ".") {
		var object map[string]json.RawMessage
		if json.Unmarshal(at, &object) != nil {
			return nil, false
		}
		if at = object[key]; len(at) == 0 || bytes.Equal(at, []byte("null")) {
			return nil, false
		}
	}
	return at, true
}

// text is the text or the number that lies at a path, empty if there is none.
func text(document []byte, path string) string {
	at, ok := member(document, path)
	if !ok {
		return ""
	}
	var s string
	if json.Unmarshal(at, &s) == nil {
		return s
	}
	var n json.Number
	if json.Unmarshal(at, &n) == nil {
		return n.String()
	}
	return ""
}

// How pages follow each other.

package lookup

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
)

// asking is one look-up under way. Its run begins anew with every answer and finds the
// answers so far in the order in which it asks for them, so that it reads like a
// program that waits for each; the first request without an answer ends it.
type asking struct {
	readers
	target  Target
	account Account
	got     [][]byte // answers that were not asked for yet
	next    *Request // the first without an answer
}

// ask is the answer to a request, or false if it is to be made: then the run must end,
// and its result does not matter.
func (a *asking) ask(r *Request) (body []byte, ok bool) {
	if len(a.got) == 0 {
		a.next = r
		return nil, false
	}
	body, a.got = a.got[0], a.got[1:]
	return body, true
}

// get is a request for a path below the account's address. Segments are escaped.
// "%s" stands for one.
func (a *asking) get(path string, segments ...string) *Request {
	for _, s := range segments {
		path = strings.Replace(path, "%s", url.PathEscape(s), 1)
	}
	return &Request{Method: "GET", URL: a.account.BaseURL + path}
}

// post is a request with a JSON body.
func (a *asking) post(path string, body any) *Request {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // of a type that cannot be written
	}
	return &Request{Method: "POST", URL: a.account.BaseURL + path, Body: text, Header: map[string]string{"Content-Type": "application/json"}}
}

// document asks for an object by its id, and reads what it says.
func (a *asking) document(document, path, id string) result {
	_, out := a.open(document, path, id)
	return out
}

// open is document, with the answer for who must look at more of it; nil if there is
// none yet, or none that can be read.
func (a *asking) open(document, path, id string) ([]byte, result) {
	if !askable(id) {
		return nil, unaskable(id)
	}
	body, ok := a.ask(a.get(path, id))
	if !ok {
		return nil, result{}
	}
	out := a.read(document, id, body)
	if out.outcome != 0 {
		return nil, out
	}
	return body, out
}

// onward is what a list's page leads to: the address of the next one below the
// account's, or nothing after the last.
type onward func(page []byte, items []json.RawMessage) (path string, err error)

// list is every item at a path of a list, which may have pages; an empty path is the
// answer itself. If it is not ok, the run ends with the result: half a list decides nothing.
func (a *asking) list(first, at string, next onward) (all []json.RawMessage, end result, ok bool) {
	end, ok = a.walk(first, at, next, func(_ []byte, items []json.RawMessage) result {
		all = append(all, items...)
		return result{}
	})
	return all, end, ok
}

// walk shows every page of a list with its items. If it is not ok, the run ends with
// the result, which is that of a page that was no answer.
func (a *asking) walk(first, at string, next onward, show func(page []byte, items []json.RawMessage) result) (end result, ok bool) {
	for path := first; ; {
		page, ok := a.ask(&Request{Method: "GET", URL: a.account.BaseURL + path})
		if !ok {
			return result{}, false
		}
		items, found, err := listAt(page, at)
		switch {
		case err != nil:
			return unreadable(err), false
		case !found:
			return unreadable(errNoList), false
		}
		if end = show(page, items); end.outcome != 0 {
			return end, false
		}
		more, err := next(page, items)
		switch {
		case err != nil:
			return unreadable(err), false
		case more == "":
			return result{}, true
		case more == path:
			return unreadable(errCircle), false
		}
		path = more
	}
}

// onePage is of lists that have no pages.
func onePage([]byte, []json.RawMessage) (string, error) { return "", nil }

// following leads through a list by the cursor at a path of each page, which the last
// one has not.
func following(first, parameter, path string) onward {
	return func(page []byte, _ []json.RawMessage) (string, error) {
		if next := text(page, path); next != "" {
			return first + "&" + parameter + "=" + url.QueryEscape(next), nil
		}
		return "", nil
	}
}

// skipping leads through a list by how many items were seen: until there is a page
// that is empty, or all are there that the list says there are.
func skipping(first, parameter string) onward {
	seen := 0
	return func(page []byte, items []json.RawMessage) (string, error) {
		seen += len(items)
		total, err := strconv.Atoi(cmp.Or(text(page, "total_count"), text(page, "paging.total")))
		if len(items) == 0 || err == nil && seen >= total {
			return "", nil
		}
		return first + "&" + parameter + "=" + strconv.Itoa(seen), nil
	}
}

// each reads every item of a list as a document; a fact of another payment makes it
// another list. An empty payment is any.
func (a *asking) each(document, payment string, items []json.RawMessage) (out result) {
	for _, item := range items {
		one := a.read(document, "", item)
		if one.outcome != 0 {
			return one
		}
		for _, f := range one.facts {
			if payment != "" && f.Payment != payment {
				return another
			}
		}
		out.facts = append(out.facts, one.facts...)
	}
	return out
}

// of keeps what belongs to the order that was asked about: a search may find more than
// it was asked for. What names no order was found by the order's own id.
func (r result) of(order string) result {
	kept := r.facts[:0]
	for _, f := range r.facts {
		if f.Order == "" {
			f.Order = order
		}
		if f.Order == order {
			kept = append(kept, f)
		}
	}
	r.facts = kept
	return r
}

// noPayment is how a look-up by an order ends that has none: it may come.
var noPayment = result{outcome: Unknown, why: "the provider knows no payment of this order"}

// byPath is why an order cannot be asked about whose id lies where nobody can search.
func byPath(a *asking) result {
	return result{outcome: Pointless, why: "the provider cannot search by " + a.account.Settings["order"]}
}

// decoded reads an object into a value; false if it is none.
func decoded(object []byte, into any) bool {
	return json.Unmarshal(object, into) == nil && !bytes.Equal(bytes.TrimSpace(object), []byte("null"))
}

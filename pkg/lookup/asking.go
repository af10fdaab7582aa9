package lookup

import (
	"encoding/json"
	"net/url"
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

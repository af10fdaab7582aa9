package provider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Lists answers where providers list what happened, as each documents: by time, page
// by page, with its bounds. What it does not list goes to API.
type Lists struct {
	API http.Handler
	// Provider is whose lists they are. Header and Value are the credential, as
	// Documents has it; without a Header API has judged it.
	Provider, Header, Value string
	// Size is the most items of a page; 0: the provider's own maximum.
	Size int

	mu    sync.Mutex
	items map[string][]listed
}

type listed struct {
	id, document string
	at           time.Time
}

// Put adds a document to the list at a path, with its id and the time by which the
// list goes.
func (l *Lists) Put(path, id string, at time.Time, document string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.items == nil {
		l.items = map[string][]listed{}
	}
	l.items[path] = slices.DeleteFunc(l.items[path], func(i listed) bool { return i.id == id })
	l.items[path] = append(l.items[path], listed{id, document, at})
}

// paged is one page that a list was asked for.
type paged struct {
	items  []listed // of the span, in the list's order
	from   int      // the first on the page
	size   int
	query  url.Values
	path   string
	of     *http.Request
	refuse string // why the request is wrong; empty if it is not
}

func (p paged) page() []listed { return p.items[min(p.from, len(p.items)):p.end()] }
func (p paged) end() int       { return min(p.from+p.size, len(p.items)) }
func (p paged) more() bool     { return p.end() < len(p.items) }

func (p paged) documents() []json.RawMessage {
	out := []json.RawMessage{}
	for _, i := range p.page() {
		out = append(out, json.RawMessage(i.document))
	}
	return out
}

// link is the address of the next page with one parameter set.
func (p paged) link(name, value string) string {
	q := clone(p.query)
	q.Set(name, value)
	return "http://" + p.of.Host + p.path + "?" + q.Encode()
}

func clone(q url.Values) url.Values {
	out := url.Values{}
	for k, v := range q {
		out[k] = v
	}
	return out
}

// behind begins behind the item with an id.
func (p *paged) behind(id string, including bool) {
	if id == "" {
		return
	}
	i := slices.IndexFunc(p.items, func(x listed) bool { return x.id == id })
	if i < 0 {
		p.refuse = "no such cursor"
		return
	}
	p.from = i + 1
	if including {
		p.from = i
	}
}

func (p *paged) skip(name string) {
	if text := p.query.Get(name); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			p.refuse = name + " is no number"
		}
		p.from = n
	}
}

// style is how one provider lists.
type style struct {
	paths              []string
	limit              string // the parameter, and the most it may say
	most, usual        int
	since, until       string // the parameters; empty: it knows no span
	read               func(string) (time.Time, error)
	newest, wholeDays  bool
	including          bool // until is of the span, too
	begin              func(*paged)
	answer             func(paged) any
	types              string // the parameter that asks for types
	typeOf, typeJoined string
}

func seconds(text string) (time.Time, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(n, 0), err
}
func stamp(text string) (time.Time, error) { return time.Parse(time.RFC3339, text) }
func date(text string) (time.Time, error)  { return time.Parse(time.DateOnly, text) }

func last(p paged) string {
	page := p.page()
	return page[len(page)-1].id
}

func plain(why string) any { return map[string]any{"error": map[string]any{"message": why}} }

var styles = map[string]style{
	"stripe": {paths: []string{"/v1/events"}, limit: "limit", most: 100, usual: 10, since: "created[gte]", until: "created[lt]", read: seconds, newest: true,
		types: "types[]", typeOf: "type",
		begin: func(p *paged) { p.behind(p.query.Get("starting_after"), false) },
		answer: func(p paged) any {
			return map[string]any{"object": "list", "url": p.path, "has_more": p.more(), "data": p.documents()}
		}},
	"gocardless": {paths: []string{"/events"}, limit: "limit", most: 500, usual: 50, since: "created_at[gte]", until: "created_at[lt]", read: stamp, newest: true,
		types: "resource_type", typeOf: "resource_type",
		begin: func(p *paged) { p.behind(p.query.Get("after"), false) },
		answer: func(p paged) any {
			var after any
			if p.more() {
				after = last(p)
			}
			return map[string]any{"events": p.documents(), "meta": map[string]any{"limit": p.size, "cursors": map[string]any{"before": nil, "after": after}}}
		}},
	"paddle": {paths: []string{"/events"}, limit: "per_page", most: 200, usual: 50, newest: true, types: "event_type", typeOf: "event_type", typeJoined: ",",
		begin: func(p *paged) { p.behind(p.query.Get("after"), false) },
		answer: func(p paged) any {
			next := p.link("after", "")
			if len(p.page()) > 0 {
				next = p.link("after", last(p))
			}
			return map[string]any{"data": p.documents(), "meta": map[string]any{"pagination": map[string]any{"per_page": p.size, "next": next, "has_more": p.more(), "estimated_total": len(p.items)}}}
		}},
	"paypal": {paths: []string{"/v1/notifications/webhooks-events"}, limit: "page_size", most: 300, usual: 10, since: "start_time", until: "end_time", read: stamp, newest: true, including: true,
		begin: func(p *paged) { p.behind(p.query.Get("start_id"), true) },
		answer: func(p paged) any {
			links := []any{map[string]any{"href": "http://" + p.of.Host + p.of.URL.RequestURI(), "rel": "self", "method": "GET"}}
			if p.more() {
				links = append(links, map[string]any{"href": p.link("start_id", p.items[p.end()].id), "rel": "next", "method": "GET"})
			}
			return map[string]any{"events": p.documents(), "count": len(p.page()), "links": links}
		}},
	"square": {paths: []string{"/v2/payments", "/v2/refunds"}, limit: "limit", most: 100, usual: 100, since: "updated_at_begin_time", until: "updated_at_end_time", read: stamp,
		begin: func(p *paged) { p.behind(p.query.Get("cursor"), false) },
		answer: func(p paged) any {
			_, name, _ := strings.Cut(p.path, "/v2/")
			out := map[string]any{name: p.documents()}
			if p.more() {
				out["cursor"] = last(p)
			}
			return out
		}},
	"mollie": {paths: []string{"/v2/payments", "/v2/refunds", "/v2/chargebacks"}, limit: "limit", most: 250, usual: 50, newest: true,
		begin: func(p *paged) { p.behind(p.query.Get("from"), true) },
		answer: func(p paged) any {
			var next any
			if p.more() {
				next = map[string]any{"href": p.link("from", p.items[p.end()].id), "type": "application/hal+json"}
			}
			_, name, _ := strings.Cut(p.path, "/v2/")
			return map[string]any{"count": len(p.page()), "_embedded": map[string]any{name: p.documents()}, "_links": map[string]any{"previous": nil, "next": next}}
		}},
	"razorpay": {paths: []string{"/v1/payments", "/v1/refunds"}, limit: "count", most: 100, usual: 10, since: "from", until: "to", read: seconds, newest: true, including: true,
		begin: func(p *paged) { p.skip("skip") },
		answer: func(p paged) any {
			return map[string]any{"entity": "collection", "count": len(p.page()), "items": p.documents()}
		}},
	"yookassa": {paths: []string{"/v3/payments", "/v3/refunds"}, limit: "limit", most: 100, usual: 10, since: "created_at.gte", until: "created_at.lt", read: stamp, newest: true,
		begin: func(p *paged) { p.behind(p.query.Get("cursor"), false) },
		answer: func(p paged) any {
			out := map[string]any{"type": "list", "items": p.documents()}
			if p.more() {
				out["next_cursor"] = last(p)
			}
			return out
		}},
	"mercadopago": {paths: []string{"/v1/payments/search"}, limit: "limit", most: 1000, usual: 30, since: "begin_date", until: "end_date", read: stamp, including: true,
		begin: func(p *paged) { p.skip("offset") },
		answer: func(p paged) any {
			return map[string]any{"paging": map[string]any{"total": len(p.items), "limit": p.size, "offset": p.from}, "results": p.documents()}
		}},
	"flutterwave": {paths: []string{"/v3/transactions"}, most: 10, usual: 10, since: "from", until: "to", read: date, newest: true, wholeDays: true,
		begin: func(p *paged) {
			if p.skip("page"); p.from > 0 {
				p.from = (p.from - 1) * p.size
			}
		},
		answer: func(p paged) any {
			return map[string]any{"status": "success", "message": "Transactions fetched", "data": p.documents(), "meta": map[string]any{"page_info": map[string]any{
				"total": len(p.items), "current_page": p.from/p.size + 1, "total_pages": (len(p.items) + p.size - 1) / p.size}}}
		}},
}

func (l *Lists) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s, ok := styles[l.Provider]
	switch {
	case !ok || r.Method != http.MethodGet || !slices.Contains(s.paths, r.URL.Path):
		if l.API == nil {
			answer(w, http.StatusNotFound, plain("no such resource"))
			return
		}
		l.API.ServeHTTP(w, r)
		return
	case l.Header != "" && r.Header.Get(l.Header) != l.Value:
		answer(w, http.StatusUnauthorized, plain("the credential is not valid"))
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := s.asked(l, r)
	if p.refuse != "" {
		answer(w, http.StatusBadRequest, plain(p.refuse))
		return
	}
	answer(w, http.StatusOK, s.answer(p))
}

// asked reads a request for a page.
func (s style) asked(l *Lists, r *http.Request) paged {
	p := paged{query: r.URL.Query(), path: r.URL.Path, of: r, size: s.usual}
	if text := p.query.Get(s.limit); s.limit != "" && text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > s.most {
			p.refuse = fmt.Sprintf("%s must be 1 to %d", s.limit, s.most)
			return p
		}
		p.size = n
	}
	if l.Size > 0 {
		p.size = min(p.size, l.Size)
	}
	bound := func(name string, otherwise time.Time) time.Time {
		text := p.query.Get(name)
		if name == "" || text == "" {
			return otherwise
		}
		t, err := s.read(text)
		if err != nil {
			p.refuse = name + " has another form"
		}
		return t
	}
	since, until := bound(s.since, time.Time{}), bound(s.until, time.Unix(1<<40, 0))
	if s.wholeDays {
		until = until.AddDate(0, 0, 1)
	}
	var types []string
	for _, t := range p.query[s.types] {
		if s.typeJoined != "" {
			types = append(types, strings.Split(t, s.typeJoined)...)
		} else {
			types = append(types, t)
		}
	}
	for _, i := range l.items[r.URL.Path] {
		if i.at.Before(since) || i.at.After(until) || i.at.Equal(until) && !s.including {
			continue
		}
		if len(types) > 0 {
			var of map[string]any
			if json.Unmarshal([]byte(i.document), &of) == nil && !slices.Contains(types, fmt.Sprint(of[s.typeOf])) {
				continue
			}
		}
		p.items = append(p.items, i)
	}
	slices.SortStableFunc(p.items, func(a, b listed) int {
		if s.newest {
			a, b = b, a
		}
		return a.at.Compare(b.at)
	})
	s.begin(&p)
	return p
}

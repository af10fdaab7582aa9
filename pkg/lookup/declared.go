package lookup

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/declare"
	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// Declaration describes an API that needs no code: GET requests with JSON answers.
type Declaration struct {
	Auth Auth `yaml:"auth"`
	// Headers are sent with every request, such as an API's version.
	Headers map[string]string `yaml:"headers"`
	// Unknown are statuses by which it says that it knows no such object, beside 404
	// and 410.
	Unknown []int `yaml:"unknown"`
	// Payment are the requests about a payment, all of which are made. Object are those
	// about what a hint names that has no payment, such as a refund, and Order those by
	// the shop's order id; each payment that these find is then asked about by Payment.
	Payment []Asked `yaml:"payment"`
	Object  []Asked `yaml:"object"`
	Order   []Asked `yaml:"order"`
	// List are the lists of what happened in a span of time, all of which a sweep reads.
	List []Listed `yaml:"list"`
}

// Auth says how the credential is sent.
type Auth struct {
	// Scheme is "bearer" and "basic" in Authorization, or "header" for one by Name.
	Scheme string `yaml:"scheme"`
	// User is that of basic; without one the credential is the user, with no password.
	User string `yaml:"user"`
	Name string `yaml:"name"`
}

// Asked is one request, and what its answer states.
type Asked struct {
	// Path is below the address, with its query: {payment}, {object} or {order} is what is
	// asked about.
	Path string `yaml:"path"`
	// Pages says how a list goes on; without it there is one answer.
	Pages    *Pages     `yaml:"pages"`
	Readings []Document `yaml:"readings"`
}

// Document is one thing that an answer states, in the language of declared webhooks.
type Document struct {
	// Each leads to a list in the answer, and on to lists in its items: every item is
	// read as {"item": item, "of": answer}. Without it the answer itself is read, and its
	// id must be the one that was asked for.
	Each []string `yaml:"each"`
	// Given are paths without which nothing is stated.
	Given          []string `yaml:"given"`
	webhook.Layout `yaml:",inline"`
}

// Pages says how a list goes on: by one of Cursor with Parameter, Page, Skip and Link.
type Pages struct {
	// List leads to the list in an answer. An answer without it is none.
	List string `yaml:"list"`
	// Cursor leads to what Parameter must be for the next page, and to nothing in the
	// last one.
	Cursor    string `yaml:"cursor"`
	Parameter string `yaml:"parameter"`
	// Page is the parameter that numbers pages from 1, Skip the one for how many items
	// to pass over; an empty page is behind the last.
	Page string `yaml:"page"`
	Skip string `yaml:"skip"`
	// Link leads to the next page's address, of the same host and path.
	Link string `yaml:"link"`
}

// declaredRate is a declared API's until its endpoint says another: low enough for any.
const declaredRate = 2

// NewDeclared makes an API of a declaration, or reports everything that is wrong with it.
func NewDeclared(provider string, d Declaration) (API, error) {
	api := API{Provider: provider, Docs: "the endpoints file", Credential: "the credential of its API", Rate: declaredRate, Pending: longPending,
		ByPayment: len(d.Payment) > 0, ByOrder: len(d.Order) > 0, unknown: d.Unknown, run: d.run}
	var problems []error
	problem := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	switch a := d.Auth; {
	case !slices.Contains([]string{"bearer", "basic", "header"}, a.Scheme):
		problem("auth.scheme: %q is none of bearer, basic, header", a.Scheme)
	case (a.Scheme == "header") != (a.Name != ""):
		problem("auth.name: names the header of scheme header, and nothing else")
	case a.Name != "" && !headerName(a.Name):
		problem("auth.name: %q cannot be a header's", a.Name)
	case a.User != "" && a.Scheme != "basic":
		problem("auth.user: is only for scheme basic")
	}
	for name, value := range d.Headers {
		if !headerName(name) || strings.EqualFold(name, "authorization") || strings.EqualFold(name, d.Auth.Name) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			problem("headers.%s: is no header of its own: the credential is said by auth", name)
		}
	}
	for _, s := range d.Unknown {
		if s < 400 || s > 499 || slices.Contains([]int{401, 403, 408, 429}, s) {
			problem("unknown: %d: use statuses from 400 to 499, and none of 401, 403, 408, 429", s)
		}
	}
	documents, decides := map[string][]statement{}, false
	for _, group := range d.groups() {
		for i, r := range group.requests {
			at := fmt.Sprintf("%s[%d]", group.name, i)
			r.check(group.name, func(format string, args ...any) { problem(at+"."+format, args...) })
			for j, doc := range r.Readings {
				reading := fmt.Sprintf("%s.readings[%d]", at, j)
				if _, err := webhook.NewReader(doc.Layout, doc.Given...); err != nil {
					for _, err := range declare.Each(err) {
						problem("%s.%s", reading, strings.TrimPrefix(err.Error(), "reading."))
					}
				}
				if doc.Body != "" || doc.Trust != "" || doc.ChangedBody != "" || doc.TimeRepeats {
					problem("%s: body, trust, changed_body and time_repeats are of webhooks: remove them", reading)
				}
				decides = decides || slices.ContainsFunc(doc.Facts, func(f webhook.Fact) bool { return f.Kind != order.KindPending })
				documents[at] = append(documents[at], statement{each: doc.Each, given: doc.Given, layout: doc.Layout})
			}
		}
	}
	if len(d.List) > 0 {
		api.listing = d.listing(documents, problem)
	}
	switch {
	case len(d.Payment)+len(d.Object)+len(d.Order) == 0:
		problem("payment: no request: say how a payment is asked for, or an order")
	case !decides:
		problem("payment: no reading states a fact that decides anything: nothing would ever be learnt")
	}
	if len(problems) > 0 {
		return API{}, errors.Join(problems...)
	}
	api.auth = d.auth
	api.readers = func(Account) (readers, error) { return compile(documents) }
	return api, nil
}

type group struct {
	name     string
	requests []Asked
}

func (d Declaration) groups() []group {
	return []group{{"payment", d.Payment}, {"object", d.Object}, {"order", d.Order}}
}

func (r Asked) check(what string, problem func(string, ...any)) {
	placeholder := "{" + what + "}"
	switch rest := strings.ReplaceAll(r.Path, placeholder, ""); {
	case !strings.HasPrefix(r.Path, "/") || strings.HasPrefix(r.Path, "//"):
		problem("path: %q does not begin with one /: it is below base_url", r.Path)
	case rest == r.Path:
		problem("path: %q does not hold %s, which is asked about", r.Path, placeholder)
	case strings.ContainsAny(rest, "{}# ") || strings.Contains(rest, ".."):
		problem("path: %q holds what is no path, or another placeholder than %s", r.Path, placeholder)
	}
	if len(r.Readings) == 0 {
		problem("readings: missing: say what the answer states")
	}
	if r.Pages != nil {
		r.Pages.check(problem)
	}
}

func (p Pages) check(problem func(string, ...any)) {
	ways := 0
	for _, way := range []string{p.Cursor, p.Page, p.Skip, p.Link} {
		if way != "" {
			ways++
		}
	}
	if p.List == "" {
		problem("pages.list: missing: say where in an answer the list is")
	}
	if ways != 1 {
		problem("pages: give one of cursor, page, skip and link")
	}
	if (p.Cursor != "") != (p.Parameter != "") {
		problem("pages.parameter: is for the cursor, which needs it")
	}
}

func (d Declaration) auth(a Account, now time.Time) map[string]string {
	h := map[string]string{}
	switch d.Auth.Scheme {
	case "bearer":
		h = bearer(a, now)
	case "basic":
		if h = basic(a.Secret, ""); d.Auth.User != "" {
			h = basic(d.Auth.User, a.Secret)
		}
	case "header":
		h[d.Auth.Name] = a.Secret
	}
	maps.Copy(h, d.Headers)
	return h
}

func (d Declaration) run(a *asking) result {
	var found result
	switch t := a.target; {
	case t.Payment != "" && len(d.Payment) > 0:
		return d.ask(a, "payment", d.Payment, t.Payment)
	case t.Subject != "" && len(d.Object) > 0:
		found = d.ask(a, "object", d.Object, t.Subject)
	case t.Order != "" && len(d.Order) > 0:
		found = d.ask(a, "order", d.Order, t.Order)
		found.facts = found.of(t.Order).facts
	default:
		return unaskable("")
	}
	if found.outcome != 0 || a.next != nil {
		return found
	}
	var payments []string
	for _, f := range found.facts {
		if f.Payment != "" && !slices.Contains(payments, f.Payment) {
			payments = append(payments, f.Payment)
		}
	}
	for _, id := range payments {
		if len(d.Payment) == 0 {
			break
		}
		// What it says of itself goes before what a list says of it.
		one := d.ask(a, "payment", d.Payment, id)
		if found = one.and(found); found.outcome != 0 || a.next != nil {
			return found
		}
	}
	if len(found.facts) == 0 {
		return noPayment
	}
	return found
}

// ask makes all requests about an id.
func (d Declaration) ask(a *asking, what string, requests []Asked, id string) (out result) {
	if !askable(id) {
		return unaskable(id)
	}
	for i, r := range requests {
		document, own := fmt.Sprintf("%s[%d]", what, i), id
		if what == "order" {
			own = "" // its documents have ids of their own
		}
		path, query, has := strings.Cut(r.Path, "?")
		first := strings.ReplaceAll(path, "{"+what+"}", url.PathEscape(id))
		if has {
			first += "?" + strings.ReplaceAll(query, "{"+what+"}", url.QueryEscape(id))
		}
		read := func(page []byte, _ []json.RawMessage) result {
			one := a.read(document, own, page)
			for i := range one.facts {
				f := &one.facts[i]
				if what == "payment" && cmp.Or(f.Payment, id) != id {
					one = another
					break
				}
				if what == "payment" {
					f.Payment = id
				}
			}
			out = out.and(one)
			return out
		}
		if r.Pages == nil {
			body, ok := a.ask(&Request{Method: "GET", URL: a.account.BaseURL + first})
			if !ok {
				return result{}
			}
			if out = read(body, nil); out.outcome != 0 {
				return out
			}
			continue
		}
		if end, ok := a.walk(first, r.Pages.List, r.Pages.onward(a.account.BaseURL, first), read); !ok {
			return end
		}
	}
	return out
}

// onward is how a declared list goes on.
func (p Pages) onward(base, first string) onward {
	add := func(parameter, value string) string {
		joint := "?"
		if strings.Contains(first, "?") {
			joint = "&"
		}
		return first + joint + url.QueryEscape(parameter) + "=" + url.QueryEscape(value)
	}
	pages, seen := 1, 0
	return func(page []byte, items []json.RawMessage) (string, error) {
		pages, seen = pages+1, seen+len(items)
		switch {
		case p.Link != "":
			return sameList(base, first, text(page, p.Link))
		case p.Cursor != "":
			if next := text(page, p.Cursor); next != "" {
				return add(p.Parameter, next), nil
			}
		case len(items) == 0:
		case p.Page != "":
			return add(p.Page, strconv.Itoa(pages)), nil
		default:
			return add(p.Skip, strconv.Itoa(seen)), nil
		}
		return "", nil
	}
}

var errElsewhere = errors.New("a page of the answer leads to another host or list")

// sameList is what a page's link adds to a list's address: credentials go along, so it
// leads nowhere else.
func sameList(base, first, link string) (string, error) {
	if link == "" {
		return "", nil
	}
	own, err := url.Parse(base + first)
	if err != nil {
		return "", errElsewhere
	}
	next, err := own.Parse(link)
	if err != nil || next.Scheme != own.Scheme || next.Host != own.Host || next.Path != own.Path || next.User != nil {
		return "", errElsewhere
	}
	path, _, _ := strings.Cut(first, "?")
	return path + "?" + next.RawQuery, nil
}

// headerName says whether a text can name a header (RFC 9110, 5.1).
func headerName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

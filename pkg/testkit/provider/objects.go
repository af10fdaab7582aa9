package provider

import (
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Objects is a provider's API over payments, refunds, disputes and orders: it judges
// the credential, gives objects by their paths, and lists those of a payment or of an
// order, page by page, with its errors in the provider's own form. manners.go says how
// each provider does it.
type Objects struct {
	// Provider is whose API it is; Secret the credential, User what goes with it in HTTP
	// Basic (Razorpay's key id, YooKassa's shop id).
	Provider, Secret, User string
	// Size is the most items of a page; 0: as many as the request says.
	Size int
	// Else answers what is neither an object nor a list of them, such as Lists.
	Else http.Handler

	mu      sync.Mutex
	quiet   string
	objects map[string]json.RawMessage
	order   []string // the paths, in the order in which they were put
	refused int
}

// Put sets the object at a path, for example /v1/refunds/re_1.
func (o *Objects) Put(path, object string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.objects == nil {
		o.objects = map[string]json.RawMessage{}
	}
	if _, known := o.objects[path]; !known {
		o.order = append(o.order, path)
	}
	o.objects[path] = json.RawMessage(object)
}

// Quiet makes it answer 429 in its own form, with this Retry-After; empty ends that.
func (o *Objects) Quiet(retryAfter string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.quiet = retryAfter
}

// Refused is how many requests had another credential.
func (o *Objects) Refused() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.refused
}

func (o *Objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := manners[o.Provider]
	switch {
	case !m.authentic(o, r):
		o.refused++
		m.refusal.answer(w, "")
	case o.quiet != "":
		w.Header().Set("Retry-After", o.quiet)
		m.busy.answer(w, "")
	case r.Method != http.MethodGet:
		m.missing.answer(w, r.URL.Path)
	default:
		o.get(w, r, m)
	}
}

func (o *Objects) get(w http.ResponseWriter, r *http.Request, m manner) {
	for _, l := range m.lists {
		if value, ok := l.asks(r.URL); ok {
			o.list(w, r, l, value)
			return
		}
	}
	at := r.URL.Path
	if m.at != nil {
		at = m.at(at)
	}
	object, ok := o.objects[at]
	switch {
	case ok && m.wrap != nil:
		answer(w, http.StatusOK, map[string]any{m.wrap(at): expanded(o, object, r.URL.Query()["expand[]"], "")})
	case ok:
		answer(w, http.StatusOK, expanded(o, object, r.URL.Query()["expand[]"], ""))
	case o.Else != nil:
		o.Else.ServeHTTP(w, r)
	default:
		m.missing.answer(w, path.Base(at))
	}
}

// expanded has Stripe's charge in the place of its id, if that was asked for.
func expanded(o *Objects, object json.RawMessage, wanted []string, under string) json.RawMessage {
	if !slices.Contains(wanted, under+"latest_charge") {
		return object
	}
	var fields map[string]json.RawMessage
	var id string
	if json.Unmarshal(object, &fields) != nil || json.Unmarshal(fields["latest_charge"], &id) != nil || o.objects["/v1/charges/"+id] == nil {
		return object
	}
	fields["latest_charge"] = o.objects["/v1/charges/"+id]
	out, _ := json.Marshal(fields)
	return out
}

func (o *Objects) list(w http.ResponseWriter, r *http.Request, l filtered, value string) {
	p := paged{query: r.URL.Query(), path: r.URL.Path, of: r, size: l.usual}
	if text := p.query.Get(l.limit); l.limit != "" && text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > l.most {
			manners[o.Provider].invalid.answer(w, l.limit)
			return
		}
		p.size = n
	}
	if o.Size > 0 && l.begin != nil {
		p.size = min(p.size, o.Size)
	}
	for _, at := range o.order {
		if path.Dir(at) == l.from && text(o.objects[at], l.field) == value {
			object := expanded(o, o.objects[at], p.query["expand[]"], "data.")
			p.items = append(p.items, listed{id: path.Base(at), document: string(object)})
		}
	}
	if l.begin != nil {
		l.begin(&p)
	}
	if p.refuse != "" {
		manners[o.Provider].invalid.answer(w, p.refuse)
		return
	}
	answer(w, http.StatusOK, l.answer(p))
}

// filtered is a list of what belongs to something: by a parameter of its query, or by a
// part of its path, {value}.
type filtered struct {
	path, parameter string
	// value takes it out of the parameter, where that says more.
	value func(string) (string, bool)
	// from is where the objects lie, field what must be the value.
	from, field string
	// limit is the parameter for a page's size, most the most it may say, usual its size
	// without.
	limit       string
	most, usual int
	// begin finds the page's first item; nil: the list has no pages.
	begin  func(*paged)
	answer func(paged) any
}

// asks is the value that a request filters by.
func (l filtered) asks(u *url.URL) (string, bool) {
	if before, after, ok := strings.Cut(l.path, "{value}"); ok {
		rest, begins := strings.CutPrefix(u.Path, before)
		value, ends := strings.CutSuffix(rest, after)
		return value, begins && ends && value != "" && !strings.Contains(value, "/")
	}
	value := u.Query().Get(l.parameter)
	if u.Path != l.path || value == "" {
		return "", false
	}
	if l.value != nil {
		return l.value(value)
	}
	return value, true
}

// text is the text or number at a path of keys joined by dots.
func text(object json.RawMessage, at string) string {
	for key := range strings.SplitSeq(at, ".") {
		var fields map[string]json.RawMessage
		if json.Unmarshal(object, &fields) != nil {
			return ""
		}
		object = fields[key]
	}
	var s string
	if json.Unmarshal(object, &s) == nil {
		return s
	}
	return string(object)
}

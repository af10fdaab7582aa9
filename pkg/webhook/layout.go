package webhook

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// Layout says where a provider's webhooks state what Sluice reads, and what each
// event type means. It is data: a built-in provider has it in its file, a declared
// one in the endpoints file.
type Layout struct {
	// Body is "json", the default, or "form" for application/x-www-form-urlencoded,
	// whose paths are the names of its fields. JSON may also come as the one field
	// payload of a form.
	Body string `yaml:"body"`
	// ID and Type are required in every webhook; the rest may be absent. Only these two
	// may be made of several places, "event + data.id": see joinID.
	ID   Paths `yaml:"id"`
	Type Paths `yaml:"type"`
	// Time is an integer of Unix time in TimeUnit ("s", the default, or "ms"), or
	// RFC 3339 text. "rfc3339" takes only the text. With TimeFormat it is text in
	// that format of package time, at the offset TimeZone (default UTC) if the format
	// has none.
	Time       Paths  `yaml:"time"`
	TimeUnit   string `yaml:"time_unit"`
	TimeFormat string `yaml:"time_format"`
	TimeZone   string `yaml:"time_zone"`
	// TimeRepeats: every delivery of one event states the same time.
	TimeRepeats bool `yaml:"time_repeats"`
	// ChangedBody is what an id that comes again with another reading means: "final",
	// the default, or "update". An update needs a time in the body that changes with it.
	ChangedBody string `yaml:"changed_body"`
	// Trust is Signed, the default, or Hint where the signature leaves out what decides.
	Trust event.Trust `yaml:"trust"`
	// Mode is true or "live", or false or "test".
	Mode Paths `yaml:"mode"`
	// Order, Payment and Object are the ids that a fact belongs to (Reading).
	// Subject is the id of what the event is about; only shown.
	Order   Paths `yaml:"order"`
	Payment Paths `yaml:"payment"`
	Object  Paths `yaml:"object"`
	Subject Paths `yaml:"subject"`
	// Amount and PaymentAmount are in AmountUnit: "minor", the default, for
	// integers of minor units, or "decimal" for exact decimals ("12.50"). Both may be
	// numbers or text.
	Amount        Paths  `yaml:"amount"`
	PaymentAmount Paths  `yaml:"payment_amount"`
	AmountUnit    string `yaml:"amount_unit"`
	Currency      Paths  `yaml:"currency"`
	// Places are the decimal places in which the provider counts a currency (upper
	// case), where they are not ISO 4217's.
	Places map[string]int `yaml:"places"`
	// Full and Partial are the provider's own word on a refund's extent, true or
	// false; Extent is the word "full" or "partial".
	Full    Paths `yaml:"full"`
	Partial Paths `yaml:"partial"`
	Extent  Paths `yaml:"extent"`
	// Facts says what event types mean; a type that is not in it means nothing.
	Facts []Fact `yaml:"facts"`
}

// Fact is the meaning of one event type. Of several rules for a type the first
// whose condition holds counts. Paths and trust replace the layout's for this type.
type Fact struct {
	Type string     `yaml:"type"`
	Kind order.Kind `yaml:"kind"`
	// When holds if each path has the value beside it, as text; beside "", if it says
	// nothing, and beside "*", if it says anything.
	When          map[string]string `yaml:"when"`
	Trust         event.Trust       `yaml:"trust"`
	Order         Paths             `yaml:"order"`
	Payment       Paths             `yaml:"payment"`
	Object        Paths             `yaml:"object"`
	Amount        Paths             `yaml:"amount"`
	PaymentAmount Paths             `yaml:"payment_amount"`
	Extent        Paths             `yaml:"extent"`
}

// Paths are places in a webhook, tried in order; the first that says something
// (not null, not "") counts. A place is one of
//
//	data.object.id           keys of the body
//	data.refunds.0.id        an element of an array, from 0
//	links[rel=up].href       the object in an array that has a value, or several (a=b,c=d);
//	                         two such objects are refused
//	sum:PATH                 of amounts: the sum over all such objects
//	header:NAME, query:NAME  a request header, a parameter of the request's URL
//	=TEXT                    always this text
//	last:PATH                what follows the last / of the text there
type Paths []string

// UnmarshalYAML takes one path or a list.
func (p *Paths) UnmarshalYAML(unmarshal func(any) error) error {
	var path string
	if unmarshal(&path) == nil {
		*p = Paths{path}
		return nil
	}
	return unmarshal((*[]string)(p))
}

// layout is a Layout made ready to read. Embedded, it is the part of a provider that
// reads.
type layout struct {
	source Layout
	fields fields

	id, typ                                  []places // each joined
	time, mode                               places
	subject, currency, full, partial, extent places
	order, payment, object, amounts          places // for types that mean nothing
	timeForm                                 timeForm
	timeRepeats, decimal, form               bool
	trust                                    event.Trust
	changedBody                              ChangedBody
	decimals                                 map[string]int
	facts                                    map[string][]fact
	needed                                   []string // headers, in lower case
}

type fact struct {
	kind                                                  order.Kind
	when                                                  []condition
	trust                                                 event.Trust
	order, payment, object, amount, paymentAmount, extent places
}

type condition struct {
	place place
	equal string
}

type places []place

// place is one of Paths.
type place struct {
	path   string
	source placeKind
	name   string // of the header or parameter; the constant's text
	index  int    // of the value of the body
	last   bool
	sum    bool
}

type placeKind uint8

const (
	inBody placeKind = iota
	inHeader
	inQuery
	constant
)

const (
	headerPrefix = "header:"
	queryPrefix  = "query:"
	lastPrefix   = "last:"
	sumPrefix    = "sum:"
	anything     = "*"
	plus         = " + " // between the places of one id
)

// place makes a path ready; what is of the body is wanted of the fields from now on.
func (c *layout) place(path string) (place, error) {
	p := place{path: path}
	rest := path
	rest, p.last = strings.CutPrefix(rest, lastPrefix)
	rest, p.sum = strings.CutPrefix(rest, sumPrefix)
	if rest == "" {
		return p, fmt.Errorf("path %q names nothing", path)
	}
	for prefix, kind := range map[string]placeKind{headerPrefix: inHeader, queryPrefix: inQuery, "=": constant} {
		if name, ok := strings.CutPrefix(rest, prefix); ok {
			if p.source, p.name = kind, name; name == "" {
				return p, fmt.Errorf("path %q names nothing", path)
			}
		}
	}
	var err error
	switch p.source {
	case inHeader:
		c.needed = append(c.needed, strings.ToLower(p.name))
	case inQuery:
		c.needed = append(c.needed, QueryHeader)
	case inBody:
		add := c.fields.add
		if c.form {
			add = c.fields.addKey
		}
		p.index, err = add(rest)
	}
	return p, err
}

// compile reports everything that is wrong with a layout, each with its key.
func (l Layout) compile() (*layout, error) {
	c := &layout{source: l, timeRepeats: l.TimeRepeats, decimals: l.Places, facts: map[string][]fact{}}
	var problems []error
	problem := func(format string, args ...any) { problems = append(problems, fmt.Errorf("reading."+format, args...)) }
	all := func(key string, ps Paths) (out places) {
		for _, path := range ps {
			p, err := c.place(path)
			if err != nil {
				problem("%s: %w", key, err)
			}
			if p.sum && !strings.HasSuffix(key, "amount") {
				problem("%s: path %q: only amounts can be summed", key, path)
			}
			out = append(out, p)
		}
		return out
	}
	trust := func(key string, own, common event.Trust) event.Trust {
		if own != "" && own != event.Signed && own != event.Hint {
			problem("%s: %q is neither signed nor hint", key, own)
		}
		return cmp.Or(own, common)
	}

	switch l.Body {
	case "", "json":
	case "form":
		c.form = true
	default:
		problem("body: %q is neither json nor form", l.Body)
	}
	joined := func(key string, ps Paths) (ways []places) {
		for _, path := range ps {
			ways = append(ways, all(key, strings.Split(path, plus)))
		}
		return ways
	}
	c.id, c.typ = joined("id", l.ID), joined("type", l.Type)
	c.time, c.mode = all("time", l.Time), all("mode", l.Mode)
	c.subject, c.currency = all("subject", l.Subject), all("currency", l.Currency)
	c.full, c.partial, c.extent = all("full", l.Full), all("partial", l.Partial), all("extent", l.Extent)
	c.order, c.payment, c.object = all("order", l.Order), all("payment", l.Payment), all("object", l.Object)
	c.amounts = all("amount", l.Amount)
	paymentAmount := all("payment_amount", l.PaymentAmount)
	c.trust = trust("trust", l.Trust, event.Signed)
	c.timeForm = newTimeForm(l, problem)
	if len(c.id) == 0 {
		problem("id: no path: say where the event's id is, for example `id` or `header:X-Event-Id`")
	}
	if len(c.typ) == 0 {
		problem("type: no path: say where the event's type is")
	}
	rule, ok := changedBodies[l.ChangedBody]
	if !ok {
		problem("changed_body: %q is neither final nor update", l.ChangedBody)
	}
	if c.changedBody = rule; rule == Update {
		// By a time of the delivery the copies of one reading would come out different.
		if len(l.Time) == 0 || slices.ContainsFunc(c.time, func(p place) bool { return p.source != inBody }) {
			problem("changed_body: update needs a time in the body: the latest reading counts")
		}
		if l.TimeRepeats {
			problem("time_repeats: cannot be true with changed_body: update, whose readings have times of their own")
		}
	}
	switch l.AmountUnit {
	case "", "minor":
	case "decimal":
		c.decimal = true
	default:
		problem("amount_unit: %q is neither minor nor decimal", l.AmountUnit)
	}
	for _, code := range slices.Sorted(maps.Keys(l.Places)) {
		if _, ok := order.Exponent(code); !ok || l.Places[code] < 0 || l.Places[code] > 4 {
			problem("places: %s: %d: give a currency of ISO 4217 in upper case 0 to 4 decimal places", code, l.Places[code])
		}
	}
	for i, f := range l.Facts {
		at := fmt.Sprintf("facts[%d] (%s)", i, f.Type)
		if f.Type == "" {
			problem("%s: no type", at)
		}
		if !stated(f.Kind) {
			problem("%s: kind: missing, or none of those that a provider states: %s", at, statedKinds())
		}
		or := func(key string, own Paths, common places) places {
			if len(own) > 0 {
				return all(at+": "+key, own)
			}
			return common
		}
		r := fact{
			kind: f.Kind, trust: trust(at+": trust", f.Trust, c.trust),
			order: or("order", f.Order, c.order), payment: or("payment", f.Payment, c.payment), object: or("object", f.Object, c.object),
			amount: or("amount", f.Amount, c.amounts), paymentAmount: or("payment_amount", f.PaymentAmount, paymentAmount), extent: or("extent", f.Extent, c.extent),
		}
		for _, path := range slices.Sorted(maps.Keys(f.When)) {
			r.when = append(r.when, condition{all(at+": when", Paths{path})[0], f.When[path]})
		}
		if len(r.order)+len(r.payment) == 0 {
			problem("%s: no path of an order or a payment: the fact would belong to nothing", at)
		}
		if r.needsAmount() && (len(r.amount) == 0 || len(c.currency) == 0) {
			problem("%s: no path of an amount or of its currency", at)
		}
		c.facts[f.Type] = append(c.facts[f.Type], r)
	}
	slices.Sort(c.needed)
	c.needed = slices.Compact(c.needed)
	return c, errors.Join(problems...)
}

// Places are the decimal places in which a built-in provider counts a currency, by its
// code, where they are not ISO 4217's: its API counts as its webhooks do.
func Places(provider string) map[string]int {
	if p, ok := builtin[provider].(interface{ places() map[string]int }); ok {
		return p.places()
	}
	return nil
}

func (c *layout) places() map[string]int { return c.decimals }

// TimeRepeats is Provider's.
func (c *layout) TimeRepeats() bool { return c.timeRepeats }

// ChangedBody is Provider's.
func (c *layout) ChangedBody() ChangedBody { return c.changedBody }

// withOrder is the layout with other places of the shop's order id, for every type.
func (c *layout) withOrder(at Paths) (*layout, error) {
	if len(at) == 0 {
		return c, errors.New("no path: say where the shop's order id is")
	}
	var problems []error
	for _, path := range at {
		scratch := layout{form: c.form}
		if _, err := scratch.place(path); err != nil {
			problems = append(problems, err)
		}
	}
	if len(problems) > 0 {
		return c, errors.Join(problems...)
	}
	l := c.source
	l.Order, l.Facts = at, slices.Clone(l.Facts)
	for i := range l.Facts {
		l.Facts[i].Order = nil
	}
	return l.compile()
}

// stated says whether a provider may state facts of that kind.
func stated(k order.Kind) bool {
	return k != order.KindNone && k != order.KindRegistered && !k.IsDecision()
}

func statedKinds() string {
	names := []string{order.KindPending.String()}
	for _, k := range order.Kinds() { // those that change an order
		if stated(k) {
			names = append(names, k.String())
		}
	}
	return strings.Join(names, ", ")
}

// OrderPaths is Ordered's.
func (c *layout) OrderPaths() (all Paths) {
	add := func(paths Paths) {
		for _, path := range paths {
			if !slices.Contains(all, path) {
				all = append(all, path)
			}
		}
	}
	add(c.source.Order)
	for _, f := range c.source.Facts {
		add(f.Order)
	}
	return all
}

// mustCompile is for the layouts of built-in providers.
func (l Layout) mustCompile() *layout {
	c, err := l.compile()
	if err != nil {
		panic(err)
	}
	return c
}

// headers names these headers and those that the layout reads, in lower case.
func (c *layout) headers(names ...string) []string {
	all := slices.Clone(c.needed)
	for _, name := range names {
		all = append(all, strings.ToLower(name))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// needsAmount: the fact moves money, and is believed: a hint's is asked for.
func (f fact) needsAmount() bool { return f.kind.MovesMoney() && f.trust != event.Hint }

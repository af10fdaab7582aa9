package webhook

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/pkg/order"
)

// Layout says where a provider's webhooks state what Sluice reads, and what each
// event type means. It is data: a built-in provider has it in its file, a declared
// one in the endpoints file.
type Layout struct {
	// ID and Type are required in every webhook; the rest may be absent.
	ID   Paths `yaml:"id"`
	Type Paths `yaml:"type"`
	// Time is an integer of Unix time in TimeUnit ("s", the default, or "ms"), or
	// RFC 3339 text.
	Time     Paths  `yaml:"time"`
	TimeUnit string `yaml:"time_unit"`
	// TimeRepeats: every delivery of one event states the same time.
	TimeRepeats bool `yaml:"time_repeats"`
	// ChangedBody is what an id that comes again with another reading means: "final",
	// the default, or "update". An update needs a time in the body that changes with it.
	ChangedBody string `yaml:"changed_body"`
	// Mode is true or "live", or false or "test".
	Mode Paths `yaml:"mode"`
	// Order, Payment and Object are the ids that a fact belongs to (Reading).
	// Subject is the id of what the event is about; only shown.
	Order   Paths `yaml:"order"`
	Payment Paths `yaml:"payment"`
	Object  Paths `yaml:"object"`
	Subject Paths `yaml:"subject"`
	// Amount and PaymentAmount are in AmountUnit: "minor", the default, for
	// integers of minor units, or "decimal" for exact decimals ("12.50").
	Amount        Paths  `yaml:"amount"`
	PaymentAmount Paths  `yaml:"payment_amount"`
	AmountUnit    string `yaml:"amount_unit"`
	Currency      Paths  `yaml:"currency"`
	// Places are the decimal places in which the provider counts a currency (upper
	// case), where they are not ISO 4217's.
	Places map[string]int `yaml:"places"`
	// Full and Partial are the provider's own word on a refund's extent: true or false.
	Full    Paths `yaml:"full"`
	Partial Paths `yaml:"partial"`
	// Facts says what event types mean; a type that is not in it means nothing.
	Facts []Fact `yaml:"facts"`
}

// Fact is the meaning of one event type. Of several rules for a type the first
// whose condition holds counts. Paths replace the layout's for this type.
type Fact struct {
	Type string     `yaml:"type"`
	Kind order.Kind `yaml:"kind"`
	// When holds if each path has the value beside it, as text.
	When          map[string]string `yaml:"when"`
	Order         Paths             `yaml:"order"`
	Payment       Paths             `yaml:"payment"`
	Object        Paths             `yaml:"object"`
	Amount        Paths             `yaml:"amount"`
	PaymentAmount Paths             `yaml:"payment_amount"`
}

// Paths are places in a webhook, tried in order; the first that says something
// (not null, not "") counts. A place is keys of the body joined by dots
// (data.object.id), or header:NAME.
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

// layout is a Layout made ready to read.
type layout struct {
	fields fields

	id, typ, time, mode              places
	subject, currency, full, partial places
	order, payment, object           places // for types that mean nothing
	timeUnit                         time.Duration
	timeRepeats, decimal             bool
	changedBody                      ChangedBody
	decimals                         map[string]int
	facts                            map[string][]fact
}

type fact struct {
	kind                                          order.Kind
	when                                          []condition
	order, payment, object, amount, paymentAmount places
}

type condition struct {
	place place
	equal string
}

type places []place

// place is one of Paths: a header, or a value of the body.
type place struct {
	path   string
	header string
	index  int
}

const headerPrefix = "header:"

// compile reports everything that is wrong with a layout.
func (l Layout) compile() (*layout, error) {
	c := &layout{timeRepeats: l.TimeRepeats, decimals: l.Places, facts: map[string][]fact{}}
	var problems []error
	problem := func(format string, args ...any) { problems = append(problems, fmt.Errorf("reading."+format, args...)) }
	at := func(path string) place {
		if name, ok := strings.CutPrefix(path, headerPrefix); ok {
			return place{path: path, header: name}
		}
		i, err := c.fields.add(path)
		if err != nil {
			problem("%w", err)
		}
		return place{path: path, index: i}
	}
	all := func(ps Paths) (out places) {
		for _, p := range ps {
			out = append(out, at(p))
		}
		return out
	}

	c.id, c.typ, c.time, c.mode = all(l.ID), all(l.Type), all(l.Time), all(l.Mode)
	c.subject, c.currency, c.full, c.partial = all(l.Subject), all(l.Currency), all(l.Full), all(l.Partial)
	c.order, c.payment, c.object = all(l.Order), all(l.Payment), all(l.Object)
	if len(c.id) == 0 {
		problem("id: no path: say where the event's id is, for example `id` or `header:X-Event-Id`")
	}
	if len(c.typ) == 0 {
		problem("type: no path: say where the event's type is")
	}
	switch l.TimeUnit {
	case "", "s":
		c.timeUnit = time.Second
	case "ms":
		c.timeUnit = time.Millisecond
	default:
		problem("time_unit: %q is neither s nor ms", l.TimeUnit)
	}
	rule, ok := changedBodies[l.ChangedBody]
	if !ok {
		problem("changed_body: %q is neither final nor update", l.ChangedBody)
	}
	if c.changedBody = rule; rule == Update {
		// By a time of the delivery the copies of one reading would come out different.
		if len(l.Time) == 0 || slices.ContainsFunc(l.Time, func(p string) bool { return strings.HasPrefix(p, headerPrefix) }) {
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
	for code, n := range l.Places {
		if _, ok := order.Exponent(code); !ok || n < 0 || n > 4 {
			problem("places: %s: %d: give a currency of ISO 4217 in upper case 0 to 4 decimal places", code, n)
		}
	}
	for i, f := range l.Facts {
		if f.Type == "" {
			problem("facts[%d]: no type", i)
		}
		if f.Kind == order.KindNone || f.Kind == order.KindRegistered || f.Kind.IsDecision() {
			problem("facts[%d] (%s): kind: missing, or one that no provider states", i, f.Type)
		}
		or := func(own, common Paths) places {
			if len(own) > 0 {
				return all(own)
			}
			return all(common)
		}
		r := fact{kind: f.Kind, order: or(f.Order, l.Order), payment: or(f.Payment, l.Payment), object: or(f.Object, l.Object),
			amount: or(f.Amount, l.Amount), paymentAmount: or(f.PaymentAmount, l.PaymentAmount)}
		for _, path := range slices.Sorted(maps.Keys(f.When)) {
			r.when = append(r.when, condition{at(path), f.When[path]})
		}
		if len(r.order)+len(r.payment) == 0 {
			problem("facts[%d] (%s): no path of an order or a payment: the fact would belong to nothing", i, f.Type)
		}
		if needsAmount(f.Kind) && (len(r.amount) == 0 || len(c.currency) == 0) {
			problem("facts[%d] (%s): no path of an amount or of its currency", i, f.Type)
		}
		c.facts[f.Type] = append(c.facts[f.Type], r)
	}
	return c, errors.Join(problems...)
}

// mustCompile is for the layouts of built-in providers.
func (l Layout) mustCompile() *layout {
	c, err := l.compile()
	if err != nil {
		panic(err)
	}
	return c
}

// headers names the headers the layout reads, in lower case.
func (c *layout) headers() (names []string) {
	for _, ps := range []places{c.id, c.typ, c.time, c.mode, c.subject, c.currency, c.order, c.payment, c.object} {
		for _, p := range ps {
			if p.header != "" {
				names = append(names, strings.ToLower(p.header))
			}
		}
	}
	slices.SortFunc(names, cmp.Compare[string])
	return slices.Compact(names)
}

// needsAmount: the kinds that move money.
func needsAmount(k order.Kind) bool { return k.MovesMoney() }

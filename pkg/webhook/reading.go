package webhook

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// read reads a body by the layout. The id and the type must be readable. A type
// that means nothing is read no further than is safe: nothing else in it can
// make it unreadable. A type that states a fact is refused unless everything the
// fact needs is there, exactly.
func (c *layout) read(header Headers, body []byte) (Reading, error) {
	values, err := c.fields.scan(body)
	if err != nil {
		return Reading{}, err
	}
	p := page{header: header, values: values}
	r := Reading{Trust: event.Signed}
	r.ID = need(&p, c.id, "id", value.id)
	r.Type = need(&p, c.typ, "type", value.name)
	if p.err != nil {
		return Reading{}, p.err
	}
	f, err := c.fact(&p, r.Type)
	if err != nil {
		return Reading{}, err
	}
	r.Fact = f.kind
	r.Time = take(&p, c.time, func(v value) (time.Time, error) { return v.time(c.timeUnit) })
	r.Mode = take(&p, c.mode, value.mode)
	r.Order = take(&p, f.order, value.id)
	r.Payment = take(&p, f.payment, value.id)
	r.Object = take(&p, f.object, value.id)
	r.Subject = take(&p, c.subject, value.id)
	if f.kind == order.KindNone {
		return r, nil
	}
	c.money(&p, f, &r)
	r.Extent = c.extent(&p)
	switch {
	case p.err != nil:
		return Reading{}, p.err
	case r.Order == "" && r.Payment == "":
		return Reading{}, errors.New("the event names neither an order nor a payment")
	}
	if r.Object == "" && (f.kind == order.KindRefund || f.kind == order.KindRefundFailed) {
		r.Object = r.ID // a refund without an id is told apart by its event
	}
	return r, nil
}

// fact finds the rule for a type; the zero rule, with the layout's own paths,
// where nothing applies. A condition on a value that is broken refuses the body:
// the fact may be there, and would be lost.
func (c *layout) fact(p *page, typ string) (fact, error) {
rules:
	for _, f := range c.facts[typ] {
		for _, w := range f.when {
			v, _ := p.find(places{w.place})
			if !v.given() {
				continue rules
			}
			s, err := v.scalar()
			if err != nil {
				return fact{}, fmt.Errorf("%s %w", w.place.path, err)
			}
			if s != w.equal {
				continue rules
			}
		}
		return f, nil
	}
	return fact{order: c.order, payment: c.payment, object: c.object}, nil
}

func (c *layout) money(p *page, f fact, r *Reading) {
	r.Currency = take(p, c.currency, value.currency)
	if r.Currency == "" {
		// Without its currency a number is no amount.
		if needsAmount(f.kind) {
			p.fail("the event states no currency")
		}
		return
	}
	amount := func(v value) (int64, error) { return c.amount(v, r.Currency) }
	if needsAmount(f.kind) {
		r.Amount = need(p, f.amount, "amount", amount)
	} else {
		r.Amount = take(p, f.amount, amount)
	}
	r.PaymentAmount = take(p, f.paymentAmount, amount)
}

func (c *layout) extent(p *page) Extent {
	full, fullGiven := given(p, c.full, value.bool)
	partial, partialGiven := given(p, c.partial, value.bool)
	switch {
	case fullGiven && full, partialGiven && !partial:
		return Full
	case fullGiven, partialGiven:
		return Partial
	}
	return ExtentUnknown
}

// page is one webhook being read. err is the first thing that could not be read.
type page struct {
	header Headers
	values []value
	err    error
}

func (p *page) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// find is the first value that says something, and its path.
func (p *page) find(places places) (value, string) {
	for _, at := range places {
		v := value{}
		if at.header == "" {
			v = p.values[at.index]
		} else if vs := p.header(at.header); len(vs) == 1 {
			v = value{kind: plain, raw: []byte(vs[0])}
		} else if len(vs) > 1 {
			p.fail("header %s comes %d times", at.header, len(vs))
		}
		if v.given() {
			return v, at.path
		}
	}
	return value{}, ""
}

// given reads a value, and says whether there was one.
func given[T any](p *page, at places, as func(value) (T, error)) (t T, ok bool) {
	v, path := p.find(at)
	if !v.given() {
		return t, false
	}
	t, err := as(v)
	if err != nil {
		p.fail("%s %w", path, err)
		var zero T
		return zero, false
	}
	return t, true
}

// take reads a value that may be absent.
func take[T any](p *page, at places, as func(value) (T, error)) T {
	t, _ := given(p, at, as)
	return t
}

// need reads a value that must be there.
func need[T any](p *page, at places, what string, as func(value) (T, error)) T {
	t, ok := given(p, at, as)
	if !ok {
		p.fail("the event states no %s", what)
	}
	return t
}

func (v value) mode() (event.Mode, error) {
	if v.kind == boolean {
		if v.raw[0] == 't' {
			return event.Live, nil
		}
		return event.Test, nil
	}
	s, err := v.text()
	if m := event.Mode(s); err == nil && (m == event.Live || m == event.Test) {
		return m, nil
	}
	return "", errNotMode
}

// currency is the ISO 4217 code in upper case, whatever case it came in (O18). A
// code that is not in the standard's list is refused: its minor unit is unknown.
func (v value) currency() (string, error) {
	s, err := v.text()
	if err != nil {
		return "", errNotCode
	}
	s = strings.ToUpper(s)
	if _, ok := order.Exponent(s); !ok {
		return "", errNotCode
	}
	return s, nil
}

// amount is minor units of the currency, exact: no float ever touches it. A
// decimal may be text or a JSON number, whose digits are read as they stand.
func (c *layout) amount(v value, currency string) (int64, error) {
	if c.decimal {
		s, err := v.scalar()
		if err != nil {
			return 0, err
		}
		return order.ParseDecimal(s, currency)
	}
	n, err := v.integer()
	switch {
	case err != nil:
		return 0, err
	case n < 0:
		return 0, errNegative
	}
	if places, ok := c.decimals[currency]; ok {
		standard, _ := order.Exponent(currency)
		return rescale(n, places, standard)
	}
	return n, nil
}

// rescale counts n in to decimal places, not from, or refuses: it never rounds.
func rescale(n int64, from, to int) (int64, error) {
	for ; from > to; from-- {
		if n%10 != 0 {
			return 0, errFraction
		}
		n /= 10
	}
	for ; from < to; from++ {
		if n > math.MaxInt64/10 {
			return 0, errNotInteger
		}
		n *= 10
	}
	return n, nil
}

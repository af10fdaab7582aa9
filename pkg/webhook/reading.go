package webhook

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// Read is Provider's. The id and the type must be readable. A type that means nothing
// is read no further than is safe: nothing else in it can make it unreadable. A type
// that states a fact is refused unless everything the fact needs is there, exactly.
func (c *layout) Read(header Headers, body []byte) (Reading, error) {
	values, err := c.scan(body)
	if err != nil {
		return Reading{}, err
	}
	return c.readValues(header, values)
}

// readValues is Read, of the wanted values of a body that was scanned otherwise.
func (c *layout) readValues(header Headers, values []value) (Reading, error) {
	p := page{header: header, values: values}
	r := Reading{}
	r.ID = p.joined(c.id, "id", value.id)
	r.Type = p.joined(c.typ, "type", value.name)
	if p.err != nil {
		return Reading{}, p.err
	}
	f, err := c.fact(&p, r.Type)
	if err != nil {
		return Reading{}, err
	}
	r.Fact, r.Trust = f.kind, f.trust
	r.Time = take(&p, c.time, c.timeForm.read)
	r.Mode = take(&p, c.mode, value.mode)
	r.Order = take(&p, f.order, value.id)
	r.Payment = take(&p, f.payment, value.id)
	r.Object = take(&p, f.object, value.id)
	r.Subject = take(&p, c.subject, value.id)
	if f.kind == order.KindNone {
		c.mention(p, f, &r)
		return r, nil
	}
	c.money(&p, f, &r)
	r.Extent = c.extentOf(&p, f)
	switch {
	case p.err != nil:
		return Reading{}, p.err
	case r.Order == "" && r.Payment == "" && (r.Object == "" || f.trust != event.Hint):
		return Reading{}, errors.New("the event names neither an order nor a payment")
	}
	if r.Object == "" && (f.kind == order.KindRefund || f.kind == order.KindRefundFailed) {
		r.Object = r.ID // a refund without an id is told apart by its event
	}
	return r, nil
}

// Types are the event types that state a fact, in alphabetical order.
func (c *layout) Types() []string { return slices.Sorted(maps.Keys(c.facts)) }

func (c *layout) scan(body []byte) ([]value, error) {
	if c.form {
		return c.fields.scanForm(body)
	}
	body, err := unwrap(body)
	if err != nil {
		return nil, err
	}
	return c.fields.scan(body)
}

// fact finds the rule for a type; the zero rule, with the layout's own paths,
// where nothing applies. A condition on a value that is broken refuses the body:
// the fact may be there, and would be lost.
func (c *layout) fact(p *page, typ string) (*fact, error) {
	rules := c.facts[typ]
rules:
	for i := range rules {
		f := &rules[i]
		for _, w := range f.when {
			v, _ := p.find(places{w.place})
			switch says := v.given(); {
			case says != (w.equal != ""):
				continue rules
			case !says, w.equal == anything:
				continue
			}
			s, err := v.scalar()
			if err != nil {
				return nil, fmt.Errorf("%s %w", w.place.path, err)
			}
			if s != w.equal {
				continue rules
			}
		}
		return f, nil
	}
	none := fact{trust: c.trust, order: c.order, payment: c.payment, object: c.object, amount: c.amounts}
	if len(rules) > 0 {
		none.amount = rules[0].amount // all rules of a type read one object
	}
	return &none, nil
}

// mention reads the money that is named without a fact being stated, such as that of
// a refund that waits to be approved. Nothing is decided by it, so what cannot be
// read is left out.
func (c *layout) mention(p page, f *fact, r *Reading) {
	p.err = nil
	code := take(&p, c.currency, value.currency)
	if n, ok := given(&p, f.amount, func(v value) (int64, error) { return c.amount(v, code) }); ok && code != "" {
		r.Amount, r.Currency = n, code
	}
}

func (c *layout) money(p *page, f *fact, r *Reading) {
	r.Currency = take(p, c.currency, value.currency)
	if r.Currency == "" {
		// Without its currency a number is no amount.
		if f.needsAmount() {
			p.fail("the event states no currency")
		}
		return
	}
	amount := func(v value) (int64, error) { return c.amount(v, r.Currency) }
	if f.needsAmount() {
		r.Amount = need(p, f.amount, "amount", amount)
	} else {
		r.Amount = take(p, f.amount, amount)
	}
	r.PaymentAmount = take(p, f.paymentAmount, amount)
}

func (c *layout) extentOf(p *page, f *fact) Extent {
	switch take(p, f.extent, value.text) {
	case "full":
		return Full
	case "partial":
		return Partial
	}
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

// part is a part of an id: an id, or true or false.
func (v value) part() (string, error) {
	if v.kind == boolean {
		return string(v.raw), nil
	}
	return v.id()
}

// mode is live or test, or whether it is live.
func (v value) mode() (event.Mode, error) {
	switch s, err := v.scalar(); {
	case err == nil && (s == "live" || s == "true"):
		return event.Live, nil
	case err == nil && (s == "test" || s == "false"):
		return event.Test, nil
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
func (c *layout) amount(v value, currency string) (sum int64, err error) {
	if v.kind == summed {
		parts, err := elements(v.raw)
		if err != nil {
			return 0, err
		}
		for _, part := range parts {
			n, err := c.amount(jsonValue(part), currency)
			if err != nil {
				return 0, err
			}
			if n > math.MaxInt64-sum {
				return 0, order.ErrRange
			}
			sum += n
		}
		return sum, nil
	}
	if c.decimal {
		if v.kind == number {
			return order.ParseNumber(string(v.raw), currency)
		}
		s, err := v.text()
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

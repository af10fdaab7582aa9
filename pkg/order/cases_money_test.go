package order

import (
	"errors"
	"slices"
	"testing"
)

func TestO18AmountsOfZeroDecimalCurrenciesAreNeitherDividedNorMultiplied(t *testing.T) {
	for _, currency := range []string{"JPY", "KRW", "VND", "XOF", "CLP"} {
		n, err := ParseDecimal("5800", currency)
		if text, _ := FormatDecimal(n, currency); err != nil || n != 5800 || text != "5800" {
			t.Fatalf("5800 %s is read as %d (%v), written as %q", currency, n, err, text)
		}
		reg := &Registration{Hash: hash(1), Amount: n, Currency: currency, Time: 500}
		o := arriveFor(t, reg, []Entry{
			{Kind: KindPaid, Time: 1000, Payment: "pi", Amount: 5800},
			{Kind: KindRefund, Time: 2000, Payment: "pi", Object: "re", Amount: 5800},
		}, anyPath)
		if o.State.Status != Refunded || o.State.Paid != 5800 || o.State.Refunded != 5800 {
			t.Errorf("%s: %+v", currency, o.State)
		}
	}
	// What is no currency, or another, pays nothing, and waits for a person.
	reg := &Registration{Hash: hash(1), Amount: 5800, Currency: "JPY", Time: 500}
	for _, currency := range []string{"XXX", "ABC", "", "jpy", "KRW"} { // codes are upper case from the reading on
		o := Fold(reg, []Entry{{Hash: hash(7), Source: "shop", Kind: KindPaid, Time: 1000, Payment: "pi", Amount: 5800, Currency: currency}})
		if o.State.Status != Pending || o.State.Paid != 0 || o.Judgements[0] != (Judgement{Held, CurrencyMismatch}) {
			t.Errorf("%q: %+v", currency, o)
		}
	}
}

// An exponent is refused, also where it would be exact ("8.20e0", "82e-1"): no
// provider writes money so, and one that began to would have changed more.
func TestO19DecimalTextEqualsTheOrderOrIsRefused(t *testing.T) {
	for text, minor := range map[string]int64{
		"8.20": 820, "8.2": 820, "8.200": 820, "19.99": 1999, "599.80": 59980, "0.07": 7, "1.10": 110, "4.35": 435, "1234567890.12": 123456789012,
	} {
		n, err := ParseDecimal(text, "EUR")
		reg := &Registration{Hash: hash(1), Amount: minor, Currency: "EUR"}
		o := Fold(reg, []Entry{{Hash: hash(7), Kind: KindPaid, Time: 1000, Amount: n, Currency: "EUR"}})
		if err != nil || o.State.Status != Paid || o.State.Paid != minor {
			t.Errorf("%s is %d, %v; the order: %+v", text, n, err, o.State)
		}
	}
	for _, text := range []string{
		"8.205", "8,20", " 8.20", "8.20 EUR", "0x10", "NaN", "Infinity", "1e400", "-0", "٨.٢٠", "8.20e0", "82e-1", "8.20E+0", "",
	} {
		if n, err := ParseDecimal(text, "EUR"); n != 0 || !errors.Is(err, ErrDecimal) && !errors.Is(err, ErrPrecision) {
			t.Errorf("%q is read as %d, %v", text, n, err)
		}
	}
}

func TestO20ARunningTotalIsNoSingleRefund(t *testing.T) {
	reg := &Registration{Hash: hash(1), Amount: 1000, Currency: "EUR", Time: 500}
	paid := Entry{Kind: KindPaid, Time: 1000, Payment: "pi", Amount: 1000}
	single := func(id string, at, amount int64) Entry {
		return Entry{Kind: KindRefund, Time: at, Payment: "pi", Object: id, Amount: amount}
	}
	total := func(at, amount int64) Entry {
		return Entry{Kind: KindRefundTotal, Time: at, Payment: "pi", Amount: amount}
	}
	for _, c := range []struct {
		name string
		set  []Entry
	}{
		{"single refunds", []Entry{paid, single("R1", 2000, 200), single("R2", 3000, 300)}},
		{"a single refund told twice", []Entry{paid, single("R1", 2000, 200), single("R1", 2500, 200), single("R2", 3000, 300)}},
		{"running totals", []Entry{paid, total(2000, 200), total(3000, 500)}},
		{"a late smaller total", []Entry{paid, total(3000, 500), total(4000, 200)}},
		{"both", []Entry{paid, single("R1", 2000, 200), total(2000, 200), single("R2", 3000, 300), total(3000, 500)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := arriveFor(t, reg, c.set, func(t *testing.T, published []Status) {
				// pending, paid, one a real change; told in both ways, one more on the way
				if len(published) > 4 && (c.name != "both" || len(published) > 5) {
					t.Fatalf("published %v", published)
				}
			})
			if o.State.Status != PartiallyRefunded || o.State.Refunded != 500 {
				t.Errorf("%+v", o.State)
			}
		})
	}
}

func TestO21AnotherAmountOrCurrencyNeverPaysNotEvenForAMoment(t *testing.T) {
	reg := &Registration{Hash: hash(1), Amount: 4990, Currency: "EUR", Time: 500}
	pay := func(payment string, amount int64, currency string) Entry {
		return Entry{Kind: KindPaid, Time: 1000, Payment: payment, Amount: amount, Currency: currency}
	}
	neverPaid := func(t *testing.T, published []Status) {
		if slices.Contains(published, Paid) {
			t.Fatalf("published %v", published)
		}
	}
	for _, c := range []struct {
		name   string
		set    []Entry
		reason string
	}{
		{"a cent", []Entry{pay("pi", 1, "EUR")}, "amount_mismatch"},
		{"a cent too little", []Entry{pay("pi", 4989, "EUR")}, "amount_mismatch"},
		{"a cent too much", []Entry{pay("pi", 4991, "EUR")}, "amount_mismatch"},
		{"nothing", []Entry{pay("pi", 0, "EUR")}, "amount_mismatch"},
		{"another currency", []Entry{pay("pi", 4990, "USD")}, "currency_mismatch"},
		{"two payments that sum to it", []Entry{pay("pi_1", 2500, "EUR"), pay("pi_2", 2490, "EUR")}, "amount_mismatch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := arriveFor(t, reg, c.set, neverPaid)
			for i := range c.set {
				if o.reason(i) != c.reason {
					t.Errorf("held for %s, not %s", o.reason(i), c.reason)
				}
			}
		})
	}
	if o := arriveFor(t, reg, []Entry{pay("pi", 4990, "EUR")}, anyPath); o.State.Status != Paid {
		t.Errorf("%+v", o.State)
	}
}

func TestO22ARefundOfOursIsNotBookedAgainWhenItsWebhooksCome(t *testing.T) {
	reg := &Registration{Hash: hash(1), Amount: 1000, Currency: "EUR", Time: 500}
	set := []Entry{
		{Kind: KindPaid, Time: 1000, Payment: "pi", Amount: 1000},
		{Kind: KindRefund, Time: 2000, Payment: "pi", Object: "re_1", Amount: 300},      // what a look-up learnt
		{Kind: KindRefund, Time: 2100, Payment: "pi", Object: "re_1", Amount: 300},      // refund.succeeded
		{Kind: KindRefundTotal, Time: 2200, Payment: "pi", Object: "ch", Amount: 300},   // charge.refunded
		{Kind: KindRefund, Time: 9000, Payment: "pi", Object: "re_1", Amount: 300},      // refund.updated
		{Kind: KindRefund, Time: 3_600_000, Payment: "pi", Object: "re_2", Amount: 300}, // a second, real one
	}
	once := func(refunds int) func(*testing.T, []Status) {
		return func(t *testing.T, published []Status) {
			if len(published) > 2+refunds {
				t.Fatalf("published %v", published)
			}
		}
	}
	if o := arriveFor(t, reg, slices.Clone(set[:5]), once(1)); o.State.Refunded != 300 {
		t.Errorf("%+v", o.State)
	}
	if o := arriveFor(t, reg, set, once(2)); o.State.Refunded != 600 {
		t.Errorf("%+v", o.State)
	}
}

func TestTwoClocksThatDisagreeDecideByTheirTimesAndAreReported(t *testing.T) {
	paid := Entry{Kind: KindPaid, Time: 10_000, Payment: "pi", Amount: 100}
	cancelled := func(source string, at int64) Entry { return Entry{Kind: KindCancelled, Source: source, Time: at} }
	for _, c := range []struct {
		name  string
		other Entry
		ends  Status
		close bool
	}{
		{"another source, 4 s later", cancelled("erp", 14_000), Paid, true},
		{"another source, 4 s before", cancelled("erp", 6_000), Cancelled, true},
		{"another source, long before", cancelled("erp", 1_000), Cancelled, false},
		{"the same source", cancelled("shop", 12_000), Paid, false},
		{"undated", cancelled("erp", 0), Paid, false},
	} {
		set := []Entry{paid, c.other}
		o := arrive(t, set, anyPath)
		held, applied := 0, 1
		if o.State.Status == Paid {
			held, applied = 1, 0
		}
		if at, ok := o.CloseCall(set, held); o.State.Status != c.ends || ok != c.close || ok && at != applied {
			t.Errorf("%s: %v, close call %v with %d", c.name, o.State.Status, ok, at)
		}
		if _, ok := o.CloseCall(set, applied); ok {
			t.Errorf("%s: what is applied is a close call", c.name)
		}
	}
}

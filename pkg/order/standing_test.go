package order

import (
	"strings"
	"testing"
)

func TestAProviderContradictsOnlyByWhatItStates(t *testing.T) {
	paid := Entry{Kind: KindPaid, Payment: "p", Amount: 1000, Currency: "EUR"}
	refund := func(object string, amount int64) Entry {
		return Entry{Kind: KindRefund, Payment: "p", Object: object, Amount: amount, Currency: "EUR"}
	}
	bounced := refund("r1", 300)
	bounced.Kind = KindRefundFailed
	total := Entry{Kind: KindRefundTotal, Payment: "p", Amount: 300, Currency: "EUR"}
	less, dollars := paid, paid
	less.Amount, dollars.Currency = 900, "USD"
	is := func(k Kind) []Entry { return []Entry{{Kind: k, Payment: "p"}} }
	for name, c := range map[string]struct {
		ours, theirs []Entry
		want         string
	}{
		"the same":                      {[]Entry{paid}, []Entry{paid}, ""},
		"the same, told twice":          {[]Entry{paid, refund("r1", 300)}, []Entry{paid, paid, refund("r1", 300), refund("r1", 300)}, ""},
		"failed":                        {[]Entry{paid}, is(KindFailed), "the provider says failed"},
		"cancelled":                     {[]Entry{paid}, is(KindCancelled), "the provider says cancelled"},
		"pending":                       {[]Entry{paid}, is(KindPending), "the provider says pending"},
		"failed first, then paid":       {[]Entry{paid}, append(is(KindFailed), paid), ""},
		"nothing at all":                {[]Entry{paid}, nil, ""},
		"another payment":               {[]Entry{paid}, []Entry{{Kind: KindFailed, Payment: "q"}}, ""},
		"another amount":                {[]Entry{paid}, []Entry{less}, "we say 10.00 EUR paid, the provider says 9.00 EUR"},
		"another currency":              {[]Entry{paid}, []Entry{dollars}, "the provider says in USD"},
		"no refunds are told of":        {[]Entry{paid, refund("r1", 300)}, []Entry{paid}, ""},
		"fewer refunds":                 {[]Entry{paid, refund("r1", 300), refund("r2", 100)}, []Entry{paid, refund("r1", 300)}, "we say 4.00 EUR refunded, the provider says 3.00 EUR"},
		"a refund that bounced":         {[]Entry{paid, refund("r1", 300)}, []Entry{paid, refund("r1", 300), bounced}, "the provider says 0.00 EUR"},
		"a total that says the same":    {[]Entry{paid, refund("r1", 200), refund("r2", 100)}, []Entry{paid, total}, ""},
		"we know nothing of a payment":  {nil, []Entry{paid}, ""},
		"both say that it is not taken": {is(KindFailed), is(KindCancelled), ""},
	} {
		got := strings.Join(StandingOf("p", c.ours).Contradicts(StandingOf("p", c.theirs)), "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A total goes on counting what bounced: the fold takes it off, and so must whoever
// compares.
func TestATotalIsLessWhatBounced(t *testing.T) {
	set := []Entry{{Kind: KindPaid, Payment: "p", Amount: 1000, Currency: "EUR"}, {Kind: KindRefundTotal, Payment: "p", Amount: 500, Currency: "EUR"},
		{Kind: KindRefundFailed, Payment: "p", Object: "re_1", Amount: 300, Currency: "EUR"}}
	theirs := []Entry{{Kind: KindPaid, Payment: "p", Amount: 1000, Currency: "EUR"}, {Kind: KindRefund, Payment: "p", Object: "re_2", Amount: 200, Currency: "EUR"},
		{Kind: KindRefundFailed, Payment: "p", Object: "re_1", Amount: 300, Currency: "EUR"}}
	if d := StandingOf("p", set).Contradicts(StandingOf("p", theirs)); len(d) > 0 {
		t.Errorf("contradicted: %v", d)
	}
}

package lookup

import (
	"testing"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

func TestAFactIsKnownWhateverEventToldIt(t *testing.T) {
	entry := func(kind order.Kind, object string, amount int64) order.Entry {
		return order.Entry{Kind: kind, Payment: "pay", Object: object, Amount: amount, Currency: "EUR"}
	}
	fact := func(kind order.Kind, object string, amount int64) webhook.Reading {
		return webhook.Reading{Fact: kind, Payment: "pay", Object: object, Amount: amount, Currency: "EUR"}
	}
	paid := entry(order.KindPaid, "", 1000)
	for name, c := range map[string]struct {
		set  []order.Entry
		fact webhook.Reading
		want Knowledge
	}{
		"nothing is known":                      {nil, fact(order.KindPaid, "", 1000), Missing},
		"it is":                                 {[]order.Entry{paid}, fact(order.KindPaid, "", 1000), Known},
		"with another amount":                   {[]order.Entry{paid}, fact(order.KindPaid, "", 999), Differs},
		"of another payment":                    {[]order.Entry{{Kind: order.KindPaid, Payment: "other", Amount: 1000, Currency: "EUR"}}, fact(order.KindPaid, "", 1000), Missing},
		"a hint states no amount":               {[]order.Entry{paid}, webhook.Reading{Fact: order.KindPaid, Payment: "pay"}, Known},
		"nothing decided is nothing to know":    {nil, fact(order.KindPending, "", 1000), Known},
		"another refund":                        {[]order.Entry{entry(order.KindRefund, "a", 100)}, fact(order.KindRefund, "b", 100), Missing},
		"a total does not say whose refund":     {[]order.Entry{entry(order.KindRefundTotal, "", 500)}, fact(order.KindRefund, "b", 100), Missing},
		"refunds sum up to the total":           {[]order.Entry{entry(order.KindRefund, "a", 100), entry(order.KindRefund, "b", 200)}, fact(order.KindRefundTotal, "", 300), Known},
		"one of them twice does not":            {[]order.Entry{entry(order.KindRefund, "a", 150), entry(order.KindRefund, "a", 150)}, fact(order.KindRefundTotal, "", 300), Missing},
		"one that bounced does not count":       {[]order.Entry{entry(order.KindRefund, "a", 300), entry(order.KindRefundFailed, "a", 300)}, fact(order.KindRefundTotal, "", 300), Missing},
		"the total has grown":                   {[]order.Entry{entry(order.KindRefundTotal, "", 300)}, fact(order.KindRefundTotal, "", 500), Missing},
		"a greater total is known":              {[]order.Entry{entry(order.KindRefundTotal, "", 500)}, fact(order.KindRefundTotal, "", 300), Known},
		"a dispute that was won is not opened":  {[]order.Entry{entry(order.KindDisputeOpened, "d", 0)}, fact(order.KindDisputeWon, "d", 0), Missing},
		"of the two that contradict, the right": {[]order.Entry{entry(order.KindPaid, "", 999), paid}, fact(order.KindPaid, "", 1000), Known},
	} {
		if got := Knows(c.set, c.fact); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

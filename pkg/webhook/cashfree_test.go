package webhook

import (
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

func TestCashfreeHoldsNoAgeUnlessItIsTold(t *testing.T) {
	p, s := builtinOf(t, "cashfree").(Timed), secretOf(t, "cf-0f3b9a")
	req := signed(t, p, s, "", noon, []byte("{}"))
	v := p.Verify(req, []Secret{s}, noon.AddDate(3, 0, 0))
	if v.Outcome != Valid || !v.SignedAt.Equal(noon) {
		t.Errorf("%+v", v)
	}
	strict := p.WithTolerance(Tolerance{Past: time.Minute, Future: time.Minute})
	if v := strict.Verify(req, []Secret{s}, noon.Add(61*time.Second)); v.Outcome != Stale {
		t.Errorf("%+v", v)
	}
}

// Nothing stands between the time and the body, so a time is digits and nothing else.
func TestCashfreeTakesNoPartOfTheBodyForTheTime(t *testing.T) {
	p, s := builtinOf(t, "cashfree"), secretOf(t, "cf-0f3b9a")
	signature := signed(t, p, s, "", noon, []byte(`{"a":1}`)).Header(cashfreeSignature)[0]
	for timestamp, body := range map[string]string{"1767225605000{": `"a":1}`, "176722560500": `0{"a":1}`, "17672256050000": `{"a":1}`, "+767225605000": `{"a":1}`, "": `1767225605000{"a":1}`} {
		req := Request{Header: headersOf(cashfreeSignature, signature, cashfreeTimestamp, timestamp), Body: []byte(body)}
		if v := p.Verify(req, []Secret{s}, noon); v.Outcome != Invalid {
			t.Errorf("%q: %+v", timestamp, v)
		}
	}
}

// O19
func TestCashfreeReadsPaymentsAndRefundsExactly(t *testing.T) {
	p := builtinOf(t, "cashfree")
	at := time.Date(2026, 1, 1, 0, 0, 6, 0, time.UTC)
	const paid = `{"data":{"order":{"order_id":"ORD-1","order_amount":1250.5,"order_currency":"INR"},"payment":{"cf_payment_id":1453002795,"payment_status":"SUCCESS","payment_amount":1250.50,"payment_currency":"INR"}},"event_time":"2026-01-01T05:30:06+05:30","type":"PAYMENT_SUCCESS_WEBHOOK"}`
	const refund = `{"data":{"refund":{"cf_refund_id":11325632,"cf_payment_id":1453002795,"order_id":"ORD-1","refund_amount":2.00,"refund_currency":"INR","refund_status":"SUCCESS"}},"event_time":"2026-01-01T05:30:06+05:30","type":"REFUND_STATUS_WEBHOOK"}`
	for body, want := range map[string]Reading{
		paid: {ID: "PAYMENT_SUCCESS_WEBHOOK:1453002795:SUCCESS", Type: "PAYMENT_SUCCESS_WEBHOOK", Time: at, Trust: event.Signed,
			Order: "ORD-1", Payment: "1453002795", Subject: "1453002795", Fact: order.KindPaid, Amount: 125050, Currency: "INR"},
		refund: {ID: "REFUND_STATUS_WEBHOOK:11325632:SUCCESS", Type: "REFUND_STATUS_WEBHOOK", Time: at, Trust: event.Signed,
			Order: "ORD-1", Payment: "1453002795", Object: "11325632", Subject: "11325632", Fact: order.KindRefund, Amount: 200, Currency: "INR"},
	} {
		if r, err := p.Read(headersOf(), []byte(body)); err != nil || r != want {
			t.Errorf("%+v, %v\nwant %+v", r, err, want)
		}
	}
}

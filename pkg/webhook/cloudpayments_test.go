package webhook

import (
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// Which notification it is only the address says, and nothing signs the address.
func TestCloudPaymentsOnlyHints(t *testing.T) {
	p := builtinOf(t, "cloudpayments")
	const form = "TransactionId=504&Amount=1250.50&Currency=RUB&DateTime=2026-01-01+00%3A00%3A05&TestMode=1&Status=Completed&OperationType=Payment&InvoiceId=ORD-1"
	const json = `{"TransactionId":504,"Amount":1250.50,"Currency":"RUB","DateTime":"2026-01-01 00:00:05","TestMode":true,"Status":"Completed","OperationType":"Payment","InvoiceId":"ORD-1"}`
	for query, c := range map[string]struct {
		id, typ string
		kind    order.Kind
	}{
		"type=pay": {"504:pay", "pay", order.KindPaid}, "type=check": {"504:check", "check", order.KindNone}, "type=fail": {"504:fail", "fail", order.KindFailed},
		"type=cancel": {"504:cancel", "cancel", order.KindCancelled}, "type=confirm": {"504:confirm", "confirm", order.KindPaid}, "": {"504:Payment", "Payment", order.KindPaid},
	} {
		want := Reading{ID: c.id, Type: c.typ, Time: time.Date(2026, 1, 1, 0, 0, 5, 0, time.UTC), Mode: event.Test, Trust: event.Hint,
			Order: "ORD-1", Payment: "504", Subject: "504", Fact: c.kind, Amount: 125050, Currency: "RUB"}
		for _, body := range []string{form, json} {
			if r, err := p.Read(headersOf(QueryHeader, query), []byte(body)); err != nil || r != want {
				t.Errorf("%s: %+v, %v\nwant %+v", query, r, err, want)
			}
		}
	}
	// A refund names its payment, which nothing else does.
	const refund = "TransactionId=505&Amount=10.00&DateTime=2026-01-02+00%3A00%3A05&InvoiceId=ORD-1"
	want := Reading{ID: "505:refund", Type: "refund", Time: time.Date(2026, 1, 2, 0, 0, 5, 0, time.UTC), Trust: event.Signed,
		Order: "ORD-1", Payment: "504", Object: "505", Subject: "505", Fact: order.KindRefund, Amount: 1000, Currency: "RUB"}
	if r, err := p.Read(headersOf(QueryHeader, "type=refund"), []byte(refund+"&PaymentTransactionId=504")); err != nil || r != want {
		t.Errorf("%+v, %v\nwant %+v", r, err, want)
	}
	for _, body := range []string{refund, form} {
		if r, err := p.Read(headersOf(QueryHeader, "type=refund"), []byte(body)); err == nil {
			t.Errorf("another notification was read as a refund: %+v", r)
		}
	}
	if _, err := p.Read(headersOf(QueryHeader, "type=pay&type=check"), []byte(form)); err == nil {
		t.Error("two types were read as one")
	}
	if p.Profile().Trust != event.Hint {
		t.Error("it is believed")
	}
	if a := p.(Answering).Answer(headersOf(), nil); string(a.Body) != `{"code":0}` || a.ContentType != "application/json" {
		t.Errorf("%+v", a)
	}
}

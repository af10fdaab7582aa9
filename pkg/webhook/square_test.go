package webhook

import (
	"fmt"
	"testing"

	"sluice/pkg/order"
)

func TestSquareVerifiesTheConfiguredURLAndNoOther(t *testing.T) {
	s, body := secretOf(t, "sq-0f3b9a"), []byte(`{"event_id":"e","type":"t"}`)
	const url = "https://shop.example/hooks/square?tenant=a"
	p := builtinOf(t, "square").(Located).WithURL(url)
	req := signed(t, p, s, "", noon, body)
	for given, want := range map[string]Outcome{
		url: Valid, "": Invalid, url + "/": Invalid, "http://10.0.0.5:8080/hooks/square?tenant=a": Invalid,
		"https://shop.example/hooks/square": Invalid, "https://shop.example/hooks/square?tenant=b": Invalid,
	} {
		req.URL = given
		if v := builtinOf(t, "square").Verify(req, []Secret{s}, noon); v.Outcome != want {
			t.Errorf("%q: %+v", given, v)
		}
	}
	// Nothing stands between address and body, and still its end cannot be moved.
	req.URL, req.Body = url+string(body[:5]), body[5:]
	if v := p.Verify(req, []Secret{s}, noon); v.Outcome != Valid {
		t.Fatalf("%+v: the signed text is the same", v)
	}
	if r, err := p.Read(req.Header, req.Body); err == nil {
		t.Errorf("a part of a body was read: %+v", r)
	}
}

func squareEvent(typ, object string) []byte {
	return fmt.Appendf(nil, `{"event_id":"ev1","type":%q,"created_at":"2026-01-01T00:00:05Z","data":{"id":"X","object":{%s}}}`, typ, object)
}

func TestSquareReadsPaymentsRefundsAndDisputes(t *testing.T) {
	p := builtinOf(t, "square")
	payment := func(status, rest string) string {
		return fmt.Sprintf(`"payment":{"id":"PAY1","status":%q,"reference_id":"ORD-1","order_id":"SQORD1","amount_money":{"amount":125050,"currency":"USD"}%s}`, status, rest)
	}
	refund := func(status string) string {
		return fmt.Sprintf(`"refund":{"id":"REF1","status":%q,"payment_id":"PAY1","order_id":"SQORD9","amount_money":{"amount":25050,"currency":"USD"}}`, status)
	}
	dispute := func(state string) string {
		return fmt.Sprintf(`"dispute":{"id":"DIS1","state":%q,"disputed_payment":{"payment_id":"PAY1"},"amount_money":{"amount":125050,"currency":"USD"}}`, state)
	}
	for _, c := range []struct {
		typ, object string
		want        Reading
	}{
		{"payment.updated", payment("COMPLETED", ""), Reading{Fact: order.KindPaid, Order: "ORD-1", Amount: 125050}},
		{"payment.updated", payment("COMPLETED", `,"refunded_money":{"amount":0,"currency":"USD"}`), Reading{Fact: order.KindPaid, Order: "ORD-1", Amount: 125050}},
		{"payment.updated", payment("COMPLETED", `,"refunded_money":{"amount":25050,"currency":"USD"}`), Reading{Fact: order.KindRefundTotal, Order: "ORD-1", Amount: 25050, PaymentAmount: 125050}},
		{"payment.created", payment("APPROVED", ""), Reading{Fact: order.KindPending, Order: "ORD-1", Amount: 125050}},
		{"payment.updated", payment("PENDING", ""), Reading{Fact: order.KindPending, Order: "ORD-1", Amount: 125050}},
		{"payment.updated", payment("FAILED", ""), Reading{Fact: order.KindFailed, Order: "ORD-1", Amount: 125050}},
		{"payment.updated", payment("CANCELED", ""), Reading{Fact: order.KindCancelled, Order: "ORD-1", Amount: 125050}},
		{"refund.created", refund("PENDING"), Reading{Fact: order.KindPending, Object: "REF1", Amount: 25050}},
		{"refund.updated", refund("COMPLETED"), Reading{Fact: order.KindRefund, Object: "REF1", Amount: 25050}},
		{"refund.updated", refund("FAILED"), Reading{Fact: order.KindRefundFailed, Object: "REF1", Amount: 25050}},
		{"refund.updated", refund("REJECTED"), Reading{Fact: order.KindRefundFailed, Object: "REF1", Amount: 25050}},
		{"dispute.created", dispute("EVIDENCE_REQUIRED"), Reading{Fact: order.KindDisputeOpened, Object: "DIS1", Amount: 125050}},
		{"dispute.created", `"dispute":{"dispute_id":"DIS1","state":"INQUIRY_EVIDENCE_REQUIRED","disputed_payments":[{"payment_id":"PAY1"}],"amount_money":{"amount":125050,"currency":"USD"}}`,
			Reading{Fact: order.KindDisputeOpened, Object: "DIS1", Amount: 125050}},
		{"dispute.state.updated", dispute("WON"), Reading{Fact: order.KindDisputeWon, Object: "DIS1", Amount: 125050}},
		{"dispute.state.updated", dispute("LOST"), Reading{Fact: order.KindDisputeLost, Object: "DIS1", Amount: 125050}},
		{"dispute.state.updated", dispute("PROCESSING"), Reading{Fact: order.KindNone, Amount: 125050}},
	} {
		r, err := p.Read(headersOf(), squareEvent(c.typ, c.object))
		if err != nil {
			t.Errorf("%s: %v", c.typ, err)
			continue
		}
		if r.Fact != c.want.Fact || r.Order != c.want.Order || r.Object != c.want.Object || r.Amount != c.want.Amount || r.PaymentAmount != c.want.PaymentAmount || r.Payment != "PAY1" {
			t.Errorf("%s %s:\n%+v\nwant %+v", c.typ, c.object, r, c.want)
		}
	}
	for _, object := range []string{payment("COMPLETED", `,"refunded_money":{"amount":1.5}`), `"payment":{"id":"PAY1","status":"COMPLETED","amount_money":{"amount":1e3,"currency":"USD"}}`} {
		if r, err := p.Read(headersOf(), squareEvent("payment.updated", object)); err == nil {
			t.Errorf("%s: %+v", object, r)
		}
	}
}

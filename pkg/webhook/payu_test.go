package webhook

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"sluice/pkg/order"
)

// The algorithm is the account's: no header chooses it.
func TestPayUsAlgorithmIsPinned(t *testing.T) {
	s, body := secretOf(t, "pu-0f3b9a"), []byte(`{"order":{}}`)
	weak := md5.Sum(append(body, "pu-0f3b9a"...))
	strong := sha256.Sum256(append(body, "pu-0f3b9a"...))
	w, x := hex.EncodeToString(weak[:]), hex.EncodeToString(strong[:])
	for _, c := range []struct {
		provider, header string
		want             Reason
	}{
		{"payu", "sender=checkout;signature=" + x + ";algorithm=SHA-256;content=DOCUMENT", ReasonNone},
		{"payu", "signature=" + x + "; algorithm=SHA256", ReasonNone},
		{"payu", "sender=checkout;signature=" + w + ";algorithm=MD5;content=DOCUMENT", ReasonMalformed},
		{"payu", "signature=" + w + ";algorithm=SHA-256", ReasonMalformed},
		{"payu", "signature=" + x + ";algorithm=SHA-512", ReasonMalformed},
		{"payu", "signature=" + x, ReasonMalformed},
		{"payu", "signature=" + x + ";algorithm=SHA-256;signature=" + x, ReasonMalformed},
		{"payu", "signature=" + strings.Repeat("0", 64) + ";algorithm=SHA-256", ReasonMismatch},
		{"payu_md5", "sender=checkout;signature=" + w + ";algorithm=MD5;content=DOCUMENT", ReasonNone},
		{"payu_md5", "sender=checkout;signature=" + x + ";algorithm=SHA-256;content=DOCUMENT", ReasonMalformed},
	} {
		v := builtinOf(t, c.provider).Verify(Request{Header: headersOf(payUSignature, c.header), Body: body}, []Secret{s}, noon)
		if v.Reason != c.want || (v.Outcome == Valid) != (c.want == ReasonNone) {
			t.Errorf("%s %s: %+v", c.provider, c.header, v)
		}
	}
	if v := builtinOf(t, "payu").Verify(Request{Header: headersOf(payUSignature, "signature="+x+";algorithm=SHA-256"), Body: body}, []Secret{{Name: "empty"}, s}, noon); v.Secret != "test" {
		t.Errorf("%+v", v)
	}
}

func TestPayUReadsOrdersAndRefunds(t *testing.T) {
	p := builtinOf(t, "payu")
	ordered := func(status string) string {
		return `{"order":{"orderId":"L1","extOrderId":"ORD-1","currencyCode":"PLN","totalAmount":"125050","status":"` + status + `"},"localReceiptDateTime":"2026-01-01T01:00:05.828+01:00"}`
	}
	for body, want := range map[string]Reading{
		ordered("COMPLETED"):                {ID: "L1:COMPLETED", Type: "order:COMPLETED", Payment: "L1", Fact: order.KindPaid, Amount: 125050},
		ordered("PENDING"):                  {ID: "L1:PENDING", Type: "order:PENDING", Payment: "L1", Fact: order.KindPending, Amount: 125050},
		ordered("WAITING_FOR_CONFIRMATION"): {ID: "L1:WAITING_FOR_CONFIRMATION", Type: "order:WAITING_FOR_CONFIRMATION", Payment: "L1", Fact: order.KindPending, Amount: 125050},
		ordered("CANCELED"):                 {ID: "L1:CANCELED", Type: "order:CANCELED", Payment: "L1", Fact: order.KindCancelled, Amount: 125050},
		`{"orderId":"L1","extOrderId":"ORD-1","refund":{"refundId":"R1","amount":"5050","currencyCode":"PLN","status":"FINALIZED"}}`: {ID: "R1:FINALIZED", Type: "refund:FINALIZED", Payment: "L1", Object: "R1", Fact: order.KindRefund, Amount: 5050},
		`{"orderId":"L1","extOrderId":"ORD-1","refund":{"refundId":"R1","amount":"5050","currencyCode":"PLN","status":"CANCELED"}}`:  {ID: "R1:CANCELED", Type: "refund:CANCELED", Payment: "L1", Object: "R1", Fact: order.KindNone},
	} {
		r, err := p.Read(headersOf(), []byte(body))
		if err != nil || r.ID != want.ID || r.Type != want.Type || r.Order != "ORD-1" || r.Payment != want.Payment || r.Object != want.Object || r.Fact != want.Fact || r.Amount != want.Amount {
			t.Errorf("%+v, %v\nwant %+v", r, err, want)
		}
	}
}

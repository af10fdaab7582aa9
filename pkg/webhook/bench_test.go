package webhook

import (
	"bytes"
	"strings"
	"testing"
)

// kib is a body of 1 KiB as Stripe sends it.
func kib() []byte {
	body := []byte(`{"id":"evt_3TestA0001","object":"event","created":1767225605,"data":{"object":{"id":"pi_3TestA0001","amount":125050,"amount_received":125050,` +
		`"currency":"usd","metadata":{"order_id":"ORD-1001"},"status":"succeeded","note":"`)
	tail := []byte(`"}},"livemode":false,"pending_webhooks":1,"type":"payment_intent.succeeded"}`)
	return append(append(body, bytes.Repeat([]byte("x"), 1024-len(body)-len(tail))...), tail...)
}

// sealedTo is a body with the signature in it, padded to a size before.
func sealedTo(size int, b *testing.B, p armed, body string) Request {
	b.Helper()
	body = strings.Replace(body, "…", strings.Repeat("x", size-len(body)), 1)
	out, err := p.Provider.(Sealing).Seal(p.secret, []byte(body))
	if err != nil {
		b.Fatal(err)
	}
	return Request{Header: headersOf(), Body: out}
}

// BenchmarkVerify1KiB: every provider that signs by an HMAC. The target is 5 µs.
//
// Measured on 2026-11-30, Go 1.26.8, a busy 2-core Xeon with SHA extensions, one
// secret, the least of three runs: 1.7-2.9 µs and 7-17 allocations for most, 4.4 µs
// for Paystack, whose SHA-512 has no extension, 4.0 µs for Adyen, which signs each
// item. The hash itself is most of it, so HMACs are not pooled.
func BenchmarkVerify1KiB(b *testing.B) {
	var requests []Request
	ps := append(providers(b), armed{builtinOf(b, "mollie"), secretOf(b, "mo-0f3b9a")})
	for _, p := range ps {
		requests = append(requests, signed(b, p, p.secret, "msg_1", noon, kib()))
	}
	size := map[string]int{"adyen": 1024, "braintree": 720} // which becomes base64
	for name, body := range map[string]string{
		"adyen": `{"live":"true","notificationItems":[{"NotificationRequestItem":{"additionalData":{"note":"…"},"amount":{"currency":"EUR","value":125050},` +
			`"eventCode":"AUTHORISATION","eventDate":"2026-01-01T01:00:05+01:00","merchantAccountCode":"Shop","merchantReference":"ORD-1","pspReference":"KX5D8T9BHJ7K0001","success":"true"}}]}`,
		"braintree": "<notification><kind>transaction_settled</kind><note>…</note></notification>\n",
	} {
		secret := map[string]string{"adyen": "9064450A8892A093D9E97EFCC9639DE3", "braintree": "public:private"}[name]
		p := armed{builtinOf(b, name), secretOf(b, secret)}
		ps, requests = append(ps, p), append(requests, sealedTo(size[name], b, p, body))
	}
	for i, p := range ps {
		b.Run(p.Name(), func(b *testing.B) {
			req, secrets := requests[i], []Secret{p.secret}
			b.ReportAllocs()
			for b.Loop() {
				if v := p.Verify(req, secrets, noon); v.Outcome != Valid {
					b.Fatalf("%+v", v)
				}
			}
		})
	}
}

func BenchmarkRead1KiB(b *testing.B) {
	p, body, header := builtinOf(b, "stripe"), kib(), headersOf()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Read(header, body); err != nil {
			b.Fatal(err)
		}
	}
}

// An item of Adyen's is found, joined and signed by itself.
func BenchmarkVerifyAdyen1KiB(b *testing.B) {
	p, s := builtinOf(b, "adyen"), secretOf(b, adyenTestKey)
	note := `"` + string(bytes.Repeat([]byte("x"), 600)) + `"`
	body := sealedBy(b, p, s, adyenBatchOf(adyenItemOf("reason", note)))
	req, secrets := Request{Header: headersOf(), Body: body}, []Secret{s}
	b.ReportAllocs()
	for b.Loop() {
		if p.Verify(req, secrets, noon).Outcome != Valid {
			b.Fatal("not valid")
		}
	}
}

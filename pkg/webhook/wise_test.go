package webhook

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
)

// rsaPair is a key of that many bits as Wise would have it: private, and public.
func rsaPair(t testing.TB, bits int) (private, public string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), publicPEM(t, &key.PublicKey)
}

func publicPEM(t testing.TB, key any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func TestWiseVerifiesWithAnyOfItsPublicKeys(t *testing.T) {
	p := builtinOf(t, "wise")
	private, public := rsaPair(t, 2048)
	_, other := rsaPair(t, 2048)
	keys := []Secret{secretOf(t, other), secretOf(t, public)}
	body := []byte(`{"event_type":"transfers#state-change","data":{"resource":{"id":7},"occurred_at":"2026-01-01T00:00:05Z"}}`)
	req := signed(t, p, secretOf(t, private), "d1", noon, body)
	if v := p.Verify(req, keys, noon); v.Outcome != Valid {
		t.Errorf("%+v", v)
	}
	if v := p.Verify(req, keys[:1], noon); v.Reason != ReasonMismatch {
		t.Errorf("%+v", v)
	}
	if r, err := p.Read(req.Header, body); err != nil || r.ID != "d1" || r.Subject != "7" {
		t.Errorf("%+v, %v", r, err)
	}
	signature := req.Header(wiseSignature)[0]
	for name, c := range map[string]struct {
		header Headers
		body   string
		reason Reason
	}{
		"another body":      {req.Header, string(body) + " ", ReasonMismatch},
		"no signature":      {headersOf(), string(body), ReasonMissing},
		"two signatures":    {headersOf(wiseSignature, signature, wiseSignature, signature), string(body), ReasonMalformed},
		"cut short":         {headersOf(wiseSignature, signature[:40]), string(body), ReasonMismatch},
		"no base64":         {headersOf(wiseSignature, "!"+signature[1:]), string(body), ReasonMalformed},
		"longer than a key": {headersOf(wiseSignature, strings.Repeat("A", 4096)), string(body), ReasonMalformed},
	} {
		if v := p.Verify(Request{Header: c.header, Body: []byte(c.body)}, keys, noon); v.Outcome != Invalid || v.Reason != c.reason {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestWiseSaysWhatIsNoPublicKeyOfIts(t *testing.T) {
	p := builtinOf(t, "wise")
	private, public := rsaPair(t, 2048)
	_, short := rsaPair(t, 1024)
	edwards, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckSecret(secretOf(t, public)); err != nil {
		t.Error(err)
	}
	for name, value := range map[string]string{
		"a private key": private, "a token": "0f3b9a", "a short key": short, "another kind": publicPEM(t, edwards), "two keys": public + public,
		"PEM of nothing": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")})),
	} {
		s := secretOf(t, value)
		if err := p.CheckSecret(s); err == nil || strings.Contains(err.Error(), value) {
			t.Errorf("%s: %v", name, err)
		}
		if v := p.Verify(Request{Header: headersOf(wiseSignature, "AAAA"), Body: nil}, []Secret{s}, noon); v.Outcome != Invalid {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

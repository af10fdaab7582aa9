package webhook

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"hash/crc32"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"crypto"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// authority is a certificate authority of the tests.
type authority struct {
	cert *x509.Certificate
	key  *rsa.PrivateKey
}

func newAuthority(t testing.TB) authority {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test Root"}, NotBefore: noon.Add(-time.Hour), NotAfter: noon.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	return authority{certify(t, template, template, key, key), key}
}

func certify(t testing.TB, template, parent *x509.Certificate, key, signer *rsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// leaf is a certificate of a name, with the authority's own key.
func (a authority) leaf(t testing.TB, cn string, names []string, notAfter time.Time) *x509.Certificate {
	t.Helper()
	return certify(t, &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: cn}, DNSNames: names,
		NotBefore: noon.Add(-time.Minute), NotAfter: notAfter}, a.cert, a.key, a.key)
}

func (a authority) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func (a authority) sign(t testing.TB, hash crypto.Hash, digest []byte) string {
	t.Helper()
	sum, err := rsa.SignPKCS1v15(rand.Reader, a.key, hash, digest)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(sum)
}

func paypalHeaders(t testing.TB, ca authority, webhook, at string, body []byte) http.Header {
	t.Helper()
	digest := sha256.Sum256([]byte("tx-1|" + at + "|" + webhook + "|" + strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10)))
	h := http.Header{}
	for name, value := range map[string]string{paypalID: "tx-1", paypalTime: at, paypalSig: ca.sign(t, crypto.SHA256, digest[:]),
		paypalCert: "https://api.paypal.com/v1/notifications/certs/CERT-1", paypalAlgo: "SHA256withRSA"} {
		h.Set(name, value)
	}
	return h
}

func TestPayPalIsItsCertificateAndTheWebhooksID(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	p, body := builtinOf(t, "paypal"), []byte(`{"id":"WH-1"}`)
	at := noon.UTC().Format(time.RFC3339)
	good := Certificate{Chain: []*x509.Certificate{ca.leaf(t, "messageverificationcerts.paypal.com", nil, noon.Add(time.Minute))}, Roots: ca.roots()}
	secrets := []Secret{{"new", []byte("NEW0001")}, {}, {"old", []byte("OLD0001")}}
	for name, c := range map[string]struct {
		change func(http.Header, *Request)
		now    time.Time
		want   Reason
	}{
		"right": {func(http.Header, *Request) {}, noon, ReasonNone},
		"three days later": {func(_ http.Header, r *Request) {
			r.Certificate.Chain = []*x509.Certificate{ca.leaf(t, "x.paypal.com", nil, noon.Add(time.Hour))}
		}, noon.Add(50 * time.Minute), ReasonNone},
		"a name beside": {func(_ http.Header, r *Request) {
			r.Certificate.Chain = []*x509.Certificate{ca.leaf(t, "x", []string{"a.paypal.com"}, noon.Add(time.Minute))}
		}, noon, ReasonNone},
		"another name": {func(_ http.Header, r *Request) {
			r.Certificate.Chain = []*x509.Certificate{ca.leaf(t, "paypal.com.evil.example", []string{"evilpaypal.com"}, noon.Add(time.Minute))}
		}, noon, ReasonCertificate},
		"an end like it": {func(_ http.Header, r *Request) {
			r.Certificate.Chain = []*x509.Certificate{ca.leaf(t, "evilpaypal.com", nil, noon.Add(time.Minute))}
		}, noon, ReasonCertificate},
		"expired":           {func(http.Header, *Request) {}, noon.Add(2 * time.Minute), ReasonCertificate},
		"not yet valid":     {func(http.Header, *Request) {}, noon.Add(-2 * time.Minute), ReasonCertificate},
		"another authority": {func(_ http.Header, r *Request) { r.Certificate.Roots = other.roots() }, noon, ReasonCertificate},
		"no authority":      {func(_ http.Header, r *Request) { r.Certificate.Roots = nil }, noon, ReasonCertificate},
		"no certificate":    {func(_ http.Header, r *Request) { r.Certificate.Chain = nil }, noon, ReasonCertificate},
		"another's key": {func(h http.Header, _ *Request) {
			h.Set(paypalSig, paypalHeaders(t, other, "OLD0001", at, body).Get(paypalSig))
		}, noon, ReasonMismatch},
		"another webhook's": {func(h http.Header, _ *Request) {
			h.Set(paypalSig, paypalHeaders(t, ca, "XXX", at, body).Get(paypalSig))
		}, noon, ReasonMismatch},
		"an empty webhook id": {func(h http.Header, _ *Request) { h.Set(paypalSig, paypalHeaders(t, ca, "", at, body).Get(paypalSig)) }, noon, ReasonMismatch},
		"another body":        {func(_ http.Header, r *Request) { r.Body = []byte("{}") }, noon, ReasonMismatch},
		"another id":          {func(h http.Header, _ *Request) { h.Set(paypalID, "tx-2") }, noon, ReasonMismatch},
		"another time":        {func(h http.Header, _ *Request) { h.Set(paypalTime, "2026-01-01T00:00:06Z") }, noon, ReasonMismatch},
		"no time":             {func(h http.Header, _ *Request) { h.Set(paypalTime, "today") }, noon, ReasonMalformed},
		"another algorithm":   {func(h http.Header, _ *Request) { h.Set(paypalAlgo, "SHA1withRSA") }, noon, ReasonMalformed},
		"no base64":           {func(h http.Header, _ *Request) { h.Set(paypalSig, "!!") }, noon, ReasonMalformed},
		"twice":               {func(h http.Header, _ *Request) { h.Add(paypalSig, h.Get(paypalSig)) }, noon, ReasonMalformed},
		"two certificates":    {func(h http.Header, _ *Request) { h.Add(paypalCert, h.Get(paypalCert)) }, noon, ReasonMalformed},
		"no signature":        {func(h http.Header, _ *Request) { h.Del(paypalSig) }, noon, ReasonMissing},
		"no address":          {func(h http.Header, _ *Request) { h.Del(paypalCert) }, noon, ReasonMissing},
		"another host":        {func(h http.Header, _ *Request) { h.Set(paypalCert, "https://paypal.com.evil.example/c") }, noon, ReasonCertificate},
	} {
		h := paypalHeaders(t, ca, "OLD0001", at, body)
		req := Request{Header: h.Values, Body: body, Certificate: good}
		c.change(h, &req)
		v := p.Verify(req, secrets, c.now)
		if v.Reason != c.want || (v.Outcome == Valid) != (c.want == ReasonNone) || v.Outcome == Valid && (v.Secret != "old" || !v.SignedAt.Equal(noon)) {
			t.Errorf("%s: %+v, want %q", name, v, c.want)
		}
	}
	// A tolerance is the endpoint's wish, and closed on both sides.
	bounded := p.(Timed).WithTolerance(Tolerance{Past: 30 * time.Second, Future: Unlimited}.TwoSided())
	for off, want := range map[time.Duration]Outcome{0: Valid, 30 * time.Second: Valid, -30 * time.Second: Valid, 31 * time.Second: Stale, -31 * time.Second: Stale} {
		if v := bounded.Verify(Request{Header: paypalHeaders(t, ca, "OLD0001", at, body).Values, Body: body, Certificate: good}, secrets, noon.Add(off)); v.Outcome != want {
			t.Errorf("%v later: %+v", off, v)
		}
	}
	if own := p.(Timed).Tolerance(); own.TwoSided() != own {
		t.Errorf("an endpoint would close what PayPal leaves open: %+v", own.TwoSided())
	}
	if _, err := p.Sign(secrets[0], "", noon, body); err == nil {
		t.Error("it signs as PayPal")
	}
}

func TestACertificateIsOnlySoughtAtItsProvidersOwnHosts(t *testing.T) {
	paypal, sns := builtinOf(t, "paypal").(Certified), builtinOf(t, "aws_sns").(Certified)
	envelope := func(url string) []byte { return []byte(`{"SigningCertURL":"` + url + `"}`) }
	for url, want := range map[string][2]Reason{
		"https://api.paypal.com/v1/notifications/certs/CERT-1":        {ReasonNone, ReasonCertificate},
		"https://api.sandbox.paypal.com/x":                            {ReasonNone, ReasonCertificate},
		"https://sns.us-east-1.amazonaws.com/Simple-1.pem":            {ReasonCertificate, ReasonNone},
		"https://sns.cn-north-1.amazonaws.com.cn/Simple-1.pem":        {ReasonCertificate, ReasonNone},
		"https://sns.us-east-1.amazonaws.com/Simple-1.txt":            {ReasonCertificate, ReasonCertificate},
		"https://sns.us-east-1.amazonaws.com.evil.example/a.pem":      {ReasonCertificate, ReasonCertificate},
		"https://evil.example/sns.us-east-1.amazonaws.com/a.pem":      {ReasonCertificate, ReasonCertificate},
		"https://s3.amazonaws.com/evil/a.pem":                         {ReasonCertificate, ReasonCertificate},
		"https://sns.us-east-1.s3.amazonaws.com/a.pem":                {ReasonCertificate, ReasonCertificate},
		"https://snsxus-east-1.amazonaws.com/a.pem":                   {ReasonCertificate, ReasonCertificate},
		"https://evil-sns.us-east-1.amazonaws.com/a.pem":              {ReasonCertificate, ReasonCertificate},
		"https://sns.x.amazonaws.com/a.pem":                           {ReasonCertificate, ReasonCertificate},
		"http://api.paypal.com/x":                                     {ReasonCertificate, ReasonCertificate},
		"http://sns.us-east-1.amazonaws.com/a.pem":                    {ReasonCertificate, ReasonCertificate},
		"https://paypal.com/x":                                        {ReasonCertificate, ReasonCertificate},
		"https://evilpaypal.com/x":                                    {ReasonCertificate, ReasonCertificate},
		"https://api.paypal.com.evil.example/x":                       {ReasonCertificate, ReasonCertificate},
		"https://api.paypal.com:8443/x":                               {ReasonCertificate, ReasonCertificate},
		"https://user@api.paypal.com/x":                               {ReasonCertificate, ReasonCertificate},
		"https://api.paypal.com@evil.example/x":                       {ReasonCertificate, ReasonCertificate},
		"https://evil.example#.paypal.com":                            {ReasonCertificate, ReasonCertificate},
		"https://evil.example?.paypal.com":                            {ReasonCertificate, ReasonCertificate},
		"https://evil.example%2f.paypal.com/x":                        {ReasonCertificate, ReasonCertificate},
		"https://evil.example%5c.paypal.com/x":                        {ReasonCertificate, ReasonCertificate},
		"https://API.PAYPAL.COM/x":                                    {ReasonCertificate, ReasonCertificate},
		"https://.paypal.com/x":                                       {ReasonCertificate, ReasonCertificate},
		"https://a..paypal.com/x":                                     {ReasonCertificate, ReasonCertificate},
		"https:api.paypal.com":                                        {ReasonCertificate, ReasonCertificate},
		"//api.paypal.com/x":                                          {ReasonCertificate, ReasonCertificate},
		"ftp://api.paypal.com/x":                                      {ReasonCertificate, ReasonCertificate},
		"https://рaypal.com/x":                                        {ReasonCertificate, ReasonCertificate},
		"https://[::1]/x.paypal.com":                                  {ReasonCertificate, ReasonCertificate},
		"file:///etc/passwd":                                          {ReasonCertificate, ReasonCertificate},
		"":                                                            {ReasonMissing, ReasonMissing},
		"https://sns.us-east-1.amazonaws.com/a.pem?redirect=evil.pem": {ReasonCertificate, ReasonCertificate},
	} {
		got, reason := paypal.CertificateURL(Request{Header: headersOf(paypalCert, url)})
		if reason != want[0] || (got != "") != (reason == ReasonNone) || got != "" && got != url {
			t.Errorf("PayPal %q: %q, %q", url, got, reason)
		}
		got, reason = sns.CertificateURL(Request{Header: headersOf(), Body: envelope(url)})
		if reason != want[1] || (got != "") != (reason == ReasonNone) || got != "" && got != url {
			t.Errorf("SNS %q: %q, %q", url, got, reason)
		}
	}
}

func TestAPayPalWebhookIDThatIsNoneIsRefused(t *testing.T) {
	p := builtinOf(t, "paypal")
	for value, says := range map[string]string{"WH-2MW4820926242972J-6SG447389E205703U": "event's id", "A" + strings.Repeat("b", 79): "client id"} {
		if err := p.CheckSecret(secretOf(t, value)); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), value) {
			t.Errorf("%v", err)
		}
	}
	for _, value := range []string{"1JE4291016473214C", "8PT597110X687430LKGECATA"} {
		if err := p.CheckSecret(secretOf(t, value)); err != nil {
			t.Error(err)
		}
	}
}

func TestAPayPalEventNamesWhatToAskFor(t *testing.T) {
	p := builtinOf(t, "paypal")
	for body, want := range map[string]Reading{
		// API v1 states amounts in another way.
		`{"id":"WH-1","event_type":"PAYMENT.CAPTURE.COMPLETED","create_time":"2026-01-01T00:00:05Z","resource":{"id":"c","amount":{"total":"10.5","currency":"USD"},"invoice_number":"I"}}`: {ID: "WH-1", Type: "PAYMENT.CAPTURE.COMPLETED",
			Time: time.Unix(1767225605, 0).UTC(), Order: "I", Payment: "c", Subject: "c", Fact: order.KindPaid, Amount: 1050, Currency: "USD"},
		`{"id":"WH-2","event_type":"PAYMENT.CAPTURE.REVERSED","resource":{"id":"r","amount":{"value":"500","currency_code":"JPY"},"links":[{"rel":"self","href":"https://x/r"},{"rel":"up","href":"https://x/captures/c"}]}}`: {ID: "WH-2",
			Type: "PAYMENT.CAPTURE.REVERSED", Payment: "c", Object: "r", Subject: "r", Fact: order.KindRefund, Amount: 500, Currency: "JPY"},
		// An order or an authorization is no payment: the order is what is asked for.
		`{"id":"WH-3","event_type":"CHECKOUT.PAYMENT-APPROVAL.REVERSED","resource":{"order_id":"O","purchase_units":[{"custom_id":"S"}]}}`: {ID: "WH-3", Type: "CHECKOUT.PAYMENT-APPROVAL.REVERSED",
			Order: "S", Object: "O", Subject: "O", Fact: order.KindCancelled},
		// What the shop's order is, the API says.
		`{"id":"WH-7","event_type":"CHECKOUT.ORDER.APPROVED","resource":{"id":"O"}}`: {ID: "WH-7", Type: "CHECKOUT.ORDER.APPROVED", Object: "O", Subject: "O", Fact: order.KindPending},
		`{"id":"WH-4","event_type":"CUSTOMER.DISPUTE.RESOLVED","resource":{"dispute_id":"D","disputed_transactions":[{"seller_transaction_id":"c"}],"dispute_outcome":{"outcome_code":"RESOLVED_SELLER_FAVOUR"}}}`: {ID: "WH-4",
			Type: "CUSTOMER.DISPUTE.RESOLVED", Payment: "c", Object: "D", Subject: "D", Fact: order.KindDisputeWon},
		`{"id":"WH-5","event_type":"CUSTOMER.DISPUTE.RESOLVED","resource":{"dispute_id":"D","disputed_transactions":[{"seller_transaction_id":"c"}],"dispute_outcome":{"outcome_code":"RESOLVED_BUYER_FAVOUR"}}}`: {ID: "WH-5",
			Type: "CUSTOMER.DISPUTE.RESOLVED", Payment: "c", Object: "D", Subject: "D", Fact: order.KindDisputeLost},
		`{"id":"WH-6","event_type":"BILLING.PLAN.CREATED","resource":{"id":"P"}}`: {ID: "WH-6", Type: "BILLING.PLAN.CREATED", Subject: "P"},
	} {
		want.Trust = event.Hint
		if r, err := p.Read(headersOf(), []byte(body)); err != nil || r != want {
			t.Errorf("%+v, %v\nwant %+v", r, err, want)
		}
	}
}

// Package conformance runs files of signature vectors and payload fixtures
// against the built-in providers. The files' format is described in
// pkg/webhook/testdata/README.md.
package conformance

import (
	"cmp"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/webhook"
)

// Result is the outcome of one vector or fixture.
type Result struct {
	Provider, Name string
	// Skipped: the provider is not built in.
	Skipped bool
	// Err says what differs; nil if it passed or was skipped.
	Err error
}

// Run runs a file: a JSON array of vectors, fixtures, or both. What has a
// body_base64 is a vector. An error means that the file cannot be read.
func Run(file []byte) ([]Result, error) {
	var cases []testCase
	if err := json.Unmarshal(file, &cases); err != nil {
		return nil, err
	}
	results := make([]Result, 0, len(cases))
	for _, c := range cases {
		r := Result{Provider: c.Provider, Name: c.Name}
		p, ok := c.provider()
		switch {
		case !ok:
			r.Skipped = true
		case c.BodyBase64 != nil:
			r.Err = c.verify(p)
		default:
			r.Err = c.read(p)
		}
		results = append(results, r)
	}
	return results, nil
}

// testCase is a vector or a fixture.
type testCase struct {
	Name     string            `json:"name"`
	Provider string            `json:"provider"`
	Scheme   string            `json:"scheme"`
	Headers  map[string]values `json:"headers"`
	Expect   json.RawMessage   `json:"expect"`

	// of a vector
	Secret     string  `json:"secret"`
	Method     string  `json:"method"`
	URL        string  `json:"url"`
	BodyBase64 *[]byte `json:"body_base64"`
	Now        *int64  `json:"now"`
	Config     struct {
		ToleranceSeconds *int64   `json:"tolerance_seconds"`
		ExtraSecrets     []string `json:"extra_secrets"`
		RemoteAddr       string   `json:"remote_addr"`
		CertPEM          string   `json:"cert_pem"`
		CAPEM            string   `json:"ca_pem"`
		PublicKey        string   `json:"public_key"`
		NotificationURL  string   `json:"notification_url"`
		Algorithm        string   `json:"algorithm"`
	} `json:"config"`

	// of a fixture
	Body json.RawMessage   `json:"body"`
	Form map[string]string `json:"form"`
}

// schemes are the built-in providers of schemes that have a provider of their own.
var schemes = map[string]string{
	"github_sha1":            "github_sha1",
	"shopify_events_hmac":    "shopify_events",
	"adyen_hmac_header":      "adyen_platform",
	"twilio_sig HMAC_SHA256": "twilio_sha256",
	"payu_openpayu MD5":      "payu_md5",
}

// provider is the built-in one of the vector's scheme and algorithm. PayU's vectors
// tell the account's algorithm only in the header.
func (c testCase) provider() (webhook.Provider, bool) {
	algorithm := c.Config.Algorithm
	if algorithm == "" && c.Scheme == "payu_openpayu" && strings.Contains(strings.Join(c.header()("OpenPayu-Signature"), ""), "algorithm=MD5") {
		algorithm = "MD5"
	}
	scheme := strings.TrimSpace(c.Scheme + " " + algorithm)
	return webhook.Builtin(cmp.Or(schemes[scheme], c.Provider))
}

func (c testCase) header() webhook.Headers {
	list := c.headers()
	if _, query, ok := strings.Cut(c.URL, "?"); ok {
		list = append(list, event.Header{Name: webhook.QueryHeader, Value: []byte(query)})
	}
	return webhook.StoredHeaders(list)
}

func (c testCase) headers() (list []event.Header) {
	for name, values := range c.Headers {
		for _, v := range values {
			list = append(list, event.Header{Name: name, Value: []byte(v)})
		}
	}
	return list
}

// values are those of a header: a text, or a list where it comes several times.
type values []string

func (v *values) UnmarshalJSON(b []byte) error {
	if b[0] == '[' {
		return json.Unmarshal(b, (*[]string)(v))
	}
	*v = make(values, 1)
	return json.Unmarshal(b, &(*v)[0])
}

// Signed is a vector as Verify takes it.
type Signed struct {
	Name     string
	Provider webhook.Provider
	Secrets  []webhook.Secret
	Request  webhook.Request
	// Headers are the request's, as a list.
	Headers []event.Header
	Now     time.Time
}

// Valid lists the vectors of a file that must verify: real requests of a provider,
// for tests that damage them. Those of providers that are not built in are left out.
func Valid(file []byte) (all []Signed, err error) {
	var cases []testCase
	if err := json.Unmarshal(file, &cases); err != nil {
		return nil, err
	}
	for _, c := range cases {
		p, ok := c.provider()
		if !ok || c.BodyBase64 == nil || string(c.Expect) != `"valid"` {
			continue
		}
		s, err := c.signed(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		all = append(all, s)
	}
	return all, nil
}

var outcomes = map[webhook.Outcome]string{webhook.Valid: "valid", webhook.Invalid: "invalid", webhook.Stale: "stale"}

func (c testCase) verify(p webhook.Provider) error {
	var want string
	if err := json.Unmarshal(c.Expect, &want); err != nil {
		return fmt.Errorf("read expect: %w", err)
	}
	t, err := c.signed(p)
	if err != nil {
		return err
	}
	v := t.Provider.Verify(t.Request, t.Secrets, t.Now)
	if got := outcomes[v.Outcome]; got != want {
		return fmt.Errorf("verdict %s (%s), expected %s", got, v.Reason, want)
	}
	return nil
}

// signed is the request with all that verifies it.
func (c testCase) signed(p webhook.Provider) (Signed, error) {
	out := Signed{Name: c.Name, Provider: p, Secrets: c.secrets(p), Headers: c.headers()}
	if n := c.Config.ToleranceSeconds; n != nil {
		timed, ok := p.(webhook.Timed)
		if !ok {
			return out, errors.New("the vector sets a tolerance, the scheme has no time")
		}
		t := timed.Tolerance()
		t.Past = time.Duration(*n) * time.Second
		if t.Future != webhook.Unlimited {
			t.Future = t.Past
		}
		out.Provider = timed.WithTolerance(t)
	}
	if c.Now != nil {
		out.Now = time.Unix(*c.Now, 0)
	}
	var err error
	out.Request = webhook.Request{Method: c.Method, URL: cmp.Or(c.Config.NotificationURL, c.URL), Header: c.header(), Body: *c.BodyBase64}
	if out.Request.Remote, err = c.remote(p); err != nil {
		return out, err
	}
	if out.Request.Certificate, err = c.certificate(); err != nil {
		return out, err
	}
	if chain := out.Request.Certificate.Chain; c.Now == nil && len(chain) > 0 {
		out.Now = chain[0].NotBefore // the scheme has no clock, the certificate has
	}
	return out, nil
}

// secrets are all that the receiver accepts; none where the scheme has none. One that
// no endpoint would start with verifies nothing.
func (c testCase) secrets(p webhook.Provider) (secrets []webhook.Secret) {
	if p.Profile().Secret == "" {
		return nil
	}
	for i, text := range append([]string{c.Secret}, c.Config.ExtraSecrets...) {
		if c.Config.PublicKey != "" {
			text = c.Config.PublicKey + ":" + text
		}
		if s := webhook.VectorSecret(strconv.Itoa(i), text); p.CheckSecret(s) == nil {
			secrets = append(secrets, s)
		}
	}
	return secrets
}

// remote is who sent it: where the case does not say, somebody who may.
func (c testCase) remote(p webhook.Provider) (netip.Addr, error) {
	if c.Config.RemoteAddr != "" {
		return netip.ParseAddr(c.Config.RemoteAddr)
	}
	if p, ok := p.(webhook.Addressed); ok {
		return p.Addresses()[0].Addr(), nil
	}
	return netip.Addr{}, nil
}

// certificate is what the certificate's address serves, and who is trusted.
func (c testCase) certificate() (out webhook.Certificate, err error) {
	if out.Chain, err = parseCertificates(c.Config.CertPEM); err != nil {
		return out, fmt.Errorf("read cert_pem: %w", err)
	}
	// Without one, the certificate itself is trusted.
	trusted, err := parseCertificates(cmp.Or(c.Config.CAPEM, c.Config.CertPEM))
	if err != nil {
		return out, fmt.Errorf("read ca_pem: %w", err)
	}
	out.Roots = x509.NewCertPool()
	for _, ca := range trusted {
		out.Roots.AddCert(ca)
	}
	return out, nil
}

func parseCertificates(text string) (list []*x509.Certificate, err error) {
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		list = append(list, cert)
	}
	return list, nil
}

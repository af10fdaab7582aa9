package effect

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"sluice/pkg/order"
)

const whsec = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

var variables = map[string]string{"SECRET": whsec, "OTHER": "whsec_" + strings.Repeat("QUJD", 8), "KEY": "Bearer abc\n", "BLANK": "", "SHORT": "whsec_abc", "LINES": "a\nb"}

func lookup(name string) (string, bool) {
	v, ok := variables[name]
	return v, ok
}

func file(text string) func(string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		if path == "effects.yaml" {
			return []byte(text), nil
		}
		return nil, errors.New("no such file")
	}
}

func TestTheExampleIsReadAndSaysWhatItMeans(t *testing.T) {
	set, err := LoadWithoutSecrets("../../effects.example.yaml", os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	if len(set.All()) != 3 {
		t.Fatalf("read %d effects", len(set.All()))
	}
	f, _ := set.Get("fulfil")
	if f.Delay != 30*time.Second || f.Timeout != 10*time.Second || f.Attempts != 12 || len(f.On) != 1 || f.On[0] != (Rule{To: order.Paid}) ||
		f.URL.Host != "fulfilment.example" || len(f.Headers) != 2 || f.Headers[0].Reveal() != "" || f.Headers[1].Reveal() != "1" {
		t.Errorf("fulfil is %+v", f)
	}
	m, _ := set.Get("refund-mail")
	if m.Attempts != 20 || m.Timeout != 5*time.Second || len(m.On) != 3 || m.On[1] != (Rule{From: order.PartiallyRefunded, To: order.PartiallyRefunded}) {
		t.Errorf("refund-mail is %+v", m)
	}
	c, _ := set.Get("crm")
	if c.On[0] != (Rule{Dispute: order.DisputeOpen}) || c.On[1] != (Rule{To: order.Cancelled, NoCorrections: true}) ||
		!c.Allow.Host("CRM.internal.") || c.Allow.Host("internal") || !c.Allow.Addr(netip.MustParseAddr("::ffff:10.20.1.2")) || c.Allow.Addr(netip.MustParseAddr("10.21.0.1")) {
		t.Errorf("crm is %+v", c)
	}
}

func TestSecretsAndHeadersAreResolvedForWhoCalls(t *testing.T) {
	set, err := Load("effects.yaml", lookup, file(`
effects:
  - {name: a, on: {to: paid}, url: "https://a.example", secret: [env:SECRET, env:OTHER], headers: {Authorization: env:KEY, X-A: "b"}}
`))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := set.Get("a")
	if len(a.Secrets) != 2 || a.Secrets[1].Name != "env:OTHER" || len(a.Headers) != 2 || a.Headers[0].Reveal() != "Bearer abc" {
		t.Errorf("a is %+v", a)
	}
}

func TestEveryProblemIsNamedWithItsLineAndNoSecret(t *testing.T) {
	const value = "whsec_c2VjcmV0LXZhbHVl"
	_, err := Load("effects.yaml", lookup, file(`effects:
  - name: Bad Name
    on: {to: payed}
    url: http://a.example
    secret: `+value+`
  - name: a
    url: ftp://a.example
    secret: env:NOPE
    timeout: 2m
    attempts: 0
    delay: -1s
  - name: a
    on: [{from: paid}, {to: paid, dispute: open}, {from: refunded, to: pending}, {dispute: none}]
    url: https://user:`+value+`@a.example
    secret: [env:SHORT, env:BLANK, file:/gone]
    headers: {Authorization: `+value+`, X-Api-Key: b, host: a, "a b": c, x-a: env:LINES, X-B: "", X-C: env:NOPE}
    allow: [0.0.0.0/0, "a b", "::ffff:10.0.0.0/104"]
  - {name: b, on: {to: paid}, url: "https://a.example:65536", secret: env:SECRET, headers: {X-Shop: "1", x-shop: "2"}}
  - {name: c, on: {to: paid}, url: "https://a.example:0", secret: env:SECRET}
`))
	if err == nil {
		t.Fatal("read")
	}
	text := err.Error()
	for _, want := range []string{
		`:2: effect "Bad Name": name: use 1 to 63`, `on[0]: statuses are`, `url: must be https`, `secret[0]: is not a reference`,
		`:6: effect "a": on: missing`, `url: is no address to call`, `secret[0]: the environment variable NOPE is not set`,
		`timeout: is 2m0s`, `attempts: is 0`, `delay: is -1s`,
		`:12: effect "a": name: is taken`, "on[0]: needs either", "on[1]: needs either", "on[2]: nothing leads from refunded to pending", "on[3]: statuses are",
		"secret[0]: ", "secret[1]: secret env:BLANK is empty", "secret[2]: no such file", "headers.Authorization: looks like a credential", "headers.X-Api-Key: looks",
		"headers.host: is set by Sluice", `headers: "a b" is no header's name`, "headers.x-a: is empty, or holds", "headers.X-B: is empty", "headers.X-C: the environment variable",
		"allow[0]: allows every address", "allow[1]: is no address", "allow[2]: matches nothing",
		`"b": url: has the port 65536`, `"b": headers.x-shop: is there twice`, `"c": url: has the port 0`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("nothing says %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, value) || strings.Contains(text, "c2VjcmV0") {
		t.Errorf("a secret's value is in\n%s", text)
	}
}

func TestTheMarksOfOneDocumentAreNoSecondOne(t *testing.T) {
	for _, text := range []string{"---\nX", "# comment\n---\nX", "X\n...\n", "X\n---\n"} {
		text = strings.Replace(text, "X", "effects: [{name: a, on: {to: paid}, url: https://a.example, secret: env:SECRET}]", 1)
		if _, err := LoadWithoutSecrets("effects.yaml", file(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAFileThatIsNoneIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"empty":           "",
		"no effects":      "effects: []",
		"unknown field":   "effects: [{name: a, on: {to: paid}, url: https://a.example, secret: env:SECRET, retries: 3}]",
		"unknown in rule": "effects: [{name: a, on: {to: paid, when: now}, url: https://a.example, secret: env:SECRET}]",
		"no YAML":         "effects: [",
		"two documents":   "effects: [{name: a, on: {to: paid}, url: https://a.example, secret: env:SECRET}]\n---\neffects: [{name: b, on: {to: paid}, url: https://a.example, secret: env:SECRET}]",
	} {
		if _, err := LoadWithoutSecrets("effects.yaml", file(text)); err == nil {
			t.Errorf("%s: read", name)
		} else {
			t.Log(err)
		}
	}
}

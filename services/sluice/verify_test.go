package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/pkg/webhook"
)

const testdata = "../../pkg/webhook/testdata/"

func verify(t *testing.T, args ...string) (lines []string, err error) {
	t.Helper()
	var out bytes.Buffer
	err = run(append([]string{"verify"}, args...), &out, io.Discard)
	return strings.Split(strings.TrimSpace(out.String()), "\n"), err
}

func TestVerifyCountsWhatPassedFailedAndWasSkipped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mixed.json")
	err := os.WriteFile(file, []byte(`[
		{"name":"good","provider":"github","secret":"It's a Secret to Everybody","headers":{"X-Hub-Signature-256":"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},"body_base64":"SGVsbG8sIFdvcmxkIQ==","now":null,"expect":"valid"},
		{"name":"bad","provider":"github","secret":"s3cr3t","headers":{},"body_base64":"","now":null,"expect":"valid"},
		{"name":"other","provider":"unheard-of","body_base64":"","expect":"valid"}]`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := verify(t, "--vectors", file)
	if err == nil {
		t.Error("a failure is no error")
	}
	if len(lines) != 2 || !strings.Contains(lines[0], "github bad: verdict invalid (missing), expected valid") || lines[1] != "1 passed, 1 failed, 1 skipped" {
		t.Errorf("said:\n%s", strings.Join(lines, "\n"))
	}
}

func TestVerifyPassesTheShippedVectorsAndFixtures(t *testing.T) {
	glob := func(pattern string) []string {
		paths, _ := filepath.Glob(testdata + pattern)
		if len(paths) == 0 {
			t.Fatalf("no %s", pattern)
		}
		return paths
	}
	args := append(append(append([]string{"--vectors"}, glob("vectors/*.json")...), "--fixtures"), glob("fixtures/*.json")...)
	lines, err := verify(t, args...)
	if err != nil || len(lines) != 1 || !strings.HasSuffix(lines[0], " passed, 0 failed, 0 skipped") {
		t.Errorf("%v\n%s", err, strings.Join(lines, "\n"))
	}
}

func TestVerifyWithNothingToRunIsAnError(t *testing.T) {
	for _, args := range [][]string{nil, {"--vectors"}, {"request.http", "--vectors", "file"}, {"--vectors", "--fixtures"}, {"--vectors", "no-such-file"}, {"--fixtures", "verify.go"}, {"stray"}} {
		if lines, err := verify(t, args...); err == nil {
			t.Errorf("%v passed: %v", args, lines)
		}
	}
}

const stripeSecret = "whsec_of_the_verifying_tests_only"

// requestFile is a Stripe webhook as nc would have recorded it, signed at the time.
func requestFile(t *testing.T, at time.Time, change func(raw string) string) string {
	t.Helper()
	p, _ := webhook.Builtin("stripe")
	secret, err := webhook.NewSecret("x", stripeSecret)
	if err != nil {
		t.Fatal(err)
	}
	body := `{"id":"evt_1","object":"event","type":"payment_intent.succeeded","created":1767225605,"livemode":true,"data":{"object":{"id":"pi_1","amount":4990,"amount_received":4990,"currency":"eur","metadata":{"order_id":"A-1"},"receipt_email":"jane@shop.example"}}}`
	headers, err := p.Sign(secret, "", at, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	raw := fmt.Sprintf("POST /webhooks/stripe HTTP/1.1\r\nHost: shop.example\r\nStripe-Signature: %s\r\nContent-Length: %d\r\n\r\n%s", headers["Stripe-Signature"], len(body), body)
	if change != nil {
		raw = change(raw)
	}
	file := filepath.Join(t.TempDir(), "request.http")
	if err := os.WriteFile(file, []byte(raw), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A recorded request is verified or told why not, with an exit code for machines,
// and nothing of the secret, the body or a signature in the output.
func TestARecordedRequestIsVerifiedOrToldWhyNot(t *testing.T) {
	t.Setenv("STRIPE_OF_TEST", stripeSecret)
	t.Setenv("WRONG_OF_TEST", "whsec_quite_another_one")
	t.Setenv("BARE_OF_TEST", strings.TrimPrefix(stripeSecret, "whsec_"))
	file := endpoints(t, `endpoints:
  - {name: stripe, provider: stripe, secrets: [env:STRIPE_OF_TEST]}
  - {name: wrong, provider: stripe, secrets: [env:WRONG_OF_TEST]}
  - {name: bare, provider: stripe, secrets: [env:BARE_OF_TEST]}
`)
	others := endpoints(t, `endpoints:
  - {name: stripe, provider: stripe, secrets: [env:STRIPE_OF_TEST]}
  - {name: shop, provider: svix, secrets: [env:NOT_SET_IN_TEST]}
`)
	signed := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
	dated := func(raw string) string {
		return strings.Replace(raw, "Host:", "Date: Sat, 14 Mar 2026 09:26:55 GMT\r\nHost:", 1)
	}
	for name, c := range map[string]struct {
		change func(string) string
		args   []string
		code   int
		says   []string
	}{
		"as it came":          {nil, nil, 0, []string{"verified", "made with env:STRIPE_OF_TEST", "states paid", "is not judged"}},
		"with a Date header":  {dated, nil, 0, []string{"2s before the clock", "the recorded Date header"}},
		"at a time":           {nil, []string{"--at", "2026-03-14T10:26:53Z"}, 1, []string{"not verified", "1h0m0s before the clock", "NTP"}},
		"at Unix seconds":     {nil, []string{"--at", "1773480413"}, 0, []string{"exactly at the clock"}},
		"a line feed more":    {func(raw string) string { return raw + "\n" }, nil, 1, []string{"line feed", "Content-Length is"}},
		"spaces in the body":  {func(raw string) string { return strings.Replace(raw, `"id":"evt_1"`, `"id": "evt_1"`, 1) }, nil, 1, []string{"parsed and written again", "compact JSON"}},
		"the wrong secret":    {nil, []string{"--endpoint", "wrong"}, 1, []string{"it verifies at endpoint stripe", "env:WRONG_OF_TEST"}},
		"without its prefix":  {nil, []string{"--endpoint", "bare"}, 1, []string{"BARE_OF_TEST lacks its prefix whsec_"}},
		"a header is missing": {func(raw string) string { return strings.Replace(raw, "Stripe-Signature", "Nothing", 1) }, nil, 1, []string{"header Stripe-Signature", "Nothing"}},
		"others not set":      {nil, []string{"--endpoint", "stripe", "--endpoints", others}, 0, []string{"verified"}},
		"itself not set":      {nil, []string{"--endpoint", "shop", "--endpoints", others}, 2, []string{"NOT_SET_IN_TEST"}},
		"no such endpoint":    {nil, []string{"--endpoint", "nobody"}, 2, nil},
		"no such time":        {nil, []string{"--at", "noon"}, 2, nil},
		"no such entry":       {nil, []string{"--entry", "2"}, 2, nil},
		"no such address":     {nil, []string{"--from", "home"}, 2, nil},
		"no certificate":      {nil, []string{"--certificate", file}, 2, nil},
		"no request":          {func(string) string { return "hello" }, nil, 2, nil},
		"another body":        {func(raw string) string { head, _, _ := strings.Cut(raw, "{"); return head }, []string{"--body", file}, 1, []string{"the body is from"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := requestFile(t, signed, c.change)
			lines, err := verify(t, append([]string{path, "--endpoints", file}, c.args...)...)
			out := strings.Join(lines, "\n")
			code := 0
			if err != nil {
				code = exitCode(err)
				out += "\n" + err.Error()
			}
			if code != c.code {
				t.Errorf("exit code %d, want %d: %s", code, c.code, out)
			}
			for _, want := range c.says {
				if !strings.Contains(out, want) {
					t.Errorf("does not say %q:\n%s", want, out)
				}
			}
			for _, never := range []string{stripeSecret, strings.TrimPrefix(stripeSecret, "whsec_"), "quite_another", "jane@", "v1=", "pi_1", "4990"} {
				if strings.Contains(out, never) {
					t.Errorf("says %q:\n%s", never, out)
				}
			}
		})
	}
}

// A recorded session holds requests that are no webhooks: they are left out, unless
// there is nothing else.
func TestOfARecordedSessionOnlyWhatWasSentToAnEndpointIsJudged(t *testing.T) {
	t.Setenv("STRIPE_OF_TEST", stripeSecret)
	t.Setenv("OTHER_OF_TEST", "whsec_quite_another_one")
	file := endpoints(t, `endpoints:
  - {name: stripe, provider: stripe, secrets: [env:STRIPE_OF_TEST]}
  - {name: other, provider: stripe, secrets: [env:OTHER_OF_TEST]}
`)
	raw, err := os.ReadFile(requestFile(t, time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC), nil))
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(raw), "\r\n\r\n")
	_, signature, _ := strings.Cut(head, "Stripe-Signature: ")
	signature, _, _ = strings.Cut(signature, "\r\n")
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	page := `{"request":{"method":"GET","url":"https://shop.example/","headers":[]}}`
	hook := fmt.Sprintf(`{"request":{"method":"POST","url":"https://shop.example/webhooks/stripe","headers":[{"name":"Stripe-Signature","value":%q}],"postData":{"text":%s}}}`, signature, text)
	for entries, want := range map[string]struct {
		code int
		says string
	}{
		page + "," + hook + "," + page: {0, "left out: 2 of 3 entries"},
		hook + "," + page:              {0, "left out: 1 of 2 entries"},
		page + "," + hook:              {0, "left out: 1 of 2 entries"},
		page + "," + page:              {2, "choose one with --endpoint"},
	} {
		har := filepath.Join(t.TempDir(), "session.har")
		if err := os.WriteFile(har, []byte(`{"log":{"entries":[`+entries+`]}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		lines, err := verify(t, har, "--endpoints", file)
		out, code := strings.Join(lines, "\n"), 0
		if err != nil {
			out, code = out+err.Error(), exitCode(err)
		}
		if code != want.code || !strings.Contains(out, want.says) {
			t.Errorf("exit code %d, want %d and %q:\n%s", code, want.code, want.says, out)
		}
	}
}

func TestAStrangersTextDoesNotReachTheTerminalAsItIs(t *testing.T) {
	if got := printable("a\x1b[31m\nb☕"); got != "a\ufffd[31m\ufffdb☕" {
		t.Errorf("%q", got)
	}
}

// A certificate is fetched only from where its provider's lie, and if there is none
// it is asked for.
func TestACertificateThatIsNotThereIsAskedFor(t *testing.T) {
	t.Setenv("PAYPAL_OF_TEST", "96605875FF6516633")
	t.Setenv("API_OF_TEST", "client:secret-of-this-test")
	file := endpoints(t, `endpoints:
  - {name: paypal, provider: paypal, secrets: [env:PAYPAL_OF_TEST], lookup: {credentials: [env:API_OF_TEST], settings: {client_id: the-app}}}
`)
	for address, args := range map[string][]string{"https://api.paypal.com/v1/notifications/certs/CERT-1": {"--offline"}, "http://api.paypal.com/cert": nil, "https://api.paypal.com.evil.example/cert": nil} {
		raw := "POST /webhooks/paypal HTTP/1.1\nPAYPAL-TRANSMISSION-ID: 1\nPAYPAL-TRANSMISSION-TIME: 2026-01-01T00:00:10Z\nPAYPAL-TRANSMISSION-SIG: c2ln\nPAYPAL-AUTH-ALGO: SHA256withRSA\nPAYPAL-CERT-URL: " + address + "\n\n{}"
		path := filepath.Join(t.TempDir(), "request.http")
		if err := os.WriteFile(path, []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		lines, err := verify(t, append([]string{path, "--endpoints", file}, args...)...)
		if out := strings.Join(lines, "\n"); err == nil || exitCode(err) != 1 || !strings.Contains(out, "certificate") {
			t.Errorf("%s: %v\n%s", address, err, out)
		}
	}
}

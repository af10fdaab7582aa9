package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

func stripeDigest(key, t string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// armed is a provider with a secret of its form.
type armed struct {
	Provider
	secret Secret
}

// providers are one of each kind, with secrets that no vector is signed with.
func providers(t testing.TB) []armed {
	t.Helper()
	return []armed{
		{builtinOf(t, "stripe"), secretOf(t, "whsec_NewSecretA1b2")},
		{builtinOf(t, "standard_webhooks"), secretOf(t, "whsec_YW5vdGhlci1zZWNyZXQtb2YtMzItYnl0ZXMtMTIzNA==")},
		{builtinOf(t, "svix"), secretOf(t, "whsec_YW5vdGhlci1zZWNyZXQtb2YtMzItYnl0ZXMtMTIzNA==")},
		{builtinOf(t, "github"), secretOf(t, "gh-0f3b9a")},
		{builtinOf(t, "github_sha1"), secretOf(t, "gh-0f3b9a")},
		{builtinOf(t, "shopify"), secretOf(t, "shpss_0f3b9a")},
		{builtinOf(t, "shopify_events"), secretOf(t, "shpss_0f3b9a")},
		{builtinOf(t, "paddle"), secretOf(t, "pdl_ntfset_0f3b9a")},
		{builtinOf(t, "razorpay"), secretOf(t, "rzp-0f3b9a")},
		{builtinOf(t, "checkout"), secretOf(t, "cko-0f3b9a")},
		{builtinOf(t, "coinbase_commerce"), secretOf(t, "cc-0f3b9a")},
		{builtinOf(t, "paystack"), secretOf(t, "sk_test_0f3b9a")},
		{builtinOf(t, "adyen_platform"), secretOf(t, "9064450A8892A093D9E97EFCC9639DE3")},
		{builtinOf(t, "gocardless"), secretOf(t, "gc-0f3b9a")},
		{builtinOf(t, "square"), secretOf(t, "sq-0f3b9a")},
		{builtinOf(t, "twilio"), secretOf(t, "tw-0f3b9a")},
		{builtinOf(t, "twilio_sha256"), secretOf(t, "tw-0f3b9a")},
		{builtinOf(t, "slack"), secretOf(t, "sl-0f3b9a")},
		{builtinOf(t, "cashfree"), secretOf(t, "cf-0f3b9a")},
		{builtinOf(t, "cloudpayments"), secretOf(t, "cp-0f3b9a")},
		{builtinOf(t, "payu"), secretOf(t, "pu-0f3b9a")},
		{builtinOf(t, "payu_md5"), secretOf(t, "pu-0f3b9a")},
		{builtinOf(t, "flutterwave_v4"), secretOf(t, "fw-0f3b9a")},
		{acme(t, nil), secretOf(t, "acme-77f0")},
		{acme(t, func(d *Declaration) {
			d.Signature = Signature{Header: "X-Acme-Signature", Part: "v1", Algorithm: "sha256", Encoding: "hex", Key: "hex", Separator: ";",
				Signed: "{timestamp}:{body}", Timestamp: Timestamp{Part: "t"}}
		}), secretOf(t, "00ff10aa")},
	}
}

// A new declaration must be tried as the others are.
func TestEveryProviderThatIsADeclarationIsTried(t *testing.T) {
	for _, name := range BuiltinNames() {
		switch builtinOf(t, name).(type) {
		case declared, timedDeclared:
			if !slices.ContainsFunc(providers(t), func(p armed) bool { return p.Name() == name }) {
				t.Errorf("%s is not among the providers of these tests", name)
			}
		}
	}
}

// O01, O02: what is signed are the bytes, whatever they are.
func TestBytesVerifyAsTheyAreAndNotOneOfThemMayChange(t *testing.T) {
	bodies := []string{
		"{\"id\":\"evt_u8_1\",\"data\":{\"note\":\"☕ naïve 👩‍💻\"}}", "{\"note\":\"nai\u0308ve\"}", "{\"note\":\"\xff\"}",
		`{"url":"https:\/\/pay.example\/i\/1","html":"\u003cp\u003e"}`, `{"type":"a","data":{},"id":"b"}`, "{\r\n  \"id\": 1\r\n}\r\n",
		`{"amount":10.00}`, "{}\n", "\xef\xbb\xbf{}", "payload=%7B%7D", "",
	}
	for _, p := range providers(t) {
		s := p.secret
		for _, body := range bodies {
			req := signed(t, p, s, "evt_1", noon, []byte(body))
			if v := p.Verify(req, []Secret{s}, noon); v.Outcome != Valid || v.Secret != "test" {
				t.Errorf("%s %q: %+v", p.Name(), body, v)
			}
			for _, changed := range []string{body + "\n", strings.TrimSuffix(body, "\n") + " ", strings.ToValidUTF8(body, "\ufffd") + "."} {
				req.Body = []byte(changed)
				if v := p.Verify(req, []Secret{s}, noon); v.Outcome != Invalid || v.Reason != ReasonMismatch {
					t.Errorf("%s %q as %q: %+v", p.Name(), body, changed, v)
				}
			}
		}
	}
}

func TestAProviderNamesEveryHeaderThatItLooksAt(t *testing.T) {
	for _, p := range providers(t) {
		s := p.secret
		req := signed(t, p, s, "evt_1", noon, []byte(`{"id":"a","type":"b"}`))
		known := map[string]bool{}
		for _, name := range p.SignatureHeaders() {
			if name != strings.ToLower(name) {
				t.Errorf("%s: %s is not lower case", p.Name(), name)
			}
			known[name] = true
		}
		all := req.Header
		req.Header = func(name string) []string {
			if !known[strings.ToLower(name)] {
				t.Errorf("%s looks at %s", p.Name(), name)
			}
			return all(name)
		}
		if v := p.Verify(req, []Secret{s}, noon); v.Outcome != Valid {
			t.Errorf("%s: %+v", p.Name(), v)
		}
		_, _ = p.Read(req.Header, req.Body)
	}
}

// O04
func TestAnySignatureOfAnyConfiguredSecretWillDo(t *testing.T) {
	p, body := builtinOf(t, "stripe"), []byte(`{"id":"evt_1"}`)
	const ts = "1767225605"
	digest := func(key string) string { return stripeDigest(key, ts, body) }
	fresh, _ := NewSecret("new", "whsec_new1")
	old, _ := NewSecret("old", "whsec_old1")
	both := []Secret{fresh, old}
	bad := strings.Repeat("ab", 32)
	for _, c := range []struct {
		header  string
		secrets []Secret
		secret  string
	}{
		{"v1=" + bad + ",v1=" + digest("whsec_old1") + ",v1=" + bad, both, "old"},
		{"v1=" + digest("whsec_new1") + ",v1=" + digest("whsec_old1"), both, "new"},
		{"v1=" + digest("whsec_old1") + ",v1=" + digest("whsec_new1"), both, "new"},
		{"v1=nonsense,v1=" + digest("whsec_new1"), both, "new"},
		{"v9=x,v1=" + digest("whsec_new1"), both, "new"},
		{"v0=" + digest("whsec_new1") + ",v1=" + bad, both, ""},
		{"v1=" + digest("whsec_gone"), both, ""},
		{"v1=" + digest("whsec_old1"), []Secret{fresh}, ""},
		{"v1=" + digest("whsec_new1"), nil, ""},
	} {
		req := Request{Header: headersOf("Stripe-Signature", "t="+ts+","+c.header), Body: body}
		v := p.Verify(req, c.secrets, noon)
		if (v.Outcome == Valid) != (c.secret != "") || v.Secret != c.secret {
			t.Errorf("%s: %+v, want secret %q", c.header, v, c.secret)
		}
	}
}

// O05: an empty key is known to all.
func TestNothingSignedWithAnEmptyKeyIsAccepted(t *testing.T) {
	body := []byte(`{"id":"evt_1"}`)
	req := Request{Header: headersOf("Stripe-Signature", "t=1767225605,v1="+stripeDigest("", "1767225605", body)), Body: body}
	if v := builtinOf(t, "stripe").Verify(req, []Secret{{}}, noon); v.Outcome != Invalid {
		t.Errorf("stripe: %+v", v)
	}
	mac := hmac.New(sha256.New, nil)
	mac.Write([]byte("m.1767225605." + string(body)))
	req.Header = headersOf("webhook-id", "m", "webhook-timestamp", "1767225605", "webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	if v := builtinOf(t, "standard_webhooks").Verify(req, []Secret{{}}, noon); v.Outcome != Invalid {
		t.Errorf("standard_webhooks: %+v", v)
	}
	for _, p := range providers(t) {
		if _, err := p.Sign(Secret{}, "m", noon, body); err == nil {
			t.Errorf("%s signs without a secret", p.Name())
		}
	}
}

// O05: a published key in hexadecimal digits is the same key in small letters.
func TestAPublishedSampleIsKnownInCapitalAndSmallLetters(t *testing.T) {
	for _, value := range []string{"44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056",
		"44782def547aaa06c910c43932b1eb0c71fc68d9d0c057550c48ec2acf6ba056", "usaf8fw8fsw21g"} {
		if s, err := NewSecret("env:X", value); err != nil || !s.IsSample() {
			t.Errorf("%q: %v", value, err)
		}
	}
}

// O05
func TestEmptyBlankAndSampleSecretsAreRefused(t *testing.T) {
	for _, value := range []string{"", "   ", "\n", "\r\n", " \t\n", "changeme", "ChangeMe\n", "changeit", "whsec_your_webhook_secret", "whsec_", "whsec_xxx", "<secret>", "${SECRET}", " abc", "abc "} {
		if _, err := NewSecret("env:S", value); err == nil || !strings.Contains(err.Error(), "env:S") {
			t.Errorf("%q: %v", value, err)
		}
	}
	for _, value := range []string{"whsec_test_secret", "It's a Secret to Everybody", "0123456789abcdef", "with-newline\n"} {
		if _, err := NewSecret("env:S", value); err != nil {
			t.Error(err)
		}
	}
}

func TestASecretPrintsAsItsName(t *testing.T) {
	s, _ := NewSecret("env:S", "hunter22x")
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s, "list", []Secret{s})
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%+v", s), fmt.Sprintf("%#v", s), fmt.Sprintf("%v", []Secret{s}), log.String()} {
		if strings.Contains(text, "hunter22x") || !strings.Contains(text, "env:S") {
			t.Errorf("prints as %s", text)
		}
	}
}

// O06: nothing in a header reaches code that can panic.
func TestMalformedSignatureHeadersAreRefused(t *testing.T) {
	stripes := []string{
		"", ",,,,", "=", "t", "t=", "t=1767225605", "v1=" + strings.Repeat("ab", 32), strings.Repeat("a", 64<<10), "t=1767225605,v1=abc",
		"t=1767225605,v1=" + strings.Repeat("a", 63), "t=1767225605,v1=" + strings.Repeat("a", 65), "t=1767225605,v1=" + strings.Repeat("Z", 64),
		"t=1767225605,v1=" + strings.Repeat("☕", 64), "t=1767225605" + strings.Repeat(",v1="+strings.Repeat("ab", 32), 17),
		"\x00", "t=1767225605,v1", "sha256=", "SHA256=" + strings.Repeat("ab", 32),
	}
	standards := []string{"v1", "v1,", "v1,not base64!!", ",", "v1,,", "v1a,", "v1," + base64.StdEncoding.EncodeToString(make([]byte, 31)),
		"v1a," + base64.StdEncoding.EncodeToString(make([]byte, 32)), strings.Repeat("v1,"+base64.StdEncoding.EncodeToString(make([]byte, 32))+" ", 17)}
	values := slices.Concat(stripes, standards, []string{"sha256=", "SHA256=" + strings.Repeat("ab", 32), "sha256=" + strings.Repeat("z", 64), "v1:", "v1:!!", "t=1;v1=", ";;;", "v1=;t="})
	for _, p := range providers(t) {
		s := p.secret
		for _, v := range values {
			req := Request{Body: []byte("{}"), Header: func(name string) []string {
				switch strings.ToLower(name) {
				case "webhook-id", "svix-id", "x-acme-id":
					return []string{"m"}
				case "webhook-timestamp", "svix-timestamp", "x-acme-time":
					return []string{"1767225605"}
				}
				return []string{v}
			}}
			got := p.Verify(req, []Secret{s}, noon)
			if got.Outcome != Invalid || got.Reason == ReasonMismatch || got.Reason == ReasonNone {
				t.Errorf("%s %.40q: %+v", p.Name(), v, got)
			}
		}
	}
}

func TestAHeaderThatComesTwiceIsRefused(t *testing.T) {
	for _, p := range providers(t) {
		s := p.secret
		req := signed(t, p, s, "m", noon, []byte("{}"))
		all := req.Header
		req.Header = func(name string) []string {
			if v := all(name); len(v) > 0 {
				return append(v, v[0])
			}
			return nil
		}
		if v := p.Verify(req, []Secret{s}, noon); v.Reason != ReasonMalformed {
			t.Errorf("%s: %+v", p.Name(), v)
		}
	}
}

func TestASecondTimeInTheSignatureHeaderIsRefused(t *testing.T) {
	body := []byte("{}")
	v1 := ",v1=" + stripeDigest("whsec_new1", "1767225605", body)
	declared := acme(t, func(d *Declaration) {
		d.Signature = Signature{Header: "Stripe-Signature", Part: "v1", Algorithm: "sha256", Encoding: "hex", Signed: "{timestamp}.{body}", Timestamp: Timestamp{Part: "t"}}
	})
	for _, p := range []Provider{builtinOf(t, "stripe"), declared} {
		for header, want := range map[string]Reason{
			"t=1767225605" + v1:              ReasonNone,
			"t=1767225605,t=1767225605" + v1: ReasonMalformed, "t=1,t=1767225605" + v1: ReasonMalformed, "t=1767225605" + v1 + ",t=1": ReasonMalformed,
		} {
			req := Request{Header: headersOf("Stripe-Signature", header), Body: body}
			if v := p.Verify(req, []Secret{secretOf(t, "whsec_new1")}, noon); v.Reason != want {
				t.Errorf("%s %s: %+v", p.Name(), header, v)
			}
		}
	}
}

// O07: rightly signed, and the time is what is wrong with it.
func TestOddTimesAreRefusedHoweverWellTheyAreSigned(t *testing.T) {
	now := noon
	p := builtinOf(t, "stripe").(Timed).WithTolerance(Tolerance{Past: 300 * time.Second, Future: 300 * time.Second})
	body, key := []byte("{}"), "whsec_new1"
	at := func(d time.Duration) string { return fmt.Sprint(now.Add(d).Unix()) }
	for ts, want := range map[string]Reason{
		at(0): ReasonNone, at(-295 * time.Second): ReasonNone, at(295 * time.Second): ReasonNone,
		at(-300 * time.Second): ReasonNone, at(300 * time.Second): ReasonNone,
		at(-301 * time.Second): ReasonStale, at(301 * time.Second): ReasonStale,
		at(-305 * time.Second): ReasonStale, at(305 * time.Second): ReasonStale, at(87600 * time.Hour): ReasonStale, "0": ReasonStale,
		"-1": ReasonMalformed, "": ReasonMalformed, "abc": ReasonMalformed, "1.7e9": ReasonMalformed, at(0) + "000": ReasonMalformed,
		"1767225605176722560517672": ReasonMalformed, "+" + at(0): ReasonMalformed, " " + at(0): ReasonMalformed, "0" + at(0): ReasonMalformed,
		at(0) + ".0": ReasonMalformed, "0x69557a85": ReasonMalformed, "١٧٦٧٢٢٥٦٠٥": ReasonMalformed, "1_767_225_605": ReasonMalformed,
	} {
		req := Request{Header: headersOf("Stripe-Signature", "t="+ts+",v1="+stripeDigest(key, ts, body)), Body: body}
		if v := p.Verify(req, []Secret{secretOf(t, key)}, now); v.Reason != want {
			t.Errorf("t=%s: %+v, want %q", ts, v, want)
		}
	}
}

func TestAStaleVerdictSaysWhenAndWithWhatItWasSigned(t *testing.T) {
	for _, p := range providers(t) {
		s := p.secret
		timed, ok := p.Provider.(Timed)
		if !ok || timed.Tolerance().Past == Unlimited {
			continue
		}
		req := signed(t, p, s, "m", noon, []byte("{}"))
		want := Verdict{Outcome: Stale, Reason: ReasonStale, Secret: "test", SignedAt: noon}
		if v := p.Verify(req, []Secret{s}, noon.Add(10*time.Minute)); v != want {
			t.Errorf("%s: %+v", p.Name(), v)
		}
		wide := timed.WithTolerance(Tolerance{Past: time.Hour, Future: time.Second})
		if v := wide.Verify(req, []Secret{s}, noon.Add(10*time.Minute)); v.Outcome != Valid {
			t.Errorf("%s with an hour: %+v", p.Name(), v)
		}
		if p.Verify(req, []Secret{s}, noon.Add(10*time.Minute)).Outcome != Stale {
			t.Errorf("%s: WithTolerance changed the provider it was called on", p.Name())
		}
	}
}

// Two sets of header names are never mixed: what verifies is what is read.
func TestSvixReadsTheIDThatItVerified(t *testing.T) {
	p, s := builtinOf(t, "svix"), secretOf(t, "whsec_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=")
	body := []byte(`{"type":"x"}`)
	h, err := builtinOf(t, "standard_webhooks").Sign(s, "evt_signed", noon, body)
	if err != nil {
		t.Fatal(err)
	}
	pairs := []string{"svix-id", "evt_forged", "svix-timestamp", "1767225605"}
	for k, v := range h {
		pairs = append(pairs, k, v)
	}
	req := Request{Header: headersOf(pairs...), Body: body}
	if v := p.Verify(req, []Secret{s}, noon); v.Outcome != Valid {
		t.Fatalf("%+v", v)
	}
	if r, err := p.Read(req.Header, body); err != nil || r.ID != "evt_signed" {
		t.Errorf("read %q, %v", r.ID, err)
	}
}

func TestAPublicKeyVerifiesAndCannotSign(t *testing.T) {
	p := builtinOf(t, "standard_webhooks")
	const seedAndPublic = "6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
	private, public := secretOf(t, "whsk_"+seedAndPublic), secretOf(t, "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=")
	req := signed(t, p, private, "m", noon, []byte("{}"))
	if v := p.Verify(req, []Secret{public}, noon); v.Outcome != Valid {
		t.Errorf("%+v", v)
	}
	if _, err := p.Sign(public, "m", noon, nil); err == nil {
		t.Error("a public key signs")
	}
	if p.CheckSecret(public) != nil || p.CheckSecret(private) == nil || p.CheckSecret(secretOf(t, "whpk_AAAA")) == nil {
		t.Error("CheckSecret takes the wrong keys")
	}
}

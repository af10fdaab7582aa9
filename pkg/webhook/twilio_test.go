package webhook

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"testing"
)

func twilioSum(key, text string) string {
	mac := hmac.New(sha1.New, []byte(key))
	mac.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func TestTwilioSignsTheURLWithOrWithoutItsPort(t *testing.T) {
	for url, want := range map[string][]string{
		"https://a.example/x?y=1":         {"https://a.example:443/x?y=1", "https://a.example/x?y=1"},
		"http://a.example":                {"http://a.example:80", "http://a.example"},
		"https://a.example:1234/x":        {"https://a.example:1234/x", "https://a.example/x"},
		"https://u:p@a.example/x:1":       {"https://u:p@a.example:443/x:1", "https://u:p@a.example/x:1"},
		"https://[::1]/x":                 {"https://[::1]:443/x", "https://[::1]/x"},
		"https://[::1]:8443/x":            {"https://[::1]:8443/x", "https://[::1]/x"},
		"https://a.example?u=http://b:1/": {"https://a.example:443?u=http://b:1/", "https://a.example?u=http://b:1/"},
		"":                                {""},
	} {
		if got := twilioURLs(url); !slices.Equal(got, want) {
			t.Errorf("%s: %q", url, got)
		}
	}
}

// A body that nothing binds is never let through.
func TestTwilioBindsEveryBody(t *testing.T) {
	p, s := builtinOf(t, "twilio"), secretOf(t, "tw-0f3b9a")
	const url = "https://a.example/x"
	json := []byte(`{"property":"value"}`)
	sum := sha256.Sum256(json)
	bound := url + "?bodySHA256=" + hex.EncodeToString(sum[:])
	for name, c := range map[string]struct {
		url, body, text string // text: what was signed
		want            Outcome
	}{
		"a form":                        {url, "b=2&a=1", url + "a1b2", Valid},
		"a form in another order":       {url, "a=1&b=2", url + "a1b2", Valid},
		"a form with a changed value":   {url, "a=1&b=3", url + "a1b2", Invalid},
		"a form with one field more":    {url, "a=1&b=2&c=3", url + "a1b2", Invalid},
		"a name twice":                  {url, "a=2&a=1&b=1", url + "a1a2b1", Valid},
		"a name twice, signed once":     {url, "a=1&a=2&b=1", url + "a1b1", Invalid},
		"JSON bound by its hash":        {bound, string(json), bound, Valid},
		"JSON with a hash not its own":  {bound, `{"property":"other"}`, bound, Invalid},
		"JSON without a hash":           {url, string(json), url, Invalid},
		"JSON with an empty hash":       {url + "?bodySHA256=", string(json), url + "?bodySHA256=", Invalid},
		"two hashes":                    {bound + "&bodySHA256=00", string(json), bound + "&bodySHA256=00", Invalid},
		"two hashes, the second right":  {url + "?bodySHA256=00&" + bound[len(url)+1:], string(json), url + "?bodySHA256=00&" + bound[len(url)+1:], Invalid},
		"a hash in upper case":          {url + "?bodySHA256=" + "AB", "x", url + "?bodySHA256=AB", Invalid},
		"an address that was signed on": {url, "", url, Valid}, // and is not read: it states no id
	} {
		req := Request{URL: c.url, Header: headersOf(twilioSignature, twilioSum("tw-0f3b9a", c.text)), Body: []byte(c.body)}
		if v := p.Verify(req, []Secret{s}, noon); v.Outcome != c.want {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if r, err := p.Read(headersOf(), nil); err == nil {
		t.Errorf("an empty body was read: %+v", r)
	}
}

// The algorithm is the secret's. A header that names a weaker one changes nothing.
func TestNoHeaderChoosesTwiliosAlgorithm(t *testing.T) {
	s := secretOf(t, "tw-0f3b9a")
	const url, body = "https://a.example/x", "a=1"
	weak := headersOf(twilioSignature, twilioSum("tw-0f3b9a", url+"a1"), "X-Twilio-Webhooks-Signature-Settings", "key=k,algorithm=HMAC_SHA1")
	if v := builtinOf(t, "twilio_sha256").Verify(Request{URL: url, Header: weak, Body: []byte(body)}, []Secret{s}, noon); v.Outcome != Invalid {
		t.Errorf("SHA-1 passed for SHA-256: %+v", v)
	}
	strong := builtinOf(t, "twilio_sha256").(Located).WithURL(url)
	req := signed(t, strong, s, "", noon, []byte(body))
	req.URL = url
	if v := strong.Verify(req, []Secret{s}, noon); v.Outcome != Valid {
		t.Errorf("%+v", v)
	}
	if v := builtinOf(t, "twilio").Verify(req, []Secret{s}, noon); v.Outcome != Invalid {
		t.Errorf("SHA-256 passed for SHA-1: %+v", v)
	}
}

func TestATwilioEventIsNamedByItsSIDAndStatus(t *testing.T) {
	p := builtinOf(t, "twilio")
	for body, want := range map[string][2]string{
		"MessageSid=SM1&MessageStatus=delivered": {"SM1:delivered", "message:delivered"},
		"CallSid=CA1&CallStatus=completed":       {"CA1:completed", "call:completed"},
		"CallSid=CA1&Digits=1":                   {"CA1", "request"},
		`{"id":"EV1","type":"com.twilio.x"}`:     {"EV1", "com.twilio.x"},
	} {
		if r, err := p.Read(headersOf(), []byte(body)); err != nil || r.ID != want[0] || r.Type != want[1] {
			t.Errorf("%s: %+v, %v", body, r, err)
		}
	}
	if r, err := p.Read(headersOf("I-Twilio-Idempotency-Token", "tok"), []byte("CallSid=CA1")); err != nil || r.ID != "tok" {
		t.Errorf("%+v, %v", r, err)
	}
}

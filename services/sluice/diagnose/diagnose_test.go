package diagnose

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/webhook"
	"sluice/pkg/webhook/conformance"
	"sluice/services/sluice/recorded"
)

// whole are real requests of every built-in provider, as their vectors have them.
func whole(t *testing.T) map[string][]Case {
	t.Helper()
	all := map[string][]Case{}
	var vectors []conformance.Signed
	paths, _ := filepath.Glob("../../../pkg/webhook/testdata/vectors/*.json")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		valid, err := conformance.Valid(text)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		vectors = append(vectors, valid...)
	}
	for _, name := range webhook.BuiltinNames() {
		p, _ := webhook.Builtin(name)
		own := func(v conformance.Signed) bool { return v.Provider.Name() == name }
		if !slices.ContainsFunc(vectors, own) { // another provider may have the same scheme
			own = func(v conformance.Signed) bool { return p.Verify(v.Request, v.Secrets, v.Now).Outcome == webhook.Valid }
		}
		for _, v := range vectors {
			if len(all[name]) < 3 && own(v) {
				if v.Provider.Name() != name {
					v.Provider = p
				}
				all[name] = append(all[name], caseOf(v))
			}
		}
		if len(all[name]) == 0 && p.Profile().Secret != "" {
			t.Errorf("provider %s has no vector that must verify: nothing says whether its mistakes are named", name)
		}
	}
	return all
}

func caseOf(v conformance.Signed) Case {
	c := Case{Now: v.Now, Clock: "the test", Remote: v.Request.Remote, Certificate: v.Request.Certificate,
		Endpoint: endpoint.Endpoint{Name: "shop", Provider: v.Provider, Secrets: v.Secrets, URL: v.Request.URL},
		Request:  recorded.Request{Method: v.Request.Method, Target: v.Request.URL, Body: v.Request.Body}}
	for _, h := range v.Headers {
		c.Request.Headers = append(c.Request.Headers, recorded.Header{Name: h.Name, Value: string(h.Value)})
	}
	slices.SortFunc(c.Request.Headers, func(a, b recorded.Header) int { return strings.Compare(a.Name, b.Name) })
	return c
}

// diagnosed diagnoses, and holds the answer to telling nothing of the request.
func diagnosed(t *testing.T, name string, c Case) Diagnosis {
	t.Helper()
	d := Diagnose(c)
	text := fmt.Sprintf("%+v", d)
	if body := string(c.Request.Body); len(body) > 20 && strings.Contains(text, body[:20]) {
		t.Errorf("%s: the body is in %s", name, text)
	}
	for _, h := range c.Request.Headers {
		_, noTime := time.Parse(time.RFC3339, h.Value) // a signed time is told
		if len(h.Value) > 12 && noTime != nil && strings.Contains(text, h.Value) {
			t.Errorf("%s: the value of header %s is in %s", name, h.Name, text)
		}
	}
	if d.Verified() != (len(d.Causes) == 0) {
		t.Errorf("%s: %s with causes %+v", name, d.Verdict.Reason, d.Causes)
	}
	for _, cause := range d.Causes {
		if cause.Text == "" || cause.Do == "" {
			t.Errorf("%s: a cause says nothing: %+v", name, cause)
		}
	}
	return d
}

func (d Diagnosis) names(m Mistake) bool {
	return slices.ContainsFunc(d.Causes, func(c Cause) bool { return c.Mistake == m })
}

func TestARequestAsItCameVerifies(t *testing.T) {
	for name, cases := range whole(t) {
		for _, c := range cases {
			if d := diagnosed(t, name, c); !d.Verified() {
				t.Errorf("%s: %+v", name, d)
			}
		}
	}
}

func body(change func([]byte) []byte) func(*Case) bool {
	return func(c *Case) bool {
		changed := change(bytes.Clone(c.Request.Body))
		if changed == nil || bytes.Equal(changed, c.Request.Body) {
			return false
		}
		c.Request.Body = changed
		return true
	}
}

// styled is a JSON body that was written in one of the styles throughout.
func styled(text []byte) bool {
	root, err := parseNode(bytes.TrimSpace(text))
	return err == nil && root.open == '{' && slices.ContainsFunc(styles, func(s style) bool { return bytes.Equal(root.write(nil, s, nil, ""), text) })
}

// damages are what happens to requests, and what the diagnosis must call it. Each
// says false if it cannot happen to a request.
var damages = map[string]struct {
	mistake Mistake
	damage  func(*Case) bool
}{
	"a line feed more":  {LineEnds, body(func(b []byte) []byte { return append(b, '\n') })},
	"a CRLF more":       {LineEnds, body(func(b []byte) []byte { return append(b, "\r\n"...) })},
	"a line end lost":   {LineEnds, body(func(b []byte) []byte { return bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r")) })},
	"packed with gzip":  {Encoded, body(zipped)},
	"in chunks":         {Encoded, body(func(b []byte) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n0\r\n\r\n", len(b), b) })},
	"a byte order mark": {Charset, body(func(b []byte) []byte { return append([]byte("\xef\xbb\xbf"), b...) })},
	"taken for Latin-1": {Charset, body(mojibake)},
	"indented": {Rewritten, body(func(b []byte) []byte {
		return reprint(b, func(v any, raw *bytes.Buffer) error { return json.Indent(raw, b, "", "  ") })
	})},
	"compacted": {Rewritten, body(func(b []byte) []byte {
		return reprint(b, func(v any, raw *bytes.Buffer) error { return json.Compact(raw, b) })
	})},
	"slashes escaped": {Rewritten, body(func(b []byte) []byte {
		return reprint(b, func(v any, raw *bytes.Buffer) error {
			raw.Write(bytes.ReplaceAll(b, []byte("/"), []byte(`\/`)))
			return nil
		})
	})},
	"keys sorted": {Rewritten, body(func(b []byte) []byte {
		return reprint(b, func(v any, raw *bytes.Buffer) error { text, err := json.Marshal(v); raw.Write(text); return err })
	})},
	"cut off":            {Truncated, cutOff},
	"an hour late":       {Clock, func(c *Case) bool { c.Now = c.Now.Add(time.Hour + time.Minute); return true }},
	"http and not https": {WrongURL, func(c *Case) bool { return address(c, strings.Replace(c.Endpoint.URL, "https://", "http://", 1)) }},
	"a slash more":       {WrongURL, func(c *Case) bool { return address(c, strings.TrimSuffix(c.Endpoint.URL, "/")+"/") }},
	"the inner host":     {WrongURL, func(c *Case) bool { return address(c, "http://10.0.0.7:8080/in") }},
	"a host that nothing tells of": {WrongURL, func(c *Case) bool {
		c.Request.Target = "/in" // as a server behind a proxy sees it
		c.Request.Headers = slices.DeleteFunc(slices.Clone(c.Request.Headers), func(h recorded.Header) bool { return strings.EqualFold(h.Name, "Host") })
		return address(c, "https://another.example/in")
	}},
	"another secret": {WrongSecret, func(c *Case) bool { return secret(c, "an0ther-secret-that-signed-nothing") }},
	"an endpoint's": {WrongEndpoint, func(c *Case) bool {
		c.Others = []endpoint.Endpoint{c.Endpoint}
		return secret(c, "an0ther-secret-that-signed-nothing")
	}},
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

// mojibake is UTF-8 that was read as Latin-1 and written as UTF-8.
func mojibake(b []byte) []byte {
	var out strings.Builder
	for _, c := range b {
		out.WriteRune(rune(c))
	}
	return []byte(out.String())
}

func reprint(b []byte, print func(v any, raw *bytes.Buffer) error) []byte {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v map[string]any
	var raw bytes.Buffer
	if !styled(b) || d.Decode(&v) != nil || len(v) < 4 || print(v, &raw) != nil {
		return nil
	}
	return raw.Bytes()
}

func cutOff(c *Case) bool {
	n := len(c.Request.Body)
	if n < 4 {
		return false
	}
	c.Request.Headers = set(c.Request.Headers, "Content-Length", fmt.Sprint(n))
	c.Request.Body = c.Request.Body[:n/2]
	return true
}

func address(c *Case, url string) bool {
	if !c.Endpoint.Provider.Profile().NeedsURL || strings.Contains(c.Endpoint.URL, "?") || url == c.Endpoint.URL {
		return false
	}
	c.Endpoint.URL = url
	return true
}

func secret(c *Case, value string) bool {
	s, err := webhook.NewSecret("env:OTHER", value)
	if err != nil || len(c.Endpoint.Secrets) == 0 {
		return false
	}
	c.Endpoint.Secrets = []webhook.Secret{s}
	return true
}

// Every usual mistake is named, whatever the provider. One that a scheme does not
// mind (a line feed after a form, say) still verifies, and is none.
func TestEveryUsualMistakeIsNamedForEveryProvider(t *testing.T) {
	happened := map[string]int{}
	for name, cases := range whole(t) {
		for _, whole := range cases {
			for what, d := range damages {
				c := whole
				if !d.damage(&c) {
					continue
				}
				got := diagnosed(t, name, c)
				if got.Verified() {
					continue
				}
				happened[what]++
				if named := got.names(d.mistake) || d.mistake == WrongSecret && got.names(SecretKind); !named {
					t.Errorf("%s, %s: not named %s: %+v", name, what, d.mistake, got.Causes)
				}
			}
		}
	}
	for what := range damages {
		if happened[what] == 0 {
			t.Logf("%s: did not matter to any provider", what)
		}
	}
}

// What is done to headers is named for each header that a provider needs.
func TestEveryHeaderThatIsLostRenamedOrRepeatedIsNamed(t *testing.T) {
	for name, cases := range whole(t) {
		for _, whole := range cases {
			for i, h := range whole.Request.Headers {
				with := func(headers ...recorded.Header) Diagnosis {
					c := whole
					c.Request.Headers = slices.Concat(whole.Request.Headers[:i], headers, whole.Request.Headers[i+1:])
					return diagnosed(t, name, c)
				}
				d := with()
				if told := d.names(HeaderMissing) && strings.Contains(strings.ToLower(fmt.Sprint(d.Causes)), strings.ToLower(h.Name)); !told && !d.Verified() {
					t.Errorf("%s without %s: %+v", name, h.Name, d.Causes)
				}
				for _, other := range []string{"X-Original-" + h.Name, "HTTP_" + strings.ReplaceAll(strings.ToUpper(h.Name), "-", "_"), "X-Gateway-7"} {
					if d := with(recorded.Header{Name: other, Value: h.Value}); !d.Verified() && !d.names(HeaderRenamed) {
						t.Errorf("%s with %s as %s: %+v", name, h.Name, other, d.Causes)
					}
				}
				if d := with(h, h); !d.Verified() && !d.names(HeaderRepeated) {
					t.Errorf("%s with %s twice: %+v", name, h.Name, d.Causes)
				}
				if prefix := valuePrefix.FindString(h.Value); prefix != "" && prefix != "https:" && !strings.Contains(h.Value, ",") && !strings.Contains(h.Value, ";") {
					if d := with(recorded.Header{Name: h.Name, Value: strings.TrimPrefix(h.Value, prefix)}); !d.Verified() && !d.names(HeaderForm) {
						t.Errorf("%s with %s without %s: %+v", name, h.Name, prefix, d.Causes)
					}
					if d := with(recorded.Header{Name: h.Name, Value: prefix + h.Value}); !d.Verified() && !d.names(HeaderForm) {
						t.Errorf("%s with %s and %s twice: %+v", name, h.Name, prefix, d.Causes)
					}
				}
			}
		}
	}
}

// What has no signature is not called right.
func TestASchemeWithoutASignatureIsToldAsThat(t *testing.T) {
	for name, want := range map[string]string{"mollie_classic": "anybody could have sent this", "yookassa": "the sender's address is one of the endpoint's"} {
		p, _ := webhook.Builtin(name)
		c := Case{Endpoint: endpoint.Endpoint{Name: name, Provider: p}, Request: recorded.Request{Method: "POST", Body: []byte("id=tr_1")}, Remote: netip.MustParseAddr("77.75.156.11")}
		if a, ok := p.(webhook.Addressed); ok {
			c.Endpoint.Addresses = a.Addresses()
		}
		d := Diagnose(c)
		if !d.Verified() || !slices.ContainsFunc(d.Steps, func(s Step) bool { return strings.Contains(s.Text, want) }) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// A sender that takes the secret's text for the key is told apart from a secret that
// is set wrong here.
func TestASenderThatTakesTheSecretAsItStandsIsNamed(t *testing.T) {
	text := "whsec_" + base64.StdEncoding.EncodeToString([]byte("a-key-of-thirty-two-bytes-in-all"))
	for _, key := range []string{text, strings.TrimPrefix(text, "whsec_")} {
		for name, cases := range whole(t) {
			if name != "standard_webhooks" {
				continue
			}
			c := cases[0]
			at := c.Now
			mac := hmac.New(sha256.New, []byte(key))
			fmt.Fprintf(mac, "msg_1.%d.%s", at.Unix(), c.Request.Body)
			c.Request.Headers = []recorded.Header{{Name: "webhook-id", Value: "msg_1"}, {Name: "webhook-timestamp", Value: fmt.Sprint(at.Unix())},
				{Name: "webhook-signature", Value: "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))}}
			right, err := webhook.NewSecret("env:SHOP", text)
			if err != nil {
				t.Fatal(err)
			}
			c.Endpoint.Secrets = []webhook.Secret{right}
			d := Diagnose(c)
			if len(d.Causes) != 1 || !strings.Contains(d.Causes[0].Text, "as it stands at the sender") || !strings.Contains(d.Causes[0].Do, "where the webhooks are signed") {
				t.Errorf("%+v", d.Causes)
			}
		}
	}
}

// A secret in any other form is recognised, if that form still holds all of it.
func TestASecretGivenInAnotherFormIsNamed(t *testing.T) {
	named := 0
	for name, cases := range whole(t) {
		for _, c := range cases {
			for i, right := range c.Endpoint.Secrets {
				for _, wrong := range right.Mistaken() {
					back := slices.ContainsFunc(wrong.Secret.Mistaken(), func(m webhook.Mistaken) bool { return reflect.DeepEqual(m.Secret, right) })
					if !back {
						continue
					}
					c := c
					c.Endpoint.Secrets = slices.Clone(c.Endpoint.Secrets)
					c.Endpoint.Secrets[i] = wrong.Secret
					d := diagnosed(t, name, c)
					if !d.Verified() && !d.names(SecretForm) {
						t.Errorf("%s, %s: %+v", name, wrong.Mistake, d.Causes)
					}
					if d.names(SecretForm) {
						named++
					}
				}
			}
		}
	}
	if named == 0 {
		t.Error("none was ever named")
	}
}

func stripe(t *testing.T) Case {
	t.Helper()
	return whole(t)["stripe"][0]
}

func TestTwoMistakesAtOnceAreBothNamed(t *testing.T) {
	c := stripe(t)
	c.Request.Body = append(bytes.Clone(c.Request.Body), '\n')
	for i, h := range c.Request.Headers {
		if h.Name == "Stripe-Signature" {
			c.Request.Headers[i].Name = "X-Original-Stripe-Signature"
		}
	}
	if d := diagnosed(t, "stripe", c); !d.names(LineEnds) || !d.names(HeaderRenamed) {
		t.Errorf("%+v", d.Causes)
	}
}

func TestAMistakeDoesNotHideAClockThatIsOffToo(t *testing.T) {
	c := stripe(t)
	c.Request.Body = append(bytes.Clone(c.Request.Body), '\n')
	c.Now = c.Now.Add(time.Hour)
	if d := diagnosed(t, "stripe", c); !d.names(LineEnds) || !d.names(Clock) {
		t.Errorf("%+v", d.Causes)
	}
	c.OwnTime = true // nobody knows when it came
	if d := diagnosed(t, "stripe", c); !d.names(LineEnds) || d.names(Clock) {
		t.Errorf("%+v", d.Causes)
	}
}

func TestTheClockSaysByHowMuchItIsOff(t *testing.T) {
	c := stripe(t)
	c.Now = c.Now.Add(2 * time.Hour)
	if d := diagnosed(t, "stripe", c); d.Verdict.Outcome != webhook.Stale || !strings.Contains(d.Causes[0].Text, "2h0m") || !strings.Contains(d.Causes[0].Text, "allowed are 5m0s") {
		t.Errorf("%+v", d)
	}
	c.OwnTime = true
	if d := diagnosed(t, "stripe", c); !d.Verified() || !strings.Contains(fmt.Sprint(d.Steps), "how fresh it was is not judged") {
		t.Errorf("%+v", d)
	}
}

// Of bytes that are not there nobody can say who signed them.
func TestARecordingWithoutAllOfTheBodyIsToldAndNoSecretSuspected(t *testing.T) {
	c := stripe(t)
	c.Request.Body, c.Request.Lossy = []byte("{.."), true
	if d := diagnosed(t, "stripe", c); !d.names(Recording) || d.names(Truncated) {
		t.Errorf("%+v", d.Causes)
	}
	c = stripe(t)
	cutOff(&c)
	c.Request.Body = nil
	if d := diagnosed(t, "stripe", c); !d.names(Truncated) || d.names(WrongSecret) {
		t.Errorf("%+v", d.Causes)
	}
}

func TestAnAPIKeyInASecretsPlaceIsNamed(t *testing.T) {
	for value, provider := range map[string]string{"sk_live_51AbCdEfGhIj": "stripe", "rzp_live_AbCdEfGh": "github", "whsec_c2hvcnQ=": "svix"} {
		c := whole(t)[provider][0]
		secret(&c, value)
		if d := diagnosed(t, provider, c); !d.names(SecretKind) || strings.Contains(fmt.Sprint(d), value) {
			t.Errorf("%s: %+v", provider, d.Causes)
		}
	}
}

func TestTheSendersAddressIsAskedForWhereItIsAllThereIs(t *testing.T) {
	for name, cases := range whole(t) {
		p, ok := cases[0].Endpoint.Provider.(webhook.Addressed)
		if !ok {
			continue
		}
		c := cases[0]
		c.Endpoint.Addresses = p.Addresses()
		c.Remote = netip.Addr{}
		d := diagnosed(t, name, c)
		if len(c.Endpoint.Secrets) > 0 && !d.Verified() {
			t.Errorf("%s: its secret does not count without an address: %+v", name, d)
		}
		if len(c.Endpoint.Secrets) == 0 && !d.names(Address) {
			t.Errorf("%s verifies with nothing at all: %+v", name, d)
		}
		c.Remote = netip.MustParseAddr("192.0.2.1")
		if d := diagnosed(t, name, c); !d.names(Address) {
			t.Errorf("%s from anywhere: %+v", name, d)
		}
	}
}

// Whatever is recorded, it is diagnosed without a panic, and nothing forged verifies.
func FuzzDiagnose(f *testing.F) {
	f.Add("Stripe-Signature", "t=1,v1=00", []byte(`{"a":"b/c","d":[1,{}]}`))
	f.Add("svix-id", "x", []byte("a=b+c%20d"))
	f.Add("", "", zipped([]byte("{}")))
	secret, err := webhook.NewSecret("env:S", "whsec_YW5vdGhlci1zZWNyZXQtb2YtMzItYnl0ZXMtMTIzNA==")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, header, value string, body []byte) {
		for _, name := range webhook.BuiltinNames() {
			p, _ := webhook.Builtin(name)
			if p.Profile().Secret == "" {
				continue
			}
			d := Diagnose(Case{Now: time.Unix(1767225605, 0), Endpoint: endpoint.Endpoint{Name: "a", Provider: p, Secrets: []webhook.Secret{secret}},
				Request: recorded.Request{Method: "POST", Target: "/a?b=c", Headers: []recorded.Header{{Name: header, Value: value}}, Body: body}})
			if d.Verified() {
				t.Errorf("%s: verified %+v", name, d)
			}
		}
	})
}

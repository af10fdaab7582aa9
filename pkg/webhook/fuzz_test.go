package webhook

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// FuzzFields holds the scanner to encoding/json: both find the same values, or
// the scanner refuses a key that really comes twice.
func FuzzFields(f *testing.F) {
	paths := []string{"id", "type", "data", "data.object.id", "data.object", "a.b.c"}
	for _, v := range vectors(f) {
		f.Add(v.Body)
	}
	for _, s := range []string{
		`{"id":1,"id":2}`, `{"data":{"object":{"id":"x"}}}`, `{"\u0069d":"\ud83d\ude00"}`, `{"data":[{"id":1}],"a":{"b":{"c":[1,{"c":2}]}}}`,
		` { "id" : -1.5e+7 , "type" : null } `, `{"data":{"object":{},"object":{}}}`, `{"id":"\\\""}`, `[]`, `{"":1,"id":{"":[]}}`, `{"id":"\ud800"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var fs fields
		for _, p := range paths {
			if _, err := fs.add(p); err != nil {
				t.Fatal(err)
			}
		}
		got, err := fs.scan(body)
		if !json.Valid(body) {
			if err == nil {
				t.Fatal("what is not JSON is scanned")
			}
			return
		}
		want, refused := oracle(body, &fs)
		if (err != nil) != refused {
			t.Fatalf("scanner: %v; refused by the oracle: %v", err, refused)
		}
		if err != nil {
			return
		}
		for i, path := range paths {
			same(t, path, got[i], want[path])
		}
	})
}

// FuzzArrays holds paths into arrays to encoding/json.
func FuzzArrays(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.Body)
	}
	for _, s := range []string{
		`{"a":[{"n":"x","v":1},{"n":"y","v":2},{"n":"y","v":null}]}`, `{"a":[1,[{"v":2}],{"v":{"n":"y"}}]}`, `{"a":{"0":{"v":3},"1":4}}`, `{"a":[{"n":"y"},{"v":9,"n":"\u0079"}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var fs fields
		var at [3]int
		for i, path := range []string{"a.1.v", "a[n=y].v", "a"} {
			var err error
			if at[i], err = fs.add(path); err != nil {
				t.Fatal(err)
			}
		}
		var of fields
		for _, key := range []string{"v", "n"} {
			if _, err := of.addKey(key); err != nil {
				t.Fatal(err)
			}
		}
		got, err := fs.scan(body)
		if err == nil != json.Valid(body) {
			if err == nil {
				t.Fatal("what is not JSON is scanned")
			}
			return // a key comes twice, or the body is no object
		}
		if err != nil {
			return
		}
		list, err := elements(got[at[2]].raw)
		if (err == nil) != (got[at[2]].kind == composite && got[at[2]].raw[0] == '[') {
			t.Fatalf("elements of %s: %v", got[at[2]].raw, err)
		}
		if err != nil {
			return
		}
		var want []json.RawMessage
		if err := json.Unmarshal(got[at[2]].raw, &want); err != nil || len(list) != len(want) {
			t.Fatalf("%d elements, encoding/json %d, %v", len(list), len(want), err)
		}
		var second value
		var chosen []value
		for i, element := range list {
			if !bytes.Equal(element, want[i]) {
				t.Fatalf("element %d: %s, encoding/json %s", i, element, want[i])
			}
			values, err := of.scan(element)
			if err != nil {
				continue // no object
			}
			if i == 1 {
				second = values[0]
			}
			if n, err := values[1].scalar(); err == nil && n == "y" && values[0].kind != absent {
				chosen = append(chosen, values[0])
			}
		}
		if !bytes.Equal(got[at[0]].raw, second.raw) {
			t.Fatalf("a.1.v: %s, want %s", got[at[0]].raw, second.raw)
		}
		switch pick := got[at[1]]; {
		case len(chosen) > 1 && pick.kind != several, len(chosen) == 0 && pick.kind != absent, len(chosen) == 1 && !bytes.Equal(pick.raw, chosen[0].raw):
			t.Fatalf("a[n=y].v: %s, of %d", pick.raw, len(chosen))
		}
	})
}

// FuzzForm holds the form reader to net/url, but for what only it refuses.
func FuzzForm(f *testing.F) {
	for _, s := range []string{"a=1&b=2", "payload=%7B%22id%22%3A1%7D", "a=+%2B&&b", "a=1;b=2", "%zz=1", "=x", "a=1&a=2", "a[b]=c%00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		list, err := parseForm(body)
		want, wantErr := url.ParseQuery(string(body))
		if (err != nil) != (wantErr != nil) {
			if bytes.Count(body, []byte("&")) >= maxFormFields {
				return
			}
			t.Fatalf("%v; net/url: %v", err, wantErr)
		}
		got := url.Values{}
		for _, field := range list {
			got.Add(field.name, field.value)
		}
		if err == nil && got.Encode() != want.Encode() {
			t.Fatalf("%v; net/url: %v", got, want)
		}
	})
}

// oracle reads a valid body by encoding/json's tokens: the raw value at each
// path, and whether it is no object or has a wanted key twice.
func oracle(body []byte, fs *fields) (found map[string]json.RawMessage, refused bool) {
	found = map[string]json.RawMessage{}
	var walk func(raw []byte, n *node, prefix string) bool
	walk = func(raw []byte, n *node, prefix string) bool {
		d := json.NewDecoder(bytes.NewReader(raw))
		if t, _ := d.Token(); t != json.Delim('{') {
			return prefix == ""
		}
		seen := map[string]bool{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return true
			}
			var value json.RawMessage
			if err := d.Decode(&value); err != nil {
				return true
			}
			k := key.(string)
			for i, want := range n.keys {
				if k != want {
					continue
				}
				if seen[k] {
					return true
				}
				seen[k] = true
				child := n.next[i]
				if child.leaf > 0 {
					found[prefix+k] = value
				}
				if len(child.keys) > 0 && walk(value, child, prefix+k+".") {
					return true
				}
			}
		}
		return false
	}
	return found, walk(body, &fs.root, "")
}

func same(t *testing.T, path string, got value, want json.RawMessage) {
	t.Helper()
	if want == nil {
		if got.kind != absent {
			t.Fatalf("%s: found %s, encoding/json nothing", path, got.raw)
		}
		return
	}
	if !bytes.Equal(got.raw, want) {
		t.Fatalf("%s: found %s, encoding/json %s", path, got.raw, want)
	}
	var text string
	if got.kind != quoted || json.Unmarshal(want, &text) != nil {
		return
	}
	s, err := got.text()
	switch {
	case err == nil && s != text:
		t.Fatalf("%s: text %q, encoding/json %q", path, s, text)
	case err == nil && (!utf8.ValidString(s) || strings.ContainsRune(s, 0)):
		t.Fatalf("%s: broken text %q is read", path, s)
	case err != nil && !strings.ContainsAny(text, "\ufffd\x00"):
		t.Fatalf("%s: %q is refused: %v", path, text, err)
	}
}

// FuzzVerify: no header panics, and nothing but a right signature is valid.
// only fuzzes one built-in provider's verifier and reader: with all of them in one
// target, each gets a fortieth of the time.
var only = flag.String("provider", "", "fuzz this built-in provider alone")

// fuzzed are the built-in providers that are to be fuzzed.
func fuzzed(f *testing.F) []string {
	if *only == "" {
		return BuiltinNames()
	}
	return []string{builtinOf(f, *only).Name()}
}

func FuzzVerify(f *testing.F) {
	for _, v := range vectors(f) {
		var a, b, c string
		for name, value := range v.Headers {
			switch name = strings.ToLower(name); {
			case strings.Contains(name, "signature"):
				a = value
			case strings.HasSuffix(name, "timestamp"):
				b = value
			case strings.HasSuffix(name, "-id"):
				c = value
			}
		}
		f.Add(a, b, c, v.Body)
	}
	// No fuzzer can guess these.
	ps := providers(f)
	if *only != "" {
		ps = nil
	}
	for _, name := range fuzzed(f) {
		if name != "mollie_classic" { // there is nothing to guess
			ps = append(ps, armed{builtinOf(f, name), secretOf(f, "never:signed-with-0f3b9a77")})
		}
	}
	// These have no key of that text, and would not look further.
	_, public := rsaPair(f, 2048)
	for name, secret := range map[string]string{"adyen": adyenTestKey, "wise": public} {
		if *only == "" || *only == name {
			ps = append(ps, armed{builtinOf(f, name), secretOf(f, secret)})
		}
	}
	f.Fuzz(func(t *testing.T, signature, timestamp, id string, body []byte) {
		header := func(name string) []string {
			switch name = strings.ToLower(name); {
			case strings.Contains(name, "signature"), strings.Contains(name, "hmac"):
				return []string{signature}
			case strings.HasSuffix(name, "timestamp"), strings.HasSuffix(name, "-time"):
				return []string{timestamp}
			}
			return []string{id}
		}
		for _, p := range ps {
			v := p.Verify(Request{URL: "https://shop.example/in?" + id, Header: header, Body: body}, []Secret{p.secret}, noon)
			if v.Outcome != Invalid || v.Secret != "" || v.Reason == ReasonNone || v.Reason == ReasonStale {
				t.Fatalf("%s: %+v", p.Name(), v)
			}
		}
	})
}

// FuzzRead: no body panics; a reading is deterministic, bounded, and clean text;
// an error never repeats the body.
func FuzzRead(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add("msg_1", v.Body)
	}
	f.Add("", payment())
	f.Add("", []byte("payload="+url.QueryEscape(string(payment()))))
	f.Add("msg_1", payment("payment.succeeded", "refund.succeeded"))
	f.Add("evt", []byte(`{"id":"evt_1","type":"charge.refunded","created":1,"livemode":true,"data":{"object":{"id":"ch","amount":5,"amount_refunded":3,"currency":"jpy"}}}`))
	ps := []Provider{acme(f, nil)}
	for _, name := range fuzzed(f) {
		ps = append(ps, builtinOf(f, name))
	}
	f.Fuzz(func(t *testing.T, id string, body []byte) {
		header := func(string) []string {
			if id == "" {
				return nil
			}
			return []string{id}
		}
		for _, p := range ps {
			r, err := p.Read(header, body)
			again, errAgain := p.Read(header, body)
			if r != again || (err == nil) != (errAgain == nil) {
				t.Fatalf("%s: two readings: %+v, %+v", p.Name(), r, again)
			}
			if err != nil {
				if r != (Reading{}) {
					t.Fatalf("%s: an error with a reading: %+v", p.Name(), r)
				}
				continue
			}
			// A question that a two-way provider asks is no event, and has no id.
			question := r.ID == "" && r.Fact == order.KindNone && p.Profile().TwoWay
			if strings.TrimSpace(r.ID) == "" && !question || strings.TrimSpace(r.Type) == "" || r.Amount < 0 || r.PaymentAmount < 0 {
				t.Fatalf("%s: %+v", p.Name(), r)
			}
			// A hint only says what to ask for.
			hint := r.Trust == event.Hint
			if r.Fact != order.KindNone && r.Order == "" && r.Payment == "" && (r.Object == "" || !hint) {
				t.Fatalf("%s: a fact that belongs to nothing: %+v", p.Name(), r)
			}
			if r.Fact.MovesMoney() && r.Currency == "" && !hint {
				t.Fatalf("%s: money without a currency: %+v", p.Name(), r)
			}
			for _, s := range []string{r.ID, r.Type, r.Order, r.Payment, r.Object, r.Subject} {
				if len(s) > maxID || !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
					t.Fatalf("%s: %q", p.Name(), s)
				}
			}
		}
	})
}

// FuzzSplit: no batch panics; each body that Split makes is a batch of itself alone
// and reads as it did in a batch of one, and what was sealed verifies before and after.
func FuzzSplit(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.Body)
	}
	f.Add(adyenBatchOf(adyenItemOf(), adyenItemOf("additionalData", "null")))
	f.Add([]byte(`{"events":[{"id":1},[],null],"meta":{},"meta2":0}`))
	secrets := []Secret{secretOf(f, adyenTestKey)}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, name := range BuiltinNames() {
			p, ok := builtinOf(t, name).(Batched)
			if !ok {
				continue
			}
			bodies, err := p.Split(body)
			if err != nil && len(bodies) > 0 {
				t.Fatalf("%s: %d bodies and %v", name, len(bodies), err)
			}
			for _, b := range bodies {
				if again, err := p.Split(b); err != nil || len(again) != 1 || !bytes.Equal(again[0], b) {
					t.Fatalf("%s: %s is split into %q, %v", name, b, again, err)
				}
			}
			if len(bodies) == 1 {
				whole, errWhole := p.Read(headersOf(), body)
				alone, err := p.Read(headersOf(), bodies[0])
				if whole != alone || (errWhole == nil) != (err == nil) {
					t.Fatalf("%s: in its batch %+v, %v; alone %+v, %v", name, whole, errWhole, alone, err)
				}
			}
			if s, ok := p.(Sealing); ok && len(bodies) > 0 {
				sealed, err := s.Seal(secrets[0], body)
				if err != nil {
					continue
				}
				if v := p.Verify(Request{Header: headersOf(), Body: sealed}, secrets, noon); v.Outcome != Valid {
					t.Fatalf("%s: %s: %+v", name, sealed, v)
				}
				parts, err := p.Split(sealed)
				if err != nil || len(parts) != len(bodies) {
					t.Fatalf("%s: %d parts of %d, %v", name, len(parts), len(bodies), err)
				}
				for _, b := range parts {
					if v := p.Verify(Request{Header: headersOf(), Body: b}, secrets, noon); v.Outcome != Valid {
						t.Fatalf("%s: %s: %+v", name, b, v)
					}
				}
			}
		}
	})
}

// FuzzMembers holds the reader of a root object to encoding/json: it finds the same
// members in the same order, or a key really comes twice or is broken.
func FuzzMembers(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.Body)
	}
	for _, s := range []string{`{}`, ` { "a" : 1 , "b":[{}], "c":null } `, `{"a":1,"a":2}`, `{"\u0061":1,"a":2}`, `{"a":1}x`, `{"a":1,}`, `{,}`, `[1]`, `{"\ud800":1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := members(body)
		d := json.NewDecoder(bytes.NewReader(body))
		if first, _ := d.Token(); !json.Valid(body) || first != json.Delim('{') {
			if err == nil {
				t.Fatal("what is no JSON object is read")
			}
			return
		}
		seen := map[string]bool{}
		for i := 0; d.More(); i++ {
			key, _ := d.Token()
			var raw json.RawMessage
			if err := d.Decode(&raw); err != nil {
				t.Fatal(err)
			}
			k := key.(string)
			if seen[k] || strings.ContainsAny(k, "\ufffd\x00") {
				return // may be refused
			}
			seen[k] = true
			if err == nil && (i >= len(got) || got[i].key != k || !bytes.Equal(got[i].value.raw, raw)) {
				t.Fatalf("member %d: %+v, encoding/json %q: %s", i, got, k, raw)
			}
		}
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		if len(got) != len(seen) {
			t.Fatalf("%d members, encoding/json %d", len(got), len(seen))
		}
	})
}

// FuzzXML: no document panics; what is read is the text that encoding/xml finds there.
func FuzzXML(f *testing.F) {
	for _, s := range []string{braintreeSale, "<a/>", "<n><k>1</k><k>2</k></n>", "<n><k>a<!-- c -->b<![CDATA[<c>]]></k></n>", "<!DOCTYPE a><n/>", "<n><k>&lt;</k></n>", "<n><s><k>x</k></s></n>", "<n><k>", "\xef\xbb\xbf<n/>"} {
		f.Add([]byte(s))
	}
	fs := wanted("n.k", "n.s.k", "n")
	f.Fuzz(func(t *testing.T, doc []byte) {
		got, err := fs.scanXML(doc)
		if err != nil {
			return
		}
		var n struct {
			XMLName xml.Name
			K       []string `xml:"k"`
			S       []struct {
				K []string `xml:"k"`
			} `xml:"s"`
		}
		if err := xml.Unmarshal(doc, &n); err != nil {
			t.Fatalf("%q is read, encoding/xml: %v", doc, err)
		}
		if n.XMLName.Local != "n" {
			return
		}
		if len(n.K) > 1 || len(n.S) > 1 {
			t.Fatalf("%q has an element twice", doc)
		}
		if len(n.K) == 1 && got[0].kind == plain && string(got[0].raw) != n.K[0] {
			t.Fatalf("%q: %q, encoding/xml %q", doc, got[0].raw, n.K[0])
		}
		if len(n.K) == 0 && got[0].kind != absent {
			t.Fatalf("%q: %q, encoding/xml nothing", doc, got[0].raw)
		}
	})
}

// FuzzCertificateURL: no address but a provider's own is ever sought.
func FuzzCertificateURL(f *testing.F) {
	for _, s := range []string{"https://api.paypal.com/x", "https://sns.us-east-1.amazonaws.com/a.pem", "https://api.paypal.com@evil.example/x", "https://evil.example\\@api.paypal.com/", "https://api.paypal.com:443/x"} {
		f.Add(s)
	}
	paypal, sns := builtinOf(f, "paypal").(Certified), builtinOf(f, "aws_sns").(Certified)
	f.Fuzz(func(t *testing.T, text string) {
		check := func(address string, reason Reason, ends ...string) {
			if (address == "") == (reason == ReasonNone) {
				t.Fatalf("%q and reason %q", address, reason)
			}
			if reason != ReasonNone {
				return
			}
			u, err := url.Parse(address)
			if err != nil || u.Scheme != "https" || u.User != nil || u.Port() != "" || !slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(u.Hostname(), end) }) {
				t.Fatalf("%q is sought", address)
			}
		}
		address, reason := paypal.CertificateURL(Request{Header: headersOf(paypalCert, text)})
		check(address, reason, ".paypal.com")
		body, err := json.Marshal(map[string]string{"SigningCertURL": text})
		if err != nil {
			t.Fatal(err)
		}
		address, reason = sns.CertificateURL(Request{Header: headersOf(), Body: body})
		check(address, reason, ".amazonaws.com", ".amazonaws.com.cn")
	})
}

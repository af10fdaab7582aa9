package webhook

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

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
	for _, name := range BuiltinNames() {
		ps = append(ps, armed{builtinOf(f, name), secretOf(f, "never-signed-with-0f3b9a77")})
	}
	f.Fuzz(func(t *testing.T, signature, timestamp, id string, body []byte) {
		header := func(name string) []string {
			switch name = strings.ToLower(name); {
			case strings.Contains(name, "signature"):
				return []string{signature}
			case strings.HasSuffix(name, "timestamp"), strings.HasSuffix(name, "-time"):
				return []string{timestamp}
			}
			return []string{id}
		}
		for _, p := range ps {
			v := p.Verify(Request{Header: header, Body: body}, []Secret{p.secret}, noon)
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
	f.Add("msg_1", payment("payment.succeeded", "refund.succeeded"))
	f.Add("evt", []byte(`{"id":"evt_1","type":"charge.refunded","created":1,"livemode":true,"data":{"object":{"id":"ch","amount":5,"amount_refunded":3,"currency":"jpy"}}}`))
	ps := []Provider{acme(f, nil)}
	for _, name := range BuiltinNames() {
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
			if r.Fact != order.KindNone && r.Order == "" && r.Payment == "" {
				t.Fatalf("%s: a fact that belongs to nothing: %+v", p.Name(), r)
			}
			if needsAmount(r.Fact) && r.Currency == "" {
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

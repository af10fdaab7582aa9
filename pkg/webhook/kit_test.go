package webhook

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/pkg/order"
)

var noon = time.Unix(1767225605, 0)

func secretOf(t testing.TB, value string) Secret {
	t.Helper()
	s, err := NewSecret("test", value)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func builtinOf(t testing.TB, name string) Provider {
	t.Helper()
	p, ok := Builtin(name)
	if !ok {
		t.Fatalf("no provider %s", name)
	}
	return p
}

// headersOf are headers of pairs of name and value; a name may come twice.
func headersOf(pairs ...string) Headers {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h.Values
}

func signed(t testing.TB, p Provider, s Secret, id string, at time.Time, body []byte) Request {
	t.Helper()
	headers, err := p.Sign(s, id, at, body)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	for k, v := range headers {
		h.Set(k, v)
	}
	return Request{Method: http.MethodPost, Header: h.Values, Body: body}
}

// acme is a declared provider with everything that a declaration can have.
func acme(t testing.TB, change func(*Declaration)) Provider {
	t.Helper()
	d := Declaration{
		Name: "acme",
		Signature: Signature{Header: "X-Acme-Signature", Algorithm: "sha512", Encoding: "base64", Prefix: "v1:",
			Signed: "{header:X-Acme-Id}.{timestamp}.{body}", Timestamp: Timestamp{Header: "X-Acme-Time"}},
		Reading: Layout{ID: Paths{"header:X-Acme-Id", "id"}, Type: Paths{"type"}, Time: Paths{"created"}, Mode: Paths{"livemode"},
			Order: Paths{"data.order_id"}, Payment: Paths{"data.id"}, Amount: Paths{"data.amount"}, Currency: Paths{"data.currency"},
			Facts: []Fact{
				{Type: "payment.succeeded", Kind: order.KindPaid},
				{Type: "payment.updated", Kind: order.KindPaid, When: map[string]string{"data.status": "COMPLETED", "data.final": "true"}},
				{Type: "payment.failed", Kind: order.KindFailed},
				{Type: "refund.succeeded", Kind: order.KindRefund, Object: Paths{"data.refund_id"}},
			}},
	}
	if change != nil {
		change(&d)
	}
	p, err := NewDeclared(d)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// vector is as much of a conformance vector as seeds need.
type vector struct {
	Headers map[string]string `json:"headers"`
	Body    []byte            `json:"body_base64"`
}

// vectors are all conformance vectors; they seed the fuzz targets.
func vectors(t testing.TB) (all []vector) {
	t.Helper()
	files, _ := filepath.Glob("testdata/vectors/*.json")
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var vs []vector
		if err := json.Unmarshal(data, &vs); err != nil {
			t.Fatal(err)
		}
		all = append(all, vs...)
	}
	if len(all) == 0 {
		t.Fatal("no vectors")
	}
	return all
}

package validate

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	asyncapi "github.com/asyncapi/spec-json-schemas/v6"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"sluice/pkg/effect"
	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/status"
	"sluice/schemas"
)

func current(t *testing.T) *Validator {
	t.Helper()
	v, err := New(schemas.FS)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := fs.ReadFile(schemas.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func examples(t *testing.T, schema, kind string) []string {
	t.Helper()
	files, err := fs.Glob(schemas.FS, path.Join("examples", schema, kind, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no %s example of %s: %v", kind, schema, err)
	}
	return files
}

func TestEverySchemaHasExamplesAndEveryExampleASchema(t *testing.T) {
	v := current(t)
	dirs, err := fs.ReadDir(schemas.FS, "examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if _, ok := v.Schemas[d.Name()]; !ok {
			t.Errorf("examples/%s: there is no such schema", d.Name())
		}
	}
	for name, s := range v.Schemas {
		examples(t, name, "good")
		examples(t, name, "bad")
		base, version, _ := strings.Cut(name, ".v")
		if s.ID != "urn:sluice:schema:"+base+":v"+version || s.Document["title"] == nil || s.Document["description"] == nil {
			t.Errorf("%s: its $id is %s, or it has no title or description", name, s.ID)
		}
	}
}

func TestGoodExamplesAreValid(t *testing.T) {
	v := current(t)
	for name := range v.Schemas {
		for _, file := range examples(t, name, "good") {
			if err := v.JSON(name, read(t, file)); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

// A bad example that is bad for another reason than its own shows nothing.
func TestBadExamplesAreRefusedEachForItsReasonAlone(t *testing.T) {
	v := current(t)
	for name := range v.Schemas {
		type reason struct{ At, Keyword string }
		reasons := map[string]reason{}
		if err := json.Unmarshal(read(t, path.Join("examples", name, "reasons.json")), &reasons); err != nil {
			t.Fatal(err)
		}
		files := examples(t, name, "bad")
		if len(files) != len(reasons) {
			t.Errorf("%s: %d bad examples, %d reasons", name, len(files), len(reasons))
		}
		for _, file := range files {
			want, ok := reasons[path.Base(file)]
			if !ok {
				t.Errorf("%s: its reason is not stated", file)
				continue
			}
			var invalid *jsonschema.ValidationError
			if err := v.JSON(name, read(t, file)); !errors.As(err, &invalid) {
				t.Errorf("%s: want it refused at %q, got %v", file, want.At, err)
				continue
			}
			for _, leaf := range leaves(invalid) {
				at := strings.TrimSuffix("/"+strings.Join(leaf.InstanceLocation, "/"), "/")
				if keyword := keywordOf(leaf); at != want.At || !slices.Contains(strings.Split(want.Keyword, "|"), keyword) {
					t.Errorf("%s: refused at %q for %s; its reason is %q, %s", file, at, keyword, want.At, want.Keyword)
				}
			}
		}
	}
}

// leaves are the first causes. Of alternatives all must fail, so that each counts,
// but for a null that a value is not.
func leaves(e *jsonschema.ValidationError) (out []*jsonschema.ValidationError) {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	for _, c := range e.Causes {
		out = append(out, leaves(c)...)
	}
	return out
}

func keywordOf(e *jsonschema.ValidationError) string {
	if p := e.ErrorKind.KeywordPath(); len(p) > 0 {
		return p[0]
	}
	return "false"
}

func TestTheDocumentsAreWhatAsyncAPIAndOpenAPIAsk(t *testing.T) {
	v := current(t)
	async, err := asyncapi.Get("3.0.0")
	if err != nil || async == nil {
		t.Fatal("no schema of AsyncAPI 3.0:", err)
	}
	open, err := os.ReadFile("../testdata/openapi-3.1.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		meta []byte
		doc  any
	}{schemas.AsyncAPI: {async, v.AsyncAPI}, schemas.OpenAPI: {open, v.OpenAPI}, schemas.PaymeClick: {open, v.PaymeClick}} {
		meta, err := jsonschema.UnmarshalJSON(bytes.NewReader(c.meta))
		if err != nil {
			t.Fatal(err)
		}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource("urn:meta", meta); err != nil {
			t.Fatal(err)
		}
		s, err := compiler.Compile("urn:meta")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(c.doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// The check can fail.
		broken := c.doc.(map[string]any)
		info := broken["info"]
		delete(broken, "info")
		if s.Validate(broken) == nil {
			t.Errorf("%s: a document without info passes", name)
		}
		broken["info"] = info
	}
}

func header(object string) (list []event.Header) {
	members := map[string]string{}
	if err := json.Unmarshal([]byte(object), &members); err != nil {
		panic(err)
	}
	for name, value := range members {
		list = append(list, event.Header{Name: name, Value: []byte(value)})
	}
	return list
}

func TestARecordIsHeldAgainstItsTopic(t *testing.T) {
	v := current(t)
	good := func(schema, name string) []byte {
		return read(t, path.Join("examples", schema, "good", name+".json"))
	}
	raw := header(string(good("webhooks.raw.headers.v1", "signed")))
	looked := header(string(good("webhooks.looked_up.headers.v1", "looked_up")))
	status := header(string(good("order.status_changed.headers.v1", "version_2")))
	dead := header(string(good("webhooks.dead-letters.headers.v1", "broken_raw_headers")))
	for _, c := range []struct {
		name, topic, key string
		value            []byte
		headers          []event.Header
		wrong            string // in the error; empty: none
	}{
		{"a webhook", "webhooks.raw.v1", "evt_1PqRs2", []byte("\xff anything"), raw, ""},
		{"a webhook under another key", "webhooks.raw.v1", "evt_2", nil, raw, "$message.header#/ce_id"},
		{"a webhook with a header twice", "webhooks.raw.v1", "evt_1PqRs2", nil, slices.Concat(raw, []event.Header{{Name: "ce_id", Value: []byte("evt_1PqRs2")}}), "comes twice"},
		{"a webhook with a signature twice", "webhooks.raw.v1", "evt_1PqRs2", nil, slices.Concat(raw, []event.Header{{Name: "sluice_signature_stripe-signature", Value: []byte("t=1")}}), ""},
		{"a looked-up fact", "webhooks.raw.v1", "tr_7UhSN1zuXS:2c26b46b68ffc68ff99b453c1d304134", good("webhooks.looked_up.v1", "paid"), looked, ""},
		{"a looked-up fact of another form", "webhooks.raw.v1", "tr_7UhSN1zuXS:2c26b46b68ffc68ff99b453c1d304134", []byte(`{"v":2}`), looked, "looked_up"},
		{"a status", "orders.status.v1", "ord_77", good("order.status_changed.v1", "paid"), status, ""},
		{"a status in the topic of the latest", "orders.latest.v1", "ord_77", good("order.status_changed.v1", "paid"), status, ""},
		{"a status without headers", "orders.status.v1", "ord_77", good("order.status_changed.v1", "paid"), nil, "missing properties"},
		{"a status of another order", "orders.status.v1", "ord_78", good("order.status_changed.v1", "paid"), status, "data/order_id"},
		{"a status that is none", "orders.status.v1", "ord_77", []byte("{"), status, "no JSON"},
		{"a tombstone", "orders.latest.v1", "ord_77", nil, status, "no JSON"},
		{"a dead letter", "webhooks.dead-letters.v1", "", nil, dead, ""},
		{"a dead letter without its place", "webhooks.dead-letters.v1", "x", nil, raw, "sluice_dead_offset"},
		{"a cursor", "sluice.relay-cursors.v1", "7", good("sluice.relay-cursor.v1", "cursor"), nil, ""},
		{"a cursor of no shard", "sluice.relay-cursors.v1", "x", good("sluice.relay-cursor.v1", "cursor"), nil, "key"},
		{"a cursor without a row", "sluice.relay-cursors.v1", "7", []byte(`{}`), nil, "missing properties"},
		{"a record of another topic", "orders.v1", "x", nil, nil, "no topic"},
	} {
		err := v.Record(c.topic, []byte(c.key), c.value, c.headers)
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: want %q, got %v", c.name, c.wrong, err)
		}
	}
}

func TestAnAnswerIsHeldAgainstItsOperation(t *testing.T) {
	v := current(t)
	problem := string(read(t, "examples/problem.v1/good/conflict.json"))
	order := string(read(t, "examples/merchant.order.v1/good/paid.json"))
	for _, c := range []struct {
		name, operation string
		status          int
		headers         string
		body            string
		wrong           string
	}{
		{"an order", "GET /v1/orders/{order_id}", 200, `{"Content-Type":"application/json"}`, order, ""},
		{"an order of another type", "GET /v1/orders/{order_id}", 200, `{"Content-Type":"text/html"}`, order, "text/html"},
		{"half an order", "GET /v1/orders/{order_id}", 200, `{"Content-Type":"application/json"}`, `{}`, "missing properties"},
		{"a conflict", "PUT /v1/orders/{order_id}", 409, `{"Content-Type":"application/problem+json"}`, problem, ""},
		{"a conflict where none can be", "GET /v1/orders/{order_id}", 409, `{"Content-Type":"application/problem+json"}`, problem, "no answer 409"},
		{"503 without a time", "GET /v1/orders/{order_id}", 503, `{"Content-Type":"application/problem+json"}`, problem, "Retry-After"},
		{"an effect that is done", "POST webhook effect", 204, `{}`, "", ""},
		{"nothing known", "GET /", 200, `{}`, "", "no operation"},
	} {
		h := http.Header{}
		for _, one := range header(c.headers) {
			h.Set(one.Name, string(one.Value))
		}
		err := v.Answer(c.operation, c.status, h, []byte(c.body))
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: want %q, got %v", c.name, c.wrong, err)
		}
	}
	if err := v.IngressAnswer(503, http.Header{"Retry-After": {"5"}}, nil); err != nil {
		t.Error(err)
	}
	if err := v.IngressAnswer(503, http.Header{}, nil); err == nil {
		t.Error("503 without Retry-After passes")
	}
}

func TestEveryEffectsBodyObeysItsSchema(t *testing.T) {
	v := current(t)
	for k := order.KindPending; k <= order.KindDismiss; k++ {
		f := effect.Fact{Source: "mollie", Kind: k, Payment: "tr_\"7\u2028", Object: "1"}
		m := status.Message{Source: status.Source, OrderID: "заказ 7", Version: 1, Status: order.Pending, Currency: "EUR",
			Cause: status.Cause{Source: "s", EventID: "e"}, ChangedAt: time.UnixMicro(1)}
		if err := v.JSON("order.effect.v1", effect.Body("fulfil", effect.KeyOf(m.OrderID, "fulfil", f), f, m)); err != nil {
			t.Errorf("%s: %v", k, err)
		}
	}
}

func TestACallOfAnEffectIsHeldAgainstItsWebhook(t *testing.T) {
	v := current(t)
	body := read(t, "examples/order.effect.v1/good/fulfil.json")
	const call = "POST webhook effect"
	for _, c := range []struct {
		name   string
		change func(http.Header)
		wrong  string
	}{
		{"as it is", func(http.Header) {}, ""},
		{"signed twice", func(h http.Header) {
			h.Set("webhook-signature", "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4= v1,AAAA")
		}, ""},
		{"without its key", func(h http.Header) { h.Del("Idempotency-Key") }, "Idempotency-Key"},
		{"with two keys", func(h http.Header) { h.Add("Idempotency-Key", "fulfil_5d41402abc4b2a76b9719d911017c592") }, "Idempotency-Key"},
		{"with a key of another form", func(h http.Header) { h.Set("Idempotency-Key", "7") }, "Idempotency-Key"},
		{"not signed", func(h http.Header) { h.Del("webhook-signature") }, "webhook-signature"},
		{"signed otherwise", func(h http.Header) { h.Set("webhook-signature", "sha256=00") }, "webhook-signature"},
		{"at a time in words", func(h http.Header) { h.Set("webhook-timestamp", "now") }, "webhook-timestamp"},
		{"as plain JSON", func(h http.Header) { h.Set("Content-Type", "application/json") }, "application/json"},
	} {
		h := http.Header{}
		h.Set("Content-Type", "application/cloudevents+json")
		h.Set("webhook-id", "fulfil_5d41402abc4b2a76b9719d911017c592")
		h.Set("Idempotency-Key", "fulfil_5d41402abc4b2a76b9719d911017c592")
		h.Set("webhook-timestamp", "1764504002")
		h.Set("webhook-signature", "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=")
		c.change(h)
		err := v.Request(call, h, body)
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: want %q, got %v", c.name, c.wrong, err)
		}
	}
	if err := v.Request("PUT /v1/orders/{order_id}", http.Header{"Content-Type": {"application/json"}}, []byte(`{}`)); err == nil {
		t.Error("an empty registration passes")
	}
}

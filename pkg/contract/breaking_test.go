package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"sluice/schemas"
)

// one is a contract of one schema, read or written by Sluice.
func one(t *testing.T, schema string, written bool) *Contract {
	t.Helper()
	s := Schema{Name: "x", ID: "urn:x"}
	if err := decode([]byte(schema), &s.Document); err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	s.Document["$id"] = s.ID
	c := &Contract{Schemas: map[string]Schema{"x": s}}
	if !written {
		c.Operations = []Operation{{Method: "PUT", Path: "/x", Request: &Body{Types: map[string]string{"application/json": "x"}}}}
	}
	return c
}

// The rules of schemas/README.md, each as a change. It is made twice: of what Sluice
// writes and of what it reads.
func TestEachRuleOfTheContractHolds(t *testing.T) {
	const allowed, refused = true, false
	field := func(is string) string { return `{"type":"object","properties":{"a":` + is + `}}` }
	for _, c := range []struct {
		name, was, is string
		written, read bool
	}{
		{"nothing", field(`{"type":"string"}`), field(`{"type":"string"}`), allowed, allowed},
		{"a field that may be missing", field(`{}`), `{"type":"object","properties":{"a":{},"b":{}}}`, allowed, allowed},
		{"a field that may be missing, in a closed object", `{"type":"object","properties":{"a":{}},"additionalProperties":false}`,
			`{"type":"object","properties":{"a":{},"b":{}},"additionalProperties":false}`, refused, allowed},
		{"a field removed", field(`{}`), `{"type":"object","properties":{}}`, refused, refused},
		{"a field renamed", field(`{}`), `{"type":"object","properties":{"b":{}}}`, refused, refused},
		{"a field within removed", field(field(`{}`)), field(`{"type":"object"}`), refused, refused},
		{"a field called title removed", `{"properties":{"title":{}}}`, `{"properties":{}}`, refused, refused},
		{"a field by pattern removed", `{"patternProperties":{"^a":{}}}`, `{}`, refused, refused},
		{"a new required field", field(`{}`), `{"type":"object","properties":{"a":{},"b":{}},"required":["b"]}`, refused, refused},
		{"a field becomes required", field(`{}`), `{"type":"object","properties":{"a":{}},"required":["a"]}`, refused, refused},
		{"a required field may be missing", `{"type":"object","properties":{"a":{}},"required":["a"]}`, field(`{}`), refused, allowed},
		{"null falls away", field(`{"type":["string","null"]}`), field(`{"type":"string"}`), refused, refused},
		{"null comes", field(`{"type":"string"}`), field(`{"type":["string","null"]}`), refused, allowed},
		{"a number becomes an integer", field(`{"type":"number"}`), field(`{"type":"integer"}`), refused, refused},
		{"an integer becomes a number", field(`{"type":"integer"}`), field(`{"type":"number"}`), refused, allowed},
		{"another type", field(`{"type":"integer"}`), field(`{"type":"string"}`), refused, refused},
		{"a type comes", field(`{}`), field(`{"type":"string"}`), refused, refused},
		{"a type falls away", field(`{"type":"string"}`), field(`{}`), refused, allowed},
		{"a branch falls away", field(`{"oneOf":[{"type":"null"},{"type":"string"}]}`), field(`{"oneOf":[{"type":"string"}]}`), refused, refused},
		{"a branch comes", field(`{"oneOf":[{"type":"string"}]}`), field(`{"oneOf":[{"type":"null"},{"type":"string"}]}`), refused, allowed},
		{"a branch comes and another is narrower", field(`{"oneOf":[{"type":"string"}]}`), field(`{"oneOf":[{"type":"null"},{"type":"string","maxLength":3}]}`), refused, refused},
		{"a branch is narrower", field(`{"oneOf":[{"type":"null"},{"type":"string"}]}`), field(`{"oneOf":[{"type":"null"},{"type":"string","maxLength":3}]}`), refused, refused},
		{"alternatives come", field(`{}`), field(`{"anyOf":[{"type":"string"}]}`), refused, refused},
		{"alternatives fall away", field(`{"anyOf":[{"type":"string"}]}`), field(`{}`), refused, allowed},
		{"a word removed", field(`{"enum":["a","b"]}`), field(`{"enum":["a"]}`), refused, refused},
		{"a word added", field(`{"enum":["a"]}`), field(`{"enum":["a","b"]}`), refused, allowed},
		{"words in another order", field(`{"enum":["a","b"]}`), field(`{"enum":["b","a"]}`), allowed, allowed},
		{"a constant changes", field(`{"const":"1.0"}`), field(`{"const":"2.0"}`), refused, refused},
		{"a constant becomes one of two", field(`{"const":"a"}`), field(`{"enum":["a","b"]}`), refused, allowed},
		{"a constant becomes anything", field(`{"const":"a"}`), field(`{}`), refused, allowed},
		{"anything becomes a constant", field(`{}`), field(`{"const":"a"}`), refused, refused},
		{"a smallest number rises", field(`{"minimum":0}`), field(`{"minimum":1}`), refused, refused},
		{"a smallest number falls", field(`{"minimum":1}`), field(`{"minimum":0}`), refused, allowed},
		{"a greatest number falls, beyond 2^53", field(`{"maximum":9223372036854775807}`), field(`{"maximum":9223372036854775806}`), refused, refused},
		{"a greatest number comes", field(`{}`), field(`{"exclusiveMaximum":10}`), refused, refused},
		{"a greatest number falls away", field(`{"maximum":10}`), field(`{}`), refused, allowed},
		{"a text may be shorter", field(`{"minLength":1}`), field(`{}`), refused, allowed},
		{"a text must be shorter", field(`{"maxLength":255}`), field(`{"maxLength":254}`), refused, refused},
		{"an array must be longer", field(`{"minItems":1}`), field(`{"minItems":2}`), refused, refused},
		{"a pattern changes", field(`{"pattern":"^a"}`), field(`{"pattern":"^b"}`), refused, refused},
		{"a pattern comes", field(`{}`), field(`{"pattern":"^b"}`), refused, refused},
		{"a pattern falls away", field(`{"pattern":"^a"}`), field(`{}`), refused, allowed},
		{"a format comes", field(`{}`), field(`{"format":"date-time"}`), refused, refused},
		{"a format falls away", field(`{"format":"date-time"}`), field(`{}`), refused, allowed},
		{"other fields are forbidden", field(`{}`), `{"type":"object","properties":{"a":{}},"additionalProperties":false}`, refused, refused},
		{"other fields are allowed", `{"type":"object","properties":{"a":{}},"additionalProperties":false}`, field(`{}`), refused, allowed},
		{"items are narrower", `{"items":{"type":["string","null"]}}`, `{"items":{"type":"string"}}`, refused, refused},
		{"items are wider", `{"items":{"type":"string"}}`, `{"items":{"type":["string","null"]}}`, refused, allowed},
		{"items are restricted", `{}`, `{"items":{"type":"string"}}`, refused, refused},
		{"items are not restricted", `{"items":{"type":"string"}}`, `{}`, refused, allowed},
		{"a condition comes", field(`{}`), `{"type":"object","properties":{"a":{}},"if":{"required":["a"]},"then":{"required":["b"]}}`, refused, refused},
		{"a condition falls away", `{"allOf":[{"required":["a"]}]}`, `{}`, refused, refused},
		{"a condition has another description", `{"allOf":[{"required":["a"],"title":"x"}]}`, `{"allOf":[{"required":["a"]}]}`, allowed, allowed},
		{"a condition on a field called title differs", `{"allOf":[{"properties":{"title":{"const":1}}}]}`, `{"allOf":[{"properties":{"title":{"const":2}}}]}`, refused, refused},
		{"multiples of", field(`{}`), field(`{"multipleOf":2}`), refused, refused},
		{"a field is forbidden", field(`{}`), field(`false`), refused, refused},
		{"a field is not forbidden", field(`false`), field(`true`), refused, allowed},
		{"texts for people", field(`{"title":"a","description":"b","examples":[1],"$comment":"c"}`), field(`{"description":"d"}`), allowed, allowed},
		{"what is referred to is narrower", `{"properties":{"a":{"$ref":"#/$defs/s"}},"$defs":{"s":{"type":["string","null"]}}}`, `{"properties":{"a":{"$ref":"#/$defs/s"}},"$defs":{"s":{"type":"string"}}}`, refused, refused},
		{"fields that match are restricted", `{"properties":{"a":{"type":"integer"}}}`, `{"properties":{"a":{"type":"integer"}},"patternProperties":{"":{"type":"string"}}}`, refused, refused},
		{"a field that was not named is forbidden", `{"properties":{}}`, `{"properties":{"note":false}}`, refused, refused},
		{"what is referred to moves", `{"properties":{"a":{"$ref":"#/$defs/s"}},"$defs":{"s":{"type":"string"}}}`, `{"properties":{"a":{"$ref":"#/$defs/t"}},"$defs":{"t":{"type":"string"}}}`, allowed, allowed},
		{"what is referred to within a condition", `{"allOf":[{"$ref":"#/$defs/s"}],"$defs":{"s":{"type":["string","null"]}}}`, `{"allOf":[{"$ref":"#/$defs/s"}],"$defs":{"s":{"type":"string"}}}`, refused, refused},
		{"what is referred to is put in", `{"properties":{"a":{"$ref":"#/$defs/s"}},"$defs":{"s":{"type":"string"}}}`, field(`{"type":"string"}`), refused, refused},
		{"a schema that holds itself", `{"properties":{"a":{"$ref":"#"}}}`, `{"properties":{"a":{"$ref":"#"}}}`, allowed, allowed},
	} {
		for _, written := range []bool{true, false} {
			want := c.read
			if written {
				want = c.written
			}
			if got := Breaking(one(t, c.was, written), one(t, c.is, written)); (len(got) == 0) != want {
				t.Errorf("%s (written: %v): want it allowed: %v, got %v", c.name, written, want, got)
			}
		}
	}
}

// changed is the present contract with one text in one file in another's place.
func changed(t *testing.T, file, was, is string) *Contract {
	t.Helper()
	return rewritten(t, file, func(text string) string {
		if !strings.Contains(text, was) {
			t.Fatalf("%s has no %q", file, was)
		}
		return strings.Replace(text, was, is, 1)
	})
}

// rewritten is the present contract with another text in one file.
func rewritten(t *testing.T, file string, change func(string) string) *Contract {
	t.Helper()
	files := fstest.MapFS{}
	names, err := fs.Glob(schemas.FS, "*.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(schemas.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		if name == file {
			text = []byte(change(string(text)))
		}
		files[name] = &fstest.MapFile{Data: text}
	}
	c, err := Read(files)
	if err != nil {
		t.Fatalf("%s as it is changed: %v", file, err)
	}
	return c
}

func TestEachRuleOfTopicsAndOperationsHolds(t *testing.T) {
	released := current(t)
	for _, c := range []struct{ name, file, was, is, problem string }{
		{"nothing", schemas.AsyncAPI, "", "", ""},
		{"another description", schemas.AsyncAPI, "Where every order stands", "Where all orders stand", ""},
		{"a topic removed", schemas.AsyncAPI, "address: orders.latest.v1", "address: orders.newest.v1", "the topic is removed"},
		{"more partitions", schemas.AsyncAPI, "partitions: 2", "partitions: 4", ""},
		{"kept for less time", schemas.AsyncAPI, "retention.ms: 2592000000", "retention.ms: 2591999999", "messages are kept for"},
		{"kept for more time", schemas.AsyncAPI, "retention.ms: 2592000000", "retention.ms: 2592000001", ""},
		{"not compacted", schemas.AsyncAPI, "cleanup.policy: [compact]", "cleanup.policy: [delete]", "cleanup.policy"},
		{"at least once", schemas.AsyncAPI, "guarantee: exactly once", "guarantee: at least once", "guarantee"},
		{"one more exception", schemas.AsyncAPI, "      exceptions:\n        - The database", "      exceptions:\n        - On Fridays.\n        - The database", "in more cases"},
		{"another key", schemas.AsyncAPI, "title: order id", "title: customer id", "the key"},
		{"another content type", schemas.AsyncAPI, "contentType: application/cloudevents+json", "contentType: application/json", "content type"},
		{"another schema", schemas.AsyncAPI, "./order.status_changed.v1.schema.json", "./order.effect.v1.schema.json", "schemas of the message"},
		{"an operation removed", schemas.OpenAPI, "    put:\n", "    patch:\n", "the operation is removed"},
		{"a token", schemas.OpenAPI, "      security: [{}, { token: [] }]", "      security: [{ token: [] }]", "it needs a token"},
		{"an answer removed", schemas.OpenAPI, "        '409':", "        '410':", "the answer is removed"},
		{"a header of an answer is not certain", schemas.OpenAPI, "WWW-Authenticate: { required: true", "WWW-Authenticate: { required: false", "may be missing"},
		{"a new required parameter", schemas.OpenAPI, "    parameters:\n      - name: order_id", "    parameters:\n      - { name: shop, in: query, required: true, schema: {} }\n      - name: order_id", "must be there, and is new"},
		{"a new parameter that may be missing", schemas.OpenAPI, "    parameters:\n      - name: order_id", "    parameters:\n      - { name: shop, in: query, schema: {} }\n      - name: order_id", ""},
		{"a parameter is shorter", schemas.OpenAPI, "maxLength: 255", "maxLength: 200", "maxLength was 255 and is 200"},
		{"a parameter may be longer", schemas.OpenAPI, "maxLength: 255", "maxLength: 300", ""},
		{"a key of an effect is not certain", schemas.OpenAPI, "name: Idempotency-Key, in: header, required: true", "name: Idempotency-Key, in: header, required: false", "may be missing"},
		{"an effect's body is another", schemas.OpenAPI, "./order.effect.v1.schema.json", "./order.status_changed.v1.schema.json", "has the schema"},
		{"a media type removed", schemas.OpenAPI, "application/x-www-form-urlencoded: {}", "text/xml: {}", "is removed"},
		{"a body of the registration must not be read", "merchant.registration.v1.schema.json", `"maxLength": 255`, `"maxLength": 254`, "maxLength"},
		{"a longer note", "merchant.registration.v1.schema.json", `"maxLength": 255`, `"maxLength": 256`, ""},
		{"a new status", "order.status_changed.v1.schema.json", `"pending", "paid"`, `"pending", "shipped", "paid"`, `"shipped" may be now`},
		{"an $id", "problem.v1.schema.json", "schema:problem:v1", "schema:problem:v2", "its $id"},
		{"a key of another form", schemas.AsyncAPI, "'^(0|[1-9][0-9]?)$'", "'^[0-9]+$'", "the key"},
		{"a key that may be empty", schemas.AsyncAPI, "title: order id, type: string, minLength: 1", "title: order id, type: string, minLength: 0", "the key"},
		{"kept by size", schemas.AsyncAPI, "retention.ms: 2592000000\n", "retention.ms: 2592000000\n          retention.bytes: 1000000\n", "retention.bytes"},
		{"other timestamps", schemas.AsyncAPI, "x-timestamps: LogAppendTime", "x-timestamps: CreateTime", "message.timestamp.type"},
		{"another way to give the token", schemas.OpenAPI, "scheme: bearer", "scheme: basic", "token"},
		{"a token of operations that say nothing of it", schemas.OpenAPI, "paths:\n", "security: [{ token: [] }]\npaths:\n", ""},
		{"a name in other case", schemas.OpenAPI, "      - name: order_id", "      - name: Order_id", "is removed"},
		{"a new answer of Click's", schemas.PaymeClick, "error_note: { type: string, minLength: 1 }", "error_note: { type: string }", "minLength"},
	} {
		got := Breaking(released, changed(t, c.file, c.was, c.is))
		if (len(got) == 0) != (c.problem == "") || !slices.ContainsFunc(append(got, Problem{}), func(p Problem) bool { return c.problem == "" || strings.Contains(p.Why, c.problem) }) {
			t.Errorf("%s: want %q, got %v", c.name, c.problem, got)
		}
	}
}

// What an operation does not say of tokens, the document says for it.
func TestATokenThatAllOperationsNeedIsSeen(t *testing.T) {
	present := rewritten(t, schemas.OpenAPI, func(text string) string {
		text = strings.ReplaceAll(text, "      security: [{}, { token: [] }]\n", "")
		return strings.Replace(text, "\npaths:\n", "\nsecurity: [{ token: [] }]\npaths:\n", 1)
	})
	got := Breaking(current(t), present)
	if len(got) == 0 || slices.ContainsFunc(got, func(p Problem) bool { return !strings.Contains(p.Why, "it needs a token") }) {
		t.Errorf("got %v", got)
	}
}

func TestAMessageThatIsGoneBreaksItsTopic(t *testing.T) {
	present := current(t)
	for i := range present.Topics {
		present.Topics[i].Messages = nil
	}
	if got := Breaking(current(t), present); len(got) != 6 || !strings.Contains(got[0].Why, "is removed") {
		t.Errorf("got %v", got)
	}
}

const releases = "../../schemas/released"

// This test stands between a change and those who rely on the contract.
func TestNoReleasedContractIsBroken(t *testing.T) {
	versions, err := os.ReadDir(releases)
	if err != nil || len(versions) == 0 {
		t.Fatal("no contract is released:", err)
	}
	present := current(t)
	for _, v := range versions {
		released, err := Read(os.DirFS(filepath.Join(releases, v.Name())))
		if err != nil {
			t.Fatalf("%s: %v", v.Name(), err)
		}
		if released.Version != v.Name() {
			t.Errorf("released/%s says that it is %s", v.Name(), released.Version)
		}
		for _, p := range Breaking(released, present) {
			t.Errorf("against %s: %s", v.Name(), p)
		}
	}
	if !slices.ContainsFunc(versions, func(v os.DirEntry) bool { return v.Name() == present.Version }) {
		t.Errorf("%s is not released: `make release-contract`", present.Version)
	}
}

// sums are those of a released contract's files, as sha256sum writes them.
func TestWhatIsReleasedNeverChanges(t *testing.T) {
	versions, err := os.ReadDir(releases)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		dir := os.DirFS(filepath.Join(releases, v.Name()))
		want, err := fs.ReadFile(dir, "SHA256SUMS")
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		files, err := fs.Glob(dir, "*.*")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := fs.ReadFile(dir, file)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(text)
			fmt.Fprintf(&got, "%s  %s\n", hex.EncodeToString(sum[:]), path.Base(file))
		}
		if got.String() != string(want) {
			t.Errorf("%s is not as it was released", v.Name())
		}
	}
}

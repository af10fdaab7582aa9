package status

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/schemas"
)

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(read(t, schemas.OrderStatusChanged)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(Schema, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(Schema)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := fs.ReadFile(schemas.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func validate(s *jsonschema.Schema, value []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

func TestEveryMessageObeysItsSchema(t *testing.T) {
	s := compiled(t)
	rapid.Check(t, func(t *rapid.T) {
		value := message().Draw(t, "message").Encode()
		if err := validate(s, value); err != nil {
			t.Fatalf("%s: %v", value, err)
		}
	})
}

func TestGoodExamplesAreReadAndBadOnesRefusedBySchemaAndCode(t *testing.T) {
	s := compiled(t)
	for _, kind := range []string{"good", "bad"} {
		dir := path.Join("examples/order.status_changed.v1", kind)
		files, err := fs.ReadDir(schemas.FS, dir)
		if err != nil || len(files) == 0 {
			t.Fatalf("no examples in %s: %v", dir, err)
		}
		for _, f := range files {
			value := read(t, path.Join(dir, f.Name()))
			_, decoded := Decode(value)
			if valid := validate(s, value); (valid == nil) != (kind == "good") || (decoded == nil) != (kind == "good") {
				t.Errorf("%s/%s: schema says %v, Decode says %v", kind, f.Name(), valid, decoded)
			}
		}
	}
}

func TestTheSchemaKnowsEveryStatusAndDispute(t *testing.T) {
	var doc struct {
		Defs struct {
			Status struct{ Enum []string }
			Data   struct {
				Properties struct {
					Dispute struct{ Enum []string }
				}
			}
		} `yaml:"$defs"`
	}
	parse(t, schemas.OrderStatusChanged, &doc)
	var statuses, disputes []string
	for s := order.Pending; s <= order.Refunded; s++ {
		statuses = append(statuses, s.String())
	}
	for d := order.NoDispute; d <= order.DisputeLost; d++ {
		disputes = append(disputes, d.String())
	}
	if got := doc.Defs.Status.Enum; !slices.Equal(got, statuses) {
		t.Errorf("the schema's statuses are %v, the code's %v", got, statuses)
	}
	if got := doc.Defs.Data.Properties.Dispute.Enum; !slices.Equal(got, disputes) {
		t.Errorf("the schema's disputes are %v, the code's %v", got, disputes)
	}
}

type asyncAPI struct {
	Channels map[string]struct {
		Address  string
		Bindings struct {
			Kafka struct {
				Partitions         int32
				TopicConfiguration map[string]any `yaml:"topicConfiguration"`
			}
		}
	}
	Components struct {
		Messages map[string]struct {
			ContentType string `yaml:"contentType"`
			Headers     struct{ Required []string }
		}
		Schemas struct {
			RawHeaders struct {
				Required   []string
				Properties map[string]any
			} `yaml:"rawHeaders"`
		}
	}
}

func parse(t *testing.T, name string, into any) {
	t.Helper()
	if err := yaml.Unmarshal(read(t, name), into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func TestTheTopicsAreAsTheContractSays(t *testing.T) {
	var doc asyncAPI
	parse(t, schemas.AsyncAPI, &doc)
	specs := map[string]kafka.TopicSpec{}
	for _, spec := range kafka.Topics {
		specs[spec.Name] = spec
	}
	for name, c := range doc.Channels {
		spec, ok := specs[c.Address]
		if !ok {
			t.Errorf("channel %s: there is no topic %s", name, c.Address)
			continue
		}
		bound := c.Bindings.Kafka
		if bound.Partitions != spec.Partitions {
			t.Errorf("%s: %d partitions, not %d", c.Address, bound.Partitions, spec.Partitions)
		}
		for _, setting := range []string{"retention.ms", "max.message.bytes"} {
			want, err := strconv.ParseUint(spec.Config[setting], 10, 64)
			if err != nil {
				want = 0
			}
			if got, _ := bound.TopicConfiguration[setting].(uint64); got != want {
				t.Errorf("%s: %s is %d, not %d", c.Address, setting, got, want)
			}
		}
	}
}

func TestTheHeadersAreAsTheContractSays(t *testing.T) {
	var doc asyncAPI
	parse(t, schemas.AsyncAPI, &doc)
	var required []string
	raw := doc.Components.Schemas.RawHeaders
	for _, h := range event.RecordHeaders {
		if raw.Properties[h.Name] == nil {
			t.Errorf("the contract does not know header %s", h.Name)
		}
		if h.Required {
			required = append(required, h.Name)
		}
	}
	if len(raw.Properties) != len(event.RecordHeaders) || !slices.Equal(raw.Required, required) {
		t.Errorf("the contract requires %v, the code %v", raw.Required, required)
	}
	m := doc.Components.Messages["orderStatusChanged"]
	var names []string
	for _, h := range sample().Headers() {
		names = append(names, h.Name)
	}
	if m.ContentType != ContentType || !slices.Equal(m.Headers.Required, names) {
		t.Errorf("the contract says %s, %v", m.ContentType, m.Headers.Required)
	}
}

func TestTheHTTPContractHasThePathsOfTheRoles(t *testing.T) {
	var doc struct{ Paths map[string]map[string]any }
	parse(t, schemas.OpenAPI, &doc)
	for _, want := range []string{"post /webhooks/{endpoint}", "put /v1/orders/{order_id}", "get /v1/orders/{order_id}"} {
		method, at, _ := strings.Cut(want, " ")
		if doc.Paths[at][method] == nil {
			t.Errorf("%s is missing", want)
		}
	}
}

// A comma in an unquoted text of {…} silently begins a new, empty key.
func TestTheDocumentsHaveNoEmptyKeys(t *testing.T) {
	for _, name := range []string{schemas.AsyncAPI, schemas.OpenAPI, schemas.PaymeClick} {
		var doc map[string]any
		parse(t, name, &doc)
		var look func(at string, v any)
		look = func(at string, v any) {
			switch v := v.(type) {
			case nil:
				t.Errorf("%s: %s is empty", name, at)
			case map[string]any:
				for k, v := range v {
					look(at+"/"+k, v)
				}
			case []any:
				for i, v := range v {
					look(at+"/"+strconv.Itoa(i), v)
				}
			}
		}
		look("", doc)
	}
}

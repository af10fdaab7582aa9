package status

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

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

func parse(t *testing.T, name string, into any) {
	t.Helper()
	if err := yaml.Unmarshal(read(t, name), into); err != nil {
		t.Fatalf("%s: %v", name, err)
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

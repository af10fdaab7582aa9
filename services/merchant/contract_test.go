package merchant

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"sluice/schemas"
)

// answers are the schemas of what each provider is answered.
var answers = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	text, err := fs.ReadFile(schemas.FS, schemas.PaymeClick)
	if err != nil {
		return nil, err
	}
	if text, err = yaml.YAMLToJSON(text); err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("payme-click.json", doc); err != nil {
		return nil, err
	}
	found := map[string]*jsonschema.Schema{}
	for provider, name := range map[string]string{"payme": "PaymeAnswer", "click": "ClickAnswer"} {
		if found[provider], err = c.Compile("payme-click.json#/components/schemas/" + name); err != nil {
			return nil, err
		}
	}
	return found, nil
})

// obeys holds every answer of every test to the published contract.
func (s *shop) obeys(endpoint string, answer []byte) {
	s.Helper()
	all, err := answers()
	if err != nil {
		s.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(answer))
	if err == nil {
		err = all[s.m.routes[endpoint].endpoint.Provider.Name()].Validate(v)
	}
	if err != nil {
		s.Errorf("endpoint %s answered %s: %v", endpoint, answer, err)
	}
}

// The document lists the methods and errors that there are.
func TestTheContractNamesWhatIsAnswered(t *testing.T) {
	text, err := fs.ReadFile(schemas.FS, schemas.PaymeClick)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct {
			Schemas struct {
				PaymeCall struct {
					Properties struct {
						Method struct{ Enum []string }
					}
				} `yaml:"PaymeCall"`
				PaymeError struct {
					Properties struct{ Code struct{ Enum []int } }
				} `yaml:"PaymeError"`
			}
		}
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	methods := doc.Components.Schemas.PaymeCall.Properties.Method.Enum
	for _, name := range methods {
		if paymeMethods[name] == nil {
			t.Errorf("method %s is not answered", name)
		}
	}
	if len(methods) != len(paymeMethods) {
		t.Errorf("the contract has %d methods, the code %d", len(methods), len(paymeMethods))
	}
	codes := map[int]bool{}
	for _, code := range doc.Components.Schemas.PaymeError.Properties.Code.Enum {
		codes[code] = true
	}
	for _, f := range []*fault{faultMethod, faultJSON, faultCall, faultUnknown, faultAuth, faultSystem, faultAmount, faultNotFound, faultPerform, &faultNoOrder} {
		if !codes[f.Code] {
			b, _ := json.Marshal(f)
			t.Errorf("the contract does not name %s", b)
		}
		delete(codes, f.Code)
	}
	if len(codes) != 0 {
		t.Errorf("the contract names %v, which nothing is answered with", codes)
	}
}

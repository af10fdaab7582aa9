package endpoint

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/webhook"
)

// recorded is a vector or a fixture, as far as it is a request.
type recorded struct {
	Name       string            `json:"name"`
	Secret     string            `json:"secret"`
	Headers    map[string]string `json:"headers"`
	BodyBase64 []byte            `json:"body_base64"`
	Body       json.RawMessage   `json:"body"`
	Now        int64             `json:"now"`
	Config     struct {
		Extra []string `json:"extra_secrets"`
	} `json:"config"`
}

func (r recorded) request() webhook.Request {
	var list []event.Header
	for name, value := range r.Headers {
		list = append(list, event.Header{Name: name, Value: []byte(value)})
	}
	body := r.BodyBase64
	if body == nil {
		body = r.Body
	}
	return webhook.Request{Method: "POST", Header: webhook.StoredHeaders(list), Body: body}
}

func (r recorded) secrets() (all []webhook.Secret) {
	for _, text := range append([]string{r.Secret}, r.Config.Extra...) {
		all = append(all, webhook.VectorSecret("s", text))
	}
	return all
}

// What the file's words say is what the built-in providers do: the same verdict on
// every vector, and the same reading of every body, whoever's it is.
func TestTheDeclaredFormSaysWhatTheBuiltinProvidersDo(t *testing.T) {
	text, err := os.ReadFile("testdata/declared.yaml")
	if err != nil {
		t.Fatal(err)
	}
	set, err := good.load(string(text))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]recorded{}
	files, _ := filepath.Glob("../webhook/testdata/*/*.json")
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var list []recorded
		if err := json.Unmarshal(data, &list); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		all[name] = append(all[name], list...)
	}
	want := []string{"github", "github_sha1", "shopify", "shopify_events", "paddle", "razorpay", "checkout", "coinbase_commerce", "paystack"}
	var got []string
	for _, e := range set.All() {
		got = append(got, strings.TrimPrefix(e.Provider.Name(), "own_"))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("declared are %v, not %v", got, want)
	}
	for _, e := range set.All() {
		declared, name := e.Provider, strings.TrimPrefix(e.Provider.Name(), "own_")
		builtin, ok := webhook.Builtin(name)
		if !ok {
			t.Fatalf("no provider %s", name)
		}
		// The tolerance is the endpoint's in both.
		if timed, ok := builtin.(webhook.Timed); ok {
			declared = declared.(webhook.Timed).WithTolerance(timed.Tolerance())
		}
		if a, b := declared.SignatureHeaders(), builtin.SignatureHeaders(); !slices.Equal(a, b) {
			t.Errorf("%s stores %v, the built-in one %v", name, a, b)
		}
		if declared.TimeRepeats() != builtin.TimeRepeats() || declared.ChangedBody() != builtin.ChangedBody() {
			t.Errorf("%s: another rule for what comes again", name)
		}
		if got, want := declared.Profile().Retries, builtin.Profile().Retries; got != want && (got != webhook.RetriesUnknown || want > 0) {
			t.Errorf("%s repeats for %v, the built-in one for %v", name, got, want)
		}
		own, _, _ := strings.Cut(name, "_sha1")
		own, _, _ = strings.Cut(own, "_events")
		valid, facts := 0, 0
		for of, list := range all {
			for _, r := range list {
				req := r.request()
				if of == own && r.BodyBase64 != nil {
					now := time.Unix(r.Now, 0)
					a, b := declared.Verify(req, r.secrets(), now), builtin.Verify(req, r.secrets(), now)
					if a != b {
						t.Errorf("%s, vector %s: %+v, the built-in one %+v", name, r.Name, a, b)
					}
					if a.Outcome == webhook.Valid {
						valid++
					}
				}
				a, errA := declared.Read(req.Header, req.Body)
				b, errB := builtin.Read(req.Header, req.Body)
				if a != b || !reflect.DeepEqual(errA, errB) {
					t.Errorf("%s reads %s/%s as %+v, %v; the built-in one as %+v, %v", name, of, r.Name, a, errA, b, errB)
				}
				if a.Fact != 0 {
					facts++
				}
			}
		}
		if valid == 0 || facts == 0 && !strings.HasPrefix(name, "github") && name != "shopify_events" {
			t.Errorf("%s: nothing was compared: %d valid, %d facts", name, valid, facts)
		}
	}
}

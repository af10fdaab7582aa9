package ingress

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"sluice/pkg/contract/validate"
	"sluice/schemas"
)

var published = sync.OnceValues(func() (*validate.Validator, error) { return validate.New(schemas.FS) })

// lawful holds an answer against the published contract and returns its body.
func (r *running) lawful(res *http.Response) []byte {
	r.t.Helper()
	body, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(body))
	v, err := published()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := v.IngressAnswer(res.StatusCode, res.Header, body); err != nil {
		r.t.Errorf("answered %d %v %q: %v", res.StatusCode, res.Header, body, err)
	}
	return body
}

func TestTheRoutesAreThoseOfTheContract(t *testing.T) {
	v, err := published()
	if err != nil {
		t.Fatal(err)
	}
	var documented, served []string
	for _, o := range v.Operations {
		if o.Tag == "ingress" {
			documented = append(documented, o.Name())
			if !o.Open {
				t.Errorf("%s asks for a token", o.Name())
			}
		}
	}
	in, err := build(config(), endpoints(t), &fakeProducer{}, nil, quiet, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range in.handler().(*echo.Echo).Routes() {
		// OPTIONS is not allowed; a slash at the end changes nothing.
		if name := r.Method + " " + strings.Replace(strings.TrimSuffix(r.Path, "/"), ":endpoint", "{endpoint}", 1); r.Method != http.MethodOptions {
			served = append(served, name)
		}
	}
	slices.Sort(documented)
	slices.Sort(served)
	if served = slices.Compact(served); !slices.Equal(documented, served) {
		t.Errorf("the contract has %q, the program %q", documented, served)
	}
}

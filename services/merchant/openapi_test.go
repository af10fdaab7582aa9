package merchant

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/labstack/echo/v4"

	"sluice/pkg/contract"
	"sluice/pkg/contract/validate"
	"sluice/schemas"
)

var published = sync.OnceValues(func() (*validate.Validator, error) { return validate.New(schemas.FS) })

// lawful holds an answer about an order against the published contract.
func (a *api) lawful(method string, w *httptest.ResponseRecorder) {
	a.Helper()
	v, err := published()
	if err != nil {
		a.Fatal(err)
	}
	if method != http.MethodPut {
		method = http.MethodGet // whose 405 the others get
	}
	if err := v.Answer(method+" /v1/orders/{order_id}", w.Code, w.Header(), w.Body.Bytes()); err != nil {
		a.Errorf("answered %d %v %s: %v", w.Code, w.Header(), w.Body, err)
	}
}

func TestTheRoutesAreThoseOfTheContract(t *testing.T) {
	v, err := published()
	if err != nil {
		t.Fatal(err)
	}
	var documented, served []string
	for _, o := range v.Operations {
		if o.Tag == "merchant" {
			documented = append(documented, o.Name())
		}
	}
	for _, r := range (&Merchant{}).handler().(*echo.Echo).Routes() {
		if r.Method != http.MethodOptions { // is not allowed
			served = append(served, r.Method+" "+strings.Replace(r.Path, ":order_id", "{order_id}", 1))
		}
	}
	slices.Sort(documented)
	slices.Sort(served)
	if !slices.Equal(documented, served) {
		t.Errorf("the contract has %q, the program %q", documented, served)
	}
}

// What the schema says of registrations is what their reader does.
func TestTheReaderOfRegistrationsAgreesWithTheExamples(t *testing.T) {
	for _, kind := range []string{"good", "bad"} {
		files, err := fs.Glob(schemas.FS, "examples/merchant.registration.v1/"+kind+"/*.json")
		if err != nil || len(files) == 0 {
			t.Fatal("no examples", err)
		}
		for _, file := range files {
			body, err := fs.ReadFile(schemas.FS, file)
			if err != nil {
				t.Fatal(err)
			}
			if _, problems := parseRegistration("ord_77", body); (len(problems) == 0) != (kind == "good") {
				t.Errorf("%s: %q", file, problems)
			}
		}
	}
}

// A view with everything in it has the members of the contract, and no others.
func TestAnOrderHasTheMembersOfTheContract(t *testing.T) {
	v, err := published()
	if err != nil {
		t.Fatal(err)
	}
	full := orderView{Reserved: &reservedView{Until: "x"}, Held: []heldView{{OccurredAt: "x"}}, History: []historyView{{}}}
	for schema, value := range map[string]any{"merchant.order.v1": full, "problem.v1": problem{}} {
		var documented []string
		for _, f := range v.Fields(schema) {
			documented = append(documented, f.Path)
		}
		slices.Sort(documented)
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		written, err := contract.Members(text)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(documented, written) {
			t.Errorf("%s: the contract has %q, the program %q", schema, documented, written)
		}
	}
}

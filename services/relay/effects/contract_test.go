package effects

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sluice/pkg/contract/validate"
	"sluice/pkg/postgres"
	"sluice/schemas"
)

var published = sync.OnceValues(func() (*validate.Validator, error) { return validate.New(schemas.FS) })

// lawful holds a call of an effect, as it came in, against the published contract.
func lawful(t testing.TB, s seen) {
	t.Helper()
	v, err := published()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Request(s.method+" webhook effect", s.header, []byte(s.body)); err != nil {
		t.Errorf("a call breaks the contract: %v", err)
	}
}

// O42, O43: what the contract says of an answer is what is done about it.
func TestAnAnswerMeansWhatTheContractSays(t *testing.T) {
	v, err := published()
	if err != nil {
		t.Fatal(err)
	}
	says := map[string]string{}
	for _, o := range v.Operations {
		if o.Webhook != "effect" {
			continue
		}
		if o.Method != http.MethodPost {
			t.Errorf("the contract calls effects by %s", o.Method)
		}
		for _, a := range o.Answers {
			says[a.Status] = a.Description
		}
	}
	for status := 200; status < 600; status++ {
		text, ok := says[strconv.Itoa(status)]
		if !ok {
			text = says[strconv.Itoa(status/100)+"XX"]
		}
		want := postgres.AttemptFailed
		switch {
		case strings.HasPrefix(text, "Done."):
			want = postgres.AttemptDone
		case strings.HasPrefix(text, "Not done; sent again"):
			want = postgres.AttemptRetry
		case !strings.Contains(text, "a person decides"):
			t.Fatalf("%d: the contract says %q", status, text)
		}
		if got := outcomes[classOf(status)].effect; got != want {
			t.Errorf("%d: the contract says %q, and the outcome is %v", status, text, got)
		}
	}
}

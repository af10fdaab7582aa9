package explain

import (
	"crypto/sha256"
	"os"
	"testing"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/webhook/conformance"
)

// What was verified by something that no record keeps is never called forged, and a
// signature within the body is looked at again like any other.
func TestASignatureIsLookedAtAgainOrSaidNotToBeKept(t *testing.T) {
	const file = `endpoints:
  - {name: adyen, provider: adyen, secrets: [env:ADYEN]}
  - {name: paypal, provider: paypal, secrets: [env:PAYPAL], lookup: {credentials: [env:OTHER], settings: {client_id: a}}}
  - {name: gocardless, provider: gocardless, secrets: [env:OTHER], lookup: {credentials: [env:OTHER]}}
`
	for _, c := range []struct {
		endpoint, vectors, want string
		headers                 bool // the record has the signature's
	}{
		{"adyen", "adyen", sigValid, false}, {"paypal", "paypal", sigAccepted, true}, {"gocardless", "gocardless", sigAccepted, false},
		{"gocardless", "gocardless", sigInvalid, true},
	} {
		text, err := os.ReadFile("../../../pkg/webhook/testdata/vectors/" + c.vectors + ".json")
		if err != nil {
			t.Fatal(err)
		}
		vectors, err := conformance.Valid(text)
		if err != nil {
			t.Fatal(err)
		}
		set, err := endpoint.Load("f", event.Test, func(name string) (string, bool) {
			return map[string]string{"ADYEN": "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056", "PAYPAL": "96605875FF6516633", "OTHER": "k-7e1c9b52d0"}[name], true
		}, func(string) ([]byte, error) { return []byte(file), nil })
		if err != nil {
			t.Fatal(err)
		}
		v := vectors[0]
		e := event.Event{Endpoint: c.endpoint, SecretName: "env:OTHER", Trust: event.Signed, Body: v.Request.Body, BodySHA256: sha256.Sum256(v.Request.Body), ReceivedAt: time.Now()}
		if c.headers {
			for _, name := range v.Provider.SignatureHeaders() {
				for _, value := range v.Request.Header(name) {
					e.Signature = append(e.Signature, event.Header{Name: name, Value: []byte(value)})
				}
			}
		}
		if got := (Secrets{Endpoints: set}).signature(e); got.Verdict != c.want {
			t.Errorf("%s, headers %v: %s (%s), want %s", c.endpoint, c.headers, got.Verdict, got.Why, c.want)
		}
	}
}

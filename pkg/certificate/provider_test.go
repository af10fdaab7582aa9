package certificate

import (
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"os"
	"testing"

	"sluice/pkg/webhook"
	"sluice/pkg/webhook/conformance"
)

// What is fetched from where a request says verifies that request.
func TestRealRequestsVerifyWithWhatIsFetched(t *testing.T) {
	for _, name := range []string{"paypal", "aws_sns"} {
		text, err := os.ReadFile("../webhook/testdata/vectors/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		vectors, err := conformance.Valid(text)
		if err != nil || len(vectors) == 0 {
			t.Fatalf("%s: %d vectors, %v", name, len(vectors), err)
		}
		for _, v := range vectors {
			given := v.Request.Certificate
			s := New(given.Roots, slog.New(slog.NewTextHandler(io.Discard, nil)))
			asked := ""
			s.client.Transport = transport(func(r *http.Request) (*http.Response, error) {
				asked = r.URL.String()
				var chain []byte
				for _, c := range given.Chain {
					chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
				}
				return answers(chain)
			})
			req := v.Request
			req.Certificate = webhook.Certificate{}
			address, reason := v.Provider.(webhook.Certified).CertificateURL(req)
			if req.Certificate, err = s.Get(address); err != nil || reason != "" || asked != address {
				t.Errorf("%s %s: asked %q: %v, %s", name, v.Name, asked, err, reason)
			}
			if verdict := v.Provider.Verify(req, v.Secrets, v.Now); verdict.Outcome != webhook.Valid {
				t.Errorf("%s %s: %s", name, v.Name, verdict.Reason)
			}
			s.Close()
		}
	}
}

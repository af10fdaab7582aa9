package ingress

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/webhook"
	"sluice/pkg/webhook/conformance"
)

// anywhere is a shelf with one certificate at every address.
type anywhere struct{ webhook.Certificate }

func (a anywhere) Get(string) (webhook.Certificate, error) { return a.Certificate, nil }
func (anywhere) Close()                                    {}

// Every request that a vector says is right is taken, behind a proxy:
// whatever its scheme needs of the request reaches it. And what is stored verifies
// again, where it has a signature of its own.
func TestEveryProvidersRealRequestIsTakenAndVerifiesAgain(t *testing.T) {
	files, err := filepath.Glob("../../pkg/webhook/testdata/vectors/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	cfg := config()
	cfg.TrustedProxies = []string{"127.0.0.1"}
	p := &fakeProducer{}
	var now time.Time
	in, err := build(cfg, endpoints(t), p, func() time.Time { return now }, quiet, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	in.certificates.Close()
	today := time.Now()
	handler := in.handler()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		vectors, err := conformance.Valid(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range vectors {
			if v.Provider.Profile().TwoWay || v.Request.Method == http.MethodGet {
				continue
			}
			if now = v.Now; now.IsZero() {
				now = today
			}
			url, _, _ := strings.Cut(v.Request.URL, "?") // what follows comes with the request
			e := endpoint.Endpoint{Name: "lab", Provider: v.Provider, Secrets: v.Secrets, URL: url}
			addLab(in, e)
			in.certificates = anywhere{v.Request.Certificate}
			path := "/webhooks/lab"
			for _, query := range v.Request.Header(webhook.QueryHeader) {
				path += "?" + query
			}
			req := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(v.Request.Body))
			req.RemoteAddr = "127.0.0.1:4711"
			req.Header.Set("X-Forwarded-For", v.Request.Remote.String())
			for _, h := range v.Headers {
				req.Header.Add(h.Name, string(h.Value))
			}
			before := len(p.all())
			res := httptest.NewRecorder()
			handler.ServeHTTP(res, req)
			records := p.all()[before:]
			if res.Code != http.StatusOK || len(records) == 0 {
				t.Errorf("%s %s: answered %d, %d records", v.Provider.Name(), v.Name, res.Code, len(records))
				continue
			}
			for _, rec := range records {
				kept, err := event.Parse(rec.Key, rec.Value, rec.Headers)
				if err != nil {
					t.Errorf("%s %s: %v", v.Provider.Name(), v.Name, err)
					continue
				}
				if len(kept.Signature) == 0 {
					continue
				}
				stored := webhook.StoredHeaders(kept.Signature)
				again := webhook.Request{Method: http.MethodPost, URL: e.RequestURL(strings.Join(stored(webhook.QueryHeader), "")), Header: stored,
					Body: kept.Body, Remote: v.Request.Remote, Certificate: v.Request.Certificate}
				if verdict := e.Provider.Verify(again, v.Secrets, kept.ReceivedAt); verdict.Outcome != webhook.Valid {
					t.Errorf("%s %s: what is stored does not verify again: %s", v.Provider.Name(), v.Name, verdict.Reason)
				}
				if _, err := e.Provider.Read(stored, kept.Body); (err != nil) != (kept.Type == event.Unreadable) {
					t.Errorf("%s %s: what is stored reads in another way: %v", v.Provider.Name(), v.Name, err)
				}
			}
		}
	}
}

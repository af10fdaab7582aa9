package ingress

import (
	"bytes"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/webhook"
)

// lab is a provider of a test's own: a request with the header X-Lab is valid, the
// body is the event's id, and "?" cannot be read. It remembers what it verified.
type lab struct {
	name    string
	profile webhook.Profile
	headers []string

	mu   sync.Mutex
	seen []webhook.Request
}

func (l *lab) Name() string                     { return "lab" + l.name }
func (l *lab) Profile() webhook.Profile         { return l.profile }
func (l *lab) CheckSecret(webhook.Secret) error { return nil }
func (l *lab) TimeRepeats() bool                { return false }
func (l *lab) ChangedBody() webhook.ChangedBody { return webhook.Final }
func (l *lab) SignatureHeaders() []string       { return l.headers }
func (l *lab) Sign(webhook.Secret, string, time.Time, []byte) (map[string]string, error) {
	return map[string]string{"X-Lab": "right"}, nil
}

func (l *lab) Verify(r webhook.Request, _ []webhook.Secret, _ time.Time) webhook.Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, r)
	if v := r.Header("X-Lab"); len(v) == 1 && v[0] == "right" {
		return webhook.Verdict{Outcome: webhook.Valid, Secret: "env:LAB"}
	}
	return webhook.Verdict{Reason: webhook.ReasonMismatch}
}

func (l *lab) Read(_ webhook.Headers, body []byte) (webhook.Reading, error) {
	if bytes.ContainsAny(body, "?\n") {
		return webhook.Reading{}, errors.New("cannot be read")
	}
	return webhook.Reading{ID: string(body), Type: "t", Trust: event.Signed}, nil
}

// last is the request that was verified last.
func (l *lab) last(t *testing.T) webhook.Request {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seen) == 0 {
		t.Fatal("nothing was verified")
	}
	return l.seen[len(l.seen)-1]
}

// batching is a lab whose body is a line an event; the header X-Lab signs the whole,
// so that a line alone does not verify unless it is signed itself.
type batching struct{ *lab }

func (b batching) Verify(r webhook.Request, s []webhook.Secret, now time.Time) webhook.Verdict {
	if len(r.Body) == 0 {
		return webhook.Verdict{Reason: webhook.ReasonEmpty}
	}
	if v := r.Header("X-Whole"); len(v) == 1 && v[0] != string(r.Body[:1]) {
		return webhook.Verdict{Reason: webhook.ReasonMismatch}
	}
	return b.lab.Verify(r, s, now)
}

func (batching) Split(body []byte) ([][]byte, error) {
	switch string(body) {
	case "no batch":
		return nil, errors.New("no batch")
	case "of nothing":
		return nil, nil
	}
	return bytes.Split(body, []byte("\n")), nil
}

func (batching) Answer(webhook.Headers, []byte) webhook.Answer {
	return webhook.Answer{ContentType: "text/plain; charset=utf-8", Body: []byte("[accepted]")}
}

type challenging struct{ *lab }

func (challenging) Challenge(query string, secrets []webhook.Secret) (webhook.Answer, bool) {
	echo, ok := strings.CutPrefix(query, "challenge=")
	return webhook.Answer{ContentType: "text/plain", Body: []byte(echo)}, ok
}

// certified names its certificate in the header X-Certificate.
type certified struct{ *lab }

func (certified) CertificateURL(r webhook.Request) (string, webhook.Reason) {
	v := r.Header("X-Certificate")
	if len(v) == 0 {
		return "", webhook.ReasonMissing
	}
	return v[0], webhook.ReasonNone
}

func (c certified) Verify(r webhook.Request, s []webhook.Secret, now time.Time) webhook.Verdict {
	if len(r.Certificate.Chain) == 0 {
		return webhook.Verdict{Reason: webhook.ReasonCertificate}
	}
	return c.lab.Verify(r, s, now)
}

// shelf is certificates that are there; what is not there is not there yet.
type shelf struct {
	there  map[string]webhook.Certificate
	closed bool
}

func (s *shelf) Get(address string) (webhook.Certificate, error) {
	if c, ok := s.there[address]; ok {
		return c, nil
	}
	return webhook.Certificate{}, errors.New("not yet")
}

func (s *shelf) Close() { s.closed = true }

var aCertificate = webhook.Certificate{Chain: []*x509.Certificate{{}}}

// startLab is an ingress with more endpoints beside shop: each a source of its own.
func startLab(t testing.TB, cfg Config, p Producer, more ...endpoint.Endpoint) *running {
	t.Helper()
	reg := prometheus.NewRegistry()
	in, err := build(cfg, endpoints(t), p, time.Now, quiet, reg)
	if err != nil {
		t.Fatal(err)
	}
	addLab(in, more...)
	return serve(t, in, reg)
}

func addLab(in *Ingress, more ...endpoint.Endpoint) {
	for _, e := range more {
		e.Mode = event.Live
		if e.Source == "" {
			e.Source = e.Name
		}
		in.routes[e.Name] = newRoute(e)
	}
}

// do sends a request with the header that a lab takes for a signature.
func (r *running) do(method, path, body string, headers ...string) *http.Response {
	r.t.Helper()
	req, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("X-Lab", "right")
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.lawful(res)
	return res
}

// hanging is a host that takes connections and never says a word.
func hanging(t *testing.T) (address string, release func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l.Addr().String(), func() { _ = l.Close() }
}

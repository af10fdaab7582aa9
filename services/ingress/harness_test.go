package ingress

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secretValue = "whsec_3fRk9vQz0pLm7TtXy2Wc"

var quiet = slog.New(slog.DiscardHandler)

// config is the default configuration with short times.
func config() Config {
	return Config{Address: "127.0.0.1:0", Deadline: 2 * time.Second, HeaderTimeout: 2 * time.Second, BodyTimeout: 3 * time.Second,
		IdleTimeout: time.Minute, Requests: 2048, BodyBytes: 32 << 20, Drain: 10 * time.Second}
}

// endpoints is one Stripe endpoint named shop.
func endpoints(t testing.TB) endpoint.Set {
	t.Helper()
	file := filepath.Join(t.TempDir(), "endpoints.yaml")
	if err := os.WriteFile(file, []byte("endpoints:\n  - name: shop\n    provider: stripe\n    source: acct-1\n    secrets: [env:SHOP]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := endpoint.Load(file, event.Live, func(string) (string, bool) { return secretValue, true }, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// fakeProducer keeps what it is given; do, if set, answers instead.
type fakeProducer struct {
	mu      sync.Mutex
	records []kafka.Record
	do      func(ctx context.Context, r kafka.Record) error
	closed  bool
}

func (p *fakeProducer) Produce(ctx context.Context, r kafka.Record) error {
	if p.do != nil {
		if err := p.do(ctx, r); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		panic("produced after close")
	}
	p.records = append(p.records, r)
	return nil
}

func (p *fakeProducer) Ready() error             { return nil }
func (p *fakeProducer) Buffered() (int64, int64) { return 0, 0 }
func (p *fakeProducer) Close(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return nil
}

func (p *fakeProducer) all() []kafka.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]kafka.Record(nil), p.records...)
}

// last is the newest record, parsed.
func (p *fakeProducer) last(t *testing.T) event.Event {
	t.Helper()
	rs := p.all()
	if len(rs) == 0 {
		t.Fatal("nothing was produced")
	}
	r := rs[len(rs)-1]
	e, err := event.Parse(r.Key, r.Value, r.Headers)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// running is an ingress that serves until the test ends.
type running struct {
	*Ingress
	t      testing.TB
	url    string
	client *http.Client
	reg    *prometheus.Registry
	stop   func() error // cancels and waits for Run
}

func start(t testing.TB, cfg Config, p Producer) *running {
	t.Helper()
	reg := prometheus.NewRegistry()
	in, err := build(cfg, endpoints(t), p, time.Now, quiet, reg)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, in, reg)
}

func serve(t testing.TB, in *Ingress, reg *prometheus.Registry) *running {
	t.Helper()
	if in.listener == nil {
		var err error
		if in.listener, err = net.Listen("tcp", in.cfg.Address); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- in.Run(ctx) }()
	r := &running{Ingress: in, t: t, url: "http://" + in.Addr().String(), reg: reg,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}, Timeout: 20 * time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	r.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = r.stop(); r.client.CloseIdleConnections() })
	return r
}

func sign(t testing.TB, at time.Time, body []byte) map[string]string {
	t.Helper()
	p, _ := webhook.Builtin("stripe")
	s, err := webhook.NewSecret("env:SHOP", secretValue)
	if err != nil {
		t.Fatal(err)
	}
	h, err := p.Sign(s, "", at, body)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// post sends body to path and returns the status, -1 if there was no answer.
func (r *running) post(path string, headers map[string]string, body []byte) int {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.url+path, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	res, err := r.client.Do(req)
	if err != nil {
		return -1
	}
	defer func() { _ = res.Body.Close() }()
	if text := r.lawful(res); len(text) > 0 && res.StatusCode != http.StatusRequestHeaderFieldsTooLarge { // net/http's own
		r.t.Errorf("POST %s: the answer has a body: %q", path, text)
	}
	if res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") == "" {
		r.t.Errorf("POST %s: 503 without Retry-After", path)
	}
	return res.StatusCode
}

// send posts a rightly signed body.
func (r *running) send(body []byte) int {
	r.t.Helper()
	return r.post("/webhooks/shop", sign(r.t, time.Now(), body), body)
}

// want checks a status.
func want(t testing.TB, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s: answered %d, want %d", what, got, want)
	}
}

// counted is sluice_ingress_webhooks_total of these labels.
func (r *running) counted(endpoint string, o outcome, reason string) float64 {
	r.t.Helper()
	var m dto.Metric
	if err := r.metrics.webhooks.WithLabelValues(endpoint, string(o), reason).Write(&m); err != nil {
		r.t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// paid is a readable event.
func paid(id string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"object":"event","type":"payment_intent.succeeded","created":%d,"livemode":true,"data":{"object":{"id":"pi_%s","object":"payment_intent","amount":1200,"amount_received":1200,"currency":"eur","metadata":{"order_id":"ord_%s"}}}}`,
		id, time.Now().Unix(), id, id)
}

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	limit := time.After(15 * time.Second)
	for tick := time.Tick(5 * time.Millisecond); !ok(); {
		select {
		case <-tick:
		case <-limit:
			t.Fatalf("did not come true: %s", what)
		}
	}
}

func startLogged(t testing.TB, p Producer, log io.Writer) *running {
	t.Helper()
	reg := prometheus.NewRegistry()
	in, err := build(config(), endpoints(t), p, time.Now, testLog(log), reg)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, in, reg)
}

func testLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

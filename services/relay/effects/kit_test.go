package effects

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/pkg/effect"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/status"
	"sluice/pkg/webhook"
)

const (
	secretText    = "whsec_c2VydmljZXMtcmVsYXktZWZmZWN0cy0wMDAx"
	oldSecretText = "whsec_c2VydmljZXMtcmVsYXktZWZmZWN0cy0wMDAw"
	tokenText     = "Bearer tok_4f5g/6h7j+8k9l"
)

// declared are effects by the text of their file's list.
func declared(t testing.TB, list string) effect.Set {
	t.Helper()
	env := map[string]string{"SECRET": secretText, "OLD_SECRET": oldSecretText, "TOKEN": tokenText}
	set, err := effect.Load("effects.yaml", func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		func(string) ([]byte, error) { return []byte("effects:\n" + list), nil })
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// one is a declaration of one effect that goes to target.
func one(t testing.TB, target, more string) effect.Declaration {
	t.Helper()
	set := declared(t, fmt.Sprintf("  - {name: fulfil, on: {to: paid}, url: %q, secret: env:SECRET, allow: [127.0.0.1, localhost]%s}\n", target, more))
	d, _ := set.Get("fulfil")
	return d
}

func callerOf(t testing.TB, d effect.Declaration, w way) *caller {
	t.Helper()
	c, err := newCaller(d, w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

var anEffect = postgres.Effect{Key: effect.Key{1, 2, 3}, Name: "fulfil", OrderID: "o-1", Attempt: 1, Try: 1, Body: bodyOf("fulfil", effect.Key{1, 2, 3})}

// bodyOf is what the store would keep of an effect.
func bodyOf(name string, k effect.Key) []byte {
	return effect.Body(name, k, effect.Fact{Source: "stripe", Kind: order.KindPaid, Payment: "pi_1"}, status.Message{
		OrderID: "o-1", Version: 2, Previous: order.Pending, Status: order.Paid, Currency: "EUR",
		Cause: status.Cause{Source: "stripe", EventID: "evt_1"}, ChangedAt: time.Unix(1_764_504_000, 0)})
}

// requests are what a server saw.
type requests struct {
	mu  sync.Mutex
	all []seen
}

type seen struct {
	method, path string
	header       http.Header
	body         string
}

func (r *requests) list() []seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]seen(nil), r.all...)
}

// server answers with handler and notes what it was asked.
func server(t testing.TB, handler http.HandlerFunc) (*httptest.Server, *requests) {
	t.Helper()
	r := &requests{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		one := seen{req.Method, req.URL.RequestURI(), req.Header.Clone(), string(body)}
		lawful(t, one)
		r.mu.Lock()
		r.all = append(r.all, one)
		r.mu.Unlock()
		handler(w, req)
	}))
	t.Cleanup(s.Close)
	return s, r
}

func logTo(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError + 1}))
}

func config() Config {
	return Config{Concurrency: 64, PerDestination: 16, Poll: 10 * time.Millisecond, LeaseMargin: 10 * time.Second, BackoffBase: 30 * time.Second,
		BackoffMax: 6 * time.Hour, RetryAfterMax: 24 * time.Hour, BreakAfter: 5, BreakFor: 10 * time.Second, BreakMax: 2 * time.Minute, Drain: 5 * time.Second}
}

// verified is nil if the request carries a signature that the secret made at a time
// that is near.
func verified(s seen, secret string, now time.Time) error {
	p, _ := webhook.Builtin("standard_webhooks")
	key, err := webhook.NewSecret("test", secret)
	if err != nil {
		return err
	}
	v := p.Verify(webhook.Request{Method: s.method, Header: s.header.Values, Body: []byte(s.body)}, []webhook.Secret{key}, now)
	if v.Outcome != webhook.Valid {
		return fmt.Errorf("the signature is refused: %s", v.Reason)
	}
	return nil
}

func hostport(raw string) string {
	u, _ := url.Parse(raw)
	return u.Host
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func contains(text string, parts ...string) bool {
	for _, p := range parts {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}

package effects

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/pkg/effect"
	"sluice/pkg/postgres"
)

func TestACallIsASignedPostOfTheRowsBytes(t *testing.T) {
	s, got := server(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	set := declared(t, `  - {name: fulfil, on: {to: paid}, url: "`+s.URL+`/orders?shop=1", secret: [env:SECRET, env:OLD_SECRET], allow: [127.0.0.1], headers: {Authorization: env:TOKEN, X-Shop: "7"}}`+"\n")
	d, _ := set.Get("fulfil")
	at := time.Now()
	a := callerOf(t, d, way{}).call(t.Context(), anEffect, at)
	if a.status != http.StatusNoContent || a.class != succeeded {
		t.Fatalf("answer %+v", a)
	}
	r := got.list()[0]
	if r.method != http.MethodPost || r.path != "/orders?shop=1" || r.body != string(anEffect.Body) {
		t.Errorf("%s %s %q", r.method, r.path, r.body)
	}
	for name, want := range map[string]string{"Content-Type": effect.ContentType, "Idempotency-Key": anEffect.IdempotencyKey(), "Webhook-Id": anEffect.IdempotencyKey(),
		"Authorization": tokenText, "X-Shop": "7"} {
		if v := r.header.Get(name); v != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
	for _, secret := range []string{secretText, oldSecretText} { // both, during a rotation
		if err := verified(r, secret, at); err != nil {
			t.Error(err)
		}
	}
}

// redirects is O42: a redirect is not followed, and its target's 200 counts for nothing.
func TestARedirectIsNeverFollowedAndNeverDone(t *testing.T) { // O42
	other, elsewhere := server(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, to := range []string{"/ok", "/loop", other.URL + "/ok"} {
			s, got := server(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/ok" {
					w.WriteHeader(http.StatusOK)
					return
				}
				w.Header().Set("Location", to)
				w.WriteHeader(status)
			})
			a := callerOf(t, one(t, s.URL+"/loop", ""), way{}).call(t.Context(), anEffect, time.Now())
			v := waitsOf(config()).decide(a, 1, 12, time.Now(), none)
			if v.outcome != postgres.AttemptRetry || v.class != redirect || v.alive {
				t.Errorf("%d to %s: %+v", status, to, v)
			}
			if n := len(got.list()) + len(elsewhere.list()); n != 1 {
				t.Errorf("%d to %s: %d requests, want the one POST", status, to, n)
			}
		}
	}
}

// A receiver that answers 101 gets the connection for itself, as net/http has it: the
// call's own time no longer ends what is read from it.
func TestAReceiverThatSwitchesProtocolsHoldsNoCall(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	closed := make(chan struct{})
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer close(closed)
		defer func() { _ = c.Close() }()
		in := bufio.NewReader(c)
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		_, _ = c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"))
		for err == nil { // until the caller goes away
			_, err = in.ReadByte()
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	answered := make(chan answer, 1)
	go func() {
		answered <- callerOf(t, one(t, "http://"+l.Addr().String(), ", timeout: 500ms"), way{}).call(t.Context(), anEffect, time.Now())
	}()
	select {
	case a := <-answered:
		if a.status != http.StatusSwitchingProtocols || classOf(a.status) != unknownStatus {
			t.Errorf("answer %+v", a)
		}
		<-closed
	case <-time.After(5 * time.Second):
		t.Fatal("the call does not end")
	}
}

// raw is a server that answers each connection's first request with bytes, and closes.
func raw(t testing.TB, answer string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(c, answer)
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/"
}

func TestOnlyA2xxToThePostIsDone(t *testing.T) { // O42, O43
	for name, c := range map[string]struct {
		answer  string
		class   class
		outcome postgres.AttemptOutcome
		text    string
	}{
		"200":                     {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", succeeded, postgres.AttemptDone, "ok"},
		"202":                     {"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", succeeded, postgres.AttemptDone, ""},
		"204":                     {"HTTP/1.1 204 No Content\r\n\r\n", succeeded, postgres.AttemptDone, ""},
		"a login page shows":      {"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>\n <title>Sign in</title>", succeeded, postgres.AttemptDone, "<html> <title>Sign in</title>"},
		"closed after the head":   {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", succeeded, postgres.AttemptDone, ""},
		"closed in the body":      {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", succeeded, postgres.AttemptDone, "half"},
		"closed in the head":      {"HTTP/1.1 200 OK\r\nContent-Le", broken, postgres.AttemptRetry, `missing colon: "Content-Le"`},
		"closed":                  {"", broken, postgres.AttemptRetry, "EOF"},
		"000":                     {"HTTP/1.1 000 Nothing\r\nContent-Length: 0\r\n\r\n", unknownStatus, postgres.AttemptRetry, ""},
		"001":                     {"HTTP/1.1 001 Hardly\r\nContent-Length: 0\r\n\r\n", unknownStatus, postgres.AttemptRetry, ""},
		"199 and nothing after":   {"HTTP/1.1 199 Odd\r\n\r\n", broken, postgres.AttemptRetry, "EOF"},
		"not HTTP":                {"SSH-2.0-OpenSSH_9.2\r\n", broken, postgres.AttemptRetry, `malformed HTTP response "SSH-2.0-OpenSSH_9.2"`},
		"304":                     {"HTTP/1.1 304 Not Modified\r\n\r\n", redirect, postgres.AttemptRetry, ""},
		"600":                     {"HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n", unknownStatus, postgres.AttemptRetry, ""},
		"999":                     {"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", unknownStatus, postgres.AttemptRetry, ""},
		"400":                     {"HTTP/1.1 400 Bad Request\r\nContent-Length: 7\r\n\r\nno item", rejected, postgres.AttemptFailed, "no item"},
		"401":                     {"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", unauthorized, postgres.AttemptFailed, ""},
		"404":                     {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", rejected, postgres.AttemptFailed, ""},
		"408":                     {"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", requestTimeout, postgres.AttemptRetry, ""},
		"409":                     {"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n", rejected, postgres.AttemptFailed, ""},
		"425":                     {"HTTP/1.1 425 Too Early\r\nContent-Length: 0\r\n\r\n", tooEarly, postgres.AttemptRetry, ""},
		"429":                     {"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n", throttled, postgres.AttemptRetry, ""},
		"500":                     {"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", unavailable, postgres.AttemptRetry, ""},
		"503":                     {"HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n", unavailable, postgres.AttemptRetry, ""},
		"control characters":      {"HTTP/1.1 200 OK\r\n\r\na\x00b\x1b[31m\xff\r\nc", succeeded, postgres.AttemptDone, "ab[31m? c"},
		"more than is kept":       {"HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("ü", 9000), succeeded, postgres.AttemptDone, strings.Repeat("ü", 256)},
		"a head that never stops": {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20), broken, postgres.AttemptRetry, "net/http: server response headers exceeded 65536 bytes; aborted"},
	} {
		t.Run(name, func(t *testing.T) {
			a := callerOf(t, one(t, raw(t, c.answer), ""), way{}).call(t.Context(), anEffect, time.Now())
			v := waitsOf(config()).decide(a, 1, 12, time.Now(), none)
			if v.class != c.class || v.outcome != c.outcome || !strings.HasSuffix(a.text, c.text) || c.text == "" && a.text != "" {
				t.Errorf("answer %+v means %+v", a, v)
			}
		})
	}
}

func TestADestinationThatDoesNotAnswerCostsTheTimeoutAndNoMore(t *testing.T) { // O43
	hang := make(chan struct{})
	s, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" { // the head comes, and then nothing
			w.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(w, "begun")
			w.(http.Flusher).Flush()
		}
		<-hang
	})
	t.Cleanup(func() { close(hang) })
	began := time.Now()
	a := callerOf(t, one(t, s.URL+"/", ", timeout: 200ms"), way{}).call(t.Context(), anEffect, began)
	if a.class != timedOut || time.Since(began) > 2*time.Second {
		t.Errorf("no answer: %+v after %v", a, time.Since(began))
	}
	began = time.Now()
	a = callerOf(t, one(t, s.URL+"/body", ", timeout: 60s"), way{}).call(t.Context(), anEffect, began)
	if a.status != http.StatusOK || a.text != "begun" || time.Since(began) > 10*time.Second {
		t.Errorf("no body: %+v after %v", a, time.Since(began))
	}
}

func TestACallThatAStopCutsSaysSo(t *testing.T) {
	ctx, cut := context.WithCancelCause(t.Context())
	s, _ := server(t, func(_ http.ResponseWriter, r *http.Request) {
		cut(errStopped)
		<-r.Context().Done()
	})
	if a := callerOf(t, one(t, s.URL, ""), way{}).call(ctx, anEffect, time.Now()); a.class != stopped {
		t.Errorf("answer %+v", a)
	}
}

func TestAnAttemptIsOneRequestEvenOverAConnectionThatWasUsed(t *testing.T) { // O43
	var n int
	s, got := server(t, func(w http.ResponseWriter, _ *http.Request) {
		if n++; n == 2 { // acts, and the answer is lost
			c, _, err := w.(http.Hijacker).Hijack()
			must(t, err)
			_ = c.Close()
		}
	})
	c := callerOf(t, one(t, s.URL, ""), way{})
	if a := c.call(t.Context(), anEffect, time.Now()); a.status != http.StatusOK {
		t.Fatalf("answer %+v", a)
	}
	if a := c.call(t.Context(), anEffect, time.Now()); a.class != broken {
		t.Errorf("answer %+v", a)
	}
	if n := len(got.list()); n != 2 {
		t.Errorf("%d requests for two attempts", n)
	}
}

func TestTheReceiversCertificateIsVerified(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	if a := callerOf(t, one(t, s.URL, ""), way{}).call(t.Context(), anEffect, time.Now()); a.class != noTLS {
		t.Errorf("an unknown certificate: %+v", a)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(s.Certificate())
	if a := callerOf(t, one(t, s.URL, ""), way{roots: trusted}).call(t.Context(), anEffect, time.Now()); a.status != http.StatusOK {
		t.Errorf("a trusted certificate: %+v", a)
	}
	plain, _ := server(t, func(http.ResponseWriter, *http.Request) {})
	if a := callerOf(t, one(t, "https://"+hostport(plain.URL), ""), way{}).call(t.Context(), anEffect, time.Now()); a.class != noTLS {
		t.Errorf("no TLS at all: %+v", a)
	}
}

func TestOnlyAConfiguredProxyIsUsed(t *testing.T) {
	proxy, proxied := server(t, func(http.ResponseWriter, *http.Request) {})
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	s, got := server(t, func(http.ResponseWriter, *http.Request) {})
	d := one(t, s.URL, "")
	callerOf(t, d, way{}).call(t.Context(), anEffect, time.Now())
	if len(got.list()) != 1 || len(proxied.list()) != 0 {
		t.Errorf("the proxy of the environment was used")
	}
	cfg := config()
	cfg.Proxy = proxy.URL
	u, err := cfg.proxy()
	must(t, err)
	callerOf(t, d, way{proxy: u}).call(t.Context(), anEffect, time.Now())
	if len(proxied.list()) != 1 {
		t.Errorf("the configured proxy was not used")
	}
	d.Allow = effect.Allow{}
	if a := callerOf(t, d, way{proxy: u}).call(t.Context(), anEffect, time.Now()); a.class != refusedAddress || len(proxied.list()) != 1 {
		t.Errorf("a private address was given to the proxy: %+v", a)
	}
}

func TestNothingSecretIsKeptOfAnAnswer(t *testing.T) {
	var echo func(r *http.Request) string
	s, _ := server(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, echo(r)) })
	set := declared(t, `  - {name: fulfil, on: {to: paid}, url: "`+s.URL+`", secret: env:SECRET, allow: [127.0.0.1], headers: {Authorization: env:TOKEN, X-Api-Key: env:OLD_SECRET}}`+"\n")
	d, _ := set.Get("fulfil")
	c := callerOf(t, d, way{})
	bare := strings.TrimPrefix(secretText, "whsec_")
	for name, f := range map[string]func(r *http.Request) string{
		"headers": func(r *http.Request) string {
			var b strings.Builder
			_ = r.Header.Write(&b)
			return b.String()
		},
		"the token, as JSON":     func(*http.Request) string { return `{"got":"` + strings.ReplaceAll(tokenText, "/", `\/`) + `"}` },
		"the token, as .NET's":   func(*http.Request) string { return `{"got":"` + strings.ReplaceAll(tokenText, "+", `\u002B`) + `"}` },
		"the bare token, .NET's": func(*http.Request) string { return `no such: tok_4f5g/6h7j\u002B8k9l` },
		"the secret, as .NET's":  func(*http.Request) string { return `key ` + strings.ReplaceAll(bare, "+", `\u002B`) },
		"the bare token, in HTML": func(*http.Request) string {
			return "<b>tok_4f5g/6h7j&#43;8k9l tok_4f5g/6h7j&#x2B;8k9l tok_4f5g&#x2F;6h7j+8k9l</b>"
		},
		"the token, in HTML":     func(*http.Request) string { return "<b>" + strings.ReplaceAll(tokenText, "+", "&#43;") + "</b>" },
		"the token, in a query":  func(*http.Request) string { return "x?t=tok_4f5g%2F6h7j%2B8k9l" },
		"the secret":             func(*http.Request) string { return "wrong secret " + secretText },
		"the secret's key":       func(*http.Request) string { return "key=" + bare },
		"the signature":          func(r *http.Request) string { return r.Header.Get("Webhook-Signature") },
		"a token of theirs":      func(*http.Request) string { return `{"access_token": "tok_4f5g/somebodyelses", "ok":true}` },
		"after much that is not": func(*http.Request) string { return strings.Repeat("x", keptAnswer-20) + tokenText },
	} {
		echo = f
		a := c.call(t.Context(), anEffect, time.Now())
		if a.status != http.StatusOK || a.text == "" {
			t.Fatalf("%s: %+v", name, a)
		}
		if contains(a.text, "tok_4f5g", "8k9l", bare[:8], oldSecretText, "v1,"+"") && !strings.Contains(a.text, "v1,"+masked) {
			t.Errorf("%s: kept %q", name, a.text)
		}
	}
	echo = func(*http.Request) string { return "order o-1 has no stock; secret santa is sold out" }
	if a := c.call(t.Context(), anEffect, time.Now()); a.text != echo(nil) {
		t.Errorf("kept %q of what is no secret", a.text)
	}
}

func TestAnErrorsTextSaysNothingOfTheURL(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_ = l.Close()
	a := callerOf(t, one(t, "http://"+l.Addr().String()+"/hook/xoxb-path-token?k=v", ""), way{}).call(t.Context(), anEffect, time.Now())
	if a.class != noConnection || contains(a.text, "xoxb", "k=v") {
		t.Errorf("answer %+v", a)
	}
	if _, err := newCaller(effect.Declaration{Name: "x"}, way{}); err == nil || errors.Is(err, errAddress) {
		t.Errorf("an effect without secrets is called: %v", err)
	}
}

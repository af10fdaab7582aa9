package effects

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"sluice/pkg/effect"
	"sluice/pkg/postgres"
	"sluice/pkg/webhook"
)

const (
	// connectTimeout bounds the look-up of the name and the connect, and then the TLS
	// handshake, within the effect's own timeout.
	connectTimeout = 5 * time.Second
	// bodyTimeout bounds how long an answer's body is waited for: what counts is said.
	bodyTimeout = time.Second
	// maxAnswer is how much of an answer is read, so that connections are used again;
	// keptAnswer how much is kept.
	maxAnswer  = 16 << 10
	keptAnswer = postgres.MaxAnswer
)

// answer is what an attempt brought. Where none came, class says why; else its status
// does.
type answer struct {
	status     int
	retryAfter string
	class      class
	// text is how the answer begins, or what went wrong; printable, without secrets.
	text string
}

// caller makes the calls of one effect.
type caller struct {
	declaration effect.Declaration
	client      *http.Client
	signer      webhook.Provider
	guard       guard
	masker      masker
	proxied     bool
}

// way is how calls leave this machine.
type way struct {
	proxy    *url.URL       // nil: straight
	resolver *net.Resolver  // nil: the machine's
	roots    *x509.CertPool // nil: the machine's
}

func newCaller(d effect.Declaration, w way) (*caller, error) {
	signer, ok := webhook.Builtin("standard_webhooks")
	if !ok {
		return nil, fmt.Errorf("effect %q: nobody can sign", d.Name)
	}
	if len(d.Secrets) == 0 {
		return nil, fmt.Errorf("effect %q: no secret was resolved", d.Name)
	}
	c := &caller{declaration: d, signer: signer, guard: guard{allow: d.Allow, host: d.URL.Hostname()}, masker: newMasker(d), proxied: w.proxy != nil}
	transport := &http.Transport{
		DialContext:            c.guard.dialer(connectTimeout, w.resolver).DialContext,
		TLSHandshakeTimeout:    connectTimeout,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: w.roots},
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    256, // as many as there are calls; see Config.Concurrency
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // its beginning is to be read by people
	}
	if w.proxy != nil {
		// The proxy looks names up and decides; it is on the inside itself.
		transport.Proxy = http.ProxyURL(w.proxy)
		transport.DialContext = (&net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	c.client = &http.Client{
		Transport: transport,
		// A redirect turns a POST into a GET of something else, whose 200 says nothing
		// about the effect (O42).
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// call makes one attempt. It never fails otherwise than by its answer.
func (c *caller) call(ctx context.Context, e postgres.Effect, at time.Time) answer {
	ctx, cancel := context.WithTimeout(ctx, c.declaration.Timeout)
	defer cancel()
	request, err := c.request(ctx, e, at)
	if err != nil {
		return answer{class: unsendable, text: c.masker.clean(err.Error())}
	}
	if c.proxied {
		if addr, err := netip.ParseAddr(c.guard.host); err == nil && c.guard.check(addr) != nil {
			return answer{class: refusedAddress, text: c.guard.check(addr).Error()}
		}
	}
	signature := request.Header.Get("Webhook-Signature")
	response, err := c.client.Do(request)
	if err != nil {
		var at *url.Error
		if errors.As(err, &at) {
			err = at.Err // without the URL
		}
		return answer{class: classify(ctx, err), text: beginning(c.masker.clean(err.Error(), signature), keptAnswer)}
	}
	defer response.Body.Close()
	defer time.AfterFunc(bodyTimeout, cancel).Stop()
	// Whatever becomes of the body, the answer is there. After 101 it is the bare
	// connection, whose reading no end of ctx would end.
	var body []byte
	if response.StatusCode != http.StatusSwitchingProtocols {
		body, _ = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	}
	return answer{status: response.StatusCode, retryAfter: response.Header.Get("Retry-After"),
		text: beginning(c.masker.clean(string(body), signature), keptAnswer)}
}

func (c *caller) request(ctx context.Context, e postgres.Effect, at time.Time) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.declaration.URL.String(), bytes.NewReader(e.Body))
	if err != nil {
		return nil, errors.New("make a request")
	}
	// Without it net/http would send an answerless request again by itself, because it
	// has an Idempotency-Key: an attempt that nobody sees.
	request.GetBody = nil
	for _, h := range c.declaration.Headers {
		request.Header.Set(h.Name, h.Reveal())
	}
	key := e.IdempotencyKey()
	var signatures []string
	for _, s := range c.declaration.Secrets {
		headers, err := c.signer.Sign(s, key, at, e.Body)
		if err != nil {
			return nil, err
		}
		for name, value := range headers {
			request.Header.Set(name, value)
		}
		signatures = append(signatures, headers["webhook-signature"])
	}
	request.Header.Set("Webhook-Signature", strings.Join(signatures, " "))
	request.Header.Set("Idempotency-Key", key)
	request.Header.Set("Content-Type", effect.ContentType)
	request.Header.Set("User-Agent", "sluice-relay")
	return request, nil
}

// classify says why there is no answer.
func classify(ctx context.Context, err error) class {
	var (
		dns         *net.DNSError
		op          *net.OpError
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
		alert       tls.AlertError
		timeout     net.Error
	)
	switch {
	case errors.Is(err, errAddress):
		return refusedAddress
	case errors.Is(context.Cause(ctx), errStopped):
		return stopped
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return timedOut
	case errors.As(err, &dns):
		return noName
	case errors.As(err, &certificate), errors.As(err, &record), errors.As(err, &alert), errors.Is(err, http.ErrSchemeMismatch):
		return noTLS
	case errors.As(err, &op) && op.Op == "dial":
		return noConnection
	}
	return broken
}

// close gives idle connections back.
func (c *caller) close() { c.client.CloseIdleConnections() }

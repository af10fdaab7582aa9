package reconciler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"sluice/pkg/endpoint"
	"sluice/pkg/lookup"
)

// maxAnswer bounds an answer's body, after decompression: a payment with a thousand
// refunds is some 500 KiB.
const maxAnswer = 2 << 20

// newClient follows no redirect, because credentials would go along, or a provider's
// word would be somebody else's.
func newClient() *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout:    5 * time.Second,
			ForceAttemptHTTP2:      true,
			MaxIdleConns:           64,
			MaxIdleConnsPerHost:    16,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
}

// account is one endpoint's account at its provider.
type account struct {
	endpoint endpoint.Endpoint
	lookup   *lookup.Lookup
	client   *http.Client
	timeout  time.Duration
	pace     *rate.Limiter

	mu     sync.Mutex // one token is asked for at a time
	token  string
	expire time.Time
}

const maxRequests = lookup.MaxRequests

// ask asks about a target until the look-up has ended. An error means that ctx has.
func (a *account) ask(ctx context.Context, t lookup.Target, now func() time.Time, seen func(took time.Duration)) (lookup.Step, error) {
	token, end, err := a.currentToken(ctx, now, seen)
	if err != nil || end.Outcome != lookup.Answered {
		return end, err
	}
	var got []lookup.Response
	for range maxRequests + 1 {
		step := a.lookup.Next(t, got, token, now())
		if step.Request == nil {
			if step.Outcome == lookup.Refused {
				a.forget(token)
			}
			return step, nil
		}
		r, err := a.do(ctx, *step.Request, now, seen)
		if err != nil {
			return lookup.Step{}, err
		}
		got = append(got, r)
	}
	return lookup.Step{Outcome: lookup.Unreadable, Why: "the answers lead nowhere"}, nil
}

// currentToken is the access token, asked for if there is none or it is over. Its
// step is Answered if there is one, or none is needed.
func (a *account) currentToken(ctx context.Context, now func() time.Time, seen func(time.Duration)) (string, lookup.Step, error) {
	request, needed := a.lookup.Token()
	if !needed {
		return "", lookup.Step{Outcome: lookup.Answered}, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token != "" && now().Before(a.expire) {
		return a.token, lookup.Step{Outcome: lookup.Answered}, nil
	}
	began := now()
	r, err := a.do(ctx, request, now, seen)
	if err != nil {
		return "", lookup.Step{}, err
	}
	token, use, end := a.lookup.ReadToken(r)
	a.token, a.expire = token, began.Add(use)
	return token, end, nil
}

// forget drops a token that was refused, unless there is another one already.
func (a *account) forget(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token == token {
		a.token = ""
	}
}

// do makes one request. Whatever goes wrong on the way is no answer, the zero
// Response; an error means that ctx has ended. Nothing of a request or its answer is
// in any error or log.
func (a *account) do(ctx context.Context, r lookup.Request, now func() time.Time, seen func(time.Duration)) (lookup.Response, error) {
	if err := a.pace.Wait(ctx); err != nil {
		return lookup.Response{}, fmt.Errorf("wait for the account's rate: %w", err)
	}
	began := now()
	defer func() { seen(now().Sub(began)) }()
	limited, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	out, err := a.roundTrip(limited, r)
	if ctx.Err() != nil {
		return lookup.Response{}, ctx.Err()
	}
	if err != nil {
		return lookup.Response{}, nil //nolint:nilerr // no answer is an outcome
	}
	return out, nil
}

func (a *account) roundTrip(ctx context.Context, r lookup.Request) (lookup.Response, error) {
	request, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return lookup.Response{}, errors.New("make a request")
	}
	for name, value := range r.Header {
		request.Header.Set(name, value)
	}
	request.Header.Set("User-Agent", "sluice-reconciler")
	response, err := a.client.Do(request)
	if err != nil {
		return lookup.Response{}, err
	}
	defer response.Body.Close()
	out := lookup.Response{Status: response.StatusCode, RetryAfter: response.Header.Get("Retry-After"), Date: response.Header.Get("Date")}
	if response.StatusCode != http.StatusOK {
		return out, nil // what else it says interests nobody
	}
	out.Body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if len(out.Body) > maxAnswer {
		out.Body, out.Oversized = nil, true
		return out, nil
	}
	return out, err
}

package reconciler

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

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
	client   *http.Client
	timeout  time.Duration
	pace     *pace
	byOrder  bool // the shop's order id leads to the payments
	// keys are asked with in turn, from the one that was taken last: during a rotation
	// the provider takes one of them.
	keys  []*key
	taken atomic.Int32
}

// key is one credential, with the access token that it was exchanged for.
type key struct {
	lookup *lookup.Lookup

	mu     sync.Mutex // one token is asked for at a time
	token  string
	expire time.Time
}

// request is how one look-up's requests are made.
type request struct {
	lane lane
	now  func() time.Time
	seen func(took time.Duration)
}

const maxRequests = lookup.MaxRequests

// ask asks about a target until the look-up has ended. An error means that it was not:
// ctx has ended, or the provider asked for quiet (quietError).
func (a *account) ask(ctx context.Context, t lookup.Target, r request) (step lookup.Step, err error) {
	first := int(a.taken.Load())
	for i := range a.keys {
		at := (first + i) % len(a.keys)
		if step, err = a.askWith(ctx, a.keys[at], t, r); err != nil || step.Outcome != lookup.Refused {
			a.taken.Store(int32(at))
			return step, err
		}
	}
	return step, nil
}

func (a *account) askWith(ctx context.Context, k *key, t lookup.Target, r request) (lookup.Step, error) {
	token, end, err := a.currentToken(ctx, k, r)
	if err != nil || end.Outcome != lookup.Answered {
		return end, err
	}
	var got []lookup.Response
	for range maxRequests + 1 {
		step := k.lookup.Next(t, got, token, r.now())
		if step.Request == nil {
			if step.Outcome == lookup.Refused {
				k.forget(token)
			}
			return step, nil
		}
		answer, err := a.do(ctx, *step.Request, r)
		if err != nil {
			return lookup.Step{}, err
		}
		got = append(got, answer)
	}
	return lookup.Step{Outcome: lookup.Unreadable, Why: "the answers lead nowhere"}, nil
}

// currentToken is the access token, asked for if there is none or it is over. Its
// step is Answered if there is one, or none is needed.
func (a *account) currentToken(ctx context.Context, k *key, r request) (string, lookup.Step, error) {
	wanted, needed := k.lookup.Token()
	if !needed {
		return "", lookup.Step{Outcome: lookup.Answered}, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.token != "" && r.now().Before(k.expire) {
		return k.token, lookup.Step{Outcome: lookup.Answered}, nil
	}
	began := r.now()
	answer, err := a.do(ctx, wanted, r)
	if err != nil {
		return "", lookup.Step{}, err
	}
	token, use, end := k.lookup.ReadToken(answer)
	k.token, k.expire = token, began.Add(use)
	return token, end, nil
}

// forget drops a token that was refused, unless there is another one already.
func (k *key) forget(token string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.token == token {
		k.token = ""
	}
}

// do makes one request. Whatever goes wrong on the way is no answer, the zero
// Response; an error means that it was not made, or that ctx has ended. Nothing of a
// request or its answer is in any error or log.
func (a *account) do(ctx context.Context, out lookup.Request, r request) (lookup.Response, error) {
	if err := a.pace.wait(ctx, r.lane); err != nil {
		return lookup.Response{}, err
	}
	began := r.now()
	defer func() { r.seen(r.now().Sub(began)) }()
	limited, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	answer, err := a.roundTrip(limited, out)
	if ctx.Err() != nil {
		return lookup.Response{}, ctx.Err()
	}
	if err != nil {
		return lookup.Response{}, nil //nolint:nilerr // no answer is an outcome
	}
	return answer, nil
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

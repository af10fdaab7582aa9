package merchant

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/webhook"
)

// twoWay are the endpoints of providers that ask before they pay.
func twoWay(endpoints endpoint.Set) (list []endpoint.Endpoint) {
	for _, e := range endpoints.All() {
		if e.Provider.Profile().TwoWay {
			list = append(list, e)
		}
	}
	return list
}

// protocol is how one provider is answered.
type protocol interface {
	// answer takes one request from the provider to its answer. What is wrong with
	// the request is in the answer; an error is a fault of ours.
	answer(context.Context, request) (reply, error)
	// failed is the answer to a request that could not be worked on.
	failed(request) reply
}

// request is one request of a provider. body is nil where it was larger than any
// call is.
type request struct {
	endpoint endpoint.Endpoint
	webhook.Request
	received                 time.Time
	contentType, traceparent string
}

// reply is what it is answered. Both labels are of small sets.
type reply struct {
	status             int
	body               []byte
	operation, outcome string
}

// protocols are the answers of each endpoint, by name; an error names a two-way
// provider that nobody here can answer.
func (m *Merchant) protocols(endpoints []endpoint.Endpoint) (map[string]route, error) {
	all, problems := map[string]route{}, []error(nil)
	for _, e := range endpoints {
		switch p := e.Provider.(type) {
		case webhook.Payme:
			all[e.Name] = route{e, &payme{Merchant: m, provider: p}}
		case webhook.Click:
			all[e.Name] = route{e, &click{Merchant: m, provider: p}}
		default:
			problems = append(problems, fmt.Errorf("endpoint %s: the merchant cannot answer provider %s", e.Name, e.Provider.Name()))
		}
	}
	return all, errors.Join(problems...)
}

type route struct {
	endpoint endpoint.Endpoint
	protocol protocol
}

// unknownEndpoint is the label of what reached no endpoint. None can have the name.
const unknownEndpoint = "(unknown)"

// publicHandler is what providers reach: nothing else is on their listener.
func (m *Merchant) publicHandler() http.Handler {
	e := echo.New()
	e.HTTPErrorHandler = m.unroutedWebhook
	for _, path := range []string{"/webhooks/:endpoint", "/webhooks/:endpoint/"} {
		e.Any(path, m.webhook)
	}
	return e
}

func (m *Merchant) webhook(c echo.Context) error {
	begin := m.now()
	name := c.Param("endpoint")
	rt, known := m.routes[name]
	if !known {
		m.metrics.countCall(unknownEndpoint, "none", "unknown_endpoint", 0)
		return c.NoContent(http.StatusNotFound)
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), m.cfg.Timeout)
	defer cancel()
	r := c.Request()
	body, err := io.ReadAll(http.MaxBytesReader(c.Response(), r.Body, maxBody))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		body, err = nil, nil
	}
	if err != nil {
		m.metrics.countCall(name, "none", "broken", m.now().Sub(begin))
		return c.NoContent(http.StatusBadRequest)
	}
	q := request{
		endpoint: rt.endpoint, received: begin,
		contentType: storable(r.Header.Get("Content-Type")), traceparent: storable(r.Header.Get("Traceparent")),
		Request: webhook.Request{Method: r.Method, URL: rt.endpoint.RequestURL(r.URL.RawQuery), Header: r.Header.Values, Body: body, Remote: m.proxies.Sender(r)},
	}
	a := m.answerOf(ctx, rt.protocol, q)
	m.metrics.countCall(name, a.operation, a.outcome, m.now().Sub(begin))
	if len(a.body) == 0 {
		return c.NoContent(a.status)
	}
	return c.Blob(a.status, "application/json; charset=utf-8", a.body)
}

// answerOf answers whatever happens: a provider takes silence for a lost call.
func (m *Merchant) answerOf(ctx context.Context, p protocol, q request) (a reply) {
	defer func() {
		if v := recover(); v != nil { // its value may hold a part of the request
			m.log.Error("a request handler panicked", "kind", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
			a = p.failed(q)
		}
	}()
	a, err := p.answer(ctx, q)
	if err != nil {
		m.log.Error("a provider's call could not be worked on", "endpoint", q.endpoint.Name, "error", err)
		return p.failed(q)
	}
	return a
}

func (m *Merchant) unroutedWebhook(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	status := http.StatusInternalServerError
	if he := new(echo.HTTPError); errors.As(err, &he) {
		status = he.Code
	} else {
		m.log.Error("request failed", "error", err)
	}
	m.metrics.countCall(unknownEndpoint, "none", "not_found", 0)
	_ = c.NoContent(status)
}

// server has the time-outs that both listeners share.
func (m *Merchant) server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       m.cfg.Timeout,
		WriteTimeout:      2 * m.cfg.Timeout,
		IdleTimeout:       75 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(m.log.Handler(), slog.LevelDebug),
	}
}

// event is a request as it goes into the raw topic: read by the endpoint's own
// rules, as the processor will. stored is what the request itself lacks. The order
// and the amount must be what the transaction was made for.
func (q request) event(secret string, stored []event.Header, orderID string, amount int64) (event.Event, error) {
	r, err := q.endpoint.Read(webhook.StoredHeaders(stored), q.Body)
	if err != nil {
		return event.Event{}, fmt.Errorf("read the call again: %w", err)
	}
	if r.Order != orderID || r.Amount != amount {
		return event.Event{}, errors.New("read the call again: it names another order or amount")
	}
	return event.Event{
		Source: q.endpoint.Source, ID: r.ID, Type: r.Type, Time: r.Time, TimeRepeats: q.endpoint.Provider.TimeRepeats(), Mode: r.Mode,
		Provider: q.endpoint.Provider.Name(), Endpoint: q.endpoint.Name, Order: r.Order, Payment: r.Payment, Trust: r.Trust,
		ContentType: q.contentType, Traceparent: q.traceparent, ReceivedAt: q.received, SecretName: secret,
		Signature: stored, Body: q.Body,
	}, nil
}

// storable is an unsigned request header as a record keeps it: dropped if it is
// longer or stranger than it has reason to be.
func storable(v string) string {
	if len(v) > 255 || !utf8.ValidString(v) || checkText("header", v) != nil {
		return ""
	}
	return v
}

package ingress

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
)

// maxHeader is the largest request head, in bytes; net/http adds 4 KiB of grace
// to what it is told and answers 431 itself.
const maxHeader = 64 << 10

// server is the public HTTP server.
func (in *Ingress) server() *http.Server {
	return &http.Server{
		Handler:           in.handler(),
		ReadHeaderTimeout: in.cfg.HeaderTimeout,
		ReadTimeout:       in.cfg.BodyTimeout,
		WriteTimeout:      in.cfg.BodyTimeout + in.cfg.Deadline + 5*time.Second,
		IdleTimeout:       in.cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeader - 4<<10,
		ErrorLog:          slog.NewLogLogger(in.log.Handler(), slog.LevelDebug),
	}
}

// handler routes: one path, with and without a slash at its end, and never a
// redirect, which a provider would not follow.
func (in *Ingress) handler() http.Handler {
	e := echo.New()
	e.HTTPErrorHandler = in.unrouted
	e.Use(in.recover)
	for _, path := range []string{"/webhooks/:endpoint", "/webhooks/:endpoint/"} {
		e.POST(path, in.webhook)
		e.GET(path, in.challenge)
		e.OPTIONS(path, echo.MethodNotAllowedHandler) // not echo's own 204
	}
	return e
}

// webhook answers one request with what receive decided.
func (in *Ingress) webhook(c echo.Context) error {
	begin := in.now()
	name := c.Param("endpoint")
	a := in.receive(c.Request(), name)
	if in.routes[name] == nil {
		name = unknownEndpoint
	}
	in.metrics.count(name, a, in.now().Sub(begin))
	return respond(c, a)
}

// challenge answers a provider that checks an address before it sends there.
// Everywhere else a GET is not allowed.
func (in *Ingress) challenge(c echo.Context) error {
	rt := in.routes[c.Param("endpoint")]
	if rt == nil || rt.challenging == nil {
		return echo.ErrMethodNotAllowed
	}
	says, ok := rt.challenging.Challenge(c.Request().URL.RawQuery, rt.Secrets)
	if !ok {
		return echo.ErrMethodNotAllowed
	}
	a := answer{status: http.StatusOK, outcome: challenged, says: says}
	in.metrics.count(rt.Name, a, 0)
	return respond(c, a)
}

// respond writes an answer: a status, and a body only where the provider wants one.
// The connection ends where the rest of the request was not read.
func respond(c echo.Context, a answer) error {
	h := c.Response().Header()
	if a.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(a.retryAfter.Seconds())))
	}
	if a.hangUp {
		h.Set("Connection", "close")
	}
	if a.says.Body == nil {
		return c.NoContent(a.status)
	}
	h.Set(echo.HeaderXContentTypeOptions, "nosniff")
	return c.Blob(a.status, a.says.ContentType, a.says.Body)
}

// unrouted answers what no route takes.
func (in *Ingress) unrouted(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	a := answer{status: http.StatusInternalServerError, outcome: failed, reason: "internal", hangUp: true}
	if he := new(echo.HTTPError); errors.As(err, &he) && he.Code < 500 {
		a = answer{status: he.Code, outcome: refused, reason: "not_found", hangUp: true}
		if he.Code == http.StatusMethodNotAllowed {
			a.reason = "method"
			c.Response().Header().Set(echo.HeaderAllow, http.MethodPost)
		}
	}
	in.metrics.count(unknownEndpoint, a, 0)
	_ = respond(c, a)
}

// recover keeps a panic from ending the process and says where it was. The
// panic's value stays out of the log: it may hold a part of a request.
func (in *Ingress) recover(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			if v := recover(); v != nil {
				in.log.Error("a request handler panicked", "kind", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
				err = echo.ErrInternalServerError
			}
		}()
		return next(c)
	}
}

package merchant

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/pkg/postgres"
)

// maxBody is far more than a registration needs.
const maxBody = 16 << 10

const path = "/v1/orders/"

// orderID is what follows path, with its escapes undone once. (echo's parameter
// is unescaped or not depending on the spelling of the rest.)
func orderID(c echo.Context) string {
	escaped := strings.TrimPrefix(c.Request().URL.EscapedPath(), path)
	id, err := url.PathUnescape(escaped)
	if err != nil {
		return "\x00" // no order has it
	}
	return id
}

func (m *Merchant) handler() http.Handler {
	e := echo.New()
	e.HTTPErrorHandler = m.unrouted
	e.PUT(path+":order_id", m.measured("put", m.put))
	e.GET(path+":order_id", m.measured("get", m.get))
	e.OPTIONS(path+":order_id", echo.MethodNotAllowedHandler) // not echo's own 204
	return e
}

// measured authenticates, bounds and counts one operation.
func (m *Merchant) measured(operation string, do echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		begin := m.now()
		ctx, cancel := context.WithTimeout(c.Request().Context(), m.cfg.Timeout)
		defer cancel()
		c.SetRequest(c.Request().WithContext(ctx))
		var err error
		if m.authorized(c.Request()) {
			err = do(c)
		} else {
			c.Response().Header().Set("WWW-Authenticate", "Bearer")
			err = refuse(c, http.StatusUnauthorized, "a bearer token is needed")
		}
		m.metrics.count(operation, c.Response().Status, m.now().Sub(begin))
		return err
	}
}

func (m *Merchant) authorized(r *http.Request) bool {
	if m.token == nil {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(token))
	return strings.EqualFold(scheme, "bearer") && subtle.ConstantTimeCompare(sum[:], m.token[:]) == 1
}

// put registers an order: 201 the first time, 200 after, 409 once it is paid and
// the money differs.
func (m *Merchant) put(c echo.Context) error {
	body, err := io.ReadAll(http.MaxBytesReader(c.Response(), c.Request().Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return refuse(c, http.StatusRequestEntityTooLarge, "the body is too large")
	case err != nil:
		return refuse(c, http.StatusBadRequest, "the request broke off")
	}
	reg, problems := parseRegistration(orderID(c), body)
	if len(problems) > 0 {
		return refuse(c, http.StatusBadRequest, problems...)
	}
	ctx := c.Request().Context()
	done, err := m.store.Register(ctx, m.now(), reg)
	switch {
	case errors.Is(err, postgres.ErrPaid):
		return refuse(c, http.StatusConflict, "the order is paid; its amount and currency are final")
	case err != nil:
		return m.unavailable(c, err)
	}
	if done.Changes > 0 {
		if err := m.store.WakeRelays(ctx); err != nil {
			m.log.Debug("relays were not woken; they poll", "error", err)
		}
	}
	status := http.StatusOK
	if done.Created {
		status = http.StatusCreated
		m.metrics.registered.Inc()
	}
	return m.answer(c, status, reg.OrderID)
}

// get answers where a registered order stands.
func (m *Merchant) get(c echo.Context) error {
	id := orderID(c)
	if id == "" || checkText("order id", id) != nil {
		return refuse(c, http.StatusNotFound, "no such order")
	}
	return m.answer(c, http.StatusOK, id)
}

func (m *Merchant) answer(c echo.Context, status int, id string) error {
	story, err := m.store.Story(c.Request().Context(), id)
	switch {
	case errors.Is(err, postgres.ErrNoOrder) || err == nil && !story.Registered:
		return refuse(c, http.StatusNotFound, "no such order")
	case err != nil:
		return m.unavailable(c, err)
	}
	reserved, err := m.store.Reservation(c.Request().Context(), m.now(), id)
	if err != nil {
		return m.unavailable(c, err)
	}
	return c.JSON(status, view(story, reserved))
}

// unavailable: what is not the request's fault is tried again by the caller; a
// registration may be repeated.
func (m *Merchant) unavailable(c echo.Context, err error) error {
	m.log.Error("request failed", "method", c.Request().Method, "error", err)
	c.Response().Header().Set("Retry-After", "1")
	return refuse(c, http.StatusServiceUnavailable, "it cannot be done now; send it again")
}

// problem is an RFC 9457 answer.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// refuse answers with every reason at once.
func refuse(c echo.Context, status int, reasons ...string) error {
	c.Response().Header().Set(echo.HeaderContentType, "application/problem+json")
	return c.JSON(status, problem{Title: http.StatusText(status), Status: status, Detail: strings.Join(reasons, "; ")})
}

// unrouted answers what no handler took: other paths and methods, panics of echo.
func (m *Merchant) unrouted(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	status := http.StatusInternalServerError
	var he *echo.HTTPError
	if errors.As(err, &he) {
		status = he.Code
		if status == http.StatusMethodNotAllowed {
			c.Response().Header().Set(echo.HeaderAllow, "GET, PUT")
		}
	} else {
		m.log.Error("request failed", "error", err)
	}
	_ = refuse(c, status, "PUT and GET /v1/orders/{order_id}")
}

// timestamp is how times appear: RFC 3339 in UTC; nothing for the zero time.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

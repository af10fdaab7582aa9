// Package merchant is the API for the shop's own systems: register an order, and
// read where it stands. A registration is one more entry of the order's set.
package merchant

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/pkg/daemon"
	"sluice/pkg/postgres"
)

// Config is the merchant's part of the configuration.
type Config struct {
	Address string `env:"SLUICE_MERCHANT_ADDRESS" envDefault:"127.0.0.1:8081" help:"where the API is: host:port"`
	// Token is what callers must send as a bearer token; TokenFile is the content
	// of a file that holds it. Only on a loopback address may both be empty.
	Token     string `env:"SLUICE_MERCHANT_TOKEN" json:"-" help:"bearer token of callers; only on loopback may there be none"`
	TokenFile string `env:"SLUICE_MERCHANT_TOKEN_FILE,file" json:"-" help:"file that holds the token, instead"`
	// Timeout bounds one request.
	Timeout time.Duration `env:"SLUICE_MERCHANT_TIMEOUT" envDefault:"10s" help:"bounds one request"`
	// Drain bounds the wait for requests in flight at a stop.
	Drain time.Duration `env:"SLUICE_MERCHANT_DRAIN" envDefault:"10s" help:"bounds the wait for requests in flight at a stop"`
}

// minToken is the shortest token; 128 bits in hexadecimal digits have 32.
const minToken = 16

// token is the configured one; empty: none.
func (c Config) token() string {
	if c.Token != "" {
		return c.Token
	}
	return strings.TrimRight(c.TokenFile, "\r\n")
}

// Check says everything that is wrong, never a token's value.
func (c Config) Check() error {
	problems := []error{daemon.CheckAddress("SLUICE_MERCHANT_ADDRESS", c.Address)}
	host, _, err := net.SplitHostPort(c.Address)
	if c.Token != "" && c.TokenFile != "" {
		problems = append(problems, errors.New("set SLUICE_MERCHANT_TOKEN or SLUICE_MERCHANT_TOKEN_FILE, not both"))
	}
	switch t := c.token(); {
	case t == "" && err == nil && !loopback(host):
		problems = append(problems, errors.New("SLUICE_MERCHANT_TOKEN is empty; only a loopback SLUICE_MERCHANT_ADDRESS may do without"))
	case t != "" && len(t) < minToken:
		problems = append(problems, fmt.Errorf("SLUICE_MERCHANT_TOKEN is shorter than %d bytes", minToken))
	case strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r > '~' }):
		problems = append(problems, errors.New("SLUICE_MERCHANT_TOKEN holds white space or other than ASCII characters"))
	}
	if c.Timeout <= 0 {
		problems = append(problems, errors.New("SLUICE_MERCHANT_TIMEOUT must be positive"))
	}
	if c.Drain <= 0 {
		problems = append(problems, errors.New("SLUICE_MERCHANT_DRAIN must be positive"))
	}
	return errors.Join(problems...)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Deps are what the merchant works with.
type Deps struct {
	Log   *slog.Logger
	Reg   prometheus.Registerer
	Store *postgres.Store
	Now   func() time.Time
}

// Merchant is the role. Make one with New, then Run it once.
type Merchant struct {
	cfg      Config
	log      *slog.Logger
	store    *postgres.Store
	now      func() time.Time
	metrics  *metrics
	token    *[sha256.Size]byte // of the token; nil: none
	listener net.Listener
	trouble  atomic.Pointer[error]
}

// New checks the whole configuration and opens the address.
func New(cfg Config, deps Deps) (*Merchant, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	m := &Merchant{cfg: cfg, log: deps.Log, store: deps.Store, now: deps.Now}
	if t := cfg.token(); t != "" {
		sum := sha256.Sum256([]byte(t))
		m.token = &sum
	}
	l, err := net.Listen("tcp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("listen on SLUICE_MERCHANT_ADDRESS: %w", err)
	}
	m.listener = l
	m.metrics = newMetrics(deps.Reg)
	return m, nil
}

// Addr is where the API is.
func (m *Merchant) Addr() net.Addr { return m.listener.Addr() }

// Ready is nil unless the newest request found no database.
func (m *Merchant) Ready() error {
	if err := m.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// pingInterval is how soon Ready notices that the database is back, or gone.
const pingInterval = 2 * time.Second

// Run serves until ctx is cancelled, then finishes the requests in flight.
func (m *Merchant) Run(ctx context.Context) error {
	srv := &http.Server{
		Handler:           m.handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       m.cfg.Timeout,
		WriteTimeout:      2 * m.cfg.Timeout,
		IdleTimeout:       75 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(m.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(m.listener) }()
	m.log.Info("orders are registered", "address", m.Addr().String(), "token", m.token != nil)

	tick := time.NewTicker(pingInterval)
	defer tick.Stop()
	for {
		select {
		case err := <-failed:
			return fmt.Errorf("serve: %w", err)
		case <-tick.C:
			m.ping(ctx)
			continue
		case <-ctx.Done():
		}
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.cfg.Drain)
		defer cancel()
		if err := srv.Shutdown(drain); err != nil {
			_ = srv.Close()
			return fmt.Errorf("finish requests: %w", err)
		}
		return nil
	}
}

func (m *Merchant) ping(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pingInterval)
	defer cancel()
	if err := m.store.Ping(ctx); err != nil {
		err = fmt.Errorf("reach the database: %w", err)
		m.trouble.Store(&err)
		return
	}
	m.trouble.Store(nil)
}

var _ daemon.Worker = (*Merchant)(nil)

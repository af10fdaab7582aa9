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
	"sluice/pkg/endpoint"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
)

// Config is the merchant's part of the configuration.
type Config struct {
	Address string `env:"SLUICE_MERCHANT_ADDRESS" envDefault:"127.0.0.1:8081" help:"where the API is: host:port"`
	// Token is what callers must send as a bearer token; TokenFile is the content
	// of a file that holds it. Only on a loopback address may both be empty.
	Token     string `env:"SLUICE_MERCHANT_TOKEN" json:"-" help:"bearer token of callers; only on loopback may there be none"`
	TokenFile string `env:"SLUICE_MERCHANT_TOKEN_FILE,file" json:"-" help:"file that holds the token, instead"`
	// PublicAddress is where Payme and Click ask and pay: a listener of its own, so
	// that the API stays private. Put TLS in front of it. Empty: none.
	PublicAddress string `env:"SLUICE_MERCHANT_PUBLIC_ADDRESS" help:"where Payme and Click call: host:port; needed if an endpoint is theirs; put TLS in front of it"`
	// TrustedProxies are the addresses of those that stand in front of PublicAddress:
	// their word on the sender's address (X-Forwarded-For) is believed, and nobody
	// else's.
	TrustedProxies []string `env:"SLUICE_MERCHANT_TRUSTED_PROXIES" help:"addresses and ranges of the proxies in front of the public listener, whose X-Forwarded-For is believed"`
	// ClickReservation is how long a Prepare of Click's keeps an order from others.
	ClickReservation time.Duration `env:"SLUICE_MERCHANT_CLICK_RESERVATION" envDefault:"30m" help:"how long a Prepare of Click's keeps an order from others"`
	// OutboxKeep is how long a record is kept after Kafka has acknowledged it.
	OutboxKeep time.Duration `env:"SLUICE_MERCHANT_OUTBOX_KEEP" envDefault:"24h" help:"how long a published record stays in the outbox"`
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
	if c.PublicAddress != "" {
		problems = append(problems, daemon.CheckAddress("SLUICE_MERCHANT_PUBLIC_ADDRESS", c.PublicAddress))
		if c.PublicAddress == c.Address && !strings.HasSuffix(c.Address, ":0") {
			problems = append(problems, errors.New("SLUICE_MERCHANT_PUBLIC_ADDRESS is SLUICE_MERCHANT_ADDRESS; the API must not be public"))
		}
	}
	if _, err := endpoint.ParseProxies(c.TrustedProxies); err != nil {
		problems = append(problems, fmt.Errorf("SLUICE_MERCHANT_TRUSTED_PROXIES: %w", err))
	}
	if c.ClickReservation < time.Minute || c.ClickReservation > 24*time.Hour {
		problems = append(problems, errors.New("SLUICE_MERCHANT_CLICK_RESERVATION must be 1m to 24h"))
	}
	if c.OutboxKeep < 0 {
		problems = append(problems, errors.New("SLUICE_MERCHANT_OUTBOX_KEEP must not be negative"))
	}
	if c.Timeout <= 0 {
		problems = append(problems, errors.New("SLUICE_MERCHANT_TIMEOUT must be positive"))
	}
	if c.Drain <= 0 {
		problems = append(problems, errors.New("SLUICE_MERCHANT_DRAIN must be positive"))
	}
	return errors.Join(problems...)
}

// CheckEndpoints says which endpoints the merchant cannot serve as it is configured.
func (c Config) CheckEndpoints(endpoints endpoint.Set) error {
	list := twoWay(endpoints)
	_, err := (*Merchant)(nil).protocols(list)
	if c.PublicAddress == "" && len(list) > 0 {
		err = errors.Join(err, fmt.Errorf("SLUICE_MERCHANT_PUBLIC_ADDRESS is empty; endpoint %s (%s) is served there", list[0].Name, list[0].Provider.Name()))
	}
	return err
}

// TwoWay says whether any endpoint is one that the merchant serves. Only then it
// needs Kafka.
func TwoWay(endpoints endpoint.Set) bool { return len(twoWay(endpoints)) > 0 }

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
	// Endpoints are the deployment's; the merchant serves those of two-way providers.
	Endpoints endpoint.Set
	// Producer writes to the raw topic what such providers caused. Needed if there are
	// any.
	Producer Producer
}

// Producer is what the merchant needs of Kafka (*kafka.Producer).
type Producer interface {
	// Produce returns nil once all in-sync replicas have the record.
	Produce(ctx context.Context, r kafka.Record) error
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

	routes  map[string]route // by endpoint
	public  net.Listener     // nil: no provider calls here
	proxies endpoint.Proxies
	outbox  outbox
}

// New checks the whole configuration and opens the addresses.
func New(cfg Config, deps Deps) (*Merchant, error) {
	if err := errors.Join(cfg.Check(), cfg.CheckEndpoints(deps.Endpoints)); err != nil {
		return nil, err
	}
	m := &Merchant{cfg: cfg, log: deps.Log, store: deps.Store, now: deps.Now,
		outbox: outbox{producer: deps.Producer, woken: make(chan struct{}, 1)}}
	if t := cfg.token(); t != "" {
		sum := sha256.Sum256([]byte(t))
		m.token = &sum
	}
	var err error
	if m.proxies, err = endpoint.ParseProxies(cfg.TrustedProxies); err != nil {
		return nil, err
	}
	if m.routes, err = m.protocols(twoWay(deps.Endpoints)); err != nil {
		return nil, err
	}
	if m.listener, err = net.Listen("tcp", cfg.Address); err != nil {
		return nil, fmt.Errorf("listen on SLUICE_MERCHANT_ADDRESS: %w", err)
	}
	if len(m.routes) > 0 {
		if m.public, err = net.Listen("tcp", cfg.PublicAddress); err != nil {
			_ = m.listener.Close()
			return nil, fmt.Errorf("listen on SLUICE_MERCHANT_PUBLIC_ADDRESS: %w", err)
		}
	}
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

// PublicAddr is where providers call; nil if none does.
func (m *Merchant) PublicAddr() net.Addr {
	if m.public == nil {
		return nil
	}
	return m.public.Addr()
}

// Run serves until ctx is cancelled, then finishes the requests in flight, and
// publishes what they caused.
func (m *Merchant) Run(ctx context.Context) error {
	api := m.server(m.handler())
	servers := []*http.Server{api}
	failed := make(chan error, 2)
	go func() { failed <- api.Serve(m.listener) }()
	m.log.Info("orders are registered", "address", m.Addr().String(), "token", m.token != nil)

	publishing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	published := make(chan struct{})
	if m.public == nil {
		close(published)
	} else {
		public := m.server(m.publicHandler())
		servers = append(servers, public)
		go func() { failed <- public.Serve(m.public) }()
		go func() { defer close(published); m.publish(publishing) }()
		m.log.Info("providers are answered", "address", m.PublicAddr().String(), "endpoints", len(m.routes))
	}

	tick := time.NewTicker(pingInterval)
	defer tick.Stop()
	var serving error
	for serving == nil && ctx.Err() == nil {
		select {
		case err := <-failed:
			serving = fmt.Errorf("serve: %w", err)
		case <-tick.C:
			m.ping(ctx)
		case <-ctx.Done():
		}
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.cfg.Drain)
	defer cancel()
	for _, srv := range servers {
		if err := srv.Shutdown(drain); err != nil {
			_ = srv.Close()
			serving = errors.Join(serving, fmt.Errorf("finish requests: %w", err))
		}
	}
	stop()
	<-published
	return serving
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

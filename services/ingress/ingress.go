// Package ingress receives webhooks: it verifies each over its raw bytes, writes
// it to the raw topic and answers 2xx only after all in-sync replicas have it. It
// knows no database.
package ingress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/pkg/certificate"
	"sluice/pkg/daemon"
	"sluice/pkg/endpoint"
	"sluice/pkg/kafka"
	"sluice/pkg/webhook"
)

// Config is the role's own configuration.
type Config struct {
	// Address is where webhooks come in; put TLS in front of it.
	Address string `env:"SLUICE_INGRESS_ADDRESS" envDefault:":8080" help:"where webhooks come in; put TLS in front of it"`
	// Deadline bounds the wait for the brokers; then the answer is 503. It must
	// stay below what the providers wait (the strictest wait 5 s in all).
	Deadline time.Duration `env:"SLUICE_INGRESS_DEADLINE" envDefault:"4s" help:"bounds the wait for Kafka; then 503"`
	// HeaderTimeout and BodyTimeout bound how slowly a request may come in: its
	// headers, and all of it.
	HeaderTimeout time.Duration `env:"SLUICE_INGRESS_HEADER_TIMEOUT" envDefault:"5s" help:"bounds how slowly a request's headers come in"`
	BodyTimeout   time.Duration `env:"SLUICE_INGRESS_BODY_TIMEOUT" envDefault:"10s" help:"bounds how slowly all of a request comes in"`
	// IdleTimeout closes connections that carry no request.
	IdleTimeout time.Duration `env:"SLUICE_INGRESS_IDLE_TIMEOUT" envDefault:"75s" help:"closes connections that carry no request"`
	// Requests is how many are worked on at a time, and BodyBytes what the large
	// ones among them may hold together; beyond either the answer is 503.
	Requests  int64 `env:"SLUICE_INGRESS_REQUESTS" envDefault:"2048" help:"most requests at a time; beyond it 503"`
	BodyBytes int64 `env:"SLUICE_INGRESS_BODY_BYTES" envDefault:"33554432" help:"most bytes of large bodies at a time; beyond it 503"`
	// TrustedProxies are the addresses of those that stand in front: their word on the
	// sender's address (X-Forwarded-For) is believed, and nobody else's.
	TrustedProxies []string `env:"SLUICE_INGRESS_TRUSTED_PROXIES" help:"addresses and ranges of the proxies in front, whose X-Forwarded-For is believed"`
	// CertificateRoots replaces the system's authorities where providers sign with
	// certificates: for the host that has them, and for the signer.
	CertificateRoots string `env:"SLUICE_INGRESS_CERTIFICATE_ROOTS" help:"PEM file of the authorities of signing certificates and their hosts; default: the system's"`
	// Unready is how long the role says that it stops before it stops to accept,
	// so that a load balancer can look away.
	Unready time.Duration `env:"SLUICE_INGRESS_UNREADY" envDefault:"1s" help:"how long it is not ready before it accepts no more, at a stop"`
	// Drain bounds the rest of the stop: handlers, then the producer.
	Drain time.Duration `env:"SLUICE_INGRESS_DRAIN" envDefault:"20s" help:"bounds the rest of the stop"`
}

// Check names every problem at once.
func (c Config) Check() error {
	problems := []error{daemon.CheckAddress("SLUICE_INGRESS_ADDRESS", c.Address)}
	for name, d := range map[string]time.Duration{"DEADLINE": c.Deadline, "HEADER_TIMEOUT": c.HeaderTimeout, "BODY_TIMEOUT": c.BodyTimeout,
		"IDLE_TIMEOUT": c.IdleTimeout, "DRAIN": c.Drain} {
		if d <= 0 {
			problems = append(problems, fmt.Errorf("SLUICE_INGRESS_%s is %v; it must be positive", name, d))
		}
	}
	if c.Unready < 0 {
		problems = append(problems, fmt.Errorf("SLUICE_INGRESS_UNREADY is %v; it must not be negative", c.Unready))
	}
	if c.Requests < 1 {
		problems = append(problems, fmt.Errorf("SLUICE_INGRESS_REQUESTS is %d; it must be at least 1", c.Requests))
	}
	if c.BodyBytes < kafka.MaxBody {
		problems = append(problems, fmt.Errorf("SLUICE_INGRESS_BODY_BYTES is %d; it must hold one body (%d)", c.BodyBytes, kafka.MaxBody))
	}
	if _, err := endpoint.ParseProxies(c.TrustedProxies); err != nil {
		problems = append(problems, fmt.Errorf("SLUICE_INGRESS_TRUSTED_PROXIES: %w", err))
	}
	if _, err := certificate.Roots(c.CertificateRoots, os.ReadFile); err != nil {
		problems = append(problems, fmt.Errorf("SLUICE_INGRESS_CERTIFICATE_ROOTS: %w", err))
	}
	return errors.Join(problems...)
}

// CheckEndpoints says which endpoints cannot be served.
func CheckEndpoints(endpoints endpoint.Set) error {
	if len(endpoints.All()) == 0 {
		return errors.New("no endpoint is configured")
	}
	var problems []error
	for _, e := range endpoints.All() {
		problems = append(problems, checkEndpoint(e))
	}
	return errors.Join(problems...)
}

// Producer is what ingress needs of Kafka (*kafka.Producer).
type Producer interface {
	// Produce returns nil once all in-sync replicas have the record, else
	// kafka.ErrTooLarge or a *kafka.Unavailable.
	Produce(ctx context.Context, r kafka.Record) error
	Ready() error
	Buffered() (records, bytes int64)
	Close(ctx context.Context) error
}

// certificates is what ingress needs of *certificate.Store.
type certificates interface {
	// Get is the certificate at an address, within a second; an error if it is not there.
	Get(address string) (webhook.Certificate, error)
	Close()
}

// Ingress is the role. Make one with New, then Run it once.
type Ingress struct {
	cfg          Config
	log          *slog.Logger
	now          func() time.Time
	routes       map[string]*route
	producer     Producer
	proxies      endpoint.Proxies
	certificates certificates
	metrics      *metrics
	deadlines    *deadlines
	inFlight     atomic.Int64
	bodies       budget
	listener     net.Listener
	stopping     atomic.Bool
}

// New checks the whole configuration, waits for Kafka and its raw topic, and
// opens the address. It does not start without an endpoint.
func New(ctx context.Context, cfg Config, brokers kafka.Config, endpoints endpoint.Set, log *slog.Logger, reg prometheus.Registerer) (*Ingress, error) {
	if err := errors.Join(cfg.Check(), CheckEndpoints(endpoints)); err != nil {
		return nil, err
	}
	topic := brokers.Topic(kafka.Raw)
	var p *kafka.Producer
	if err := daemon.Wait(ctx, log, "Kafka and its topic "+topic, func(ctx context.Context) (err error) {
		p, err = kafka.NewProducer(ctx, brokers, "ingress", topic, log, reg)
		return err
	}); err != nil {
		return nil, err
	}
	in, err := NewWith(ctx, cfg, endpoints, p, log, reg)
	if err != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = p.Close(closing)
	}
	return in, err
}

// NewWith is New with a producer that exists: the benchmarks measure ingress
// without Kafka to say what Kafka costs. On an error the producer is still open.
func NewWith(ctx context.Context, cfg Config, endpoints endpoint.Set, p Producer, log *slog.Logger, reg prometheus.Registerer) (*Ingress, error) {
	if err := errors.Join(cfg.Check(), CheckEndpoints(endpoints)); err != nil {
		return nil, err
	}
	in, err := build(cfg, endpoints, p, time.Now, log, reg)
	if err != nil {
		return nil, err
	}
	if in.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", cfg.Address); err != nil {
		return nil, fmt.Errorf("listen on SLUICE_INGRESS_ADDRESS: %w", err)
	}
	return in, nil
}

func build(cfg Config, endpoints endpoint.Set, p Producer, now func() time.Time, log *slog.Logger, reg prometheus.Registerer) (*Ingress, error) {
	in := &Ingress{cfg: cfg, log: log, now: now, routes: routes(endpoints), producer: p,
		deadlines: &deadlines{d: cfg.Deadline}, bodies: budget{limit: cfg.BodyBytes}}
	var err error
	if in.proxies, err = endpoint.ParseProxies(cfg.TrustedProxies); err != nil {
		return nil, err
	}
	roots, err := certificate.Roots(cfg.CertificateRoots, os.ReadFile)
	if err != nil {
		return nil, err
	}
	in.certificates = certificate.New(roots, log)
	in.metrics = newMetrics(reg, in)
	return in, nil
}

// Addr is where webhooks come in.
func (in *Ingress) Addr() net.Addr { return in.listener.Addr() }

// Ready is nil while webhooks are taken.
func (in *Ingress) Ready() error {
	if in.stopping.Load() {
		return errors.New("stopping")
	}
	return in.producer.Ready()
}

// Run serves until ctx is cancelled and then drains, in this order: not ready,
// accept nothing new, finish the handlers, flush the producer. Every 2xx it ever
// gave is in the raw topic, whatever it returns.
func (in *Ingress) Run(ctx context.Context) error {
	srv := in.server()
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(in.listener) }()
	in.log.Info("webhooks are received", "address", in.Addr().String(), "endpoints", len(in.routes))

	var serving error
	select {
	case serving = <-failed:
	case <-ctx.Done():
	}
	in.stopping.Store(true)
	in.log.Info("not ready any more; still accepting", "for", in.cfg.Unready.String())
	if serving == nil && in.cfg.Unready > 0 {
		time.Sleep(in.cfg.Unready)
	}
	return errors.Join(serving, in.drain(context.WithoutCancel(ctx), srv))
}

func (in *Ingress) drain(ctx context.Context, srv *http.Server) error {
	ctx, cancel := context.WithTimeout(ctx, in.cfg.Drain)
	defer cancel()
	in.log.Info("accepting no more; finishing requests", "requests", in.inFlight.Load())
	err := srv.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("finish %d requests: %w", in.inFlight.Load(), err)
		_ = srv.Close()
	}
	in.certificates.Close()
	records, _ := in.producer.Buffered()
	in.log.Info("flushing the producer", "records", records)
	return errors.Join(err, in.producer.Close(ctx))
}

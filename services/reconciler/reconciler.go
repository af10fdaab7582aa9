// Package reconciler asks the providers' APIs what hints only point to, and writes
// what it learns into webhooks.raw.v1 as events of the same source: there is one
// write path.
//
// Its path: each source (source.go) claims open look-ups from the store and hands
// them to askers; one look-up is asked (ask.go) as pkg/lookup says, at the account's
// rate (pace.go); its facts are produced and acknowledged (facts.go); only then is the
// look-up answered. What is no answer is tried again, later each time (backoff.go), and
// a source that answers nothing is left alone for a while (breaker.go).
//
// Beside hints it asks about orders that hang (hanging.go), and goes through what
// providers list for what never arrived: sweep.go does it, listed.go holds a page
// against what is known. drift.go compares a day with the provider's for a person,
// and difference.go says what differs.
package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/pkg/daemon"
	"sluice/pkg/endpoint"
	"sluice/pkg/kafka"
	"sluice/pkg/lookup"
	"sluice/pkg/postgres"
)

// Config is the reconciler's part of the configuration.
type Config struct {
	// Concurrency is how many look-ups of one source are under way at most.
	Concurrency int `env:"SLUICE_RECONCILER_CONCURRENCY" envDefault:"16" help:"most look-ups of one source at a time"`
	// PollInterval is how often it looks for look-ups that are due.
	PollInterval time.Duration `env:"SLUICE_RECONCILER_POLL_INTERVAL" envDefault:"500ms" help:"how often it looks for look-ups that are due"`
	// RequestTimeout bounds one request to a provider, with its answer.
	RequestTimeout time.Duration `env:"SLUICE_RECONCILER_REQUEST_TIMEOUT" envDefault:"10s" help:"how long one request to a provider may take"`
	// BackoffBase and BackoffMax bound how long a look-up without an answer waits: a
	// random part of the base, doubled with each attempt.
	BackoffBase time.Duration `env:"SLUICE_RECONCILER_BACKOFF_BASE" envDefault:"2s" help:"how long a look-up without an answer waits at first"`
	BackoffMax  time.Duration `env:"SLUICE_RECONCILER_BACKOFF_MAX" envDefault:"10m" help:"how long it waits at most"`
	// Patience is how long a provider may answer that nothing is decided yet, before
	// that stands as its answer.
	Patience time.Duration `env:"SLUICE_RECONCILER_PATIENCE" envDefault:"1h" help:"how long an answer that decides nothing is asked for again"`
	// HangingDeadline is how long an order that hangs is asked about before a person is,
	// who may know more; the provider is asked on, ever more rarely.
	HangingDeadline time.Duration `env:"SLUICE_RECONCILER_HANGING_DEADLINE" envDefault:"24h" help:"how long an order that hangs is asked about before a person is"`
	// BreakAfter is how many failures in a row stop all requests of a source, and
	// BreakFor for how long; then one look-up tries.
	BreakAfter int           `env:"SLUICE_RECONCILER_BREAK_AFTER" envDefault:"5" help:"failures in a row that stop a source's requests"`
	BreakFor   time.Duration `env:"SLUICE_RECONCILER_BREAK_FOR" envDefault:"30s" help:"for how long they are stopped"`
	// Sweep says whether providers' lists are gone through for what never arrived.
	Sweep bool `env:"SLUICE_RECONCILER_SWEEP" envDefault:"true" help:"go through providers' lists for webhooks that were lost, as each endpoint's lookup.sweep says"`
	// SweepDelay is how close to now a sweep comes: the webhook of what is younger may
	// still be on its way, or be waiting for a processor.
	SweepDelay time.Duration `env:"SLUICE_RECONCILER_SWEEP_DELAY" envDefault:"5m" help:"what is younger is not missed yet: its webhook may be on its way"`
	// DrainTimeout is how long a stopping reconciler takes to give back what it holds.
	DrainTimeout time.Duration `env:"SLUICE_RECONCILER_DRAIN_TIMEOUT" envDefault:"10s" help:"how long a stop may take"`
}

// Check says everything that is wrong with the settings.
func (c Config) Check() error {
	var problems []error
	if c.Concurrency < 1 || c.Concurrency > 256 {
		problems = append(problems, fmt.Errorf("SLUICE_RECONCILER_CONCURRENCY is %d; use 1 to 256", c.Concurrency))
	}
	if c.BreakAfter < 1 {
		problems = append(problems, fmt.Errorf("SLUICE_RECONCILER_BREAK_AFTER is %d; it must be at least 1", c.BreakAfter))
	}
	for _, d := range []struct {
		name string
		is   time.Duration
	}{{"POLL_INTERVAL", c.PollInterval}, {"REQUEST_TIMEOUT", c.RequestTimeout}, {"BACKOFF_BASE", c.BackoffBase},
		{"PATIENCE", c.Patience}, {"HANGING_DEADLINE", c.HangingDeadline},
		{"BREAK_FOR", c.BreakFor}, {"DRAIN_TIMEOUT", c.DrainTimeout}} {
		if d.is <= 0 {
			problems = append(problems, fmt.Errorf("SLUICE_RECONCILER_%s must be positive", d.name))
		}
	}
	if c.SweepDelay < 0 {
		problems = append(problems, errors.New("SLUICE_RECONCILER_SWEEP_DELAY must not be negative"))
	}
	if c.BackoffMax < c.BackoffBase {
		problems = append(problems, errors.New("SLUICE_RECONCILER_BACKOFF_MAX must not be below SLUICE_RECONCILER_BACKOFF_BASE"))
	}
	return errors.Join(problems...)
}

// Producer is what the reconciler needs of Kafka; *kafka.Producer has it.
type Producer interface {
	// Produce returns nil once all in-sync replicas have the record.
	Produce(context.Context, kafka.Record) error
	Ready() error
}

// Deps are what a reconciler works with.
type Deps struct {
	Log      *slog.Logger
	Registry prometheus.Registerer
	// Owner names this reconciler among all; unique over restarts.
	Owner     string
	Store     *postgres.Store
	Producer  Producer
	Endpoints endpoint.Set
	Now       func() time.Time
}

// Reconciler is one reconciler. Several share the look-ups and the accounts' rates.
type Reconciler struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	metrics *metrics
	client  *http.Client
	sources []*source
	trouble atomic.Pointer[error]
}

// New checks the configuration and makes a look-up of every endpoint that has one. It
// reports all that is wrong.
func New(cfg Config, deps Deps) (*Reconciler, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	r := &Reconciler{cfg: cfg, deps: deps, log: deps.Log, client: newClient(), metrics: newMetrics(deps.Registry)}
	bySource := map[string]*source{}
	var problems []error
	for _, e := range deps.Endpoints.All() {
		if e.Lookup == nil {
			continue
		}
		a, err := newAccount(cfg, e, r.client)
		if err != nil {
			problems = append(problems, fmt.Errorf("endpoint %q: %w", e.Name, err))
			continue
		}
		s := bySource[e.Source]
		if s == nil {
			s = newSource(r, e.Source, e.Provider.Name())
			bySource[e.Source], r.sources = s, append(r.sources, s)
		}
		s.add(a)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	r.setTrouble(errors.New("look-ups not counted yet"))
	return r, nil
}

// newAccount is an endpoint's account at its provider.
func newAccount(cfg Config, e endpoint.Endpoint, client *http.Client) (*account, error) {
	a := &account{endpoint: e, byOrder: e.Lookup.API.ByOrder, client: client, timeout: cfg.RequestTimeout}
	for _, c := range e.Lookup.Credentials {
		if c.Reveal() == "" {
			return nil, fmt.Errorf("%v was not resolved", c)
		}
		l, err := e.Lookup.API.New(lookup.Account{Mode: e.Mode, BaseURL: e.Lookup.BaseURL, Settings: e.Lookup.Settings, Secret: c.Reveal()})
		if err != nil {
			return nil, err
		}
		a.keys = append(a.keys, &key{lookup: l})
	}
	if len(a.keys) == 0 {
		return nil, errors.New("it has no credential")
	}
	return a, nil
}

// Ready is nil while look-ups can be claimed and what is learnt can be written.
// Providers that do not answer are no reason: others may.
func (r *Reconciler) Ready() error {
	if err := r.trouble.Load(); err != nil {
		return *err
	}
	return r.deps.Producer.Ready()
}

func (r *Reconciler) setTrouble(err error) {
	if err == nil {
		r.trouble.Store(nil)
		return
	}
	r.trouble.Store(&err)
}

// Run asks until ctx is cancelled; then it gives back what it has claimed and not
// answered.
func (r *Reconciler) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, s := range r.sources {
		running.Go(func() { s.run(ctx) })
		if w := s.sweeper(); w != nil && r.cfg.Sweep {
			running.Go(func() { w.run(ctx) })
		}
	}
	r.count(ctx)
	running.Wait()
	r.client.CloseIdleConnections()
	return nil
}

// countEvery is how often open look-ups are counted.
const countEvery = 5 * time.Second

// count keeps the open look-ups in sight, and with them the database.
func (r *Reconciler) count(ctx context.Context) {
	for wait := time.Duration(0); ; wait = countEvery {
		daemon.Pause(ctx, wait)
		if ctx.Err() != nil {
			return
		}
		open, err := r.deps.Store.OpenLookups(ctx)
		if err == nil {
			var swept []postgres.SweepState
			if swept, err = r.deps.Store.Sweeps(ctx); err == nil {
				r.metrics.sweptUntil(swept, r.deps.Now())
			}
		}
		if ctx.Err() != nil {
			return
		}
		if r.setTrouble(err); err != nil {
			r.log.Error("open look-ups are not counted", "error", err)
			continue
		}
		r.metrics.counted(open, r.deps.Now())
	}
}

var _ daemon.Worker = (*Reconciler)(nil)

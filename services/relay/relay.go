// Package relay publishes every order transition to orders.status.v1 and
// orders.latest.v1: in version order for each order, and each once.
//
// Its path: LISTEN or a poll wakes the session (session.go), which asks for the
// frontier and reads the owned shards up to it; each shard's lane (lane.go) writes
// messages and cursor in one Kafka transaction; only when it is committed the
// cursor in PostgreSQL moves, which retention goes by. Whoever takes a shard over
// goes by the cursor in Kafka (cursor.go).
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/pkg/daemon"
	"sluice/pkg/postgres"
)

// Config is the relay's part of the configuration.
type Config struct {
	// Batch is how many rows are handed to Kafka and not acknowledged at most, over
	// all shards.
	Batch int `env:"SLUICE_RELAY_BATCH" envDefault:"8192" help:"most rows handed to Kafka and not acknowledged, over all shards"`
	// PollInterval is how often it looks without being woken.
	PollInterval time.Duration `env:"SLUICE_RELAY_POLL_INTERVAL" envDefault:"100ms" help:"how often it looks without being woken"`
	// LeaseTTL is how long the shards of a dead relay wait for another one.
	LeaseTTL time.Duration `env:"SLUICE_RELAY_LEASE_TTL" envDefault:"5s" help:"how long the shards of a dead relay wait for another"`
	// DrainTimeout is how long a stopping relay waits for Kafka to acknowledge
	// what it has handed over.
	DrainTimeout time.Duration `env:"SLUICE_RELAY_DRAIN_TIMEOUT" envDefault:"10s" help:"how long a stop waits for Kafka to acknowledge"`
}

// Check says everything that is wrong with the settings.
func (c Config) Check() error {
	var problems []error
	if c.Batch < postgres.Shards {
		problems = append(problems, fmt.Errorf("SLUICE_RELAY_BATCH is %d; it must be at least %d", c.Batch, postgres.Shards))
	}
	if c.PollInterval <= 0 {
		problems = append(problems, errors.New("SLUICE_RELAY_POLL_INTERVAL must be positive"))
	}
	if c.LeaseTTL < 100*time.Millisecond {
		problems = append(problems, errors.New("SLUICE_RELAY_LEASE_TTL must be at least 100ms"))
	}
	if c.DrainTimeout <= 0 {
		problems = append(problems, errors.New("SLUICE_RELAY_DRAIN_TIMEOUT must be positive"))
	}
	return errors.Join(problems...)
}

// Relay is one relay. Several share the shards.
type Relay struct {
	cfg      Config
	log      *slog.Logger
	metrics  *metrics
	topics   []string
	owner    string
	store    *postgres.Store
	broker   Broker
	now      func() time.Time
	troubles troubles
}

// Deps are what a relay works with.
type Deps struct {
	Log      *slog.Logger
	Registry prometheus.Registerer
	// Topics are the full names of the topics that each message goes to.
	Topics []string
	// Owner names this relay among all; unique over restarts.
	Owner  string
	Store  *postgres.Store
	Broker Broker
	Now    func() time.Time
}

// New checks the configuration and reports all that is wrong with it.
func New(cfg Config, deps Deps) (*Relay, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	r := &Relay{cfg: cfg, log: deps.Log, topics: deps.Topics, owner: deps.Owner, store: deps.Store, broker: deps.Broker, now: deps.Now,
		troubles: troubles{of: map[int16]error{}}}
	r.metrics = newMetrics(deps.Registry, deps.Now)
	r.troubles.set(noShard, errors.New("no shards claimed yet"))
	return r, nil
}

// Ready is nil while the relay can publish, else it says what it waits for.
func (r *Relay) Ready() error { return r.troubles.all() }

// Run publishes until ctx is cancelled; then it waits for what Kafka has not
// acknowledged yet, moves the cursors and gives its shards back. When the
// database fails it starts again from the cursors.
func (r *Relay) Run(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	listening := make(chan struct{})
	go func() { defer close(listening); r.listen(ctx, wake) }()
	defer func() { <-listening }()

	for failures := 0; ; {
		began := r.now()
		err := r.session(ctx, wake)
		if ctx.Err() != nil {
			return errors.Join(err, r.retire(ctx))
		}
		if r.now().Sub(began) > time.Minute {
			failures = 0
		}
		r.troubles.set(noShard, err)
		r.log.Error("relay starts again from its cursors", "error", err)
		daemon.Pause(ctx, backoff(failures))
		failures++
	}
}

func (r *Relay) retire(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.DrainTimeout)
	defer cancel()
	return r.store.RetireRelay(ctx, r.owner)
}

// listen turns notifications into wakes. Where they do not come (PgBouncer), the
// poll interval does.
func (r *Relay) listen(ctx context.Context, wake chan<- struct{}) {
	for failures := 0; ctx.Err() == nil; failures++ {
		err := r.store.ListenTransitions(ctx, func() {
			failures = 0
			select {
			case wake <- struct{}{}:
			default:
			}
		})
		if ctx.Err() == nil {
			r.log.Warn("relay polls only: it cannot listen", "error", err)
			daemon.Pause(ctx, backoff(failures))
		}
	}
}

func backoff(failures int) time.Duration {
	return min(100*time.Millisecond<<min(failures, 10), 5*time.Second)
}

var _ daemon.Worker = (*Relay)(nil)

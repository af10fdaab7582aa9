// Package processor turns records of the raw topic into order statuses: a batch
// from Kafka, one transaction in PostgreSQL, then the offsets.
//
// Its path: worker.go takes a batch and sees it through, record.go reads what a
// record's headers say, apply.go settles records, batch.go is the transaction,
// reading.go reads the bodies of what is new, fate.go decides what an error means.
// member.go and lane.go are the two lanes of a worker in the group: what is new, and
// beside it what was applied before and is read again, of which sift.go lets through
// only what is not done with. replay.go does what `sluice replay` asks for. chores.go is
// the rest.
//
// The same batch serves others too: again.go looks again at records that somebody
// selected, and anew.go reads the bodies of known events anew; dryrun.go is the batch on
// tables in memory, and outlook.go what it would have done; readable.go says what a dead
// letter says by the present rules.
package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/pkg/archive"
	"sluice/pkg/audit"
	"sluice/pkg/daemon"
	"sluice/pkg/effect"
	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
)

// Config is the processor's part of the configuration.
type Config struct {
	// Workers is how many members of the consumer group run in this process; each
	// has at most one transaction open.
	Workers int `env:"SLUICE_PROCESSOR_WORKERS" envDefault:"2" help:"consumer group members in this process, a transaction each"`
	// Batch is how many records one transaction takes at most (1,000 and 2,000 are
	// equal within noise, measured 2026-11).
	Batch int `env:"SLUICE_PROCESSOR_BATCH" envDefault:"2000" help:"most records that one transaction takes"`
	// Chores is how often due held events are looked for.
	Chores time.Duration `env:"SLUICE_PROCESSOR_CHORES" envDefault:"1m" help:"how often due held events are looked for"`
	// KeepBodies is for how many days the journal in PostgreSQL keeps every event's
	// bytes. 0: only held and dead events keep them, the rest lie in the raw topic.
	KeepBodies int `env:"SLUICE_PROCESSOR_KEEP_BODIES" envDefault:"0" help:"days that every event's bytes are kept in PostgreSQL; 0: not"`
	// KeepTransitions is for how many days published order transitions are kept, by
	// blocks of a hundred million; 0 is for ever.
	KeepTransitions int `env:"SLUICE_PROCESSOR_KEEP_TRANSITIONS" envDefault:"0" help:"days that published order transitions are kept; 0: for ever"`
	// Archive is a directory to which both are written before they are dropped.
	Archive archive.Dir `env:"SLUICE_PROCESSOR_ARCHIVE" help:"directory that bodies and order transitions are written to before they are dropped; none: not"`
	// KeepAttempts is for how many days what was tried for effects is kept, and the
	// bodies of those that are done. Their keys are kept for ever.
	KeepAttempts int `env:"SLUICE_PROCESSOR_KEEP_ATTEMPTS" envDefault:"30" help:"days that attempts of effects are kept; 0: for ever"`
	// DevBroker: the raw topic lies on the development broker, which keeps it by
	// size; how long that is cannot be held against the window.
	DevBroker bool `env:"SLUICE_DEV_BROKER" help:"true: the raw topic lies on the development broker"`
}

// defaultBatch is Config.Batch where nobody says otherwise.
const defaultBatch = 2000

// maxDays bounds the settings in days.
const maxDays = 3650

// Check says everything that is wrong with the settings.
func (c Config) Check() error {
	var problems []error
	if c.Workers < 1 || c.Workers > 64 {
		problems = append(problems, fmt.Errorf("SLUICE_PROCESSOR_WORKERS is %d; it must be 1 to 64", c.Workers))
	}
	if c.Batch < 1 || c.Batch > 20_000 {
		problems = append(problems, fmt.Errorf("SLUICE_PROCESSOR_BATCH is %d; it must be 1 to 20000", c.Batch))
	}
	if c.Chores <= 0 {
		problems = append(problems, errors.New("SLUICE_PROCESSOR_CHORES must be positive"))
	}
	if c.KeepBodies < 0 || c.KeepBodies > maxDays {
		problems = append(problems, fmt.Errorf("SLUICE_PROCESSOR_KEEP_BODIES is %d; it must be 0 to %d days", c.KeepBodies, maxDays))
	}
	if c.KeepTransitions < 0 || c.KeepTransitions > maxDays {
		problems = append(problems, fmt.Errorf("SLUICE_PROCESSOR_KEEP_TRANSITIONS is %d; it must be 0 to %d days", c.KeepTransitions, maxDays))
	}
	if c.Archive != "" {
		if err := c.Archive.Check(); err != nil {
			problems = append(problems, fmt.Errorf("SLUICE_PROCESSOR_ARCHIVE: %w", err))
		}
	}
	if c.KeepAttempts < 0 || c.KeepAttempts > maxDays {
		problems = append(problems, fmt.Errorf("SLUICE_PROCESSOR_KEEP_ATTEMPTS is %d; it must be 0 to %d days", c.KeepAttempts, maxDays))
	}
	return errors.Join(problems...)
}

// Conns is how many database connections a processor needs: two a worker, one of
// them for what it reads again, two for claims, chores and wake-ups, and one for table
// partitions, which are archived for minutes.
func (c Config) Conns() int32 { return 2*int32(c.Workers) + 3 }

// Deps are what a processor works with.
type Deps struct {
	Kafka     kafka.Config
	Store     *postgres.Store
	Endpoints endpoint.Set
	// Effects are what the store writes down with the changes that cause them.
	Effects effect.Set
	// Mode is the deployment's: events of the other one change nothing.
	Mode event.Mode
	Log  *slog.Logger
	Reg  prometheus.Registerer
	Now  func() time.Time
}

// Processor is the role. Several, in one process or many, share the raw topic's
// partitions.
type Processor struct {
	cfg Config
	Deps
	metrics   metrics
	publisher *kafka.Publisher
	auditor   *audit.Auditor
	window    atomic.Pointer[postgres.Window]
	workers   []*worker
	// letters wakes the chores when dead letters wait for their topic.
	letters chan struct{}
	notes   atomic.Pointer[[]string]
	// staying are why table partitions stay that should be archived and dropped.
	staying atomic.Pointer[[]string]
}

// New waits for the database and Kafka, and makes the table partitions that are
// needed first.
func New(ctx context.Context, cfg Config, deps Deps) (*Processor, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	p := &Processor{cfg: cfg, Deps: deps, metrics: newMetrics(deps.Reg), letters: make(chan struct{}, 1)}
	if err := p.checkRetention(ctx); err != nil {
		return nil, err
	}
	if err := daemon.Wait(ctx, p.Log, "the database", p.ensurePartitions); err != nil {
		return nil, err
	}
	if err := p.checkAhead(ctx); err != nil {
		return nil, err
	}
	err := daemon.Wait(ctx, p.Log, "Kafka", func(ctx context.Context) (err error) {
		if p.auditor == nil {
			p.auditor, err = audit.Open(ctx, p.Kafka, p.Store, p.Log, p.Now)
		}
		if err == nil {
			p.publisher, err = kafka.NewPublisher(ctx, p.Kafka, p.Log)
		}
		return err
	})
	if err != nil {
		if p.auditor != nil {
			p.auditor.Close()
		}
		return nil, err
	}
	for n := range cfg.Workers {
		p.workers = append(p.workers, newWorker(p, n))
	}
	return p, nil
}

// Run works until ctx is cancelled; then every worker finishes or rolls back its
// transaction, commits its offsets and leaves the group. It returns nil.
func (p *Processor) Run(ctx context.Context) error {
	defer p.publisher.Close()
	defer p.auditor.Close()
	var running sync.WaitGroup
	for _, w := range p.workers {
		running.Go(func() { w.run(ctx) })
	}
	running.Go(func() { p.chores(ctx) })
	running.Go(func() { p.keep(ctx) })
	running.Go(func() { p.listen(ctx) })
	running.Wait()
	return nil
}

// Ready is nil while every worker can do its work, what it reads again included.
func (p *Processor) Ready() error {
	var problems []error
	for _, w := range p.workers {
		problems = append(problems, w.problem.get())
		if l := w.lane.Load(); l != nil {
			problems = append(problems, l.problem.get())
		}
	}
	return errors.Join(problems...)
}

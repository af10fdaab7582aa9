package processor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
)

// worker is one member of the consumer group.
type worker struct {
	*Processor
	owner   string
	problem problem
	apply   applier
	// lane is its lane while it is in the group.
	lane atomic.Pointer[lane]
	// replays wakes it when a replay has changed.
	replays chan struct{}

	mu     sync.Mutex
	claims map[int32]postgres.Claim
	// wanted are the running replays that claimed partitions are part of.
	wanted map[int32]int64
}

// problem is why something cannot work just now; nothing if it can. Safe for concurrent
// use.
type problem struct{ why atomic.Pointer[error] }

func (p *problem) set(err error) { p.why.Store(&err) }

func (p *problem) get() error {
	if err := p.why.Load(); err != nil {
		return *err
	}
	return nil
}

func newWorker(p *Processor, n int) *worker {
	host, _ := os.Hostname() // only a name for people; rand.Text makes it unique
	w := &worker{Processor: p, owner: fmt.Sprintf("%s/%d/%s", host, n, rand.Text()[:8]), claims: map[int32]postgres.Claim{}, wanted: map[int32]int64{},
		replays: make(chan struct{}, 1)}
	w.problem.set(errors.New("has not joined the consumer group yet"))
	w.apply = applier{log: p.Log.With("worker", w.owner), now: p.Now, inTx: p.Store.InTx, stand: w.advance, journal: p.cfg.KeepBodies > 0,
		committed: w.committed}
	return w
}

// reader is how records are read now: the window moves on.
func (p *Processor) reader() reader {
	return reader{endpoints: p.Endpoints, window: *p.window.Load(), mode: p.Mode}
}

// run keeps the worker a member of the group until ctx ends.
func (w *worker) run(ctx context.Context) {
	for wait := 100 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 5*time.Second) {
		began := w.Now()
		err := w.membership(ctx)
		if ctx.Err() != nil {
			return
		}
		w.problem.set(err)
		w.Log.Error("not in the consumer group, joining again", "worker", w.owner, "error", err)
		if w.Now().Sub(began) > time.Minute {
			wait = 100 * time.Millisecond
		}
		daemon.Pause(ctx, wait)
	}
}

// patience is how long a batch may hold up a rebalance while the database does
// not answer; it is well below the group's rebalance timeout (60 s).
const patience = 20 * time.Second

// errWanted: the group waits for this member while the database is away. Leaving
// lets the others go on; what was polled is read again by whoever gets it.
var errWanted = errors.New("the consumer group waits and the database does not answer")

// seeThrough brings a batch into the database, and only then commits its offsets.
// Nothing ends it but success, ctx, and the loss of the partitions.
func (w *worker) seeThrough(ctx context.Context, c *kafka.Consumer, b kafka.Batch) error {
	if err := w.insist(ctx, &w.apply, &w.problem, b.Records, c.Wanted); err != nil {
		return err
	}
	// Offsets behind the database are only work done twice, so an error here is
	// not the batch's.
	committing, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	if err := c.Commit(committing, b); err != nil {
		w.Log.Warn("the batch is in the database, its offsets are not in Kafka", "worker", w.owner, "error", err)
	}
	c.Allow()
	return nil
}

// commitTimeout bounds telling the group where it is.
const commitTimeout = 5 * time.Second

// insist applies records, again and again until the database has them; p is why it
// has not yet. wanted says that somebody waits for the end of it.
func (w *worker) insist(ctx context.Context, a *applier, p *problem, in []kafka.Record, wanted func() bool) error {
	a.reader = w.reader()
	records, began := a.parse(in), w.Now()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := a.settle(ctx, records)
		if err == nil {
			break
		}
		if errors.Is(err, postgres.ErrFenced) {
			w.metrics.fenced.Inc()
			return err
		}
		p.set(err)
		w.metrics.retries.Inc()
		if postgres.NoPartition(err) {
			err = errors.Join(err, w.ensurePartitions(ctx))
		}
		w.Log.Warn("batch failed, trying again", "worker", w.owner, "records", len(records), "wait", wait, "error", err)
		daemon.Pause(ctx, wait)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if wanted() && w.Now().Sub(began) > patience {
			return fmt.Errorf("%w: %w", errWanted, err)
		}
	}
	p.set(nil)
	return nil
}

// claim is called by the consumer for each partition it gets.
func (w *worker) claim(ctx context.Context, a kafka.Assignment, reset func(from int64) error) (applied int64, err error) {
	c, applied, err := w.Store.ClaimPartition(ctx, a.TopicID, a.Topic, a.Partition, w.owner)
	var replay int64
	if err == nil {
		replay, applied, err = w.takeOnClaim(ctx, c, applied, reset)
	}
	if err != nil {
		w.problem.set(err)
		return 0, err
	}
	w.problem.set(nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claims[a.Partition], w.wanted[a.Partition] = c, replay
	w.Log.Info("partition assigned", "worker", w.owner, "partition", a.Partition, "epoch", c.Epoch, "applied_offset", applied)
	return applied, nil
}

// gap leaves a note for a person, and has the period swept again at the providers; the
// counter is there even if the database is not.
func (w *worker) gap(ctx context.Context, g kafka.Gap) {
	w.metrics.gaps.WithLabelValues(g.Reason).Inc()
	item := postgres.ReviewItem{
		Kind:    postgres.ReviewOffsetGap,
		Subject: fmt.Sprintf("%s/%d/%d-%d", g.Topic, g.Partition, g.From, g.To),
		Detail:  fmt.Sprintf("offsets %d to %d of %s, partition %d: %s", g.From, g.To, g.Topic, g.Partition, g.Reason),
	}
	err := w.Store.InTx(ctx, func(tx postgres.Tx) error {
		added, err := tx.AddReviewItem(ctx, item)
		if err == nil && added { // what the records held, the providers know
			_, err = tx.SweepGap(ctx, w.Now(), g.TopicID, g.Partition)
		}
		return err
	})
	if err != nil {
		w.Log.Error("no review item for missing offsets", "subject", item.Subject, "error", err)
	}
}

// advance proves that the partitions of records are still ours, and moves how far
// they are applied.
func (w *worker) advance(ctx context.Context, tx postgres.Tx, records []*record) (ground, error) {
	lasts := map[int32]int64{}
	for _, r := range records {
		lasts[r.Partition] = r.Offset
	}
	claims := w.claimsOf(records)
	last := make([]int64, len(claims))
	for i, c := range claims {
		last[i] = lasts[c.Partition]
	}
	before, err := tx.Advance(ctx, claims, last)
	return groundOf(claims, before), err
}

// claimsOf are our claims of the partitions that records lie in.
func (w *worker) claimsOf(records []*record) []postgres.Claim {
	w.mu.Lock()
	defer w.mu.Unlock()
	var claims []postgres.Claim
	met := map[int32]bool{}
	for _, r := range records {
		if !met[r.Partition] {
			met[r.Partition] = true
			claims = append(claims, w.claims[r.Partition])
		}
	}
	return claims
}

func groundOf(claims []postgres.Claim, before []int64) ground {
	g := ground{topicID: claims[0].TopicID, writer: claims[0].Partition, applied: make(map[int32]int64, len(before))}
	for i := range before {
		g.applied[claims[i].Partition] = before[i]
	}
	return g
}

// committed counts a transaction, and wakes who waits for what it wrote.
func (w *worker) committed(ctx context.Context, b *batch, took time.Duration) {
	w.metrics.batch(b, took)
	if b.versions+b.effects > 0 {
		if err := w.Store.WakeRelays(ctx); err != nil {
			w.Log.Debug("relays will find out by themselves", "error", err)
		}
	}
	if b.deadLetters > 0 {
		select {
		case w.letters <- struct{}{}:
		default: // it is under way
		}
	}
}

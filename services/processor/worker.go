package processor

import (
	"cmp"
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
	owner string
	// problem is why the worker cannot work just now; nil if it can.
	problem atomic.Pointer[error]
	apply   applier

	mu     sync.Mutex
	claims map[int32]postgres.Claim
}

func newWorker(p *Processor, n int) *worker {
	host, _ := os.Hostname() // only a name for people; rand.Text makes it unique
	w := &worker{Processor: p, owner: fmt.Sprintf("%s/%d/%s", host, n, rand.Text()[:8]), claims: map[int32]postgres.Claim{}}
	joining := errors.New("has not joined the consumer group yet")
	w.problem.Store(&joining)
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
		w.problem.Store(&err)
		w.Log.Error("not in the consumer group, joining again", "worker", w.owner, "error", err)
		if w.Now().Sub(began) > time.Minute {
			wait = 100 * time.Millisecond
		}
		daemon.Pause(ctx, wait)
	}
}

// membership joins the group and works until ctx ends or it must leave.
func (w *worker) membership(ctx context.Context) error {
	c, err := kafka.NewConsumer(ctx, w.Kafka, w.Log, kafka.ConsumerOptions{Claim: w.claim, Gap: w.gap})
	if err != nil {
		return err
	}
	defer c.Close()
	w.problem.Store(nil)
	for {
		b, err := c.Poll(ctx, w.cfg.Batch)
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if err := w.seeThrough(ctx, c, b); err != nil {
			return err
		}
	}
}

// patience is how long a batch may hold up a rebalance while the database does
// not answer; it is well below the group's rebalance timeout (60 s).
const patience = 20 * time.Second

// errWanted: the group waits for this member while the database is away. Leaving
// lets the others go on; what was polled is read again by whoever gets it.
var errWanted = errors.New("the consumer group waits and the database does not answer")

// seeThrough repeats a batch until the database has it, and only then commits its
// offsets. Nothing ends it but success, ctx, and the loss of the partitions.
func (w *worker) seeThrough(ctx context.Context, c *kafka.Consumer, b kafka.Batch) error {
	w.apply.reader = w.reader()
	records, began := w.apply.parse(b.Records), w.Now()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := w.apply.settle(ctx, records)
		if err == nil {
			break
		}
		if errors.Is(err, postgres.ErrFenced) {
			w.metrics.fenced.Inc()
			return err
		}
		w.problem.Store(&err)
		w.metrics.retries.Inc()
		if postgres.NoPartition(err) {
			err = errors.Join(err, w.ensurePartitions(ctx))
		}
		w.Log.Warn("batch failed, trying again", "worker", w.owner, "records", len(records), "wait", wait, "error", err)
		daemon.Pause(ctx, wait)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if c.Wanted() && w.Now().Sub(began) > patience {
			return fmt.Errorf("%w: %w", errWanted, err)
		}
	}
	w.problem.Store(nil)
	// Offsets behind the database are only work done twice, so an error here is
	// not the batch's.
	committing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := c.Commit(committing, b); err != nil {
		w.Log.Warn("the batch is in the database, its offsets are not in Kafka", "worker", w.owner, "error", err)
	}
	c.Allow()
	return nil
}

// claim is called by the consumer for each partition it gets.
func (w *worker) claim(ctx context.Context, a kafka.Assignment) (applied int64, err error) {
	c, applied, err := w.Store.ClaimPartition(ctx, a.TopicID, a.Topic, a.Partition, w.owner)
	if err != nil {
		w.problem.Store(&err)
		return 0, err
	}
	w.problem.Store(nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claims[a.Partition] = c
	w.Log.Info("partition assigned", "worker", w.owner, "partition", a.Partition, "epoch", c.Epoch, "applied_offset", applied)
	return applied, nil
}

// gap leaves a note for a person; the counter is there even if the database is not.
func (w *worker) gap(ctx context.Context, g kafka.Gap) {
	w.metrics.gaps.WithLabelValues(g.Reason).Inc()
	item := postgres.ReviewItem{
		Kind:    postgres.ReviewOffsetGap,
		Subject: fmt.Sprintf("%s/%d/%d-%d", g.Topic, g.Partition, g.From, g.To),
		Detail:  fmt.Sprintf("offsets %d to %d of %s, partition %d: %s", g.From, g.To, g.Topic, g.Partition, g.Reason),
	}
	err := w.Store.InTx(ctx, func(tx postgres.Tx) error {
		_, err := tx.AddReviewItem(ctx, item)
		return err
	})
	if err != nil {
		w.Log.Error("no review item for missing offsets", "subject", item.Subject, "error", err)
	}
}

// advance proves that the partitions of records are still ours.
func (w *worker) advance(ctx context.Context, tx postgres.Tx, records []*record) (ground, error) {
	lasts := map[int32]int64{}
	for _, r := range records {
		lasts[r.Partition] = r.Offset
	}
	var claims []postgres.Claim
	var last []int64
	w.mu.Lock()
	for p, offset := range lasts {
		claims, last = append(claims, w.claims[p]), append(last, offset)
	}
	w.mu.Unlock()
	before, err := tx.Advance(ctx, claims, last)
	if err != nil {
		return ground{}, err
	}
	applied := make(map[int32]int64, len(claims))
	for i, c := range claims {
		applied[c.Partition] = before[i]
	}
	return ground{topicID: claims[0].TopicID, writer: claims[0].Partition, applied: applied}, nil
}

// committed counts a transaction, and wakes who waits for what it wrote.
func (w *worker) committed(ctx context.Context, b *batch, took time.Duration) {
	w.metrics.batch(b, took)
	if b.changes > 0 {
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

package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
)

// batch is what goes down the pipeline: records, and what may be said of the
// shards once Kafka has all of them.
type batch struct {
	records []kafka.Record
	rows    []postgres.Transition // records[i] is made of rows[i]
	cursors []postgres.RelayShard
	release []int16 // to be given back
}

// session owns shards and publishes them until ctx ends (then it drains) or the
// database fails. Three stages overlap: read, publish, move cursors.
func (r *Relay) session(ctx context.Context, wake <-chan struct{}) error {
	// work outlives ctx by the drain timeout, so that what was handed to Kafka is
	// waited for.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(r.cfg.DrainTimeout, cancel)
	})()

	lease, err := r.store.ClaimRelayShards(ctx, r.owner, r.cfg.LeaseTTL)
	if err != nil {
		return err
	}
	r.setTrouble(nil)

	g, work := errgroup.WithContext(work)
	reading, stopReading := context.WithCancel(ctx)
	defer context.AfterFunc(work, stopReading)()
	leases := make(chan postgres.RelayLease, 1)
	leases <- lease
	batches := make(chan batch, 1)
	acked := newProgress()

	g.Go(func() error { return r.renew(reading, leases) })
	g.Go(func() error {
		defer close(batches)
		return newReader(r, wake, leases, batches).run(reading)
	})
	g.Go(func() error {
		defer acked.close()
		for b := range batches {
			if err := r.publish(work, b); err != nil {
				return err
			}
			acked.add(b)
		}
		return nil
	})
	g.Go(func() error { return r.mark(work, acked) })
	return g.Wait()
}

// renew keeps the leases alive while a batch waits for Kafka, and tells the
// reader what it owns.
func (r *Relay) renew(ctx context.Context, leases chan postgres.RelayLease) error {
	tick := time.NewTicker(r.cfg.LeaseTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		lease, err := r.store.ClaimRelayShards(ctx, r.owner, r.cfg.LeaseTTL)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		select { // the newest replaces one not taken yet
		case <-leases:
		default:
		}
		leases <- lease
	}
}

// stallAfter is how long Kafka may take before the relay says that it waits.
const stallAfter = 2 * time.Second

// publish returns nil once Kafka has every record of b, or has refused it for
// good and it was put aside for a person. Later versions of that order go out:
// each message carries the whole state, and the missing version shows.
func (r *Relay) publish(ctx context.Context, b batch) error {
	if len(b.records) == 0 {
		return nil
	}
	began := r.now()
	r.metrics.oldest.Store(b.rows[0].ChangedAt.UnixMicro())
	defer r.metrics.oldest.Store(0)
	stalled := time.AfterFunc(stallAfter, func() {
		r.setTrouble(errors.New("Kafka has not acknowledged for " + stallAfter.String()))
		r.log.Warn("Kafka does not acknowledge; nothing is marked published until it does", "records", len(b.records))
	})
	records, rows := b.records, b.rows
	failures, refused := 0, 0
	for ; ; failures++ {
		err := r.publisher.Publish(ctx, records)
		if err == nil {
			break
		}
		var part *kafka.PublishError
		if !errors.As(err, &part) {
			stalled.Stop()
			return err
		}
		if err := r.putAside(ctx, rows, part); err != nil {
			stalled.Stop()
			return err
		}
		refused += len(part.Refused)
		records, rows = pick(records, part.Failed), pick(rows, part.Failed)
		if len(records) == 0 {
			break
		}
		r.setTrouble(err)
		r.log.Warn("publish failed; it will be tried again", "error", err, "attempt", failures+1)
		r.metrics.failures.Inc()
		pause(ctx, backoff(failures))
	}
	if !stalled.Stop() || failures > 0 {
		r.log.Info("Kafka acknowledges again", "after", r.now().Sub(began).String())
	}
	r.setTrouble(nil)
	r.metrics.published.Add(float64(len(b.records) - refused))
	r.metrics.publish.Observe(r.now().Sub(began).Seconds())
	return nil
}

func pick[T any](from []T, which []int) []T {
	to := make([]T, len(which))
	for i, at := range which {
		to[i] = from[at]
	}
	return to
}

func (r *Relay) putAside(ctx context.Context, rows []postgres.Transition, part *kafka.PublishError) error {
	for _, at := range part.Refused {
		if err := r.store.PutAside(ctx, rows[at], part.Err.Error()); err != nil {
			return err
		}
		r.metrics.refused.Inc()
		r.log.Error("Kafka refuses a message for good; it is a review item now",
			"order", rows[at].OrderID, "version", rows[at].Version, "error", part.Err)
	}
	return nil
}

// mark moves the cursors of what was acknowledged. While one move runs, more
// acknowledgements gather for the next.
func (r *Relay) mark(ctx context.Context, acked *progress) error {
	for {
		cursors, release, more := acked.take()
		if len(cursors) > 0 {
			moved, err := r.store.MoveCursors(ctx, r.owner, cursors, r.cfg.LeaseTTL)
			if err != nil {
				return err
			}
			if fenced := len(cursors) - moved; fenced > 0 {
				r.metrics.fenced.Add(float64(fenced))
				r.log.Warn("shards have a new owner; their cursors were left alone", "shards", fenced)
			}
		}
		if len(release) > 0 {
			if err := r.store.ReleaseRelayShards(ctx, r.owner, release); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("move relay cursors: %w", context.Cause(ctx))
		}
	}
}

// progress gathers acknowledged batches between two moves of the cursors.
type progress struct {
	mu      sync.Mutex
	ready   *sync.Cond
	cursors map[int16]postgres.RelayShard
	release []int16
	closed  bool
}

func newProgress() *progress {
	p := &progress{cursors: map[int16]postgres.RelayShard{}}
	p.ready = sync.NewCond(&p.mu)
	return p
}

func (p *progress) add(b batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range b.cursors {
		p.cursors[c.Shard] = c
	}
	p.release = append(p.release, b.release...)
	p.ready.Signal()
}

func (p *progress) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.ready.Signal()
}

// take waits for something to do; more is false after the last.
func (p *progress) take() (cursors []postgres.RelayShard, release []int16, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.cursors) == 0 && len(p.release) == 0 && !p.closed {
		p.ready.Wait()
	}
	for _, c := range p.cursors {
		cursors = append(cursors, c)
	}
	release, p.release = p.release, nil
	clear(p.cursors)
	return cursors, release, !p.closed
}

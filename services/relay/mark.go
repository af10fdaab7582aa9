package relay

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/postgres"
)

// renew keeps the leases alive while a batch waits for Kafka, and tells the
// session what it owns.
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

// markInterval is the pause between two moves of the cursors. Only retention goes by
// them, and a relay where Kafka has none.
const markInterval = 50 * time.Millisecond

// mark moves the cursors of what was acknowledged. While one move runs, and for a
// while after it, more acknowledgements gather for the next.
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
		daemon.Pause(ctx, markInterval)
		if ctx.Err() != nil {
			return fmt.Errorf("move relay cursors: %w", context.Cause(ctx))
		}
	}
}

// progress gathers acknowledgements between two moves of the cursors.
type progress struct {
	mu       sync.Mutex
	ready    *sync.Cond
	cursors  map[int16]postgres.RelayShard
	released []int16
	closed   bool
}

func newProgress() *progress {
	p := &progress{cursors: map[int16]postgres.RelayShard{}}
	p.ready = sync.NewCond(&p.mu)
	return p
}

func (p *progress) add(s postgres.RelayShard) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cursors[s.Shard] = s
	p.ready.Signal()
}

func (p *progress) release(shard int16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released = append(p.released, shard)
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
	for len(p.cursors) == 0 && len(p.released) == 0 && !p.closed {
		p.ready.Wait()
	}
	for _, c := range p.cursors {
		cursors = append(cursors, c)
	}
	release, p.released = p.released, nil
	clear(p.cursors)
	return cursors, release, !p.closed
}

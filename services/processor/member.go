package processor

import (
	"cmp"
	"context"
	"sync"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/kafka"
)

// member is a worker while it is in the group.
type member struct {
	*worker
	c      *kafka.Consumer
	lane   *lane
	gate   gate
	leave  context.CancelCauseFunc
	paused bool // of obey's goroutine
}

// membership joins the group and works until ctx ends or it must leave.
func (w *worker) membership(ctx context.Context) error {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	m := &member{worker: w, leave: leave, lane: newLane(w, leave)}
	w.lane.Store(m.lane)
	defer w.lane.Store(nil)
	var beside sync.WaitGroup
	beside.Go(func() { m.lane.run(ctx) })
	c, err := kafka.NewConsumer(ctx, w.Kafka, w.Log, kafka.ConsumerOptions{Claim: w.claim, Begin: m.lane.begin, Leave: m.lane.leave, Gap: w.gap})
	if err != nil {
		leave(err)
		beside.Wait()
		return err
	}
	defer c.Close()
	m.c = c
	m.lane.join(c)
	beside.Go(func() { m.obey(ctx) })
	w.problem.set(nil)
	err = m.work(ctx)
	leave(err)
	beside.Wait() // how far the lane is, only a member can tell the group
	return cmp.Or(context.Cause(ctx), err)
}

// work takes batch after batch.
func (m *member) work(ctx context.Context) error {
	for {
		polling, err := m.gate.enter(ctx)
		if err != nil {
			return err
		}
		b, err := m.c.Poll(polling, m.cfg.Batch)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && polling.Err() != nil: // somebody shuts the gate
			m.c.Allow()
		case err != nil:
			return err
		default:
			if err := m.seeThrough(ctx, m.c, b); err != nil {
				return err
			}
		}
		m.gate.exit()
		if m.lane.reads() {
			daemon.Pause(ctx, besideReplay)
		}
	}
}

// besideReplay is how long a worker lets records gather while a replay is read beside
// it. Live traffic of 500/s comes one by one, and each batch costs the broker, the
// database and the relay about the same, however small: 10,000,000 known records were
// read at 138,000/s without the pause and at 169,000 to 177,000/s with it, on 2 cores; live p99
// went from 0.46 to 0.55 s (2026-12). At 300 ms it is 1.2 s for hardly more.
const besideReplay = 100 * time.Millisecond

// gate stops a loop between two rounds.
type gate struct {
	mu     sync.Mutex
	shut   chan struct{}      // nil: it is open; closed when it opens
	inside chan struct{}      // nil: the loop is outside; closed when it leaves
	stop   context.CancelFunc // of the loop's round
}

// enter waits until the gate is open. The context that it returns ends when somebody
// wants to shut it.
func (g *gate) enter(ctx context.Context) (context.Context, error) {
	for {
		g.mu.Lock()
		if shut := g.shut; shut != nil {
			g.mu.Unlock()
			select {
			case <-shut:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		defer g.mu.Unlock()
		g.inside = make(chan struct{})
		ctx, g.stop = context.WithCancel(ctx)
		return ctx, nil
	}
}

// exit ends a round.
func (g *gate) exit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stop()
	close(g.inside)
	g.inside = nil
}

// close shuts the gate and waits until the loop is outside. It is shut then too when
// ctx ends before.
func (g *gate) close(ctx context.Context) error {
	g.mu.Lock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
	inside := g.inside
	if inside != nil {
		g.stop()
	}
	g.mu.Unlock()
	if inside == nil {
		return nil
	}
	select {
	case <-inside:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// open lets the loop in again.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

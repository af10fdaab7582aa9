package effects

import (
	"context"
	"sync"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/postgres"
)

const (
	// finishers is how many transactions write attempts down at a time: one that waits
	// for the lock of an order that is being changed holds up no other.
	finishers = 3
	// finishTimeout is how long a stop waits, after the calls, until they are written
	// down.
	finishTimeout = 5 * time.Second
)

// Run calls until ctx is cancelled; then it claims nothing more, waits for the calls
// under way, and writes down what became of them.
func (d *Dispatcher) Run(ctx context.Context) error {
	calls, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	writing, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(d.cfg.Drain, func() { cut(errStopped) })
		time.AfterFunc(d.cfg.Drain+finishTimeout, giveUp)
	})()

	var callers, writers sync.WaitGroup
	for range finishers {
		writers.Go(func() { d.finish(writing) })
	}
	d.work(ctx, func(l *line, e postgres.Effect, claimed time.Time) {
		callers.Go(func() { d.ended <- d.attempt(ctx, calls, l, e, claimed) })
	})
	callers.Wait()
	close(d.ended)
	writers.Wait()
	for _, l := range d.lines {
		l.caller.close()
	}
	return writing.Err()
}

// work claims what there is room for until ctx ends, and begins each.
func (d *Dispatcher) work(ctx context.Context, begin func(*line, postgres.Effect, time.Time)) {
	tick := time.NewTicker(d.cfg.Poll)
	defer tick.Stop()
	look, failures := true, 0
	for ctx.Err() == nil {
		err := d.claim(ctx, look, begin)
		switch {
		case err == nil:
			failures = 0
		case ctx.Err() != nil:
			return
		default:
			d.setTrouble(err)
			d.log.Error("effects are not claimed; it will be tried again", "error", err)
			daemon.Pause(ctx, backoff(failures))
			failures++
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
			look = true
			d.show()
		case batch := <-d.written:
			look = false
			d.release(batch)
			for len(d.written) > 0 {
				d.release(<-d.written)
			}
		}
	}
}

func (d *Dispatcher) release(batch []*line) {
	for _, l := range batch {
		l.destination.underway--
	}
}

// claim claims as many effects as there is room for: of every destination when it is
// time to look, else only of those that had more the last time.
func (d *Dispatcher) claim(ctx context.Context, look bool, begin func(*line, postgres.Effect, time.Time)) error {
	now := d.now()
	var wanted []postgres.Wanted
	asked := map[*destination]int{}
	for _, to := range d.destinations {
		room := to.circuit.room(now, to.limit, to.underway)
		if room == 0 || !look && !to.more {
			continue
		}
		asked[to] = room
		for i := range to.lines {
			l := to.lines[i]
			if n := (room + i) / len(to.lines); n > 0 { // their sum is the room
				wanted = append(wanted, postgres.Wanted{Name: l.declaration.Name, N: n, Lease: l.declaration.Timeout + d.cfg.LeaseMargin})
			}
		}
		if len(to.lines) > 1 { // another gets the rest the next time
			to.lines = append(to.lines[1:], to.lines[0])
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	// Not under ctx: what was claimed while a stop came must be given back.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	effects, err := d.store.ClaimEffects(limited, now, d.owner, wanted...)
	if err != nil {
		return err
	}
	d.setTrouble(nil)
	got := map[string]int{}
	for _, e := range effects {
		l := d.lines[e.Name]
		l.destination.underway++
		got[e.Name]++
		begin(l, e, now)
	}
	for to := range asked {
		to.more = false
	}
	for _, w := range wanted {
		if to := d.lines[w.Name].destination; got[w.Name] == w.N {
			to.more = true
		}
	}
	return nil
}

const claimTimeout = 10 * time.Second

// attempt makes one attempt, unless a stop or the lease's end came first.
func (d *Dispatcher) attempt(ctx, calls context.Context, l *line, e postgres.Effect, claimed time.Time) ended {
	began := d.now()
	a := postgres.Attempt{Effect: e, StartedAt: began}
	to := l.destination
	if ctx.Err() != nil || began.Sub(claimed) > d.cfg.LeaseMargin/2 {
		a.Outcome, a.RetryAt = postgres.AttemptUnmade, began
		return ended{l, a}
	}
	got := l.caller.call(calls, e, began)
	over := d.now()
	v := d.waits.decide(got, e.Try, l.declaration.Attempts, over, d.random)
	if v.class != stopped && to.circuit.ended(over, v.alive, v.quiet) {
		d.turned(to, over, v.class)
	}
	a.Outcome, a.RetryAt, a.Latency = v.outcome, v.retryAt, over.Sub(began)
	a.Status, a.Class, a.Answer = got.status, string(v.class), got.text
	return ended{l, a}
}

// turned says that a destination's circuit has opened or closed.
func (d *Dispatcher) turned(to *destination, now time.Time, why class) {
	if to.circuit.state(now) == closed {
		d.log.Info("calls to a destination go on", "destination", to.name)
	} else {
		d.log.Warn("calls to a destination are stopped: it fails; one call will try", "destination", to.name, "class", string(why))
	}
	d.show()
}

// show sets the metrics of circuits.
func (d *Dispatcher) show() {
	now := d.now()
	for name, l := range d.lines {
		d.metrics.circuit(name, l.destination.circuit.state(now))
	}
}

func backoff(failures int) time.Duration {
	return min(100*time.Millisecond<<min(failures, 10), 5*time.Second)
}

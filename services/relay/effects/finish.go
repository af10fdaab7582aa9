package effects

import (
	"context"

	"sluice/pkg/daemon"
	"sluice/pkg/postgres"
)

// ended is an attempt that is over and not written down yet.
type ended struct {
	line    *line
	attempt postgres.Attempt
}

// maxFinish is how many attempts are written down in one transaction.
const maxFinish = 256

// finish writes attempts down, as many at a time as there are, until there are no
// more. It tries until ctx ends: what is lost then is claimed by another after the
// lease, and called again under the same key.
func (d *Dispatcher) finish(ctx context.Context) {
	for first := range d.ended {
		lines := []*line{first.line}
		attempts := []postgres.Attempt{first.attempt}
		for len(attempts) < maxFinish && len(d.ended) > 0 {
			next, ok := <-d.ended
			if !ok {
				break
			}
			lines, attempts = append(lines, next.line), append(attempts, next.attempt)
		}
		stands, err := d.write(ctx, attempts)
		if err != nil {
			d.log.Error("what became of attempts is not written down; they will be made again", "attempts", len(attempts), "error", err)
		}
		for i, a := range attempts {
			d.tell(a, err == nil && stands[i])
		}
		d.written <- lines
	}
}

func (d *Dispatcher) write(ctx context.Context, attempts []postgres.Attempt) ([]bool, error) {
	for failures := 0; ; failures++ {
		stands, err := d.store.FinishEffects(ctx, d.now(), attempts...)
		if err == nil || ctx.Err() != nil {
			return stands, err
		}
		d.log.Warn("what became of attempts is not written down; it will be tried again", "attempts", len(attempts), "error", err)
		daemon.Pause(ctx, backoff(failures))
	}
}

// tell counts an attempt, and says what somebody must see to. Nothing of a body or an
// answer is in the log.
func (d *Dispatcher) tell(a postgres.Attempt, stands bool) {
	name := a.Effect.Name
	switch {
	case a.Outcome == postgres.AttemptUnmade:
		return
	case !stands:
		d.metrics.attempt(name, "overtaken", a.Latency)
		d.log.Warn("an attempt ended after its lease; another one decides", "effect", name, "key", a.Effect.IdempotencyKey(), "attempt", a.Effect.Attempt)
		return
	case a.Outcome == postgres.AttemptFailed:
		d.metrics.failed.WithLabelValues(name).Inc()
		d.log.Error("an effect failed; it is a review item now", "effect", name, "key", a.Effect.IdempotencyKey(), "order", a.Effect.OrderID,
			"attempt", a.Effect.Attempt, "class", a.Class, "status", a.Status)
	}
	result := a.Class
	if result == string(succeeded) {
		result = "done"
	}
	d.metrics.attempt(name, result, a.Latency)
}

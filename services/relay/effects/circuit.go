package effects

import (
	"sync"
	"time"
)

// circuit keeps calls from a destination that fails, so that it costs nothing: neither
// time nor its effects' attempts. After failures in a row it is open; after its time
// one call tries, and how that ends decides. It opens longer each time.
type circuit struct {
	after         int
	base, longest time.Duration

	mu       sync.Mutex
	failures int       // in a row
	opened   int       // times in a row
	until    time.Time // no call before, because of failures
	quiet    time.Time // no call before, because the destination asked for it
}

// circuitState is what may be called.
type circuitState uint8

const (
	closed   circuitState = iota // everything
	halfOpen                     // one, to try
	open                         // nothing
)

func (c *circuit) state(now time.Time) circuitState {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case now.Before(c.until), now.Before(c.quiet):
		return open
	case c.failures >= c.after:
		return halfOpen
	}
	return closed
}

// room is how many calls may begin now, with so many under way.
func (c *circuit) room(now time.Time, limit, underway int) int {
	switch c.state(now) {
	case open:
		return 0
	case halfOpen:
		return max(0, 1-underway)
	}
	return max(0, limit-underway)
}

// ended takes how a call ended. quiet is how long the destination asked to be left
// alone; it gets no more than the circuit's longest. It says whether the circuit
// opened or closed by it.
func (c *circuit) ended(now time.Time, alive bool, quiet time.Duration) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.failures >= c.after
	c.quiet = later(c.quiet, now.Add(min(quiet, c.longest)))
	if alive {
		c.failures, c.opened, c.until = 0, 0, time.Time{}
		return was
	}
	if was && now.Before(c.until) {
		return false // one that began before it opened
	}
	if c.failures++; c.failures >= c.after {
		c.until = later(c.until, now.Add(min(c.base<<min(c.opened, 20), c.longest)))
		c.opened++
	}
	return !was && c.failures >= c.after
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

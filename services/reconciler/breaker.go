package reconciler

import (
	"sync"
	"time"
)

// breaker stops the requests of one source after failures in a row. Once its time is
// over, one look-up tries; the others wait for how it ends.
type breaker struct {
	after   int
	lasting time.Duration

	mu       sync.Mutex
	failures int
	until    time.Time // no request before
	trying   bool
}

// admit says whether a look-up may be asked now, and if not, how long to wait before
// asking again.
func (b *breaker) admit(now time.Time) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case now.Before(b.until):
		return b.until.Sub(now), false
	case b.failures >= b.after && b.trying:
		return b.lasting / 10, false
	}
	b.trying = b.failures >= b.after
	return 0, true
}

// open says whether requests are stopped, and until when.
func (b *breaker) open(now time.Time) (until time.Time, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.until, now.Before(b.until) || b.failures >= b.after && b.trying
}

// ended takes how a look-up ended that was admitted. quiet is how long the provider
// asked to be left alone. It says whether the breaker opened or closed by it.
func (b *breaker) ended(now time.Time, failed bool, quiet time.Duration) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.failures >= b.after
	b.trying = false
	if quiet > 0 {
		b.until = later(b.until, now.Add(quiet))
	}
	if !failed {
		b.failures = 0
		return was
	}
	if b.failures++; b.failures >= b.after {
		b.until = later(b.until, now.Add(b.lasting))
	}
	return !was && b.failures >= b.after
}

// quiet makes no request before until.
func (b *breaker) quiet(until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = later(b.until, until)
}

// released gives an admission back that was not used.
func (b *breaker) released() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

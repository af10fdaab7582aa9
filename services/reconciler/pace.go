package reconciler

import (
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// newPace lets one request through at a time: no second of an account ever sees more
// than its rate.
func newPace(perSecond float64) *rate.Limiter { return rate.NewLimiter(rate.Limit(perSecond), 1) }

// backoff is how long a look-up waits after its attempt-th attempt (from 1): any part
// of the base doubled each time, so that those that failed together do not come back
// together.
func backoff(base, longest time.Duration, attempt int) time.Duration {
	return rand.N(min(base<<min(attempt-1, 30), longest)) + 1
}

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

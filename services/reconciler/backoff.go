package reconciler

import (
	"math/rand/v2"
	"time"
)

// backoff is how long a look-up waits after its attempt-th attempt (from 1): any part
// of the base doubled each time, so that those that failed together do not come back
// together.
func backoff(base, longest time.Duration, attempt int) time.Duration {
	return rand.N(min(base<<min(attempt-1, 30), longest)) + 1
}

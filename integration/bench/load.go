package main

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// result is what one run of load saw.
type result struct {
	// Requests were answered 2xx; Failures were answered otherwise, or never.
	Requests, Failures int
	Took               time.Duration
	latencies          []time.Duration // of Requests, sorted
}

func (r result) rate() float64 { return float64(r.Requests) / r.Took.Seconds() }

func (r result) quantile(q float64) time.Duration { return quantile(r.latencies, q) }

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// closedLoop keeps clients requests under way for d; next makes request number n.
func closedLoop(address string, clients int, d time.Duration, next func(n int) []byte) (result, error) {
	var n atomic.Int64
	start := time.Now()
	return gather(start, address, clients, func(c *conn, seen *seen) error {
		for time.Since(start) < d {
			at := time.Now()
			status, err := c.do(next(int(n.Add(1) - 1)))
			if err != nil {
				return err
			}
			seen.answer(status, time.Since(at))
		}
		return nil
	})
}

// openLoop starts rate requests a second for d, whatever the answers take, and
// counts each latency from when its request was due: a server that stalls is
// charged for everyone who had to wait (no coordinated omission). answered, if
// not nil, is told of each 2xx with the request's number.
func openLoop(address string, clients, rate int, d time.Duration, next func(n int) []byte, answered func(n int, at time.Time)) (result, error) {
	total := int(d.Seconds() * float64(rate))
	due := make(chan int, total)
	start := time.Now().Add(50 * time.Millisecond)
	dueAt := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second / time.Duration(rate)) }
	go func() {
		for n := range total {
			// After a late wake-up all that are due by now go at once.
			if wait := time.Until(dueAt(n)); wait > 0 {
				time.Sleep(wait)
			}
			due <- n
		}
		close(due)
	}()
	return gather(start, address, clients, func(c *conn, seen *seen) error {
		for n := range due {
			status, err := c.do(next(n))
			if err != nil {
				seen.failures++
				return err
			}
			seen.answer(status, time.Since(dueAt(n)))
			if answered != nil && status/100 == 2 {
				answered(n, time.Now())
			}
		}
		return nil
	})
}

// seen is what one client saw.
type seen struct {
	latencies []time.Duration
	failures  int
}

func (s *seen) answer(status int, took time.Duration) {
	if status/100 != 2 {
		s.failures++
		return
	}
	s.latencies = append(s.latencies, took)
}

// gather runs clients, each on a connection of its own, and adds up what they
// saw. The error is the last that a client ended with.
func gather(start time.Time, address string, clients int, client func(*conn, *seen) error) (out result, failed error) {
	var (
		wg sync.WaitGroup
		mu sync.Mutex
	)
	for range clients {
		wg.Go(func() {
			var s seen
			c, err := dial(address)
			if err == nil {
				err = client(c, &s)
				_ = c.c.Close()
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
			}
			out.Failures += s.failures
			out.latencies = append(out.latencies, s.latencies...)
		})
	}
	wg.Wait()
	out.Took = time.Since(start)
	out.Requests = len(out.latencies)
	slices.Sort(out.latencies)
	return out, failed
}

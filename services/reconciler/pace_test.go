package reconciler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// timeline hands out slots as the database does, after a round trip, by a clock that
// is an hour ahead.
type timeline struct {
	mu    sync.Mutex
	next  time.Time
	quiet time.Time
	err   error
}

func (l *timeline) ReserveSlots(_ context.Context, _ string, every, lead time.Duration, n int) (postgres.Slots, error) {
	time.Sleep(rand.N(3 * time.Millisecond))
	l.mu.Lock()
	now := time.Now().Add(time.Hour)
	s := postgres.Slots{Now: now, QuietUntil: l.quiet}
	if err := l.err; err != nil {
		l.mu.Unlock()
		return s, err
	}
	if !l.quiet.After(now) {
		if l.next.Before(now.Add(lead)) {
			l.next = now.Add(lead)
		}
		s.First, l.next = l.next, l.next.Add(time.Duration(n)*every)
	}
	l.mu.Unlock()
	time.Sleep(rand.N(3 * time.Millisecond))
	return s, nil
}

// seen are the times at which a provider saw requests.
type seen struct {
	mu    sync.Mutex
	times []time.Time
}

func (s *seen) now() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = append(s.times, time.Now())
}

// most is the greatest number of requests in any one second.
func (s *seen) most() (most int) {
	slices.SortFunc(s.times, time.Time.Compare)
	for first, last := 0, 0; last < len(s.times); last++ {
		for s.times[last].Sub(s.times[first]) >= time.Second {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// ask makes requests in a lane, each with a way of up to jitter to the provider and an
// answer after latency, until ctx ends.
func ask(ctx context.Context, p *pace, l lane, s *seen, jitter, latency time.Duration) {
	for p.wait(ctx, l) == nil {
		time.Sleep(rand.N(jitter + 1))
		s.now()
		time.Sleep(latency)
	}
}

func TestTheRateIsUsedAndNeverExceededByOneReconcilerOrThree(t *testing.T) {
	for _, rate := range []float64{1, 7, 100, 900} {
		for _, reconcilers := range []int{1, 3} {
			t.Run(fmt.Sprintf("%v a second by %d", rate, reconcilers), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					defer time.Sleep(time.Minute) // until no reservation is under way
					const lasting = 60 * time.Second
					ctx, cancel := context.WithTimeout(t.Context(), lasting)
					defer cancel()
					var s seen
					var askers sync.WaitGroup
					db := &timeline{}
					for range reconcilers {
						p := newPace(db, "mollie", rate)
						for range 32 {
							askers.Go(func() { ask(ctx, p, orders, &s, 10*time.Millisecond, 10*time.Millisecond) })
						}
					}
					askers.Wait()
					if most := s.most(); most > int(rate) {
						t.Errorf("%d requests in one second", most)
					}
					if part := float64(len(s.times)) / (rate * lasting.Seconds()); part < 0.95 {
						t.Errorf("%d requests are %.1f %% of the rate", len(s.times), 100*part)
					}
				})
			})
		}
	}
}

func TestEveryLaneGetsItsShareHoweverMuchTheOthersWant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // until no reservation is under way
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		p := newPace(&timeline{}, "mollie", 100)
		var askers sync.WaitGroup
		var by [lanes]seen
		for l := range lanes {
			for range 8 {
				askers.Go(func() { ask(ctx, p, l, &by[l], 0, 0) })
			}
		}
		for range 500 { // a flood
			askers.Go(func() { ask(ctx, p, strangers, &by[strangers], 0, 0) })
		}
		askers.Wait()
		for l := range lanes {
			if got, want := float64(len(by[l].times))/100, p.share(l); got < 0.97*want || got > 1.03*want {
				t.Errorf("lane %d has %.1f requests a second, and its share is %.1f", l, got, want)
			}
		}
	})
}

func TestWhatALaneLeavesTheOthersHaveAndAHintDoesNotWaitBehindThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // until no reservation is under way
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		p := newPace(&timeline{}, "mollie", 10)
		var askers sync.WaitGroup
		var flood seen
		for range 100 {
			askers.Go(func() { ask(ctx, p, strangers, &flood, 0, 0) })
		}
		time.Sleep(30 * time.Second)
		began := time.Now()
		if err := p.wait(ctx, hints); err != nil || time.Since(began) > 2*p.every {
			t.Errorf("a hint waited %v: %v", time.Since(began), err)
		}
		askers.Wait()
		if part := float64(len(flood.times)) / 600; part < 0.95 {
			t.Errorf("alone it had %.1f %%", 100*part)
		}
	})
}

func TestAProviderThatAskedAnotherReconcilerForQuietGetsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // until no reservation is under way
		db := &timeline{quiet: time.Now().Add(time.Hour + time.Minute)}
		p := newPace(db, "mollie", 10)
		err := p.wait(t.Context(), hints)
		var q quietError
		if !errors.As(err, &q) || time.Until(q.until) < 59*time.Second || time.Until(q.until) > 61*time.Second {
			t.Errorf("%v, for %v", err, time.Until(q.until))
		}
		time.Sleep(time.Minute)
		if err := p.wait(t.Context(), hints); err != nil {
			t.Error(err)
		}
	})
}

func TestADatabaseThatIsAwayStopsRequestsAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // until no reservation is under way
		db := &timeline{err: errors.New("away")}
		p := newPace(db, "mollie", 10)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := p.wait(ctx, hints); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		waited := make(chan error)
		go func() { waited <- p.wait(t.Context(), hints) }()
		time.Sleep(10 * time.Second)
		db.mu.Lock()
		db.err = nil
		db.mu.Unlock()
		if err := <-waited; err != nil {
			t.Error(err)
		}
	})
}

func TestALaneThatWantedNothingForALongTimeMakesUpForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		p := newPace(&timeline{}, "mollie", 10)
		var askers sync.WaitGroup
		var flood, late seen
		for range 20 {
			askers.Go(func() { ask(ctx, p, strangers, &flood, 0, 0) })
		}
		time.Sleep(40 * time.Second)
		flood.mu.Lock()
		before := len(flood.times)
		flood.mu.Unlock()
		for range 20 {
			askers.Go(func() { ask(ctx, p, orders, &late, 0, 0) })
		}
		askers.Wait()
		after := len(flood.times) - before
		if part := float64(after) / float64(after+len(late.times)); part < 0.42 || part > 0.47 { // 4 of 4 + 5
			t.Errorf("the lane that was there has %.2f of the rate", part)
		}
	})
}

// stepping is a timeline whose clock may be set while it runs.
type stepping struct {
	timeline
	mu   sync.Mutex
	step time.Duration
}

func (d *stepping) ReserveSlots(ctx context.Context, source string, every, lead time.Duration, n int) (postgres.Slots, error) {
	s, err := d.timeline.ReserveSlots(ctx, source, every, lead, n)
	d.mu.Lock()
	defer d.mu.Unlock()
	s.Now, s.First = s.Now.Add(d.step), s.First.Add(d.step)
	return s, err
}

func (d *stepping) set(step time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.step += step
}

// slow is a database that takes its time, on the way there and back.
type slow struct {
	timeline
	by time.Duration
}

func (d *slow) ReserveSlots(ctx context.Context, source string, every, lead time.Duration, n int) (postgres.Slots, error) {
	time.Sleep(d.by)
	s, err := d.timeline.ReserveSlots(ctx, source, every, lead, n)
	time.Sleep(d.by)
	return s, err
}

func TestASlowDatabaseCostsNoRequests(t *testing.T) {
	for _, by := range []time.Duration{50 * time.Millisecond, 200 * time.Millisecond} {
		t.Run(by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer time.Sleep(time.Minute)
				ctx, cancel := context.WithTimeout(t.Context(), 70*time.Second)
				defer cancel()
				db := &slow{by: by}
				p := newPace(db, "mollie", 20)
				for range 2 { // alone, and after a while in which nobody wanted any
					began := time.Now()
					if err := p.wait(ctx, hints); err != nil || time.Since(began) > 5*by {
						t.Fatalf("one alone waited %v: %v", time.Since(began), err)
					}
					time.Sleep(time.Second)
				}
				var s seen
				var askers sync.WaitGroup
				for range 64 {
					askers.Go(func() { ask(ctx, p, orders, &s, 0, 10*time.Millisecond) })
				}
				askers.Wait()
				if part, most := float64(len(s.times))/(20*60), s.most(); part < 0.95 || most > 20 {
					t.Errorf("%.1f %% of the rate, %d in the fullest second", 100*part, most)
				}
			})
		})
	}
}

func TestADatabaseWhoseClockIsSetStopsNoRequests(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer time.Sleep(time.Minute)
				ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
				defer cancel()
				db := &stepping{}
				p := newPace(db, "mollie", 100)
				var s seen
				var askers sync.WaitGroup
				for range 16 {
					askers.Go(func() { ask(ctx, p, orders, &s, 0, 10*time.Millisecond) })
				}
				time.Sleep(30 * time.Second)
				db.set(step)
				askers.Wait()
				if n, most := len(s.times), s.most(); n < 5500 || most > 100 {
					t.Errorf("%d requests in a minute, %d in the fullest second", n, most)
				}
			})
		})
	}
}

// What synctest cannot: PostgreSQL hands each slot out once.
func TestReconcilersShareTheRateThroughTheDatabase(t *testing.T) {
	store := testkit.Store(t)
	const every = 10 * time.Millisecond
	var mu sync.Mutex
	var all []time.Time
	var reservers sync.WaitGroup
	for range 4 {
		reservers.Go(func() {
			for n := range 25 {
				s, err := store.ReserveSlots(t.Context(), "mollie", every, 0, n+1)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for i := range n + 1 {
					all = append(all, s.First.Add(time.Duration(i)*every))
				}
				mu.Unlock()
			}
		})
	}
	reservers.Wait()
	slices.SortFunc(all, time.Time.Compare)
	for i := range all[1:] {
		if apart := all[i+1].Sub(all[i]); apart < every {
			t.Fatalf("slots %d and %d of %d are %v apart", i, i+1, len(all), apart)
		}
	}
	if err := store.KeepQuiet(t.Context(), "mollie", time.Hour); err != nil {
		t.Fatal(err)
	}
	s, err := store.ReserveSlots(t.Context(), "mollie", every, 0, 1)
	if err != nil || s.QuietUntil.Sub(s.Now) < 59*time.Minute {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err = store.ReserveSlots(t.Context(), "paypal", every, 0, 1); err != nil || s.QuietUntil.After(s.Now) {
		t.Errorf("another source: %+v, %v", s, err)
	}
}

// A database that was restored, or whose clock was wrong, does not stop requests until
// that time has come.
func TestWhatWasReservedByAClockThatWasAheadIsNotWaitedFor(t *testing.T) {
	store := testkit.Store(t)
	for range 700 { // as if reserved by a clock that was an hour and more ahead
		if _, err := store.ReserveSlots(t.Context(), "mollie", 10*time.Second, 0, 1); err != nil {
			t.Fatal(err)
		}
	}
	s, err := store.ReserveSlots(t.Context(), "mollie", 10*time.Millisecond, 0, 1)
	if err != nil || s.First.Sub(s.Now) > 2*time.Minute {
		t.Errorf("the first request is in %v: %v", s.First.Sub(s.Now), err)
	}
}

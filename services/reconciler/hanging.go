package reconciler

import (
	"context"
	"math/rand/v2"
	"time"

	"sluice/pkg/postgres"
)

// The pauses of what hangs and that the provider has not decided: a quarter of its
// age each time, so that what was paid a minute ago is known within seconds, and what
// nobody will pay costs some 30 requests in its first day and one a day afterwards.
const (
	shortestPause = 10 * time.Second
	longestPause  = 24 * time.Hour
	// askFor is after how long nobody will pay any more.
	askFor = 30 * 24 * time.Hour
)

// pause is how long to wait with what has been open for a time, and is asked about
// when it is as old as pending. No two that began together come back together.
func pause(pending, open time.Duration) time.Duration {
	p := min(max((pending+open)/4, shortestPause), longestPause)
	return p - rand.N(p/4)
}

// watchEvery is how often is looked for what hangs at most: a few index reads.
const watchEvery = time.Second

// visitLimit bounds one visit: a transaction of some 100 ms.
const visitLimit = 2000

// heldLimit bounds how many held events are asked about at a time.
const heldLimit = 500

// compareLimit bounds how many answers are compared in one transaction.
const compareLimit = 200

// watchOrders visits orders that have become as old as the source asks about, until ctx
// ends. An order may be a 60th older: each look takes an id of the history's sequence.
func (s *source) watchOrders(ctx context.Context) {
	frontier := s.owner.deps.Store.Frontier()
	s.repeat(ctx, "orders that hang are not looked for", func() (time.Duration, error) {
		more, err := s.visit(ctx, frontier)
		if err != nil || more {
			return 0, err
		}
		return max(watchEvery, s.fallback.endpoint.Lookup.Pending/60), nil
	})
}

// watchEvents looks for events that are held for what the provider may know, and
// compares what the provider answered with what became of it, until ctx ends.
func (s *source) watchEvents(ctx context.Context) {
	s.repeat(ctx, "held events and answers are not looked at", func() (time.Duration, error) {
		store, now := s.owner.deps.Store, s.owner.deps.Now
		asked, more, err := store.AskAboutHeldEvents(ctx, now(), s.name, heldLimit)
		if err != nil {
			return 0, err
		}
		s.owner.metrics.found(s.name, "held_event", asked)
		compared, err := store.CompareAnswers(ctx, now(), s.name, compareLimit)
		if err != nil || more || compared == compareLimit {
			return 0, err
		}
		return watchEvery, nil
	})
}

// visit visits some of the orders that are old enough, and says whether there are more.
func (s *source) visit(ctx context.Context, frontier *postgres.Frontier) (more bool, err error) {
	a := s.fallback
	visible, _, err := frontier.Advance(ctx)
	if err != nil {
		return false, err
	}
	now := s.owner.deps.Now()
	v, err := s.owner.deps.Store.VisitOrders(ctx, now, postgres.Visit{Source: s.name, Endpoint: a.endpoint.Name, Frontier: visible,
		RegisteredBefore: now.Add(-a.endpoint.Lookup.Pending), ByOrder: a.byOrder, ReviewAt: now.Add(s.owner.cfg.HangingDeadline), Limit: visitLimit})
	if v.Hanging > 0 {
		s.log.Debug("orders hang", "visited", v.Orders, "hanging", v.Hanging)
	}
	s.owner.metrics.found(s.name, "order", v.Hanging)
	return v.More, err
}

// giveUp ends a look-up that nobody waits for any more.
func (s *source) giveUp(ctx context.Context, l postgres.Lookup) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.owner.cfg.DrainTimeout)
	defer cancel()
	if err := s.owner.deps.Store.EndLookup(ctx, s.owner.deps.Now(), l); err != nil {
		s.log.Warn("a look-up is not ended: its lease ends by itself", "error", err)
	}
}

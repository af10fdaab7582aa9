package reconciler

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/lookup"
	"sluice/pkg/postgres"
)

// source works on the look-ups of one source.
type source struct {
	owner    *Reconciler
	name     string
	provider string
	log      *slog.Logger
	breaker  breaker
	// pace is the account's, of all endpoints together: the least of their rates.
	pace *pace
	// accounts are by the endpoint's name; fallback stands for an endpoint that is no
	// longer configured.
	accounts map[string]*account
	fallback *account
	refused  atomic.Bool // the last answer was; it is said once
}

func newSource(r *Reconciler, name, provider string) *source {
	return &source{owner: r, name: name, provider: provider, log: r.log.With("source", name, "provider", provider),
		breaker: breaker{after: r.cfg.BreakAfter, lasting: r.cfg.BreakFor}, accounts: map[string]*account{}}
}

// add adds an endpoint of the source.
func (s *source) add(a *account) {
	s.accounts[a.endpoint.Name] = a
	if s.fallback == nil {
		s.fallback = a
	}
	slowest := a.endpoint.Lookup.Rate
	for _, other := range s.accounts {
		slowest = min(slowest, other.endpoint.Lookup.Rate)
	}
	s.pace = newPace(s.owner.deps.Store, s.name, slowest)
	for _, a := range s.accounts {
		a.pace = s.pace
	}
}

// lease is how long claimed look-ups are this reconciler's: a queue's worth of pace,
// and the requests of the last one.
func (s *source) lease() time.Duration {
	return queueTime + maxRequests*s.owner.cfg.RequestTimeout + s.owner.cfg.DrainTimeout
}

// queueTime is how long a claimed look-up waits for its turn at most, by the pace.
const queueTime = 30 * time.Second

// queue is how many look-ups of a lane may wait: no more than it gets through in
// queueTime, at maxRequests each.
func (s *source) queue(l lane) int {
	return max(1, min(4*s.owner.cfg.Concurrency, int(s.pace.share(l)*queueTime.Seconds()/maxRequests)))
}

// run asks in every lane, and looks for what hangs, until ctx ends; then it gives back
// what is left.
func (s *source) run(ctx context.Context) {
	var running sync.WaitGroup
	for l := hints; l <= retries; l++ {
		running.Go(func() { s.work(ctx, l) })
	}
	if s.fallback.endpoint.Lookup.Pending > 0 {
		running.Go(func() { s.watchOrders(ctx) })
	}
	running.Go(func() { s.watchEvents(ctx) })
	running.Wait()
}

// work claims and asks in one lane until ctx ends.
func (s *source) work(ctx context.Context, l lane) {
	queue := make(chan postgres.Lookup, s.queue(l))
	var askers sync.WaitGroup
	for range min(s.owner.cfg.Concurrency, cap(queue)) {
		askers.Go(func() {
			for l := range queue {
				s.settle(ctx, l)
			}
		})
	}
	s.repeat(ctx, "look-ups are not claimed", func() (time.Duration, error) { return s.fill(ctx, l, queue) })
	close(queue)
	askers.Wait()
}

// repeat does something again and again until ctx ends, each time after the wait that
// it asked for, or longer and longer after errors.
func (s *source) repeat(ctx context.Context, trouble string, do func() (wait time.Duration, err error)) {
	for failures := 0; ctx.Err() == nil; {
		wait, err := do()
		switch {
		case err == nil:
			failures = 0
		case ctx.Err() == nil:
			failures++
			wait = backoff(s.owner.cfg.PollInterval, time.Minute, failures)
			s.log.Error(trouble, "error", err)
		}
		daemon.Pause(ctx, wait)
	}
}

// fill claims as many look-ups as the queue takes, and says when to come again.
func (s *source) fill(ctx context.Context, l lane, queue chan<- postgres.Lookup) (wait time.Duration, err error) {
	now := s.owner.deps.Now()
	if until, open := s.breaker.open(now); open {
		return max(min(until.Sub(now), time.Second), s.owner.cfg.PollInterval/10), nil
	}
	free := cap(queue) - len(queue)
	if free == 0 || free < cap(queue)/2 {
		return 10 * time.Millisecond, nil
	}
	claimed, more, err := s.owner.deps.Store.ClaimLookups(ctx, now, postgres.LookupClaim{Owner: s.owner.deps.Owner, Source: s.name,
		Lane: postgres.Lane(l), Limit: free, Lease: s.lease()})
	if err != nil {
		return 0, err
	}
	for _, l := range claimed {
		queue <- l // there is room: nobody else sends
	}
	if !more {
		return s.owner.cfg.PollInterval, nil
	}
	return 0, nil
}

// settle asks about one look-up and writes what came of it. Once ctx has ended, it
// only gives the look-up back.
func (s *source) settle(ctx context.Context, l postgres.Lookup) {
	cfg, now := s.owner.cfg, s.owner.deps.Now
	if ctx.Err() != nil {
		s.giveBack(ctx, l, now(), postgres.LookupUnasked)
		return
	}
	left := l.BeganAt.Add(s.lease() - cfg.RequestTimeout).Sub(now())
	if left <= 0 {
		return // another reconciler may have it by now
	}
	if wait, ok := s.breaker.admit(now()); !ok {
		s.giveBack(ctx, l, now().Add(wait+backoff(cfg.BackoffBase, cfg.BackoffMax, 1)), postgres.LookupUnavailable)
		return
	}
	a := s.accounts[l.Endpoint]
	if a == nil {
		a = s.fallback
	}
	limited, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	step, err := a.ask(limited, lookup.Target(l.Target), request{lane: lane(l.Lane), now: now, seen: s.owner.metrics.request(s.provider)})
	if err != nil {
		s.breaker.released()
		s.unasked(ctx, l, err)
		return
	}
	s.judge(ctx, step)
	s.conclude(ctx, a, l, step)
}

// unasked gives back a look-up that the account was not asked about.
func (s *source) unasked(ctx context.Context, l postgres.Lookup, err error) {
	cfg, now := s.owner.cfg, s.owner.deps.Now()
	var quiet quietError
	if !errors.As(err, &quiet) {
		s.giveBack(ctx, l, now, postgres.LookupUnasked)
		return
	}
	s.breaker.quiet(quiet.until)
	s.giveBack(ctx, l, later(now, quiet.until).Add(backoff(cfg.BackoffBase, cfg.BackoffMax, 1)), postgres.LookupUnavailable)
}

// judge tells the breaker, and people, how the provider is.
func (s *source) judge(ctx context.Context, step lookup.Step) {
	now := s.owner.deps.Now()
	if step.RetryAfter > 0 {
		s.pace.quiet(now.Add(step.RetryAfter))
		if err := s.owner.deps.Store.KeepQuiet(ctx, s.name, step.RetryAfter); err != nil && ctx.Err() == nil {
			s.log.Warn("the other reconcilers do not know that the provider asks for quiet", "error", err)
		}
	}
	failed := step.Outcome == lookup.Unavailable || step.Outcome == lookup.Refused
	if s.breaker.ended(now, failed, step.RetryAfter) {
		if failed {
			s.log.Warn("the provider does not answer: requests are stopped for a while", "why", step.Why, "for", s.owner.cfg.BreakFor)
		} else {
			s.log.Info("the provider answers again")
		}
	}
	if refused := step.Outcome == lookup.Refused; s.refused.Swap(refused) != refused && refused {
		s.log.Error("the provider refuses the account: check the credentials and settings of the endpoint's look-up", "why", step.Why)
	}
	_, open := s.breaker.open(now)
	s.owner.metrics.breaker(s.name, open)
}

var problems = map[lookup.Outcome]postgres.LookupProblem{
	lookup.Unknown:     postgres.LookupUnknown,
	lookup.Unavailable: postgres.LookupUnavailable,
	lookup.Refused:     postgres.LookupRefused,
	lookup.Unreadable:  postgres.LookupUnreadable,
}

// conclude answers the look-up once all that was learnt is in Kafka, or gives it back.
func (s *source) conclude(ctx context.Context, a *account, l postgres.Lookup, step lookup.Step) {
	cfg, now := s.owner.cfg, s.owner.deps.Now()
	base, longest := cfg.BackoffBase, cfg.BackoffMax
	ended := func(outcome string) { s.owner.metrics.ended(s.provider, outcome) }
	retry := func(problem postgres.LookupProblem, why string) {
		ended(string(problem))
		s.log.Debug("a look-up brought no answer", "problem", problem, "why", why, "attempt", l.Attempt)
		wait := max(backoff(base, longest, l.Attempt), step.RetryAfter)
		if silent := problem == postgres.LookupUnknown || problem == postgres.LookupUndecided; silent && l.Hanging {
			if now.Sub(l.ArmedAt) > askFor {
				s.giveUp(ctx, l)
				return
			}
			wait = max(pause(a.endpoint.Lookup.Pending, now.Sub(l.ArmedAt)), step.RetryAfter)
		}
		s.giveBack(ctx, l, now.Add(wait), problem)
	}
	if step.Outcome == lookup.Unknown && l.Payment != "" && l.Attempt == doubtAfter {
		s.doubt(ctx, l)
	}
	if step.Outcome == lookup.Unknown && !l.Hanging {
		base, longest = 4*base, 36*longest // mostly forged, and it will not begin to be
	}
	if step.Outcome != lookup.Answered && step.Outcome != lookup.Pointless {
		retry(problems[step.Outcome], step.Why)
		return
	}
	if step.Outcome == lookup.Answered && !decided(step.Facts) && (l.Hanging || now.Sub(l.ArmedAt) < cfg.Patience) {
		retry(postgres.LookupUndecided, "nothing is decided yet")
		return
	}
	list, said, err := records(a.endpoint, step.Facts, now)
	if err != nil {
		retry(postgres.LookupUnreadable, err.Error())
		return
	}
	// From here on the end of ctx is no reason to stop: what is written would only be
	// asked for again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.DrainTimeout)
	defer cancel()
	if err := s.produce(ctx, list); err != nil {
		s.log.Error("what a provider answered is not in the raw topic yet", "error", err)
		retry(postgres.LookupUndelivered, err.Error())
		return
	}
	settled, err := s.answer(ctx, a, l, step, said)
	if err != nil {
		// Its lease ends by itself; asking again writes the same events.
		s.log.Error("a look-up is answered, but not marked so", "error", err)
		ended("unmarked")
		return
	}
	s.owner.metrics.learnt(s.provider, step.Facts)
	ended(step.Outcome.String())
	s.log.Debug("a look-up is answered", "facts", len(list), "hints", settled)
}

// answer marks a look-up as answered. A payment or a refund that is still under way is
// nothing that a hint need wait for, but it hangs.
func (s *source) answer(ctx context.Context, a *account, l postgres.Lookup, step lookup.Step, said []postgres.Said) (settled int, err error) {
	store, now := s.owner.deps.Store, s.owner.deps.Now()
	refund := underWay(said)
	// That an answer does not tell of a refund says nothing of it.
	hangs := (refund != nil || l.Refund) && a.endpoint.Lookup.Pending > 0 && (!l.Hanging || now.Sub(l.ArmedAt) <= askFor)
	if (decided(step.Facts) || len(step.Facts) == 0) && !hangs {
		return store.AnswerLookup(ctx, now, l, said...)
	}
	u := postgres.Undecided{At: now.Add(pause(a.endpoint.Lookup.Pending, now.Sub(l.ArmedAt))), ReviewAt: now.Add(s.owner.cfg.HangingDeadline), Refund: refund}
	if l.Hanging {
		u.ReviewAt = l.ArmedAt.Add(s.owner.cfg.HangingDeadline)
		return store.AnswerHanging(ctx, now, l, u, said...)
	}
	for _, f := range step.Facts {
		if f.Order != "" {
			u.Orders = append(u.Orders, f.Order)
		}
	}
	return store.AnswerUndecided(ctx, now, l, u, said...)
}

// doubtAfter is how often a provider must say that it knows no such payment before it
// may contradict us: some do not know at once what they notify about.
const doubtAfter = 3

// doubt notes that the provider knows nothing of a payment.
func (s *source) doubt(ctx context.Context, l postgres.Lookup) {
	if err := s.owner.deps.Store.DoubtPayment(ctx, s.owner.deps.Now(), l); err != nil && ctx.Err() == nil {
		s.log.Warn("that the provider knows no such payment is not compared", "error", err)
	}
}

// giveBack returns a look-up, to be asked about at a time.
func (s *source) giveBack(ctx context.Context, l postgres.Lookup, at time.Time, problem postgres.LookupProblem) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.owner.cfg.DrainTimeout)
	defer cancel()
	if err := s.owner.deps.Store.RetryLookup(ctx, l, at, problem); err != nil {
		s.log.Warn("a look-up is not given back: its lease ends by itself", "error", err)
	}
}

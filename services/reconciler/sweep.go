package reconciler

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/lookup"
	"sluice/pkg/postgres"
)

// sweeper goes through the lists of one source's provider for what never arrived.
type sweeper struct {
	*source
	account *account
	fails   int
	refused atomic.Bool // the last list was; it is said once
}

// sweeper is the source's; nil if no endpoint of it is swept.
func (s *source) sweeper() *sweeper {
	var names []string
	for name, a := range s.accounts {
		if a.endpoint.Lookup.Sweep != nil {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	// They receive for one account: any will do, and the same one on every reconciler.
	return &sweeper{source: s, account: s.accounts[slices.Min(names)]}
}

// maxPages is the most pages that one reconciler goes through at a time; where it
// stops, the next one goes on. 10,000 of them are a million of what is listed.
const maxPages = 10_000

// run sweeps whenever a sweep of the source is due and nobody else is at it.
func (s *sweeper) run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := 10 * s.owner.cfg.PollInterval
		if _, open := s.breaker.open(s.owner.deps.Now()); !open {
			switch err := s.sweep(ctx); {
			case err == nil || ctx.Err() != nil:
			case errors.Is(err, postgres.ErrSweepOver):
				s.log.Info("another reconciler goes on with the sweep")
			default:
				s.log.Error("the provider's lists are not gone through", "error", err)
				wait = backoff(wait, time.Minute, 3)
			}
		}
		daemon.Pause(ctx, wait)
	}
}

func (s *sweeper) terms() postgres.SweepTerms {
	e, cfg := s.account.endpoint, s.owner.cfg
	listing, _ := s.account.listing()
	return postgres.SweepTerms{Source: s.name, Every: e.Lookup.Sweep.Every, Back: e.Lookup.Sweep.Back, Kept: listing.Kept,
		Delay: cfg.SweepDelay, Lease: queueTime + 2*cfg.RequestTimeout + cfg.DrainTimeout}
}

// sweep carries the source's sweep on as far as it goes, if there is one.
func (s *sweeper) sweep(ctx context.Context) error {
	now := s.owner.deps.Now
	w, err := s.owner.deps.Store.ClaimSweep(ctx, now(), s.owner.deps.Owner, s.terms())
	if w == nil || err != nil {
		return err
	}
	if w.Lost > 0 {
		s.log.Error("the provider lists no more what happened in a part of the time: whether webhooks of it were lost cannot be said",
			"since", w.Since.Add(-w.Lost), "until", w.Since)
	}
	began, sum, been := now(), tally{}, places{}
	for range maxPages {
		page, err := s.page(ctx, w)
		page = been.judge(w.Page, page)
		if err != nil || page.Outcome != lookup.Answered {
			return s.interrupted(ctx, w, page, err)
		}
		s.fails = 0
		found, err := s.account.compare(ctx, s.owner.deps.Store, page, now())
		if err != nil {
			return errors.Join(err, s.giveBack(ctx, w, now(), false))
		}
		if err := s.settlePage(ctx, w, page, found); err != nil {
			return err
		}
		sum.add(found)
		s.owner.metrics.swept(s.provider, found.tally)
		if page.Next == "" {
			s.log.Info("the provider's lists were gone through", "since", w.Since, "until", w.Until, "listed", sum.listed(), "missing", sum.missing, "took", now().Sub(began))
			return nil
		}
	}
	return s.giveBack(ctx, w, now(), false)
}

// places are those of a list that were asked for in one go.
type places map[string]bool

// judge takes a page for no answer that leads back to where somebody has been.
func (p places) judge(at string, page lookup.Page) lookup.Page {
	if p[at] = true; p[page.Next] && page.Next != "" && page.Outcome == lookup.Answered {
		return lookup.Page{Outcome: lookup.Unreadable, Why: "the pages of the list lead in a circle"}
	}
	return page
}

// page asks for the sweep's next page.
func (s *sweeper) page(ctx context.Context, w *postgres.Sweep) (lookup.Page, error) {
	now := s.owner.deps.Now
	if wait, ok := s.breaker.admit(now()); !ok {
		return lookup.Page{}, quietError{now().Add(wait)}
	}
	page, err := s.account.list(ctx, lookup.Span{Since: w.Since, Until: w.Until}, w.Page, request{lane: sweeps, now: now, seen: s.owner.metrics.request(s.provider)})
	if err != nil {
		s.breaker.released()
		return page, err
	}
	// That it does not list, or not to this account, says nothing of its look-ups.
	outcome := page.Outcome
	if outcome != lookup.Unavailable {
		outcome = lookup.Answered
	}
	s.judge(ctx, lookup.Step{Outcome: outcome, RetryAfter: page.RetryAfter, Why: page.Why})
	if refused := page.Outcome == lookup.Refused; s.refused.Swap(refused) != refused && refused {
		s.log.Error("the provider does not list to this account: give its credential the right to, or switch lookup.sweep off", "why", page.Why)
	}
	return page, nil
}

// interrupted gives a sweep back that got no answer. Silence decides nothing: it goes on
// where it was, or from its beginning if the place in the list may be worth nothing.
func (s *sweeper) interrupted(ctx context.Context, w *postgres.Sweep, page lookup.Page, err error) error {
	cfg, now := s.owner.cfg, s.owner.deps.Now()
	var quiet quietError
	switch {
	case errors.As(err, &quiet):
		return s.giveBack(ctx, w, quiet.until, false)
	case err != nil:
		return s.giveBack(ctx, w, now, false) // ctx has ended
	}
	s.fails++
	s.owner.metrics.swept(s.provider, tally{unanswered: 1})
	anew := w.Page != "" && page.Outcome != lookup.Unavailable
	wait := max(backoff(cfg.BackoffBase, cfg.BackoffMax, s.fails), page.RetryAfter)
	s.log.Warn("a list brought no answer", "outcome", page.Outcome.String(), "why", page.Why, "again_in", wait, "from_the_beginning", anew)
	return s.giveBack(ctx, w, now.Add(wait), anew)
}

func (s *sweeper) giveBack(ctx context.Context, w *postgres.Sweep, at time.Time, anew bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.owner.cfg.DrainTimeout)
	defer cancel()
	return s.owner.deps.Store.ReturnSweep(ctx, w, at, anew)
}

// settlePage writes what the page had and we had not. From here on the end of ctx is no
// reason to stop: what is written would only be asked for again.
func (s *sweeper) settlePage(ctx context.Context, w *postgres.Sweep, page lookup.Page, f findings) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.owner.cfg.DrainTimeout)
	defer cancel()
	if f.missing > 0 {
		s.log.Error("webhooks were lost: the provider lists what never arrived; it is made up for", "missing", f.missing,
			"first", f.first, "span_since", w.Since, "span_until", w.Until)
	}
	if f.differs > 0 {
		s.log.Warn("the provider lists other amounts than are known here; see sluice drift", "payments", f.differs, "first", f.firstDiffering)
	}
	if err := s.produce(ctx, f.records); err != nil {
		return errors.Join(err, s.giveBack(ctx, w, s.owner.deps.Now().Add(s.owner.cfg.BackoffBase), false))
	}
	targets := make([]postgres.Target, len(f.targets))
	for i, t := range f.targets {
		targets[i] = postgres.Target(t)
	}
	return s.owner.deps.Store.AdvanceSweep(ctx, s.owner.deps.Now(), w, page.Next, s.account.endpoint.Name, targets)
}

// listing is how the account's provider lists.
func (a *account) listing() (lookup.Listing, bool) {
	s, ok := a.keys[0].lookup.Sweep()
	return s.Listing, ok
}

// list asks for one page of what happened. An error means that it was not asked for:
// ctx has ended, or the provider asked for quiet (quietError).
func (a *account) list(ctx context.Context, span lookup.Span, at string, r request) (page lookup.Page, err error) {
	first := int(a.taken.Load())
	for i := range a.keys {
		n := (first + i) % len(a.keys)
		if page, err = a.listWith(ctx, a.keys[n], span, at, r); err != nil || page.Outcome != lookup.Refused {
			a.taken.Store(int32(n))
			return page, err
		}
	}
	return page, nil
}

func (a *account) listWith(ctx context.Context, k *key, span lookup.Span, at string, r request) (lookup.Page, error) {
	s, ok := k.lookup.Sweep()
	if !ok {
		return lookup.Page{Outcome: lookup.Pointless, Why: "the provider does not list what happened"}, nil
	}
	token, end, err := a.currentToken(ctx, k, r)
	if err != nil || end.Outcome != lookup.Answered {
		return lookup.Page{Outcome: end.Outcome, RetryAfter: end.RetryAfter, Why: end.Why}, err
	}
	answer, err := a.do(ctx, s.Ask(span, at, token, r.now()), r)
	if err != nil {
		return lookup.Page{}, err
	}
	page := s.Read(span, at, answer, r.now())
	if page.Outcome == lookup.Refused {
		k.forget(token)
	}
	return page, nil
}

// tally counts what became of what was listed.
type tally struct {
	known, missing, undecided, differs, unread, otherMode int
	unanswered                                            int // pages
}

func (t *tally) add(f findings) {
	t.known, t.missing, t.undecided = t.known+f.known, t.missing+f.missing, t.undecided+f.undecided
	t.differs, t.unread, t.otherMode = t.differs+f.differs, t.unread+f.unread, t.otherMode+f.otherMode
}

func (t tally) listed() int {
	return t.known + t.missing + t.undecided + t.differs + t.unread + t.otherMode
}

func (t tally) counts() map[string]int {
	return map[string]int{"known": t.known, "missing": t.missing, "undecided": t.undecided, "differs": t.differs,
		"unreadable": t.unread, "other_mode": t.otherMode, "unanswered": t.unanswered}
}

// first names the first few of many.
func first(names []string, name string) []string {
	if len(names) < 5 {
		names = append(names, cmp.Or(name, "?"))
	}
	return names
}

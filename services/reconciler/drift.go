package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/pkg/lookup"
	"sluice/pkg/postgres"
	"sluice/pkg/webhook"
)

// Unasked is a payment, or all of a source, that could not be compared.
type Unasked struct {
	Source  string `json:"source"`
	Payment string `json:"payment,omitempty"` // empty: all
	Why     string `json:"why"`
}

// Drift is how a source's provider and we differ on a span.
type Drift struct {
	Source   string `json:"source"`
	Provider string `json:"provider"`
	// Listed is how many things the provider lists, Asked how many look-ups were made.
	Listed int `json:"listed"`
	Asked  int `json:"asked"`
	// Payments is how many were compared.
	Payments    int          `json:"payments"`
	Differences []Difference `json:"differences"`
	NotCompared []Unasked    `json:"not_compared"`
}

// Sources are the names of those whose providers can be asked.
func (r *Reconciler) Sources() (names []string) {
	for _, s := range r.sources {
		names = append(names, s.name)
	}
	return names
}

// Progress is told how much of the work is known and done; it may be called often.
type Progress func(done, total int)

// driftAttempts is how often a list or a payment without an answer is asked for again.
const driftAttempts = 4

// Drift compares what a source's provider says of a span with what we know. Where the
// provider lists, its list comes first, and look-ups for those payments of ours which
// the list does not confirm; else look-ups alone. It keeps to the account's rate,
// shared with every reconciler, and changes nothing. What brought no answer is not
// compared: silence decides nothing. An error is ours, not the provider's.
func (r *Reconciler) Drift(ctx context.Context, name string, span lookup.Span, progress Progress) (Drift, error) {
	i := slices.IndexFunc(r.sources, func(s *source) bool { return s.name == name })
	if i < 0 {
		return Drift{}, fmt.Errorf("no endpoint of source %q has a look-up", name)
	}
	s := r.sources[i]
	d := &comparison{source: s, account: s.fallback, span: span, progress: progress, Drift: Drift{Source: name, Provider: s.provider, Differences: []Difference{}, NotCompared: []Unasked{}}, theirs: map[string][]webhook.Reading{}}
	if w := s.sweeper(); w != nil {
		d.account = w.account
	}
	if err := d.lists(ctx); err != nil {
		return Drift{}, err
	}
	if err := d.ours(ctx); err != nil {
		return Drift{}, err
	}
	slices.SortStableFunc(d.Differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Payment, b.Payment), cmp.Compare(a.Kind, b.Kind))
	})
	return d.Drift, nil
}

// comparison is one comparison under way.
type comparison struct {
	Drift
	*source
	account  *account
	span     lookup.Span
	progress Progress
	// theirs are the facts that the lists state, by payment.
	theirs map[string][]webhook.Reading
	seen   map[string]bool
}

func (d *comparison) request() request {
	return request{lane: sweeps, now: d.owner.deps.Now, seen: d.owner.metrics.request(d.provider)}
}

// attempts asks until there is an answer or none can be hoped for.
func (d *comparison) attempts(ctx context.Context, ask func() (lookup.Outcome, time.Duration, error)) error {
	for n := 1; ; n++ {
		outcome, quiet, err := ask()
		var q quietError
		if errors.As(err, &q) {
			quiet, err = max(time.Millisecond, q.until.Sub(d.owner.deps.Now())), nil
			outcome = lookup.Unavailable
		}
		if err != nil || outcome != lookup.Unavailable || n == driftAttempts {
			return err
		}
		if quiet > 0 {
			d.judgeQuiet(ctx, quiet)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(max(quiet, backoff(d.owner.cfg.BackoffBase, d.owner.cfg.BackoffMax, n))):
		}
	}
}

// judgeQuiet tells every reconciler that the provider wants to be left alone.
func (d *comparison) judgeQuiet(ctx context.Context, lasting time.Duration) {
	if err := d.owner.deps.Store.KeepQuiet(ctx, d.name, lasting); err != nil && ctx.Err() == nil {
		d.log.Warn("the other reconcilers do not know that the provider asks for quiet", "error", err)
	}
}

// lists goes through what the provider lists of the span.
func (d *comparison) lists(ctx context.Context) error {
	if _, ok := d.account.listing(); !ok {
		return nil
	}
	been := places{}
	for at := ""; ; {
		var page lookup.Page
		err := d.attempts(ctx, func() (_ lookup.Outcome, _ time.Duration, err error) {
			page, err = d.account.list(ctx, d.span, at, d.request())
			return page.Outcome, page.RetryAfter, err
		})
		page = been.judge(at, page)
		switch {
		case err != nil:
			return err
		case page.Outcome != lookup.Answered:
			d.NotCompared = append(d.NotCompared, Unasked{Source: d.name, Why: "the provider's list: " + page.Why})
			return nil
		}
		if err := d.listed(ctx, page); err != nil {
			return err
		}
		if at = page.Next; at == "" {
			return nil
		}
	}
}

func (d *comparison) listed(ctx context.Context, page lookup.Page) error {
	items, t := readItems(d.account.endpoint, page.Items, d.owner.deps.Now())
	d.Listed += len(items) + t.listed() + page.Unread
	if n := t.unread + page.Unread; n > 0 {
		d.NotCompared = append(d.NotCompared, Unasked{Source: d.name, Why: fmt.Sprintf("%d things in the provider's list cannot be read", n)})
	}
	told, err := d.owner.deps.Store.Told(ctx, question(d.name, items))
	if err != nil {
		return err
	}
	for _, l := range items {
		for _, f := range l.facts {
			key := cmp.Or(f.Payment, f.Order)
			d.theirs[key] = append(d.theirs[key], f)
		}
		if err := d.weigh(l.facts, told, l); err != nil {
			return err
		}
	}
	d.progress(d.Listed, 0)
	return nil
}

// chunk is how many payments of ours are read at a time.
const chunk = 200

// ours asks about those payments of ours which no list confirms.
func (d *comparison) ours(ctx context.Context) error {
	payments, err := d.owner.deps.Store.PaymentsOfSpan(ctx, d.name, d.span.Since, d.span.Until)
	if err != nil {
		return err
	}
	compared := map[string]bool{}
	for payment := range d.theirs {
		compared[payment] = true
	}
	for i := 0; i < len(payments); i += chunk {
		some := payments[i:min(i+chunk, len(payments))]
		told, err := d.owner.deps.Store.Told(ctx, postgres.Question{Source: d.name, Payments: some})
		if err != nil {
			return err
		}
		for n, payment := range some {
			if err := d.payment(ctx, payment, told, compared); err != nil {
				return err
			}
			d.progress(i+n+1, len(payments))
		}
	}
	d.Payments = len(compared)
	return nil
}

// payment compares one payment of ours, unless the lists confirm it.
func (d *comparison) payment(ctx context.Context, payment string, told postgres.Told, compared map[string]bool) error {
	mine := postgres.Told{}
	for _, f := range told.Facts {
		if f.Payment == payment {
			mine.Facts = append(mine.Facts, f)
		}
	}
	if confirmed(d.theirs[payment], mine, d.span) {
		compared[payment] = true
		return nil
	}
	t := target(payment, mine)
	var step lookup.Step
	err := d.attempts(ctx, func() (_ lookup.Outcome, _ time.Duration, err error) {
		step, err = d.account.ask(ctx, t, d.request())
		return step.Outcome, step.RetryAfter, err
	})
	if err != nil {
		return err
	}
	d.Asked++
	switch step.Outcome {
	case lookup.Answered:
	case lookup.Unknown:
		compared[payment] = true
		d.add(Difference{Kind: MissingThere, Source: d.name, Order: t.Order, Payment: payment, Here: all(mine)})
		return nil
	default:
		d.NotCompared = append(d.NotCompared, Unasked{Source: d.name, Payment: payment, Why: step.Why})
		return nil
	}
	compared[payment] = true
	facts := decisive(step.Facts)
	if err := d.weigh(facts, mine, listed{}); err != nil {
		return err
	}
	d.weighOurs(t.Order, payment, facts, mine)
	return nil
}

// Feed writes what makes up for differences into the raw topic, as events of their
// source, and returns how many once Kafka has them all.
func (r *Reconciler) Feed(ctx context.Context, differences []Difference) (n int, err error) {
	for _, d := range differences {
		i := slices.IndexFunc(r.sources, func(s *source) bool { return s.name == d.Source })
		if i < 0 || !d.Feedable() {
			continue
		}
		if err := r.sources[i].produce(ctx, d.records); err != nil {
			return n, err
		}
		n += len(d.records)
	}
	return n, nil
}

package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/pkg/kafka"
	"sluice/pkg/lookup"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/webhook"
)

// DriftKind is how a provider's truth and ours differ.
type DriftKind string

// How they can.
const (
	MissingHere  DriftKind = "missing_here"  // the provider states what we were never told
	MissingThere DriftKind = "missing_there" // the provider knows no such payment
	OtherAmount  DriftKind = "other_amount"  // both state it, with other money
	OtherStatus  DriftKind = "other_status"  // we say that it was paid, the provider does not
	OtherRefunds DriftKind = "other_refunds" // we say that more was refunded
	NotApplied   DriftKind = "not_applied"   // we were told, and it is held
)

// Stated is one fact as one side states it.
type Stated struct {
	Fact     order.Kind `json:"fact"`
	Object   string     `json:"object,omitempty"`
	Amount   int64      `json:"amount"` // minor units of Currency
	Currency string     `json:"currency,omitempty"`
	// Verdict and Reason say what became of it here.
	Verdict string `json:"verdict,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// Difference is one thing in which they differ, with what each side says.
type Difference struct {
	Kind    DriftKind `json:"kind"`
	Source  string    `json:"source"`
	Order   string    `json:"order,omitempty"`
	Payment string    `json:"payment"`
	Event   string    `json:"event,omitempty"` // the provider's, where it lists them
	There   []Stated  `json:"there"`
	Here    []Stated  `json:"here"`

	records []kafka.Record // what makes up for it
}

// Feedable says whether feeding makes up for it.
func (d Difference) Feedable() bool { return len(d.records) > 0 }

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
	for at := ""; ; {
		var page lookup.Page
		err := d.attempts(ctx, func() (_ lookup.Outcome, _ time.Duration, err error) {
			page, err = d.account.list(ctx, d.span, at, d.request())
			return page.Outcome, page.RetryAfter, err
		})
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
		var records []kafka.Record
		if l.record != nil {
			records = []kafka.Record{*l.record}
		}
		if err := d.hold(l.facts, told, l, records); err != nil {
			return err
		}
	}
	d.progress(d.Listed, 0)
	return nil
}

// hold holds what the provider states against what we were told.
func (d *comparison) hold(facts []webhook.Reading, told postgres.Told, l listed, records []kafka.Record) error {
	for _, f := range facts {
		if l.record != nil && f.Currency == "" && told.Events[l.key.Hash] {
			continue // a hint that came in; its look-up is another's business
		}
		kind := DriftKind("")
		switch set := about(told, f); lookup.Knows(set, f) {
		case lookup.Missing:
			if (f.Fact == order.KindFailed || f.Fact == order.KindCancelled) && lookup.Knows(set, webhook.Reading{Fact: order.KindPaid, Payment: f.Payment}) != lookup.Missing {
				continue // that it was paid here is asked about by itself
			}
			kind = MissingHere
		case lookup.Differs:
			kind = OtherAmount
		case lookup.Known:
			if held(told, f) {
				kind = NotApplied
			}
		}
		if kind == "" {
			continue
		}
		out := Difference{Kind: kind, Source: d.name, Order: f.Order, Payment: f.Payment, There: stated(f), Here: here(told, f)}
		if l.record != nil {
			out.Event = l.id
		}
		if kind == MissingHere {
			out.records = records
			if l.record == nil {
				var err error
				if out.records, err = d.looked(f); err != nil {
					return err
				}
			}
		}
		if out.Order == "" {
			out.Order = orderOf(told, f)
		}
		d.add(out)
	}
	return nil
}

// looked is a fact of an object as a look-up of it would have been written.
func (d *comparison) looked(f webhook.Reading) ([]kafka.Record, error) {
	if f.Subject == "" {
		f.Subject = cmp.Or(f.Payment, f.Order)
	}
	out, _, err := records(d.account.endpoint, []webhook.Reading{f}, d.owner.deps.Now())
	return out, err
}

// add adds a difference once, however often it was met.
func (d *comparison) add(x Difference) {
	if d.seen == nil {
		d.seen = map[string]bool{}
	}
	key := fmt.Sprintf("%s %s %s %v", x.Kind, x.Order, x.Payment, x.There)
	if !d.seen[key] {
		d.seen[key] = true
		d.Differences = append(d.Differences, x)
	}
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
	if err := d.hold(facts, mine, listed{}, nil); err != nil {
		return err
	}
	d.back(t.Order, payment, facts, mine)
	return nil
}

// back holds what we say of a payment against all that the provider says of it.
func (d *comparison) back(orderID, payment string, theirs []webhook.Reading, mine postgres.Told) {
	var set []order.Entry
	for _, f := range theirs {
		set = append(set, order.Entry{Kind: f.Fact, Payment: f.Payment, Object: f.Object, Amount: f.Amount, Currency: f.Currency})
	}
	x := Difference{Source: d.name, Order: orderID, Payment: payment, Here: all(mine)}
	for _, f := range theirs {
		x.There = append(x.There, stated(f)...)
	}
	for _, f := range mine.Facts {
		if f.Kind == order.KindPaid && f.Verdict == order.Applied && lookup.Knows(set, webhook.Reading{Fact: f.Kind, Payment: payment}) == lookup.Missing {
			x.Kind = OtherStatus
			d.add(x)
			return
		}
	}
	ours, _ := lookup.Refunded(mine.Entries(), payment)
	if said, _ := lookup.Refunded(set, payment); ours > said {
		x.Kind = OtherRefunds
		d.add(x)
	}
}

// confirmed says whether the lists state all of what we say of a payment in a span.
func confirmed(theirs []webhook.Reading, mine postgres.Told, span lookup.Span) bool {
	var set []order.Entry
	for _, f := range theirs {
		set = append(set, order.Entry{Kind: f.Fact, Payment: f.Payment, Object: f.Object, Amount: f.Amount, Currency: f.Currency})
	}
	told := 0
	for _, f := range mine.Facts {
		at := time.UnixMilli(f.Time)
		if f.Time <= 0 {
			at = f.AppendedAt
		}
		if !span.Contains(at) || f.Kind == order.KindPending || f.Kind == order.KindNone {
			continue
		}
		told++
		if lookup.Knows(set, webhook.Reading{Fact: f.Kind, Payment: f.Payment, Object: f.Object, Amount: f.Amount, Currency: f.Currency}) == lookup.Missing {
			return false
		}
	}
	return told > 0 || len(theirs) > 0
}

// target is how a payment of ours is asked about.
func target(payment string, mine postgres.Told) lookup.Target {
	t := lookup.Target{Object: payment, Payment: payment}
	for _, f := range mine.Facts {
		t.Order = cmp.Or(t.Order, f.OrderID)
		if f.Kind == order.KindPaid || t.Currency == "" {
			t.Amount, t.Currency = f.Amount, f.Currency
		}
		if t.Time.IsZero() && f.Time > 0 {
			t.Time = time.UnixMilli(f.Time)
		}
	}
	return t
}

func decisive(facts []webhook.Reading) (out []webhook.Reading) {
	for _, f := range facts {
		if f.Fact != order.KindPending && f.Fact != order.KindNone {
			out = append(out, f)
		}
	}
	return out
}

// held says whether a fact that we know is held, wherever it was told.
func held(told postgres.Told, f webhook.Reading) bool {
	some := false
	for _, e := range told.Facts {
		if e.Kind == f.Fact && e.Payment == f.Payment && (f.Object == "" || e.Object == f.Object) {
			if e.Verdict != order.Held {
				return false
			}
			some = true
		}
	}
	return some
}

func orderOf(told postgres.Told, f webhook.Reading) string {
	for _, e := range told.Facts {
		if f.Payment != "" && e.Payment == f.Payment && e.OrderID != "" {
			return e.OrderID
		}
	}
	return ""
}

func stated(f webhook.Reading) []Stated {
	return []Stated{{Fact: f.Fact, Object: f.Object, Amount: f.Amount, Currency: f.Currency}}
}

// here is what we say of what a fact is about.
func here(told postgres.Told, f webhook.Reading) []Stated {
	var mine postgres.Told
	for _, e := range told.Facts {
		if f.Payment != "" && e.Payment == f.Payment || f.Order != "" && e.OrderID == f.Order {
			mine.Facts = append(mine.Facts, e)
		}
	}
	return all(mine)
}

func all(told postgres.Told) (out []Stated) {
	for _, e := range told.Facts {
		s := Stated{Fact: e.Kind, Object: e.Object, Amount: e.Amount, Currency: e.Currency, Verdict: e.Verdict.String()}
		if e.Verdict == order.Held {
			s.Reason = e.Reason.String()
		}
		out = append(out, s)
	}
	return out
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

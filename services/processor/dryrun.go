package processor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// DryRunDeps are what a dry run works with.
type DryRunDeps struct {
	// Store knows the effects, if the processor's does (WithEffects). A role that may
	// read and nothing else is enough.
	Store     *postgres.Store
	Endpoints endpoint.Set
	Mode      event.Mode
	Log       *slog.Logger
	Now       func() time.Time
}

// DryRunOptions say how records would be applied.
type DryRunOptions struct {
	// TopicID is the raw topic's; records that Add is given may be of another, that was
	// there before.
	TopicID [16]byte
	// Selected: the records are a selection, and every one of them counts as met before;
	// else those do that lie below what was applied of their partition, as in a replay.
	Selected bool
	// Anew, if not nil, has the bytes of known events read anew, as Again does. The
	// records are then a selection.
	Anew *Anew
	// Batch is how many records are applied together (2,000 if 0).
	Batch int
}

// dryRunSamples is how many of each kind a report names.
const dryRunSamples = 5

// DryRun finds out what applying records would do, and does nothing: the batch is a
// processor's own, on tables in memory (see postgres.DryRun). What only the database
// itself would refuse on writing is not foreseen; nor is what others write meanwhile
// to orders that it has met. Not safe for concurrent use.
type DryRun struct {
	opts    DryRunOptions
	look    looks
	tables  *postgres.DryRun
	apply   applier
	ground  ground
	outlook Outlook
}

// NewDryRun begins a dry run.
func NewDryRun(ctx context.Context, deps DryRunDeps, opts DryRunOptions) (*DryRun, error) {
	opts.Batch = cmp.Or(opts.Batch, defaultBatch)
	window, err := deps.Store.ReadWindow(ctx, deps.Now())
	if err != nil {
		return nil, fmt.Errorf("begin a dry run: %w", err)
	}
	d := &DryRun{opts: opts, tables: deps.Store.DryRun(), ground: ground{topicID: opts.TopicID}}
	d.look = looks{events: d.tables.UnknownEvents, hints: d.hints}
	if opts.Anew != nil { // whatever is known of them
		d.look = looks{events: all[postgres.Seen], hints: all[postgres.Place]}
	}
	if !opts.Selected && opts.Anew == nil {
		if d.ground.applied, err = deps.Store.AppliedOffsets(ctx, opts.TopicID); err != nil {
			return nil, fmt.Errorf("begin a dry run: %w", err)
		}
	}
	d.apply = applier{reader: reader{endpoints: deps.Endpoints, window: window, mode: deps.Mode}, log: deps.Log, now: deps.Now,
		inTx: d.tables.InTx, stand: d.stand, committed: d.tally, lookFirst: true, anew: opts.Anew}
	d.outlook = Outlook{Batch: opts.Batch, Dead: map[string]int64{}}
	return d, nil
}

func (d *DryRun) stand(context.Context, postgres.Tx, []*record) (ground, error) { return d.ground, nil }

// AddChunk goes on with a chunk of the raw topic.
func (d *DryRun) AddChunk(ctx context.Context, c kafka.Chunk) error { return d.add(ctx, c) }

// Add goes on with records of one topic; of one partition in the order of their offsets.
func (d *DryRun) Add(ctx context.Context, topicID [16]byte, records []kafka.Record) error {
	d.ground.topicID = topicID
	return d.add(ctx, slice(records))
}

type slice []kafka.Record

func (s slice) Len() int                                    { return len(s) }
func (s slice) Record(i int, _ []event.Header) kafka.Record { return s[i] }

// add settles a chunk as a replay does: what a look-up shows to be done with is not
// looked at further, and the rest is applied.
func (d *DryRun) add(ctx context.Context, c chunk) error {
	rest, tombstones, err := sift(ctx, c, d.look)
	if err != nil {
		return fmt.Errorf("dry run: %w", err)
	}
	d.outlook.Tombstones += int64(tombstones)
	d.outlook.Duplicates += int64(c.Len() - tombstones - len(rest))
	for part := range slices.Chunk(rest, d.opts.Batch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.apply.settle(ctx, d.parse(part)); err != nil {
			return fmt.Errorf("dry run: %w", err)
		}
	}
	d.outlook.Records += int64(c.Len())
	return nil
}

// all have to be looked at further.
func all[T any](_ context.Context, of []T) ([]int, error) {
	places := make([]int, len(of))
	for i := range places {
		places[i] = i
	}
	return places, nil
}

// hints are those that were never met, and those that a replay of the others finds dead.
func (d *DryRun) hints(ctx context.Context, places []postgres.Place) ([]int, error) {
	open, err := deadHints(ctx, d.tables.InTx, d.ground.topicID, places)
	for i, p := range places {
		if !d.ground.met(p) && !slices.Contains(open, i) {
			open = append(open, i)
		}
	}
	return open, err
}

func (d *DryRun) parse(part []kafka.Record) []*record {
	records := d.apply.parse(part)
	if d.opts.Selected || d.apply.anew != nil { // as Again does
		for _, r := range records {
			d.apply.recover(r)
		}
	}
	return records
}

// tally counts what became of records, but for those whose facts are in sets: what
// becomes of them can still change.
func (d *DryRun) tally(_ context.Context, b *batch, _ time.Duration) {
	o := &d.outlook
	o.NewlyDead += int64(b.deadLetters)
	for _, r := range b.records {
		switch {
		case r.skip:
			o.Tombstones++
		case r.dead != "":
			if o.Dead[r.dead]++; len(o.Samples.Dead) < dryRunSamples {
				o.Samples.Dead = append(o.Samples.Dead, sampleOf(r))
			}
		case r.mended:
			o.Mended++
		case r.verdict == order.Duplicate, b.anew != nil && !r.entered && !b.revived[r]:
			o.Duplicates++
		case r.hint && r.verdict == order.Held:
			o.Hints++
		default:
			o.New++
			switch {
			case r.event.Mode != d.apply.mode:
				o.OtherMode++
			case r.hint || !r.stated:
				o.NoChange++
			}
		}
	}
}

func sampleOf(r *record) EventSample {
	return EventSample{Partition: r.Partition, Offset: r.Offset, Source: r.event.Source, Event: r.event.ID, Order: r.event.Order,
		Verdict: order.Dead.String(), Reason: r.dead}
}

// Report is what the records added so far would do.
func (d *DryRun) Report() Outlook {
	o, end := d.outlook, d.tables.Outcome(dryRunSamples)
	o.Held = map[string]int64{}
	for j, n := range end.Added {
		switch j.Verdict {
		case order.Applied:
			o.Applied += n
		case order.Held:
			o.Held[j.Reason.String()] += n
		default:
			o.NoChange += n
		}
	}
	o.Dead = maps.Clone(o.Dead)
	o.Updated, o.Revived, o.Messages, o.Corrections = end.Updated, end.Revived, end.Messages, end.Corrections
	for t, n := range end.Turned {
		o.Older = append(o.Older, Turn{From: t.From.Verdict, FromReason: t.From.Reason, To: t.To.Verdict, ToReason: t.To.Reason, Events: n})
	}
	for s, n := range end.Steps {
		o.Orders += n
		o.Steps = append(o.Steps, Step{s.From, s.To, n})
	}
	for name, e := range end.Effects {
		o.Effects = append(o.Effects, EffectOutlook{Effect: name, Caused: e.Caused, Again: e.Again, Withdrawn: e.Withdrawn, Outdated: e.Outdated})
	}
	for kind, r := range end.Reviews {
		o.Review = append(o.Review, ReviewOutlook{Kind: kind, Opened: r.Opened, Settled: r.Settled})
	}
	o.sort()
	d.sample(&o.Samples, end)
	return o
}

// sort makes equal outlooks look alike.
func (o *Outlook) sort() {
	slices.SortFunc(o.Older, func(a, b Turn) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.FromReason, b.FromReason), cmp.Compare(a.To, b.To), cmp.Compare(a.ToReason, b.ToReason))
	})
	slices.SortFunc(o.Steps, func(a, b Step) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	slices.SortFunc(o.Effects, func(a, b EffectOutlook) int { return cmp.Compare(a.Effect, b.Effect) })
	slices.SortFunc(o.Review, func(a, b ReviewOutlook) int { return cmp.Compare(a.Kind, b.Kind) })
}

func (d *DryRun) sample(s *Samples, end postgres.Outcome) {
	events := func(from []postgres.AddedEvent) (to []EventSample) {
		for _, e := range from {
			sample := EventSample{Partition: e.Partition, Offset: e.Offset, Source: e.Source, Event: e.EventID, Order: e.OrderID, Verdict: e.Verdict.String()}
			if e.Verdict == order.Held {
				sample.Reason = e.Reason.String()
			}
			to = append(to, sample)
		}
		return to
	}
	s.Dead = slices.Clone(s.Dead)
	s.Applied, s.Held = events(end.Applied), events(end.Held)
	for _, o := range end.Orders {
		s.Orders = append(s.Orders, OrderSample{Order: o.ID, From: o.From, To: o.To, Messages: o.Messages, Corrections: o.Corrections, Source: o.Source, Event: o.EventID})
	}
	for _, c := range end.Calls {
		s.Effects = append(s.Effects, EffectSample{Effect: c.Effect, Key: c.Key.Text(c.Effect), Order: c.OrderID, What: c.What})
	}
}

package again

import (
	"context"
	"time"

	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/services/processor"
)

// Done is what looking again did.
type Done struct {
	Tally
	processor.AgainCounts
}

// rounds are how often records are read anew at most: a round that unlearns where
// payments lead may leave what names them rightly to the next.
const rounds = 3

// Look has every record of a selection looked at again, and tells step how many were.
// A stop half way leaves whole batches behind; beginning again repeats them without
// effect. deps.Anew.Orders is filled in here.
func (s *Source) Look(ctx context.Context, sel Selection, deps processor.AgainDeps, step func(int)) (done Done, err error) {
	index := func(spans []postgres.Span) (postgres.EntryIndex, error) { return s.store.IndexEntries(ctx, spans) }
	return s.look(ctx, sel, deps, index, step)
}

func (s *Source) look(ctx context.Context, sel Selection, deps processor.AgainDeps, index func([]postgres.Span) (postgres.EntryIndex, error), step func(int)) (done Done, err error) {
	var known map[[16]byte]int64
	if deps.Anew, err = s.withOrders(ctx, sel, deps.Anew, &known, index); err != nil {
		return done, err
	}
	for round := range rounds {
		a := processor.NewAgain(deps)
		tally, err := s.Each(ctx, sel, func(b Batch) error {
			known = b.Orders
			if err := a.Look(ctx, b.TopicID, b.Records); err != nil {
				return err
			}
			if round == 0 {
				step(len(b.Records))
			}
			return nil
		})
		counts := a.Counts()
		if round == 0 {
			done = Done{tally, counts}
		} else { // the records are the same
			done.Mended += counts.Mended
			done.Entered += counts.Entered
			done.Versions += counts.Versions
			done.Effects += counts.Effects
			done.Unlearnt = counts.Unlearnt
		}
		if err != nil || counts.Unlearnt == 0 {
			return done, err
		}
	}
	return done, nil
}

// Outlook is what a dry run says of a selection; anew as in processor.AgainDeps.
func (s *Source) Outlook(ctx context.Context, sel Selection, deps processor.DryRunDeps, anew *processor.Anew, step func(int)) (processor.Outlook, Tally, error) {
	var known map[[16]byte]int64
	anew, err := s.withOrders(ctx, sel, anew, &known, func(spans []postgres.Span) (postgres.EntryIndex, error) { return s.store.IndexEntries(ctx, spans) })
	if err != nil {
		return processor.Outlook{}, Tally{}, err
	}
	// Letters may be of a topic that was made again: of each there is one run.
	runs := map[[16]byte]*processor.DryRun{}
	var d *processor.DryRun
	tally, err := s.Each(ctx, sel, func(b Batch) (err error) {
		if d = runs[b.TopicID]; d == nil {
			if d, err = processor.NewDryRun(ctx, deps, processor.DryRunOptions{TopicID: b.TopicID, Selected: true, Anew: anew}); err != nil {
				return err
			}
			runs[b.TopicID] = d
		}
		known = b.Orders
		step(len(b.Records))
		return d.Add(ctx, b.Records)
	})
	if err != nil || d == nil {
		return processor.Outlook{}, tally, err
	}
	if len(runs) > 1 {
		d = runs[s.extent.TopicID]
	}
	if d == nil {
		return processor.Outlook{}, tally, nil
	}
	return d.Report(), tally, nil
}

// withOrders is anew with the orders that have the selection's events; known are those
// of the present batch.
func (s *Source) withOrders(ctx context.Context, sel Selection, anew *processor.Anew, known *map[[16]byte]int64, index func([]postgres.Span) (postgres.EntryIndex, error)) (*processor.Anew, error) {
	if anew == nil {
		return nil, nil
	}
	var entries postgres.EntryIndex
	if sel.Span != nil {
		spans, err := s.Spans(ctx, *sel.Span)
		if err != nil {
			return nil, err
		}
		if entries, err = index(spans); err != nil {
			return nil, err
		}
	}
	with := *anew
	with.Orders = func(hash [16]byte) []int64 {
		nos := entries.Orders(hash)
		if no := (*known)[hash]; no != 0 {
			nos = append(nos, no)
		}
		return nos
	}
	return &with, nil
}

// begins is when the first record of each span was appended.
func (s *Source) begins(ctx context.Context, spans []postgres.Span) ([]postgres.RebuildSpan, error) {
	first := map[int32]time.Time{}
	ranges := make([]kafka.Range, len(spans))
	for i, sp := range spans {
		ranges[i] = kafka.Range{Partition: sp.Partition, From: sp.First, Before: sp.Last + 1}
	}
	err := kafka.Read(ctx, s.cfg, s.log, s.cfg.Topic(kafka.Raw), ranges, func(r kafka.Record) bool {
		if _, ok := first[r.Partition]; !ok {
			first[r.Partition] = r.Timestamp
		}
		return len(first) < len(spans)
	})
	if err != nil {
		return nil, err
	}
	out := make([]postgres.RebuildSpan, len(spans))
	for i, sp := range spans {
		out[i] = postgres.RebuildSpan{Span: sp, Since: first[sp.Partition]}
	}
	return out, nil
}

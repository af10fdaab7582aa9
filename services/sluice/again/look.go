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
	return s.look(ctx, sel, deps, s.store.IndexEntries, step)
}

// finder finds the entries of sets that lie in spans.
type finder func(context.Context, []postgres.Span) (postgres.EntryIndex, error)

func (s *Source) look(ctx context.Context, sel Selection, deps processor.AgainDeps, find finder, step func(int)) (done Done, err error) {
	var known map[[16]byte]int64
	if deps.Anew, err = s.withOrders(ctx, sel, deps.Anew, &known, find); err != nil {
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
	anew, err := s.withOrders(ctx, sel, anew, &known, s.store.IndexEntries)
	if err != nil {
		return processor.Outlook{}, Tally{}, err
	}
	d, err := processor.NewDryRun(ctx, deps, processor.DryRunOptions{TopicID: s.extent.TopicID, Selected: true, Anew: anew})
	if err != nil {
		return processor.Outlook{}, Tally{}, err
	}
	tally, err := s.Each(ctx, sel, func(b Batch) error {
		known = b.Orders
		step(len(b.Records))
		return d.Add(ctx, b.TopicID, b.Records)
	})
	return d.Report(), tally, err
}

// withOrders is anew with the orders that have the selection's events; known are those
// of the present batch.
func (s *Source) withOrders(ctx context.Context, sel Selection, anew *processor.Anew, known *map[[16]byte]int64, find finder) (*processor.Anew, error) {
	if anew == nil {
		return nil, nil
	}
	var entries postgres.EntryIndex
	if sel.Span != nil {
		spans, err := s.Spans(ctx, *sel.Span)
		if err != nil {
			return nil, err
		}
		if entries, err = find(ctx, spans); err != nil {
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

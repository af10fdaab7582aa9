// Package again finds records that somebody wants looked at again, wherever their
// bytes are kept, and has the processor's own batch look at them.
//
// Its path: selection.go says what is meant, source.go finds the records, look.go
// carries it out, forecast.go does the same in a scratch schema and says what differs.
package again

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
)

// Source is where records are found: the raw topic and the database.
type Source struct {
	store   *postgres.Store
	cfg     kafka.Config
	log     *slog.Logger
	offsets *kafka.Offsets
	// The topic, and how far it was applied, at the time of opening: what came later is
	// the processors' own.
	extent  kafka.Extent
	applied map[int32]int64
}

// Open connects to cfg's brokers.
func Open(ctx context.Context, cfg kafka.Config, store *postgres.Store, log *slog.Logger) (*Source, error) {
	s := &Source{store: store, cfg: cfg, log: log}
	var err error
	if s.offsets, err = kafka.NewOffsets(ctx, cfg, log, cfg.Topic(kafka.Raw)); err != nil {
		return nil, err
	}
	if s.extent, err = s.offsets.Extent(ctx); err == nil {
		var ledger postgres.Ledger
		if ledger, err = store.Ledger(ctx); err == nil {
			s.At(ledger.Applied)
			return s, nil
		}
	}
	s.Close()
	return nil, err
}

// At has the source look no further than what was applied then, by topic id and
// partition.
func (s *Source) At(applied map[[16]byte]map[int32]int64) {
	s.applied = applied[s.extent.TopicID]
}

// Close gives the connections back.
func (s *Source) Close() { s.offsets.Close() }

// Batch is records of one topic, in the order of their offsets.
type Batch struct {
	TopicID [16]byte
	Records []kafka.Record
	// Orders are the orders whose sets have the events, by hash, where that is known.
	Orders map[[16]byte]int64
}

// Missing is an event whose bytes are kept nowhere any more.
type Missing struct {
	Source    string `json:"source"`
	Event     string `json:"event"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Why       string `json:"why"`
}

// Tally is what was found.
type Tally struct {
	Records int64 `json:"found"`
	// InFlight lie behind what the processors have applied: those will take them.
	InFlight int64 `json:"in_flight"`
	// Gone is how many events have no bytes any more, Missing the first of them.
	Gone    int64     `json:"gone"`
	Missing []Missing `json:"missing,omitempty"`
}

const missingSamples = 20

func (t *Tally) miss(r *postgres.Selected, why string) {
	if t.Gone++; len(t.Missing) < missingSamples {
		t.Missing = append(t.Missing, Missing{Source: r.Source, Event: r.EventID, Partition: r.Partition, Offset: r.Offset, Why: why})
	}
}

const (
	batchRecords = 2000 // as many as a processor's transaction takes
	page         = 500  // of what is kept with its bytes
	near         = 5000 // records that are read over rather than asked for anew
)

// Each finds the records of a selection and hands them to do, batch by batch.
func (s *Source) Each(ctx context.Context, sel Selection, do func(Batch) error) (Tally, error) {
	var t Tally
	var err error
	switch {
	case sel.Span != nil:
		err = s.span(ctx, sel, &t, do)
	case sel.Order != "":
		var found []postgres.Selected
		if found, err = s.store.SelectOrder(ctx, sel.Order); err == nil {
			err = s.hand(ctx, found, &t, do)
		}
	case sel.Event != "":
		err = s.event(ctx, sel, &t, do)
	case sel.Held:
		err = s.pages(ctx, &t, do, func(behind *postgres.Selected) ([]postgres.Selected, error) {
			return s.store.SelectHeld(ctx, sel.HeldReason, behind, page)
		})
	case sel.DeadLetters:
		err = s.pages(ctx, &t, do, func(behind *postgres.Selected) ([]postgres.Selected, error) {
			return s.store.SelectDeadLetters(ctx, sel.Endpoint, sel.Reason, behind, page)
		})
	default:
		err = errors.New("nothing is selected")
	}
	return t, err
}

func (s *Source) pages(ctx context.Context, t *Tally, do func(Batch) error, next func(*postgres.Selected) ([]postgres.Selected, error)) error {
	for behind := (*postgres.Selected)(nil); ; {
		found, err := next(behind)
		if err != nil || len(found) == 0 {
			return err
		}
		last := found[len(found)-1]
		behind = &last
		if err := s.hand(ctx, found, t, do); err != nil {
			return err
		}
	}
}

// event finds an event in the sets, among the dead letters, and, where neither has it,
// in the raw topic: an event that states nothing is in no set.
func (s *Source) event(ctx context.Context, sel Selection, t *Tally, do func(Batch) error) error {
	found, err := s.store.SelectEvent(ctx, sel.Source, sel.Event)
	if err != nil {
		return err
	}
	letters, err := s.store.SelectDeadLettersOf(ctx, sel.Event)
	if err != nil {
		return err
	}
	if found = append(found, letters...); len(found) > 0 {
		return s.hand(ctx, found, t, do)
	}
	p := kafka.PartitionOf([]byte(sel.Event), len(s.extent.Start))
	whole := []kafka.Range{{Partition: p, From: s.extent.Start[p], Before: s.extent.End[p]}}
	return s.read(ctx, whole, t, do, func(r kafka.Record) bool {
		if string(r.Key) != sel.Event {
			return false
		}
		e, err := event.Parse(r.Key, r.Value, r.Headers)
		return sel.Source == "" || err == nil && e.Source == sel.Source
	})
}

// read reads ranges of the raw topic and hands on what is wanted of it.
func (s *Source) read(ctx context.Context, ranges []kafka.Range, t *Tally, do func(Batch) error, wanted func(kafka.Record) bool) error {
	var failed error
	b := Batch{TopicID: s.extent.TopicID}
	hand := func() bool {
		if len(b.Records) > 0 {
			t.Records += int64(len(b.Records))
			failed = do(b)
			b.Records = nil
		}
		return failed == nil
	}
	err := kafka.Read(ctx, s.cfg, s.log, s.cfg.Topic(kafka.Raw), ranges, func(r kafka.Record) bool {
		switch {
		case !wanted(r):
			return true
		case r.Offset > s.appliedOf(r.Partition):
			t.InFlight++
			return true
		}
		b.Records = append(b.Records, r)
		return len(b.Records) < batchRecords || hand()
	})
	if err == nil && failed == nil {
		hand()
	}
	return cmp.Or(failed, err)
}

func (s *Source) appliedOf(partition int32) int64 {
	if at, ok := s.applied[partition]; ok {
		return at
	}
	return -1
}

// span reads a span of the raw topic.
func (s *Source) span(ctx context.Context, sel Selection, t *Tally, do func(Batch) error) error {
	spans, err := s.Spans(ctx, *sel.Span)
	if err != nil {
		return err
	}
	ranges := make([]kafka.Range, len(spans))
	for i, sp := range spans {
		ranges[i] = kafka.Range{Partition: sp.Partition, From: sp.First, Before: sp.Last + 1}
	}
	return s.read(ctx, ranges, t, do, func(r kafka.Record) bool {
		if sel.Provider == "" {
			return true
		}
		e, err := event.Parse(r.Key, r.Value, r.Headers)
		return err == nil && e.Provider == sel.Provider
	})
}

// hand finds the bytes of records that were selected one by one.
func (s *Source) hand(ctx context.Context, found []postgres.Selected, t *Tally, do func(Batch) error) error {
	batches := map[[16]byte]*Batch{}
	put := func(topic [16]byte, r kafka.Record, of *postgres.Selected) {
		b := batches[topic]
		if b == nil {
			b = &Batch{TopicID: topic, Orders: map[[16]byte]int64{}}
			batches[topic] = b
		}
		if of.OrderNo != 0 {
			b.Orders[of.Hash] = of.OrderNo
		}
		b.Records = append(b.Records, r)
	}
	kept := func(r *postgres.Selected) {
		topic := r.TopicID
		if topic == [16]byte{} {
			topic = s.extent.TopicID
		}
		put(topic, kafka.Record{Topic: s.cfg.Topic(kafka.Raw), Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Body, Headers: r.Headers, Timestamp: r.AppendedAt}, r)
	}
	var look []*postgres.Selected
	for i := range found {
		if r := &found[i]; r.In != "" {
			kept(r)
		} else {
			look = append(look, r)
		}
	}
	missing, err := s.fromTopic(ctx, look, put)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		left := make([]postgres.Selected, 0, len(missing))
		for r := range missing {
			left = append(left, *r)
		}
		if err := s.store.FromJournal(ctx, left); err != nil {
			return err
		}
		slices.SortFunc(left, func(a, b postgres.Selected) int {
			return a.Compare(b.Place)
		})
		why := map[postgres.Place]string{}
		for r, reason := range missing {
			why[r.Place] = reason
		}
		for i := range left {
			if left[i].In != "" {
				kept(&left[i])
			} else {
				t.miss(&left[i], why[left[i].Place])
			}
		}
	}
	for _, b := range batches {
		slices.SortStableFunc(b.Records, func(a, c kafka.Record) int {
			return placeOf(a).Compare(placeOf(c))
		})
		for records := range slices.Chunk(b.Records, batchRecords) {
			t.Records += int64(len(records))
			if err := do(Batch{TopicID: b.TopicID, Records: records, Orders: b.Orders}); err != nil {
				return err
			}
		}
	}
	return nil
}

func placeOf(r kafka.Record) postgres.Place {
	return postgres.Place{Partition: r.Partition, Offset: r.Offset}
}

// Why bytes are not in the raw topic.
const (
	expired = "the raw topic does not keep it any more, and the journal does not have it"
	remade  = "another event lies there: the topic was made again"
	absent  = "the raw topic has no record there"
)

// fromTopic reads records where they lie, those that lie near each other together, and
// returns those that are not there, with the reason.
func (s *Source) fromTopic(ctx context.Context, look []*postgres.Selected, put func([16]byte, kafka.Record, *postgres.Selected)) (map[*postgres.Selected]string, error) {
	missing := map[*postgres.Selected]string{}
	at := map[postgres.Place]*postgres.Selected{}
	var order []*postgres.Selected
	for _, r := range look {
		switch start, known := s.extent.Start[r.Partition]; {
		case !known || r.Offset < start:
			missing[r] = expired
		case r.Offset >= s.extent.End[r.Partition]:
			missing[r] = absent
		default:
			missing[r], at[r.Place] = absent, r // until it is read
			order = append(order, r)
		}
	}
	slices.SortFunc(order, func(a, b *postgres.Selected) int {
		return a.Compare(b.Place)
	})
	for len(order) > 0 {
		// One stretch of each partition at a time.
		ranges := map[int32]*kafka.Range{}
		var later []*postgres.Selected
		for _, r := range order {
			switch rg := ranges[r.Partition]; {
			case rg == nil:
				ranges[r.Partition] = &kafka.Range{Partition: r.Partition, From: r.Offset, Before: r.Offset + 1}
			case r.Offset < rg.Before+near && (len(later) == 0 || later[len(later)-1].Partition != r.Partition):
				rg.Before = r.Offset + 1
			default:
				later = append(later, r)
			}
		}
		order = later
		var all []kafka.Range
		for _, rg := range ranges {
			all = append(all, *rg)
		}
		err := kafka.Read(ctx, s.cfg, s.log, s.cfg.Topic(kafka.Raw), all, func(r kafka.Record) bool {
			of := at[placeOf(r)]
			if of == nil {
				return true
			}
			e, err := event.Parse(r.Key, r.Value, r.Headers)
			if err != nil || e.Hash() != of.Hash && e.Type != event.Unreadable {
				missing[of] = remade
				return true
			}
			delete(missing, of)
			r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
			put(s.extent.TopicID, r, of)
			return true
		})
		if err != nil {
			return nil, fmt.Errorf("read selected records: %w", err)
		}
	}
	return missing, nil
}

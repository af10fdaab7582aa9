package dry

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// entry is one of an order's set.
type entry struct {
	row dbgen.LoadOrderEventsRow
	// fresh: the dry run added it; else was is how it was judged before, and updated
	// says that another reading of it counts now.
	fresh   bool
	was     order.Judgement
	updated bool
}

func (e *entry) judgement() order.Judgement {
	return order.Judgement{Verdict: order.Verdict(e.row.Verdict), Reason: order.Reason(e.row.Reason)}
}

// set is the set of an order that was written.
type set struct {
	entries []entry
	// whole: what the database has of it is in it.
	whole bool
}

func (s *set) find(hash pgtype.UUID) *entry {
	for i := range s.entries {
		if s.entries[i].row.EventHash.Bytes == hash.Bytes {
			return &s.entries[i]
		}
	}
	return nil
}

// own is the set of an order to write in, copied once a transaction.
func (t *Tables) own(no int64) *set {
	if t.cloned[no] {
		return t.sets[no]
	}
	s := &set{whole: no < 0}
	if old := t.sets[no]; old != nil {
		*s = set{slices.Clone(old.entries), old.whole}
	} else if read, ok := t.readSets[no]; ok {
		*s = set{slices.Clone(read), true}
	}
	put(t, t.sets, no, s)
	t.cloned[no] = true
	return s
}

// load makes the sets of orders whole, or reads them.
func (t *Tables) load(ctx context.Context, nos []int64) error {
	var ask []int64
	for _, no := range nos {
		s, read := t.sets[no], t.readSets[no]
		if no > 0 && read == nil && (s == nil || !s.whole) {
			ask = append(ask, no)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	rows, err := t.Querier.LoadOrderEvents(ctx, ask)
	if err != nil {
		return err
	}
	read := make(map[int64][]entry, len(ask))
	for _, no := range ask {
		read[no] = []entry{}
	}
	for _, r := range rows {
		e := entry{row: r}
		e.was = e.judgement()
		read[r.OrderNo] = append(read[r.OrderNo], e)
	}
	for _, no := range ask {
		if t.sets[no] == nil {
			t.readSets[no] = read[no]
			continue
		}
		s := t.own(no)
		for _, e := range read[no] {
			if s.find(e.row.EventHash) == nil {
				s.entries = append(s.entries, e)
			}
		}
		s.whole = true
	}
	return nil
}

// entries of an order that was loaded.
func (t *Tables) entries(no int64) []entry {
	if s := t.sets[no]; s != nil {
		return s.entries
	}
	return t.readSets[no]
}

// LoadOrderEvents reads the sets of orders.
func (t *Tables) LoadOrderEvents(ctx context.Context, nos []int64) ([]dbgen.LoadOrderEventsRow, error) {
	if err := t.load(ctx, nos); err != nil {
		return nil, err
	}
	var rows []dbgen.LoadOrderEventsRow
	for _, no := range nos {
		for _, e := range t.entries(no) {
			rows = append(rows, e.row)
		}
	}
	return rows, nil
}

// AddOrderEvents adds entries, and those that come from another order's set.
func (t *Tables) AddOrderEvents(_ context.Context, rows []dbgen.AddOrderEventsParams) (int64, error) {
	for _, r := range rows {
		e := entry{row: dbgen.LoadOrderEventsRow(r), fresh: true}
		if old, ok := t.removed[r.EventHash.Bytes]; ok {
			e.fresh, e.was, e.updated = old.fresh, old.was, old.updated || !old.fresh && old.row.ReadingHash != r.ReadingHash
		}
		s := t.own(r.OrderNo)
		s.entries = append(s.entries, e)
	}
	return int64(len(rows)), nil
}

// SetVerdicts writes what became of entries.
func (t *Tables) SetVerdicts(_ context.Context, arg dbgen.SetVerdictsParams) error {
	for i, no := range arg.OrderNos {
		if e := t.own(no).find(arg.EventHashes[i]); e != nil {
			e.row.Verdict, e.row.Reason = arg.Verdicts[i], arg.Reasons[i]
		}
	}
	return nil
}

// ReplaceReadings writes other readings of entries.
func (t *Tables) ReplaceReadings(_ context.Context, arg dbgen.ReplaceReadingsParams) error {
	for i, no := range arg.OrderNos {
		e := t.own(no).find(arg.EventHashes[i])
		if e == nil {
			continue
		}
		r := &e.row
		r.Kind, r.Verdict, r.Reason = arg.Kinds[i], arg.Verdicts[i], arg.Reasons[i]
		r.OccurredAt, r.ReadingHash, r.Amount, r.Currency = arg.OccurredAt[i], arg.ReadingHashes[i], arg.Amounts[i], arg.Currencies[i]
		r.EventType, r.PaymentID, r.ObjectID = arg.EventTypes[i], arg.PaymentIds[i], arg.ObjectIds[i]
		r.Partition, r.RecordOffset, r.Named = arg.Partitions[i], arg.RecordOffsets[i], arg.Named[i]
		e.updated = !e.fresh
	}
	return nil
}

// DeleteOrderEvents empties sets.
func (t *Tables) DeleteOrderEvents(ctx context.Context, nos []int64) error {
	if err := t.load(ctx, nos); err != nil {
		return err
	}
	for _, no := range nos {
		s := t.own(no)
		for _, e := range s.entries {
			t.removed[e.row.EventHash.Bytes] = e
		}
		s.entries = nil
	}
	return nil
}

// DeleteEntries takes entries out of sets.
func (t *Tables) DeleteEntries(ctx context.Context, nos []int64, hashes []pgtype.UUID) error {
	if err := t.load(ctx, nos); err != nil {
		return err
	}
	for i, no := range nos {
		s := t.own(no)
		s.entries = slices.DeleteFunc(s.entries, func(e entry) bool {
			if e.row.EventHash != hashes[i] {
				return false
			}
			t.removed[hashes[i].Bytes] = e
			return true
		})
	}
	return nil
}

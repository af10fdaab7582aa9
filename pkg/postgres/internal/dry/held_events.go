package dry

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/postgres/internal/dbgen"
)

type entryKey struct {
	orderNo int64
	event   [16]byte
}

// heldEvent is a row without its bytes.
type heldEvent struct {
	due  pgtype.Timestamptz
	gone bool
}

// AddHeldEvents adds rows.
func (t *Tables) AddHeldEvents(_ context.Context, rows []dbgen.AddHeldEventsParams) (int64, error) {
	for _, r := range rows {
		put(t, t.held, entryKey{r.OrderNo, r.EventHash.Bytes}, heldEvent{due: r.DueAt})
	}
	return int64(len(rows)), nil
}

// SetHeldReasons: the reason lies with the entry, and whether a person was asked
// does not change.
func (t *Tables) SetHeldReasons(context.Context, dbgen.SetHeldReasonsParams) error { return nil }

// ReplaceHeldBytes keeps no bytes.
func (t *Tables) ReplaceHeldBytes(context.Context, dbgen.ReplaceHeldBytesParams) error { return nil }

// take takes rows away, and returns those that were there.
func (t *Tables) take(ctx context.Context, nos []int64, hashes []pgtype.UUID) (rows []dbgen.ReadHeldEventsRow, err error) {
	var askNos []int64
	var ask []pgtype.UUID
	for i, no := range nos {
		k := entryKey{no, hashes[i].Bytes}
		h, ok := t.held[k]
		if !ok && no > 0 {
			askNos, ask = append(askNos, no), append(ask, hashes[i])
			continue
		}
		if ok && !h.gone {
			rows = append(rows, dbgen.ReadHeldEventsRow{OrderNo: no, EventHash: hashes[i], DueAt: h.due})
			put(t, t.held, k, heldEvent{gone: true})
		}
	}
	if len(ask) == 0 {
		return rows, nil
	}
	there, err := t.ReadHeldEvents(ctx, askNos, ask)
	for _, r := range there {
		put(t, t.held, entryKey{r.OrderNo, r.EventHash.Bytes}, heldEvent{gone: true})
	}
	return append(rows, there...), err
}

// DeleteHeldEvents deletes rows, and says which of them a person was asked about.
func (t *Tables) DeleteHeldEvents(ctx context.Context, nos []int64, hashes []pgtype.UUID) ([]dbgen.DeleteHeldEventsRow, error) {
	taken, err := t.take(ctx, nos, hashes)
	rows := make([]dbgen.DeleteHeldEventsRow, len(taken))
	for i, r := range taken {
		rows[i] = dbgen.DeleteHeldEventsRow{EventHash: r.EventHash, DueAt: r.DueAt}
	}
	return rows, err
}

// MoveHeldEvents moves the rows of orders whose entries were just deleted.
func (t *Tables) MoveHeldEvents(ctx context.Context, from, to []int64) error {
	target := make(map[int64]int64, len(from))
	for i, no := range from {
		target[no] = to[i]
	}
	var froms, tos []int64
	var hashes []pgtype.UUID
	for hash, e := range t.removed {
		if no, ok := target[e.row.OrderNo]; ok {
			froms, tos, hashes = append(froms, e.row.OrderNo), append(tos, no), append(hashes, pgtype.UUID{Bytes: hash, Valid: true})
		}
	}
	return t.MoveHeldEntries(ctx, froms, tos, hashes)
}

// MoveHeldEntries moves rows.
func (t *Tables) MoveHeldEntries(ctx context.Context, from, to []int64, hashes []pgtype.UUID) error {
	target := make(map[entryKey]int64, len(from))
	for i, no := range from {
		target[entryKey{no, hashes[i].Bytes}] = to[i]
	}
	taken, err := t.take(ctx, from, hashes)
	for _, r := range taken {
		no := target[entryKey{r.OrderNo, r.EventHash.Bytes}]
		put(t, t.held, entryKey{no, r.EventHash.Bytes}, heldEvent{due: r.DueAt})
	}
	return err
}

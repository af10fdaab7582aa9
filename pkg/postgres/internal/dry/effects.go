package dry

import (
	"bytes"
	"context"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/effect"
	"sluice/pkg/postgres/internal/dbgen"
)

// effectRow is one effect without its body.
type effectRow struct {
	dbgen.LockEffectsOfOrdersRow
	// fresh: the dry run added it; else this is how it was.
	fresh       bool
	wasState    effect.State
	wasOutdated bool
}

func (t *Tables) effectRow(r dbgen.LockEffectsOfOrdersRow) effectRow {
	return effectRow{LockEffectsOfOrdersRow: r, wasState: effect.State(r.State), wasOutdated: r.Outdated}
}

// AddEffects adds rows, and returns the keys that were not there.
func (t *Tables) AddEffects(ctx context.Context, arg dbgen.AddEffectsParams) (fresh []pgtype.UUID, err error) {
	there := map[[16]byte]bool{}
	rows, err := t.ReadEffects(ctx, arg.Keys)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		there[r.Key.Bytes] = true
	}
	for i, k := range arg.Keys {
		if _, ok := t.effects[k.Bytes]; ok || there[k.Bytes] {
			continue
		}
		no := arg.OrderNos[i]
		put(t, t.effects, k.Bytes, effectRow{LockEffectsOfOrdersRow: dbgen.LockEffectsOfOrdersRow{Key: k, OrderNo: no, Effect: arg.Effects[i]}, fresh: true})
		put(t, t.ofOrder, no, append(slices.Clip(t.ofOrder[no]), k.Bytes))
		fresh = append(fresh, k)
	}
	return fresh, nil
}

// LockEffectsOfOrders reads rows by key, and locks none.
func (t *Tables) LockEffectsOfOrders(ctx context.Context, nos []int64) (rows []dbgen.LockEffectsOfOrdersRow, err error) {
	there, err := t.ReadEffectsOfOrders(ctx, known(nos))
	if err != nil {
		return nil, err
	}
	for _, r := range there {
		if e, ok := t.effects[r.Key.Bytes]; ok {
			if !e.fresh { // else it is among those of its order
				rows = append(rows, e.LockEffectsOfOrdersRow)
			}
			continue
		}
		row := dbgen.LockEffectsOfOrdersRow(r)
		t.readEffects[r.Key.Bytes] = t.effectRow(row)
		rows = append(rows, row)
	}
	for _, no := range nos {
		for _, k := range t.ofOrder[no] {
			rows = append(rows, t.effects[k].LockEffectsOfOrdersRow)
		}
	}
	slices.SortFunc(rows, func(a, b dbgen.LockEffectsOfOrdersRow) int { return bytes.Compare(a.Key.Bytes[:], b.Key.Bytes[:]) })
	return rows, nil
}

// set changes rows that LockEffectsOfOrders read.
func (t *Tables) set(keys []pgtype.UUID, to func(*effectRow)) error {
	for _, k := range keys {
		r, ok := t.effects[k.Bytes]
		if !ok {
			r = t.readEffects[k.Bytes]
		}
		to(&r)
		put(t, t.effects, k.Bytes, r)
	}
	return nil
}

// WithdrawEffects takes back what nobody attempted.
func (t *Tables) WithdrawEffects(_ context.Context, _ pgtype.Timestamptz, keys []pgtype.UUID) error {
	return t.set(keys, func(r *effectRow) { r.State = int16(effect.Withdrawn) })
}

// OutdateEffects marks what was attempted and is not implied any more.
func (t *Tables) OutdateEffects(_ context.Context, _ pgtype.Timestamptz, keys []pgtype.UUID) error {
	return t.set(keys, func(r *effectRow) {
		r.Outdated = true
		if s := effect.State(r.State); s == effect.Pending || s == effect.Failed {
			r.State = int16(effect.Withdrawn)
		}
	})
}

// ReviveEffects lets be what is implied again.
func (t *Tables) ReviveEffects(_ context.Context, keys []pgtype.UUID, _ []pgtype.Timestamptz) error {
	return t.set(keys, func(r *effectRow) {
		r.Outdated = false
		if effect.State(r.State) == effect.Withdrawn {
			r.State = int16(effect.Pending)
		}
	})
}

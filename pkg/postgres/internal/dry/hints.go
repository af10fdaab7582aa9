package dry

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/postgres/internal/dbgen"
)

// object is what a provider is asked about.
type object struct {
	source int16
	id     string
}

type hintKey struct {
	object
	event [16]byte
}

// LockLookups reads rows, and locks none.
func (t *Tables) LockLookups(ctx context.Context, sources []int16, ids []string) (rows []dbgen.LockLookupsRow, err error) {
	there, err := t.ReadLookups(ctx, sources, ids)
	if err != nil {
		return nil, err
	}
	for _, r := range there {
		if _, ok := t.lookups[object{r.SourceNo, r.Object}]; !ok {
			rows = append(rows, dbgen.LockLookupsRow(r))
		}
	}
	for i, id := range ids {
		if r, ok := t.lookups[object{sources[i], id}]; ok {
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// ArmLookups adds rows, or arms those that are there.
func (t *Tables) ArmLookups(ctx context.Context, arg dbgen.ArmLookupsParams) ([]dbgen.ArmLookupsRow, error) {
	there, err := t.LockLookups(ctx, arg.SourceNos, arg.Objects)
	if err != nil {
		return nil, err
	}
	old := make(map[object]dbgen.LockLookupsRow, len(there))
	for _, r := range there {
		old[object{r.SourceNo, r.Object}] = r
	}
	rows := make([]dbgen.ArmLookupsRow, len(arg.Objects))
	for i, id := range arg.Objects {
		o := object{arg.SourceNos[i], id}
		r, ok := old[o]
		if r.Armed = max(r.Armed, r.Begun+1); !ok {
			r = dbgen.LockLookupsRow{SourceNo: o.source, Object: o.id, Armed: 1}
		}
		r.EndpointNo, r.EventType, r.OrderID, r.PaymentID = arg.EndpointNos[i], arg.EventTypes[i], arg.OrderIds[i], arg.PaymentIds[i]
		r.Subject, r.Amount, r.Currency = arg.Subjects[i], arg.Amounts[i], arg.Currencies[i]
		put(t, t.lookups, o, r)
		rows[i] = dbgen.ArmLookupsRow{SourceNo: o.source, Object: o.id, Armed: r.Armed}
	}
	return rows, nil
}

// JoinLookups changes nothing that a dry run tells of.
func (t *Tables) JoinLookups(context.Context, dbgen.JoinLookupsParams) error { return nil }

// HastenRefunds changes nothing that a dry run tells of.
func (t *Tables) HastenRefunds(context.Context, pgtype.Timestamptz, []int16, []string) error {
	return nil
}

// HoldHints returns those that were not waiting already.
func (t *Tables) HoldHints(ctx context.Context, arg dbgen.HoldHintsParams) (rows []dbgen.HoldHintsRow, err error) {
	there, err := t.ReadHints(ctx, arg.SourceNos, arg.Objects, arg.EventHashes)
	if err != nil {
		return nil, err
	}
	waiting := make(map[hintKey]bool, len(there))
	for _, r := range there {
		waiting[hintKey{object{r.SourceNo, r.Object}, r.EventHash.Bytes}] = !r.SettledAt.Valid
	}
	for i, id := range arg.Objects {
		k := hintKey{object{arg.SourceNos[i], id}, arg.EventHashes[i].Bytes}
		if waiting[k] || t.hints[k] {
			continue
		}
		put(t, t.hints, k, true)
		rows = append(rows, dbgen.HoldHintsRow{SourceNo: k.source, Object: k.id, EventHash: arg.EventHashes[i]})
	}
	return rows, nil
}

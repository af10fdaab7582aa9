package dry

import (
	"context"

	"sluice/pkg/postgres/internal/dbgen"
)

type paymentKey struct {
	source int16
	id     string
}

// FindPayments returns where those lead that are there.
func (t *Tables) FindPayments(ctx context.Context, sources []int16, ids []string) (rows []dbgen.Payment, err error) {
	var askSources []int16
	var ask []string
	for i, id := range ids {
		if p, ok := t.payments[paymentKey{sources[i], id}]; ok {
			rows = append(rows, p)
		} else if sources[i] > 0 { // else the source is the dry run's
			askSources, ask = append(askSources, sources[i]), append(ask, id)
		}
	}
	if len(ask) == 0 {
		return rows, nil
	}
	there, err := t.Querier.FindPayments(ctx, askSources, ask)
	return append(rows, there...), err
}

// LockPayments reads payments, and locks none.
func (t *Tables) LockPayments(ctx context.Context, sources []int16, ids []string) ([]dbgen.Payment, error) {
	return t.FindPayments(ctx, sources, ids)
}

// AddPayments adds payments that FindPayments did not find.
func (t *Tables) AddPayments(_ context.Context, arg dbgen.AddPaymentsParams) ([]dbgen.AddPaymentsRow, error) {
	rows := make([]dbgen.AddPaymentsRow, len(arg.PaymentIds))
	for i, id := range arg.PaymentIds {
		t.lead(arg.SourceNos[i], id, arg.OrderNos[i], arg.Linked[i])
		rows[i] = dbgen.AddPaymentsRow{SourceNo: arg.SourceNos[i], PaymentID: id}
	}
	return rows, nil
}

// LinkPayments lets payments lead to named orders.
func (t *Tables) LinkPayments(_ context.Context, sources []int16, ids []string, nos []int64) error {
	for i, id := range ids {
		t.lead(sources[i], id, nos[i], true)
	}
	return nil
}

// SetPayments lets payments lead elsewhere.
func (t *Tables) SetPayments(_ context.Context, arg dbgen.SetPaymentsParams) error {
	for i, id := range arg.PaymentIds {
		t.lead(arg.SourceNos[i], id, arg.OrderNos[i], arg.Linked[i])
	}
	return nil
}

func (t *Tables) lead(source int16, id string, no int64, linked bool) {
	put(t, t.payments, paymentKey{source, id}, dbgen.Payment{SourceNo: source, PaymentID: id, OrderNo: no, Linked: linked})
}

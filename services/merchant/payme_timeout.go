package merchant

import (
	"context"
	"time"

	"sluice/pkg/postgres"
)

// paymeTimeout is how long after Payme's time a transaction may be performed
// (developer.help.paycom.uz, CreateTransaction: 43 200 000 ms).
const paymeTimeout = 12 * time.Hour

// paymeTimedOut is Payme's reason of a transaction that nobody performed in time.
const paymeTimedOut = 4

// timeOut cancels a transaction that was not performed in time. No event tells of
// it: nothing happened to the order.
func timeOut(ctx context.Context, tx postgres.Tx, t *postgres.PaymeTransaction, now time.Time) error {
	if t.State != postgres.PaymeCreated || now.UnixMilli()-t.Time < paymeTimeout.Milliseconds() {
		return nil
	}
	t.State, t.CancelTime, t.Reason = postgres.PaymeCancelled, now.UnixMilli(), paymeTimedOut
	if err := tx.SetPayme(ctx, *t); err != nil {
		return err
	}
	return tx.Release(ctx, t.OrderNo, t.Source, t.ID)
}

// timeOutBatch is how many transactions time out in one go.
const timeOutBatch = 100

// timeOuts cancels every transaction whose time is over, each under its own locks.
func (m *Merchant) timeOuts(ctx context.Context, now time.Time) (done int, err error) {
	for {
		overdue, err := m.store.OverduePayme(ctx, now.Add(-paymeTimeout).UnixMilli(), timeOutBatch)
		if err != nil {
			return done, err
		}
		for _, name := range overdue {
			err := m.store.InTx(ctx, func(tx postgres.Tx) error {
				t, _, found, err := tx.LockPayme(ctx, now, name.Source, name.ID)
				if err != nil || !found {
					return err
				}
				return timeOut(ctx, tx, &t, now)
			})
			if err != nil {
				return done, err
			}
			done++
		}
		if len(overdue) < timeOutBatch {
			return done, nil
		}
	}
}

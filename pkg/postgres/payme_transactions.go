package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/postgres/internal/dbgen"
)

// PaymeState is where a transaction of Payme's stands, in Payme's own numbers.
type PaymeState int16

const (
	PaymeCreated   PaymeState = 1
	PaymePerformed PaymeState = 2
	// PaymeCancelled is out of Created, PaymeRefunded out of Performed.
	PaymeCancelled PaymeState = -1
	PaymeRefunded  PaymeState = -2
)

// PaymeTransaction is one of Payme's transactions. Times are Unix milliseconds; 0:
// it has not come to that.
type PaymeTransaction struct {
	// No is the shop's number of it.
	No int64
	// Source and ID are the cash box's source and Payme's id.
	Source, ID string
	OrderNo    int64
	// Amount is in tiyin.
	Amount int64
	// Account is the JSON object by which Payme named the order.
	Account string
	// Time is when Payme made it; the others are this shop's.
	Time, CreateTime, PerformTime, CancelTime int64
	State                                     PaymeState
	// Reason is Payme's number for why it was cancelled; 0: it was not.
	Reason int16
}

// LockPayme locks a transaction, after its order. False if there is none.
func (tx Tx) LockPayme(ctx context.Context, now time.Time, source, id string) (PaymeTransaction, Checkout, bool, error) {
	return lockTransaction(ctx, tx, now, source, id, tx.q.FindPayme, tx.PaymeOf)
}

// PaymeOf locks a transaction whose order is locked already, or is another one. False
// if there is none.
func (tx Tx) PaymeOf(ctx context.Context, source, id string) (PaymeTransaction, bool, error) {
	r, found, err := lockRow(ctx, tx, source, id, tx.q.LockPayme)
	if err != nil || !found {
		return PaymeTransaction{}, false, err
	}
	return paymeTransaction(source, r), true, nil
}

func paymeTransaction(source string, r dbgen.LockPaymeRow) PaymeTransaction {
	return PaymeTransaction{No: r.TransactionNo, Source: source, ID: r.PaymeID, OrderNo: r.OrderNo, Amount: r.Amount, Account: r.Account,
		Time: r.PaymeTime, CreateTime: r.CreateTime, PerformTime: r.PerformTime, CancelTime: r.CancelTime,
		State: PaymeState(r.State), Reason: r.Reason.Int16}
}

// AddPayme keeps a new transaction and returns its number.
func (tx Tx) AddPayme(ctx context.Context, t PaymeTransaction) (int64, error) {
	nos, err := tx.nameNos(ctx, t.Source)
	if err != nil {
		return 0, err
	}
	no, err := tx.q.AddPayme(ctx, dbgen.AddPaymeParams{SourceNo: nos[t.Source], PaymeID: t.ID, OrderNo: t.OrderNo,
		Amount: t.Amount, Account: t.Account, PaymeTime: t.Time, CreateTime: t.CreateTime})
	if err != nil {
		return 0, fmt.Errorf("add Payme transaction: %w", err)
	}
	return no, nil
}

// SetPayme writes the state of a locked transaction, with its times and reason.
func (tx Tx) SetPayme(ctx context.Context, t PaymeTransaction) error {
	err := tx.q.SetPayme(ctx, dbgen.SetPaymeParams{TransactionNo: t.No, State: int16(t.State), PerformTime: t.PerformTime,
		CancelTime: t.CancelTime, Reason: pgtype.Int2{Int16: t.Reason, Valid: t.Reason != 0}})
	if err != nil {
		return fmt.Errorf("set state of Payme transaction: %w", err)
	}
	return nil
}

// SetPaymeFiscal keeps the data of a receipt, or of that of its refund; false if
// there is no such transaction.
func (tx Tx) SetPaymeFiscal(ctx context.Context, source, id string, refund bool, data string) (bool, error) {
	nos, err := tx.nameNos(ctx, source)
	if err != nil {
		return false, err
	}
	n, err := tx.q.SetPaymeFiscal(ctx, dbgen.SetPaymeFiscalParams{SourceNo: nos[source], PaymeID: id, Refund: refund, Data: data})
	if err != nil {
		return false, fmt.Errorf("keep a receipt's data: %w", err)
	}
	return n == 1, nil
}

// PaymeStatement lists the transactions that Payme made from and to, both included,
// in the order of Payme's time.
func (s *Store) PaymeStatement(ctx context.Context, source string, from, to int64) (list []PaymeTransaction, err error) {
	err = s.InTx(ctx, func(tx Tx) error {
		list = nil
		nos, err := tx.nameNos(ctx, source)
		if err != nil {
			return err
		}
		rows, err := tx.q.PaymeStatement(ctx, nos[source], from, to)
		if err != nil {
			return err
		}
		for _, r := range rows {
			list = append(list, paymeTransaction(source, dbgen.LockPaymeRow(r)))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read Payme's statement: %w", err)
	}
	return list, nil
}

// PaymeName names a transaction.
type PaymeName struct{ Source, ID string }

// OverduePayme lists up to limit transactions that are only created, and were made
// by Payme at until (Unix milliseconds) or before.
func (s *Store) OverduePayme(ctx context.Context, until int64, limit int) (list []PaymeName, err error) {
	rows, err := dbgen.New(s.pool).OverduePayme(ctx, until, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("find overdue Payme transactions: %w", err)
	}
	for _, r := range rows {
		list = append(list, PaymeName{r.Name, r.PaymeID})
	}
	return list, nil
}

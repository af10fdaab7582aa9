package postgres

import (
	"context"
	"fmt"
	"time"

	"sluice/pkg/postgres/internal/dbgen"
)

// ClickState is what Click said of a transaction last.
type ClickState int16

const (
	ClickPrepared ClickState = iota
	ClickConfirmed
	ClickCancelled
)

// ClickTransaction is one of Click's transactions.
type ClickTransaction struct {
	// No is merchant_prepare_id and merchant_confirm_id.
	No int64
	// Source and ID are the service's source and click_trans_id.
	Source, ID string
	// Service is service_id; Paydoc is click_paydoc_id, which no signature covers.
	Service, Paydoc string
	OrderNo         int64
	// Amount is in tiyin.
	Amount     int64
	State      ClickState
	PreparedAt time.Time
	// CompletedAt is when it was confirmed or cancelled, and ContradictedAt when
	// Click first said the other of the two; zero: it has not come to that.
	CompletedAt, ContradictedAt time.Time
}

// LockClick locks a transaction, after its order. False if there is none.
func (tx Tx) LockClick(ctx context.Context, now time.Time, source, id string) (ClickTransaction, Checkout, bool, error) {
	return lockTransaction(ctx, tx, now, source, id, tx.q.FindClick, tx.ClickOf)
}

// ClickOf locks a transaction whose order is locked already, or is another one. False
// if there is none.
func (tx Tx) ClickOf(ctx context.Context, source, id string) (ClickTransaction, bool, error) {
	r, found, err := lockRow(ctx, tx, source, id, tx.q.LockClick)
	if err != nil || !found {
		return ClickTransaction{}, false, err
	}
	return ClickTransaction{No: r.TransactionNo, Source: source, ID: id, Service: r.ServiceID, Paydoc: r.PaydocID, OrderNo: r.OrderNo,
		Amount: r.Amount, State: ClickState(r.State), PreparedAt: r.PreparedAt.Time,
		CompletedAt: r.CompletedAt.Time, ContradictedAt: r.ContradictedAt.Time}, true, nil
}

// AddClick keeps a new transaction and returns its number.
func (tx Tx) AddClick(ctx context.Context, t ClickTransaction) (int64, error) {
	nos, err := tx.nameNos(ctx, t.Source)
	if err != nil {
		return 0, err
	}
	no, err := tx.q.AddClick(ctx, dbgen.AddClickParams{SourceNo: nos[t.Source], ClickTransID: t.ID, ServiceID: t.Service,
		PaydocID: t.Paydoc, OrderNo: t.OrderNo, Amount: t.Amount, PreparedAt: timestamp(t.PreparedAt)})
	if err != nil {
		return 0, fmt.Errorf("add Click transaction: %w", err)
	}
	return no, nil
}

// SetClick writes the state of a locked transaction, with its times.
func (tx Tx) SetClick(ctx context.Context, t ClickTransaction) error {
	err := tx.q.SetClick(ctx, dbgen.SetClickParams{TransactionNo: t.No, State: int16(t.State),
		CompletedAt:    timestampOrNull(t.CompletedAt),
		ContradictedAt: timestampOrNull(t.ContradictedAt)})
	if err != nil {
		return fmt.Errorf("set state of Click transaction: %w", err)
	}
	return nil
}

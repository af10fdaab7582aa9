package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// Checkout is an order under its lock, as a provider that asks before it pays must
// see it: what it is worth, where it stands, and who may take its money.
type Checkout struct {
	OrderNo int64
	OrderID string
	// Registered: the shop has said what it is worth; Amount and Currency are that.
	Registered bool
	Amount     int64
	Currency   string
	Status     order.Status
	// CalledOff: the order itself was cancelled, not only an attempt to pay it.
	CalledOff bool
	// Reserved is who may take its money; nil: nobody yet.
	Reserved *Reservation
}

// LockCheckout locks the order of that id until the transaction ends, which no fact
// about it and no other provider can then pass. False if there is none; no stub is
// made. sources are those that the transaction will write for: their names are
// locked first.
func (tx Tx) LockCheckout(ctx context.Context, now time.Time, orderID string, sources ...string) (Checkout, bool, error) {
	if _, err := tx.nameNos(ctx, sources...); err != nil {
		return Checkout{}, false, err
	}
	r, err := tx.q.LockCheckout(ctx, orderID)
	if errors.Is(err, pgx.ErrNoRows) {
		return Checkout{}, false, nil
	}
	if err != nil {
		return Checkout{}, false, fmt.Errorf("lock order: %w", err)
	}
	c, err := tx.checkout(ctx, now, dbgen.LockCheckoutByNoRow(r))
	return c, err == nil, err
}

func (tx Tx) lockCheckoutByNo(ctx context.Context, now time.Time, no int64) (Checkout, error) {
	r, err := tx.q.LockCheckoutByNo(ctx, no)
	if err != nil {
		return Checkout{}, fmt.Errorf("lock order number %d: %w", no, err)
	}
	return tx.checkout(ctx, now, r)
}

func (tx Tx) checkout(ctx context.Context, now time.Time, r dbgen.LockCheckoutByNoRow) (Checkout, error) {
	c := Checkout{OrderNo: r.OrderNo, OrderID: r.OrderID.String, Registered: r.RegisteredAt.Valid,
		Amount: r.Amount, Currency: r.Currency, Status: order.Status(r.Status)}
	var err error
	if c.Status == order.Cancelled {
		if c.CalledOff, err = tx.q.CalledOff(ctx, c.OrderNo, int16(order.KindCancelled), int16(order.Applied)); err != nil {
			return c, fmt.Errorf("read who cancelled the order: %w", err)
		}
	}
	c.Reserved, err = tx.reservation(ctx, now, c.OrderNo)
	return c, err
}

// lockTransaction locks the order of a provider's transaction and then, by lock, the
// transaction itself. find tells the order's number. False if there is none.
func lockTransaction[T any](ctx context.Context, tx Tx, now time.Time, source, id string,
	find func(ctx context.Context, sourceNo int16, id string) (orderNo int64, err error),
	lock func(ctx context.Context, source, id string) (T, bool, error)) (t T, c Checkout, found bool, err error) {
	nos, err := tx.nameNos(ctx, source)
	if err != nil {
		return t, c, false, err
	}
	orderNo, err := find(ctx, nos[source], id)
	if errors.Is(err, pgx.ErrNoRows) {
		return t, c, false, nil
	}
	if err != nil {
		return t, c, false, fmt.Errorf("find a transaction of source %s: %w", source, err)
	}
	if c, err = tx.lockCheckoutByNo(ctx, now, orderNo); err != nil {
		return t, c, false, err
	}
	t, found, err = lock(ctx, source, id)
	return t, c, found, err
}

// lockRow locks a transaction's row; false if there is none.
func lockRow[R any](ctx context.Context, tx Tx, source, id string,
	lock func(ctx context.Context, sourceNo int16, id string) (R, error)) (row R, found bool, err error) {
	nos, err := tx.nameNos(ctx, source)
	if err != nil {
		return row, false, err
	}
	row, err = lock(ctx, nos[source], id)
	if errors.Is(err, pgx.ErrNoRows) {
		return row, false, nil
	}
	if err != nil {
		return row, false, fmt.Errorf("lock a transaction of source %s: %w", source, err)
	}
	return row, true, nil
}

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

// Reservation is who may take the money of an order.
type Reservation struct {
	// Source and Payment name the provider's transaction.
	Source, Payment string
	At              time.Time
	// Until is when it ends by itself; zero: not before the provider says that the
	// payment failed, for money was taken, or may have been.
	Until time.Time
}

// By says whether a transaction holds the reservation; nil is nobody's.
func (r *Reservation) By(source, payment string) bool {
	return r != nil && r.Source == source && r.Payment == payment
}

// ended are the kinds by which a provider says that no money was taken.
var ended = []int16{int16(order.KindFailed), int16(order.KindCancelled)}

// reservation is the live reservation of an order, or nil.
func (tx Tx) reservation(ctx context.Context, now time.Time, orderNo int64) (*Reservation, error) {
	row, err := tx.q.GetReservation(ctx, orderNo)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the order's reservation: %w", err)
	case row.ExpiresAt.Valid && !now.Before(row.ExpiresAt.Time):
		return nil, nil
	}
	if !row.ExpiresAt.Valid {
		over, err := tx.q.PaymentEnded(ctx, dbgen.PaymentEndedParams{OrderNo: orderNo, SourceNo: row.SourceNo,
			PaymentID: row.PaymentID, Kinds: ended, Held: int16(order.Held)})
		if err != nil {
			return nil, fmt.Errorf("read how the order's payment ended: %w", err)
		}
		if over {
			return nil, nil
		}
	}
	source, err := tx.nameOf(ctx, row.SourceNo)
	if err != nil {
		return nil, err
	}
	return &Reservation{Source: source, Payment: row.PaymentID, At: row.ReservedAt.Time, Until: row.ExpiresAt.Time}, nil
}

// Reserve makes r the order's reservation, whoever had it: the caller has looked,
// under the order's lock.
func (tx Tx) Reserve(ctx context.Context, orderNo int64, r Reservation) error {
	nos, err := tx.nameNos(ctx, r.Source)
	if err != nil {
		return err
	}
	err = tx.q.PutReservation(ctx, dbgen.PutReservationParams{OrderNo: orderNo, SourceNo: nos[r.Source], PaymentID: r.Payment,
		ReservedAt: timestamp(r.At), ExpiresAt: timestampOrNull(r.Until)})
	if err != nil {
		return fmt.Errorf("reserve the order: %w", err)
	}
	return nil
}

// Release ends a transaction's reservation; another's stays.
func (tx Tx) Release(ctx context.Context, orderNo int64, source, payment string) error {
	nos, err := tx.nameNos(ctx, source)
	if err != nil {
		return err
	}
	if err := tx.q.DeleteReservation(ctx, orderNo, nos[source], payment); err != nil {
		return fmt.Errorf("release the order: %w", err)
	}
	return nil
}

// Reservation is who may take the money of the order of that id at now; nil:
// nobody.
func (s *Store) Reservation(ctx context.Context, now time.Time, orderID string) (r *Reservation, err error) {
	err = s.InTx(ctx, func(tx Tx) error {
		var no int64
		err := tx.tx.QueryRow(ctx, `SELECT order_no FROM orders WHERE order_id = $1`, orderID).Scan(&no)
		if err != nil {
			return err
		}
		r, err = tx.reservation(ctx, now, no)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the reservation of order %q: %w", orderID, err)
	}
	return r, nil
}

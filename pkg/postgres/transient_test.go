package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"sluice/pkg/postgres"
)

func TestOnlyRefusedDataIsNotWorthAnotherTry(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{context.Canceled, true},
		{context.DeadlineExceeded, true},
		{errors.New("nobody has seen this before"), true},
		{&pgconn.PgError{Code: "40P01"}, true},
		{&pgconn.PgError{Code: "57014"}, true},
		{&pgconn.PgError{Code: "57P01"}, true},
		{&pgconn.PgError{Code: "53300"}, true},
		{&pgconn.PgError{Code: "23514"}, true}, // no table partition for the row
		{&pgconn.PgError{Code: "23514", ConstraintName: "orders_status_check"}, false},
		{&pgconn.PgError{Code: "22021"}, false},
		{fmt.Errorf("update orders: %w", &pgconn.PgError{Code: "22003"}), false},
	} {
		if got := postgres.Transient(c.err); got != c.want {
			t.Errorf("%v: transient is %t", c.err, got)
		}
	}
}

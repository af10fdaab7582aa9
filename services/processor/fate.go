package processor

import (
	"errors"

	"sluice/pkg/postgres"
)

// fate is what becomes of the records of a transaction.
type fate uint8

const (
	// done: they are in the database.
	done fate = iota
	// retry: the same transaction may succeed later. Every unknown error is one,
	// a cancelled context too: it came from below, ctx itself is asked elsewhere.
	retry
	// leave: another consumer has the partition.
	leave
	// isolate: PostgreSQL refuses the data of at least one of them.
	isolate
)

// fateOf is the only place where an error decides about records.
func fateOf(err error) fate {
	switch {
	case err == nil:
		return done
	case errors.Is(err, postgres.ErrFenced):
		return leave
	case postgres.Transient(err):
		return retry
	default:
		return isolate
	}
}

package postgres

import (
	"context"
	"fmt"
	"time"
)

// Slots are requests to one provider that one reconciler may make, and nobody else:
// the first at First, each of the others a reservation's pace later. All times are
// the database's clock.
type Slots struct {
	First time.Time
	// Now is when they were reserved.
	Now time.Time
	// QuietUntil lies after Now if the provider asked to be left alone: then no slot
	// was reserved.
	QuietUntil time.Time
}

// ReserveSlots reserves n requests to the provider of a source, each so long after
// the one before, whoever reserved it, and none before lead is over: that is how long the
// answer is on its way. Nothing gives a slot back: one that is not
// used is lost.
func (s *Store) ReserveSlots(ctx context.Context, source string, every, lead time.Duration, n int) (r Slots, err error) {
	lasting := time.Duration(n) * every.Truncate(time.Microsecond)
	var end time.Time
	err = s.pool.QueryRow(ctx, `
		INSERT INTO paces AS p (source, next_at) VALUES ($1, clock_timestamp() + ($2::bigint + $4::bigint) * interval '1 microsecond')
		ON CONFLICT (source) DO UPDATE SET
			next_at = CASE WHEN p.quiet_until > clock_timestamp() THEN p.next_at
			               ELSE GREATEST(LEAST(p.next_at, clock_timestamp() + $3::bigint * interval '1 microsecond'),
			                             clock_timestamp() + $4::bigint * interval '1 microsecond')
			                    + $2::bigint * interval '1 microsecond' END
		RETURNING next_at, GREATEST(quiet_until, 'epoch'), clock_timestamp()`, source, lasting.Microseconds(), furthest(every).Microseconds(), lead.Microseconds()).
		Scan(&end, &r.QuietUntil, &r.Now)
	if err != nil {
		return Slots{}, fmt.Errorf("reserve requests to the provider of source %s: %w", source, err)
	}
	r.First = end.Add(-lasting)
	return r, nil
}

// furthest is how far ahead reservations can lie. What lies further ahead was reserved
// before the database's clock was set back, and nobody waits for it.
func furthest(every time.Duration) time.Duration { return time.Minute + 64*every }

// KeepQuiet keeps every reconciler from asking the provider of a source for a while.
// Slots that are reserved already stay.
func (s *Store) KeepQuiet(ctx context.Context, source string, lasting time.Duration) error {
	_, err := s.pool.Exec(ctx, `
		INSERT INTO paces AS p (source, next_at, quiet_until)
		VALUES ($1, clock_timestamp(), clock_timestamp() + $2::bigint * interval '1 microsecond')
		ON CONFLICT (source) DO UPDATE SET quiet_until = GREATEST(p.quiet_until, excluded.quiet_until)`, source, lasting.Microseconds())
	return wrap("leave the provider of source "+source+" alone", err)
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/order"
)

// SweepTerms are by what a source is swept.
type SweepTerms struct {
	Source string
	// Every is how long after a sweep the next one is due.
	Every time.Duration
	// Back is how far a sweep reaches behind what was swept before, Kept how far back
	// the provider lists at all (0: no end), Delay how close to now it comes: what is
	// younger may still be on its way.
	Back, Kept, Delay time.Duration
	// Lease is how long a claim lasts from its last page on.
	Lease time.Duration
}

// Sweep is one sweep under way, claimed by one reconciler.
type Sweep struct {
	SweepTerms
	// Since and Until are its span, whole seconds.
	Since, Until time.Time
	// Page is where to go on in the provider's lists; empty at the beginning.
	Page string
	// Lost is how much of what it should have listed the provider lists no more.
	Lost time.Duration

	owner    string
	sourceNo int16
}

// ErrSweepOver means that a sweep is not this owner's any more: its lease was over and
// another has claimed it, or a gap has begun it anew.
var ErrSweepOver = errors.New("the sweep is somebody else's by now")

// ClaimSweep gives owner the sweep of a source: the one under way if nobody has it,
// where it was left, or the next one if that is due; nil if there is nothing to do. The
// span of the next one begins Back before the end of the last one, whenever that was.
func (s *Store) ClaimSweep(ctx context.Context, now time.Time, owner string, t SweepTerms) (sweep *Sweep, err error) {
	err = s.InTx(ctx, func(tx Tx) error {
		nos, err := tx.nameNos(ctx, t.Source)
		if err != nil {
			return err
		}
		upTo := now.Add(-t.Delay).Truncate(time.Second)
		oldest := time.Unix(0, 0)
		if t.Kept > 0 {
			oldest = now.Add(-t.Kept).Truncate(time.Second)
		}
		// The first sweep of a source reaches back as any other.
		if _, err := tx.tx.Exec(ctx, `INSERT INTO sweeps (source_no, swept_until, due_at, free_at) VALUES ($1, $2, $3, '-infinity') ON CONFLICT DO NOTHING`,
			nos[t.Source], upTo, now); err != nil {
			return err
		}
		sweep = &Sweep{SweepTerms: t, owner: owner, sourceNo: nos[t.Source]}
		var wanted time.Time
		err = tx.tx.QueryRow(ctx, `
			UPDATE sweeps SET claimed_by = $2, free_at = $3,
				since = coalesce(since, GREATEST(date_trunc('second', swept_until - $4::interval), $5)), until = coalesce(until, $6)
			WHERE source_no = $1 AND free_at <= $7 AND (until IS NOT NULL OR due_at <= $7 AND swept_until - $4::interval < $6)
			RETURNING since, until, page, date_trunc('second', swept_until - $4::interval)`,
			nos[t.Source], owner, now.Add(t.Lease), t.Back, oldest, upTo, now).Scan(&sweep.Since, &sweep.Until, &sweep.Page, &wanted)
		sweep.Lost = max(0, sweep.Since.Sub(wanted))
		if errors.Is(err, pgx.ErrNoRows) {
			sweep, err = nil, nil
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim the sweep of source %s: %w", t.Source, err)
	}
	return sweep, nil
}

// AdvanceSweep says that all up to a page is known: what was missing is in the raw
// topic, acknowledged, and the objects given are asked about after this transaction.
// next is the page to go on with; empty: the sweep is through, and the next one is due
// after Every. ErrSweepOver: nothing was written.
func (s *Store) AdvanceSweep(ctx context.Context, now time.Time, sweep *Sweep, next, endpoint string, ask []Target) error {
	err := s.InTx(ctx, func(tx Tx) error {
		nos, err := tx.nameNos(ctx, sweep.Source, endpoint)
		if err != nil {
			return err
		}
		if err := tx.armAll(ctx, now, nos[sweep.Source], nos[endpoint], ask); err != nil {
			return err
		}
		q := `UPDATE sweeps SET page = $5, free_at = $6 WHERE source_no = $1 AND claimed_by = $2 AND until = $3 AND page = $4`
		args := []any{sweep.sourceNo, sweep.owner, sweep.Until, sweep.Page, next, now.Add(sweep.Lease)}
		if next == "" {
			q = `UPDATE sweeps SET swept_until = until, since = NULL, until = NULL, page = '', claimed_by = NULL, free_at = '-infinity', due_at = $5
				WHERE source_no = $1 AND claimed_by = $2 AND until = $3 AND page = $4`
			args = append(args[:4], now.Add(sweep.Every))
		}
		tag, err := tx.tx.Exec(ctx, q, args...)
		if err == nil && tag.RowsAffected() == 0 {
			err = ErrSweepOver
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("go on with the sweep of source %s: %w", sweep.Source, err)
	}
	sweep.Page = next
	return nil
}

// armAll arms a look-up of each object.
func (tx Tx) armAll(ctx context.Context, now time.Time, source, endpoint int16, ask []Target) error {
	var objects []object
	arms := map[object]arming{}
	for _, t := range ask {
		o := object{source, t.Object}
		objects = append(objects, o)
		arms[o] = arming{object: o, endpointNo: endpoint, target: t, lane: LaneHint, reviewAt: tx.store.graces.due(order.AwaitingProvider, now)}
	}
	if len(arms) == 0 {
		return nil
	}
	if _, err := tx.lockLookups(ctx, objects); err != nil {
		return err
	}
	_, err := tx.arm(ctx, now, slices.Collect(maps.Values(arms)))
	return err
}

// ReturnSweep gives a sweep back to be gone on with at a time, or to be begun anew
// then: a place in a list may be worth nothing after a while. If it is somebody
// else's, it does nothing.
func (s *Store) ReturnSweep(ctx context.Context, sweep *Sweep, at time.Time, anew bool) error {
	page := sweep.Page
	if anew {
		page = ""
	}
	_, err := s.pool.Exec(ctx, `UPDATE sweeps SET claimed_by = NULL, free_at = $4, page = $5 WHERE source_no = $1 AND claimed_by = $2 AND until = $3`,
		sweep.sourceNo, sweep.owner, sweep.Until, at, page)
	return wrap("give back the sweep of source "+sweep.Source, err)
}

// SweepGap makes every source be swept again from the last record on that was counted
// of a partition, because those behind it are gone: of what they held only the
// providers know. It returns since when: 30 days, the raw topic's usual life, if none
// was ever counted.
func (tx Tx) SweepGap(ctx context.Context, now time.Time, topicID [16]byte, partition int32) (since time.Time, err error) {
	err = tx.tx.QueryRow(ctx, `SELECT coalesce(max(hour), $3::timestamptz - interval '30 days') FROM books WHERE topic_id = $1 AND partition = $2`, uuid(topicID), partition, now).Scan(&since)
	if err == nil {
		_, err = tx.tx.Exec(ctx, `
			UPDATE sweeps SET swept_until = LEAST(swept_until, $1), since = NULL, until = NULL, page = '', claimed_by = NULL, free_at = '-infinity', due_at = $2`,
			since, now)
	}
	return since, wrap("have what is missing swept again", err)
}

// SweepState is how far a source was swept.
type SweepState struct {
	Source string
	// SweptUntil: everything before was listed, and is known.
	SweptUntil time.Time
	// Since and Until are of the sweep under way, zero if none is.
	Since, Until time.Time
}

// Sweeps says how far each source was swept that ever was.
func (s *Store) Sweeps(ctx context.Context) ([]SweepState, error) {
	rows, err := s.pool.Query(ctx, `SELECT n.name, w.swept_until, w.since, w.until FROM sweeps w JOIN names n ON n.name_no = w.source_no ORDER BY n.name`)
	if err != nil {
		return nil, fmt.Errorf("read how far sources were swept: %w", err)
	}
	states, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (w SweepState, err error) {
		var since, until pgtype.Timestamptz
		err = row.Scan(&w.Source, &w.SweptUntil, &since, &until)
		w.Since, w.Until = since.Time, until.Time
		return w, err
	})
	return states, wrap("read how far sources were swept", err)
}

package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// RelayShard is a shard that a relay owns. Whoever takes it over raises Epoch;
// the old owner's statements then change nothing.
type RelayShard struct {
	Shard int16
	Epoch int64
	// Cursor is the id up to which every row is published, as the database knows; the
	// topic of cursors may know more.
	Cursor int64
}

// Every statement locks shards in their order, so that two never wait for each other.
const returnShard = ` RETURNING r.shard, r.epoch, r.cursor`

// RelayLease is what one relay holds after a claim.
type RelayLease struct {
	Shards []RelayShard
	// Excess is how many of them are beyond the fair share: release so many.
	Excess int
}

// ClaimRelayShards shows owner as alive, renews the leases it still has, and
// takes free or expired shards up to its fair share, the same for every live
// relay. Call it several times within ttl.
func (s *Store) ClaimRelayShards(ctx context.Context, owner string, ttl time.Duration) (RelayLease, error) {
	var lease RelayLease
	err := s.InTx(ctx, func(tx Tx) error {
		var live int
		if err := tx.tx.QueryRow(ctx, `
			INSERT INTO relay_instances (owner, alive_until) VALUES ($1, clock_timestamp() + $2::interval)
			ON CONFLICT (owner) DO UPDATE SET alive_until = excluded.alive_until
			RETURNING (SELECT count(*) FROM relay_instances o WHERE o.owner <> $1 AND o.alive_until > clock_timestamp())`,
			owner, ttl).Scan(&live); err != nil {
			return err
		}
		fair := (Shards + live) / (live + 1) // ceil(Shards / (live + 1))
		held, err := tx.shards(ctx, `
			UPDATE relay_shards r SET lease_until = clock_timestamp() + $2::interval
			WHERE r.shard IN (SELECT shard FROM relay_shards WHERE owner = $1 ORDER BY shard FOR UPDATE)`+returnShard, owner, ttl)
		if err != nil {
			return err
		}
		lease.Shards = held
		lease.Excess = max(0, len(held)-fair)
		if len(held) >= fair {
			return nil
		}
		taken, err := tx.shards(ctx, `
			UPDATE relay_shards r SET owner = $1, epoch = epoch + 1, lease_until = clock_timestamp() + $2::interval
			WHERE r.shard IN (
				SELECT shard FROM relay_shards
				WHERE owner IS DISTINCT FROM $1 AND lease_until < clock_timestamp()
				ORDER BY shard LIMIT $3 FOR UPDATE SKIP LOCKED)`+returnShard, owner, ttl, fair-len(held))
		lease.Shards = append(lease.Shards, taken...)
		return err
	})
	if err != nil {
		return RelayLease{}, fmt.Errorf("claim relay shards: %w", err)
	}
	slices.SortFunc(lease.Shards, func(a, b RelayShard) int { return int(a.Shard - b.Shard) })
	return lease, nil
}

func (t Tx) shards(ctx context.Context, statement string, args ...any) ([]RelayShard, error) {
	rows, err := t.tx.Query(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[RelayShard])
}

// MoveCursors records in one statement that Kafka has acknowledged every row of
// these shards up to Cursor, and renews their leases. It returns how many were
// moved; the others have a new owner (Epoch differs) and stay as they are. Call
// it only after the acknowledgement.
func (s *Store) MoveCursors(ctx context.Context, owner string, shards []RelayShard, ttl time.Duration) (int, error) {
	no, epoch, cursor := make([]int16, len(shards)), make([]int64, len(shards)), make([]int64, len(shards))
	for i, sh := range shards {
		no[i], epoch[i], cursor[i] = sh.Shard, sh.Epoch, sh.Cursor
	}
	tag, err := s.pool.Exec(ctx, `
		UPDATE relay_shards r SET cursor = n.cursor, lease_until = clock_timestamp() + $5::interval
		FROM (
			SELECT o.shard, n.cursor
			FROM relay_shards o JOIN unnest($2::smallint[], $3::bigint[], $4::bigint[]) AS n(shard, epoch, cursor) USING (shard)
			WHERE o.owner = $1 AND o.epoch = n.epoch
			ORDER BY o.shard FOR UPDATE OF o) n
		WHERE r.shard = n.shard`, owner, no, epoch, cursor, ttl)
	if err != nil {
		return 0, fmt.Errorf("move relay cursors: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// ReleaseRelayShards gives shards back, so that another relay takes them at once.
func (s *Store) ReleaseRelayShards(ctx context.Context, owner string, shards []int16) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE relay_shards SET owner = NULL, lease_until = '-infinity' WHERE owner = $1 AND shard = ANY($2)`, owner, shards)
	if err != nil {
		return fmt.Errorf("release relay shards: %w", err)
	}
	return nil
}

// RetireRelay gives back all that owner holds and says that it is gone.
func (s *Store) RetireRelay(ctx context.Context, owner string) error {
	return s.InTx(ctx, func(tx Tx) error {
		// Also those of relays that died long ago.
		if _, err := tx.tx.Exec(ctx, `
			DELETE FROM relay_instances WHERE owner = $1 OR alive_until < clock_timestamp() - interval '1 hour'`, owner); err != nil {
			return fmt.Errorf("retire relay: %w", err)
		}
		_, err := tx.tx.Exec(ctx, `UPDATE relay_shards SET owner = NULL, lease_until = '-infinity' WHERE owner = $1`, owner)
		if err != nil {
			return fmt.Errorf("release relay shards: %w", err)
		}
		return nil
	})
}

// Published says whether the row with id is the transition of the order's version:
// whether a cursor that names it speaks of this database. A row that retention has
// dropped is taken for it; one that was never given out is not.
func (s *Store) Published(ctx context.Context, shard int16, id int64, orderID string, version int64) (bool, error) {
	var known bool
	err := s.pool.QueryRow(ctx, `
		SELECT coalesce(
			(SELECT order_id = $3 AND version = $4 FROM order_transitions WHERE shard = $1 AND id = $2),
			$2 <= (SELECT last_value FROM order_transitions_id_seq)
				AND $2 < coalesce((SELECT min(id) FROM order_transitions WHERE shard = $1), $2 + 1))`, shard, id, orderID, version).Scan(&known)
	if err != nil {
		return false, fmt.Errorf("look up order transition %d: %w", id, err)
	}
	return known, nil
}

// PutAside makes a review item of a transition whose message Kafka will never
// take; once for each, however often it is called.
func (s *Store) PutAside(ctx context.Context, t Transition, reason string) error {
	_, err := s.pool.Exec(ctx, `
		INSERT INTO review_items (kind, subject, order_no, detail) VALUES ('message_refused', $1, $2, $3)
		ON CONFLICT (kind, subject) DO NOTHING`, fmt.Sprintf("%s/%d", t.OrderID, t.Version), t.OrderNo, reason)
	if err != nil {
		return fmt.Errorf("put message of order transition %d aside: %w", t.ID, err)
	}
	return nil
}

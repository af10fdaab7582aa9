package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/postgres/internal/dbgen"
)

// The life of a replay: BeginReplay pauses the processors of the topic, and each
// says ReportPaused. Whoever asked looks once more at the world and says StartReplay.
// Then each partition is taken by its owner, or by who claims it next, and EndReplay
// says that it was read through. Whatever dies on the way, the replay either ends
// with the pause, as if nothing had been, or is gone on with by the next owner.

// BeginReplay asks for a replay and pauses the topic for PauseLease. ErrReplayOpen:
// there is one already.
func (s *Store) BeginReplay(ctx context.Context, r NewReplay) (id int64, err error) {
	plan, err := json.Marshal(r.Plan)
	if err != nil {
		return 0, fmt.Errorf("ask for a replay: %w", err)
	}
	add := dbgen.AddReplayPartitionsParams{}
	for _, p := range r.Partitions {
		add.Partitions, add.FromOffsets, add.Skips = append(add.Partitions, p.Partition), append(add.FromOffsets, p.From), append(add.Skips, p.Skip)
	}
	err = s.changeReplay(ctx, func(tx Tx) error {
		if _, err := tx.q.AbandonLapsedReplay(ctx, uuid(r.TopicID)); err != nil {
			return err
		}
		id, err = tx.q.AddReplay(ctx, dbgen.AddReplayParams{TopicID: uuid(r.TopicID), Topic: r.Topic, Who: r.Who, Reason: r.Reason, Plan: plan, Pause: pauseLease})
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrReplayOpen
		}
		if err != nil {
			return err
		}
		add.ReplayID = id
		return tx.q.AddReplayPartitions(ctx, add)
	})
	if err != nil {
		return 0, fmt.Errorf("ask for a replay of %s: %w", r.Topic, err)
	}
	return id, nil
}

var pauseLease = pgtype.Interval{Microseconds: PauseLease.Microseconds(), Valid: true}

// ExtendPause lets the pause last for PauseLease from now. ErrReplayOver: it ran
// out, or somebody else ended it.
func (s *Store) ExtendPause(ctx context.Context, id int64) error {
	n, err := dbgen.New(s.pool).ExtendPause(ctx, pauseLease, id)
	return replayChanged(id, "extend its pause", n, err)
}

// StartReplay lets the processors go, each to take its partitions, and writes who
// did it, and why, into the audit log. ErrReplayOver: the pause ran out, or somebody
// else ended it; nothing was changed.
func (s *Store) StartReplay(ctx context.Context, id int64) error {
	err := s.changeReplay(ctx, func(tx Tx) error {
		r, err := tx.q.StartReplay(ctx, id)
		if err != nil {
			return err
		}
		return tx.AddAuditEntry(ctx, AuditEntry{At: r.StartedAt.Time, Who: r.Who, Action: "replay.start", Reason: r.Reason,
			Subject: fmt.Sprintf("replay %d of %s", id, r.Topic), After: json.RawMessage(r.Plan)})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrReplayOver
	}
	if err != nil {
		return fmt.Errorf("replay %d: start it: %w", id, err)
	}
	return nil
}

// AbandonReplay ends a replay that was not started: processors go on as if nothing
// had been. ErrReplayOver: it was started, or has ended.
func (s *Store) AbandonReplay(ctx context.Context, id int64) error {
	var n int64
	err := s.changeReplay(ctx, func(tx Tx) (err error) {
		n, err = tx.q.AbandonReplay(ctx, id)
		return err
	})
	return replayChanged(id, "abandon it", n, err)
}

// StopReplay ends a replay that is running: what it did stays done, the rest is not
// read. Who and why stand beside it and in the audit log. ErrReplayOver: it is not running.
func (s *Store) StopReplay(ctx context.Context, id int64, who, why string) error {
	err := s.changeReplay(ctx, func(tx Tx) error {
		r, err := tx.q.StopReplay(ctx, who, why, id)
		if err != nil {
			return err
		}
		return tx.AddAuditEntry(ctx, AuditEntry{At: r.EndedAt.Time, Who: who, Action: "replay.stop", Reason: why,
			Subject: fmt.Sprintf("replay %d of %s", id, r.Topic)})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrReplayOver
	}
	if err != nil {
		return fmt.Errorf("replay %d: stop it: %w", id, err)
	}
	return nil
}

// ReportPaused says that owner, under this claim, polls the partition no more. It
// does nothing for a partition that has no part in the replay. ErrFenced: the claim
// is not the newest. ErrReplayOver: nobody waits for the report any more.
func (s *Store) ReportPaused(ctx context.Context, id int64, c Claim, owner string) error {
	err := s.changeReplay(ctx, func(tx Tx) error {
		n, err := tx.q.ReportPaused(ctx, dbgen.ReportPausedParams{Owner: owner, ReplayID: id, Partition: c.Partition, Epoch: c.Epoch})
		if err != nil || n == 1 {
			return err
		}
		part, err := tx.q.ReplayHasPartition(ctx, id, c.Partition)
		if err != nil || !part {
			return err
		}
		if _, err := tx.lockClaims(ctx, []Claim{c}); err != nil {
			return err
		}
		return ErrReplayOver
	})
	if err != nil {
		return fmt.Errorf("replay %d: report partition %d: %w", id, c.Partition, err)
	}
	return nil
}

// TakeReplay makes a running replay's partition the business of the claim's owner:
// from and until are what its second lane has to read. Once it is taken, until stays;
// taking it again, until it has ended, returns the same. Where from >= until there is
// nothing to read, and the partition has ended with this call.
//
// Commit from to Kafka as the group's offset BEFORE the call. A crash between the two
// leaves the partition untaken, and who claims it next begins anew; the other way
// round the target would be lost.
//
// If the partition's target was to skip, until is from, and everything below it counts
// as applied from now on: the live lane goes on at until, whatever it read before. A
// new owner must take an untaken partition before it judges where to begin.
//
// ErrFenced: the claim is not the newest. ErrReplayOver: the replay does not run, the
// partition has ended, or has no part in it; commit the live lane's position again.
func (s *Store) TakeReplay(ctx context.Context, id int64, c Claim) (from, until int64, err error) {
	err = s.changeReplay(ctx, func(tx Tx) error {
		applied, err := tx.lockClaims(ctx, []Claim{c})
		if err != nil {
			return err
		}
		from, until, err = tx.takeReplay(ctx, id, c.Partition, applied[0])
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("replay %d: take partition %d: %w", id, c.Partition, err)
	}
	return from, until, nil
}

// TakeIdleReplay takes every partition that nobody has taken, for whoever will claim
// it: for a group without members, whose offsets were committed by the tool itself.
func (s *Store) TakeIdleReplay(ctx context.Context, id int64) error {
	r, err := s.Replay(ctx, id)
	if err != nil {
		return err
	}
	err = s.changeReplay(ctx, func(tx Tx) error {
		for _, p := range r.Partitions {
			if p.Taken {
				continue
			}
			if err := tx.q.KnowPartition(ctx, uuid(r.TopicID), p.Partition, r.Topic); err != nil {
				return err
			}
			rows, err := tx.q.LockPartitions(ctx, uuid(r.TopicID), []int32{p.Partition})
			if err != nil {
				return err
			}
			if _, _, err := tx.takeReplay(ctx, id, p.Partition, rows[0].AppliedOffset); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("replay %d: take its partitions for whoever comes: %w", id, err)
	}
	return nil
}

// takeReplay: the partition is locked, and applied up to applied.
func (tx Tx) takeReplay(ctx context.Context, id int64, partition int32, applied int64) (from, until int64, err error) {
	r, err := tx.q.LockReplay(ctx, id)
	if err != nil {
		return 0, 0, none(err)
	}
	p, err := tx.q.LockReplayPartition(ctx, id, partition)
	if err != nil {
		return 0, 0, none(err)
	}
	if ReplayState(r.State) != ReplayRunning || p.Ended {
		return 0, 0, ErrReplayOver
	}
	if p.UntilOffset.Valid {
		return p.FromOffset, p.UntilOffset.Int64, nil
	}
	until = applied + 1
	if p.Skip && p.FromOffset > until {
		if err := tx.skip(ctx, r, partition, until, p.FromOffset); err != nil {
			return 0, 0, err
		}
		until = p.FromOffset
	}
	if err := tx.q.TakeReplayPartition(ctx, until, id, partition); err != nil {
		return 0, 0, err
	}
	_, err = tx.q.EndReplay(ctx, id)
	return p.FromOffset, until, err
}

// none: a row that is not there is a replay that is over.
func none(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrReplayOver
	}
	return err
}

// skip leaves the offsets from first on and below next out for ever. The books know
// them as a gap that a person has seen.
func (tx Tx) skip(ctx context.Context, r dbgen.LockReplayRow, partition int32, first, next int64) error {
	subject := fmt.Sprintf("%s/%d/%d-%d", r.Topic, partition, first, next-1)
	detail := fmt.Sprintf("offsets %d to %d of %s, partition %d: skipped", first, next-1, r.Topic, partition)
	if err := tx.q.AddSkippedOffsets(ctx, subject, detail, r.Who); err != nil {
		return fmt.Errorf("write off offsets %d to %d: %w", first, next-1, err)
	}
	return tx.q.SetAppliedOffsets(ctx, r.TopicID, []int32{partition}, []int64{next - 1})
}

// EndReplay says that a partition was read through: the group's offset is the live
// lane's position again. The last one ends the replay. Saying so twice, or of a
// partition that nobody took, changes nothing.
func (s *Store) EndReplay(ctx context.Context, id int64, partition int32) error {
	err := s.changeReplay(ctx, func(tx Tx) error {
		if _, err := tx.q.LockReplay(ctx, id); err != nil {
			return none(err)
		}
		if err := tx.q.EndReplayPartition(ctx, id, partition); err != nil {
			return err
		}
		_, err := tx.q.EndReplay(ctx, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("replay %d: end partition %d: %w", id, partition, err)
	}
	return nil
}

// CountReplay adds to what the replay did in a partition. A batch in which every
// record was known need not call it.
func (tx Tx) CountReplay(ctx context.Context, id int64, partition int32, n ReplayCounts) error {
	if n == (ReplayCounts{}) {
		return nil
	}
	if err := tx.q.CountReplay(ctx, dbgen.CountReplayParams{ReplayID: id, Partition: partition, Applied: n.Applied, NoChange: n.NoChange,
		Held: n.Held, Dead: n.Dead, Changes: n.Changes, Effects: n.Effects}); err != nil {
		return fmt.Errorf("count for replay %d: %w", id, err)
	}
	return nil
}

// changeReplay is one transaction, of which everybody who listens hears. It takes
// the database's one commit lock: for what happens a few times a replay, not for
// every batch.
func (s *Store) changeReplay(ctx context.Context, do func(Tx) error) error {
	return s.InTx(ctx, func(tx Tx) error {
		if err := do(tx); err != nil {
			return err
		}
		return tx.q.NotifyReplays(ctx)
	})
}

func replayChanged(id int64, what string, n int64, err error) error {
	if err == nil && n == 0 {
		err = ErrReplayOver
	}
	if err != nil {
		return fmt.Errorf("replay %d: %s: %w", id, what, err)
	}
	return nil
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/postgres/internal/dbgen"
)

// ErrFenced: another consumer claimed the partition; this one must not write
// for it any more.
var ErrFenced = errors.New("another consumer claimed the partition")

// Claim is the right to write for one partition of a topic. The newest claim
// wins: writing under an older one fails with ErrFenced.
type Claim struct {
	TopicID   [16]byte
	Partition int32
	Epoch     int64
}

// ClaimPartition takes the partition over from whoever had it, and waits for a
// transaction in which that one is writing. applied is the highest offset ever
// applied, -1 if none.
func (s *Store) ClaimPartition(ctx context.Context, topicID [16]byte, topic string, partition int32, owner string) (c Claim, applied int64, err error) {
	row, err := dbgen.New(s.pool).ClaimPartition(ctx, dbgen.ClaimPartitionParams{
		TopicID: uuid(topicID), Topic: topic, Partition: partition, Owner: owner})
	if err != nil {
		return Claim{}, 0, fmt.Errorf("claim partition %s/%d: %w", topic, partition, err)
	}
	return Claim{TopicID: topicID, Partition: partition, Epoch: row.Epoch}, row.AppliedOffset, nil
}

// Advance is the first step of a batch: it locks the partitions of the claims
// (one topic), checks that each claim is the newest, else ErrFenced, and moves
// each applied offset up to last. It returns what they were before.
func (tx Tx) Advance(ctx context.Context, claims []Claim, last []int64) (before []int64, err error) {
	if before, err = tx.lockClaims(ctx, claims); err != nil {
		return nil, err
	}
	if err := tx.q.SetAppliedOffsets(ctx, uuid(claims[0].TopicID), partitionsOf(claims), last); err != nil {
		return nil, fmt.Errorf("move applied offsets: %w", err)
	}
	return before, nil
}

// CheckClaims is the first step of a batch that was applied before: it checks that
// each claim is the newest, else ErrFenced, and returns the applied offsets. It locks
// nothing, so such a batch and Advance's never wait for each other here; a claim that
// comes meanwhile is no harm, since the batch moves no offset and counts nothing that
// its rows do not guard.
func (tx Tx) CheckClaims(ctx context.Context, claims []Claim) (before []int64, err error) {
	rows, err := tx.q.ReadPartitions(ctx, uuid(claims[0].TopicID), partitionsOf(claims))
	if err != nil {
		return nil, fmt.Errorf("check claims: %w", err)
	}
	return applied(claims, rows)
}

// lockClaims is CheckClaims that locks the partitions.
func (tx Tx) lockClaims(ctx context.Context, claims []Claim) (before []int64, err error) {
	rows, err := tx.q.LockPartitions(ctx, uuid(claims[0].TopicID), partitionsOf(claims))
	if err != nil {
		return nil, fmt.Errorf("lock partitions: %w", err)
	}
	return applied(claims, rows)
}

func partitionsOf(claims []Claim) []int32 {
	partitions := make([]int32, len(claims))
	for i, c := range claims {
		partitions[i] = c.Partition
	}
	return partitions
}

// height is what a partition's row says.
type height struct {
	Partition     int32
	Epoch         int64
	AppliedOffset int64
}

// applied is how far each claim's partition is applied. ErrFenced: one claim is not
// the newest.
func applied[R dbgen.LockPartitionsRow | dbgen.ReadPartitionsRow](claims []Claim, rows []R) ([]int64, error) {
	offsets := make([]int64, len(claims))
	for i, c := range claims {
		j := slices.IndexFunc(rows, func(r R) bool { return height(r).Partition == c.Partition })
		if j < 0 || height(rows[j]).Epoch != c.Epoch {
			return nil, fmt.Errorf("partition %d: %w", c.Partition, ErrFenced)
		}
		offsets[i] = height(rows[j]).AppliedOffset
	}
	return offsets, nil
}

func uuid(b [16]byte) pgtype.UUID { return pgtype.UUID{Bytes: b, Valid: true} }

func uuids(bs [][16]byte) []pgtype.UUID {
	out := make([]pgtype.UUID, len(bs))
	for i, b := range bs {
		out[i] = uuid(b)
	}
	return out
}

// AppliedOffsets returns the highest offset ever applied of each partition of a topic
// that was ever claimed.
func (s *Store) AppliedOffsets(ctx context.Context, topicID [16]byte) (map[int32]int64, error) {
	rows, err := dbgen.New(s.pool).AppliedOffsets(ctx, uuid(topicID))
	if err != nil {
		return nil, fmt.Errorf("read applied offsets: %w", err)
	}
	applied := make(map[int32]int64, len(rows))
	for _, r := range rows {
		applied[r.Partition] = r.AppliedOffset
	}
	return applied, nil
}

package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Offsets says where a topic's records lie, without reading them. Safe for
// concurrent use.
type Offsets struct {
	cl    *kgo.Client
	adm   *kadm.Client
	topic string
}

// NewOffsets connects to cfg's brokers; topic is a full name.
func NewOffsets(ctx context.Context, cfg Config, log *slog.Logger, topic string) (*Offsets, error) {
	cl, err := cfg.open(ctx, "offsets", log)
	if err != nil {
		return nil, err
	}
	return &Offsets{cl: cl, adm: kadm.NewClient(cl), topic: topic}, nil
}

// Close gives the connection back.
func (o *Offsets) Close() { o.cl.Close() }

// Extent is what a topic holds: for each partition the first offset that is left,
// and the one that the next record gets.
type Extent struct {
	TopicID    [16]byte
	Start, End map[int32]int64
}

// TopicID is the broker's id of the topic as it is now.
func (o *Offsets) TopicID(ctx context.Context) ([16]byte, error) {
	details, err := o.adm.ListTopics(ctx, o.topic)
	if err == nil {
		err = details[o.topic].Err
	}
	if err != nil {
		return [16]byte{}, fmt.Errorf("look up topic %s: %w", o.topic, err)
	}
	return details[o.topic].ID, nil
}

// Extent returns how far the topic reaches now.
func (o *Offsets) Extent(ctx context.Context) (Extent, error) {
	id, err := o.TopicID(ctx)
	if err != nil {
		return Extent{}, err
	}
	starts, ends, err := bounds(ctx, o.adm, o.topic)
	if err != nil {
		return Extent{}, err
	}
	return Extent{TopicID: id, Start: o.byPartition(starts), End: o.byPartition(ends)}, nil
}

// At returns for each partition the offset of its first record that was appended
// at t or later, and the end where there is none.
func (o *Offsets) At(ctx context.Context, t time.Time) (map[int32]int64, error) {
	listed, err := o.adm.ListOffsetsAfterMilli(ctx, t.UnixMilli(), o.topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("read offsets of topic %s at %s: %w", o.topic, t.UTC().Format(time.RFC3339), err)
	}
	return o.byPartition(listed), nil
}

// Committed returns for each partition the offset up to which whoever reads
// committed records can read now: the first of an open transaction's, else the end.
func (o *Offsets) Committed(ctx context.Context) (map[int32]int64, error) {
	listed, err := o.adm.ListCommittedOffsets(ctx, o.topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("read the committed end of topic %s: %w", o.topic, err)
	}
	return o.byPartition(listed), nil
}

// Group returns the offsets that a consumer group has committed of the topic, of
// those partitions of which it has any.
func (o *Offsets) Group(ctx context.Context, group string) (map[int32]int64, error) {
	fetched, err := o.adm.FetchOffsetsForTopics(ctx, group, o.topic)
	if err == nil {
		err = fetched.Error()
	}
	if errors.Is(err, kerr.GroupIDNotFound) { // some brokers say so, some that it has no offsets
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the offsets of group %s: %w", group, err)
	}
	offsets := map[int32]int64{}
	for p, f := range fetched[o.topic] {
		if f.At >= 0 {
			offsets[p] = f.At
		}
	}
	return offsets, nil
}

// CommitGroup commits offsets for a consumer group. The broker refuses it while
// the group has members.
func (o *Offsets) CommitGroup(ctx context.Context, group string, offsets map[int32]int64) error {
	commit := kadm.Offsets{}
	for p, at := range offsets {
		commit.AddOffset(o.topic, p, at, -1)
	}
	if err := o.adm.CommitAllOffsets(ctx, group, commit); err != nil {
		return fmt.Errorf("commit the offsets of group %s: %w", group, err)
	}
	return nil
}

func (o *Offsets) byPartition(listed kadm.ListedOffsets) map[int32]int64 {
	offsets := map[int32]int64{}
	for p, l := range listed[o.topic] {
		offsets[p] = l.Offset
	}
	return offsets
}

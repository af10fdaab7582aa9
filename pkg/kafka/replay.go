package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// ErrNotAssigned: the partition is another consumer's, or not begun yet.
var ErrNotAssigned = errors.New("the partition is not assigned to this consumer")

// replays are the partitions of one consumer, and which of them are being replayed:
// read again beside the consumer, by its owner. Of these the group's offset is where
// the replay is, so that its lag is true and a crash goes on from there; when the
// replay ends it jumps to where the consumer is. The lock is held during each
// commit: none comes after leave.
type replays struct {
	mu     sync.Mutex
	places map[int32]*place
}

// place is how far a partition has come.
type place struct {
	next     int64 // the consumer has done everything below
	replayed bool
}

func (r *replays) begin(behind Range) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.places[behind.Partition] = &place{next: behind.Before, replayed: behind.From < behind.Before}
}

func (r *replays) leave(partitions []int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range partitions {
		delete(r.places, p)
	}
}

// done notes what the consumer has done, and commits it unless a replay has the word.
func (r *replays) done(last map[int32]int64, commit func(map[int32]int64) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	offsets := map[int32]int64{}
	for p, offset := range last {
		pl := r.places[p]
		if pl == nil { // silent for too long: the broker refuses it, and says why
			offsets[p] = offset + 1
			continue
		}
		if pl.next = offset + 1; !pl.replayed {
			offsets[p] = pl.next
		}
	}
	return commit(offsets)
}

// Replay begins a replay of a partition at an offset, in place of one that is under
// way: the group's offset becomes from. It returns where the consumer itself goes on.
func (c *Consumer) Replay(ctx context.Context, p int32, from int64) (live int64, err error) {
	r := &c.replays
	r.mu.Lock()
	defer r.mu.Unlock()
	pl := r.places[p]
	if pl == nil {
		return 0, fmt.Errorf("replay partition %d: %w", p, ErrNotAssigned)
	}
	if err := c.commit(ctx, map[int32]int64{p: from}); err != nil {
		return 0, fmt.Errorf("replay partition %d: %w", p, err)
	}
	pl.replayed = true
	return pl.next, nil
}

// CommitReplay tells the group how far replays have come. Partitions that are not
// being replayed are passed over.
func (c *Consumer) CommitReplay(ctx context.Context, next map[int32]int64) error {
	r := &c.replays
	r.mu.Lock()
	defer r.mu.Unlock()
	offsets := maps.Clone(next)
	maps.DeleteFunc(offsets, func(p int32, _ int64) bool { return r.places[p] == nil || !r.places[p].replayed })
	return c.commit(ctx, offsets)
}

// EndReplay ends the replay of a partition: the group's offset is the consumer's own
// again.
func (c *Consumer) EndReplay(ctx context.Context, p int32) error {
	r := &c.replays
	r.mu.Lock()
	defer r.mu.Unlock()
	pl := r.places[p]
	if pl == nil {
		return fmt.Errorf("end the replay of partition %d: %w", p, ErrNotAssigned)
	}
	if err := c.commit(ctx, map[int32]int64{p: pl.next}); err != nil {
		return fmt.Errorf("end the replay of partition %d: %w", p, err)
	}
	pl.replayed = false
	return nil
}

// Assigned are the partitions that this consumer reads, sorted.
func (c *Consumer) Assigned() []int32 {
	c.replays.mu.Lock()
	defer c.replays.mu.Unlock()
	return slices.Sorted(maps.Keys(c.replays.places))
}

// TopicID is the id of the topic that is read.
func (c *Consumer) TopicID() [16]byte { return c.topicID }

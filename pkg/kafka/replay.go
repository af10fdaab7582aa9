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
	// open: what Begin has begun stands, and Leave has not been called yet.
	open bool
	// owed: the group was not told of next, which nothing else may follow.
	owed bool
}

func (r *replays) begin(behind Range) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.places[behind.Partition] = &place{next: behind.Before, replayed: behind.From < behind.Before}
}

// open says whether partitions are between their Begin and their Leave.
func (r *replays) open(partitions []int32, open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range partitions {
		if pl := r.places[p]; pl != nil {
			pl.open = open
		}
	}
}

func (r *replays) leave(partitions []int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range partitions {
		delete(r.places, p)
	}
}

// done notes what the consumer has done, and commits it unless a replay has the word.
// What could not be committed is owed.
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
	err := commit(offsets)
	for p := range offsets {
		if pl := r.places[p]; pl != nil {
			pl.owed = err != nil
		}
	}
	return err
}

// settle commits what is owed.
func (r *replays) settle(commit func(map[int32]int64) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	offsets := map[int32]int64{}
	for p, pl := range r.places {
		if pl.owed && !pl.replayed {
			offsets[p] = pl.next
		}
	}
	if len(offsets) == 0 {
		return nil
	}
	if err := commit(offsets); err != nil {
		return err
	}
	for p := range offsets {
		r.places[p].owed = false
	}
	return nil
}

// Settle tells the group what a Commit that failed could not. It is for now and then:
// the next Commit of the same partition would do, if only more came in.
func (c *Consumer) Settle(ctx context.Context) error {
	return c.replays.settle(func(offsets map[int32]int64) error { return c.commit(ctx, offsets) })
}

// Replay begins a replay of a partition at an offset, in place of one that is under
// way: the group's offset becomes from. It returns where the consumer itself goes on.
func (c *Consumer) Replay(ctx context.Context, p int32, from int64) (live int64, err error) {
	r := &c.replays
	r.mu.Lock()
	defer r.mu.Unlock()
	pl := r.places[p]
	if pl == nil || !pl.open {
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
	pl.replayed, pl.owed = false, false
	return nil
}

// Replaying says that a partition is being replayed: from its Begin or Replay on to its
// EndReplay.
func (c *Consumer) Replaying(p int32) bool {
	c.replays.mu.Lock()
	defer c.replays.mu.Unlock()
	pl := c.replays.places[p]
	return pl != nil && pl.replayed
}

// Assigned are the partitions that this consumer reads, sorted: those that Begin has
// returned for, and Leave was not called for.
func (c *Consumer) Assigned() (partitions []int32) {
	c.replays.mu.Lock()
	defer c.replays.mu.Unlock()
	for p, pl := range c.replays.places {
		if pl.open {
			partitions = append(partitions, p)
		}
	}
	slices.Sort(partitions)
	return partitions
}

// TopicID is the id of the topic that is read.
func (c *Consumer) TopicID() [16]byte { return c.topicID }

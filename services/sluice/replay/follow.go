package replay

import (
	"context"
	"errors"
	"time"

	"sluice/pkg/postgres"
)

// Progress is how far a replay is.
type Progress struct {
	Replay *postgres.Replay
	// Read of Total records were read again. Of a replay that was stopped only whole
	// partitions count: where it was in the others, the group's offset says no more.
	Read, Total int64
	// Lag is how many records are still to be read, by partition.
	Lag map[int32]int64
	// Members is how many read the topic: 0, and nothing goes on.
	Members int
}

// Progress looks how far a replay is: where it runs, the group's offset is the place
// where it reads.
func (p *Place) Progress(ctx context.Context, id int64) (Progress, error) {
	all, err := p.progress(ctx, func() ([]postgres.Replay, error) {
		r, err := p.store.Replay(ctx, id)
		if err != nil {
			return nil, err
		}
		return []postgres.Replay{*r}, nil
	})
	if err != nil {
		return Progress{}, err
	}
	return all[0], nil
}

// Last are the latest replays of the topic, the newest first.
func (p *Place) Last(ctx context.Context, limit int) ([]Progress, error) {
	id, err := p.offsets.TopicID(ctx)
	if err != nil {
		return nil, err
	}
	return p.progress(ctx, func() ([]postgres.Replay, error) { return p.store.Replays(ctx, id, limit) })
}

// progress is how far replays of one topic are. The group is looked at before them: what
// ends a replay moves its offsets, too.
func (p *Place) progress(ctx context.Context, list func() ([]postgres.Replay, error)) ([]Progress, error) {
	committed, err := p.offsets.Group(ctx, p.Group())
	if err != nil {
		return nil, err
	}
	m, err := p.offsets.Members(ctx, p.Group())
	if err != nil {
		return nil, err
	}
	replays, err := list()
	if err != nil || len(replays) == 0 {
		return nil, err
	}
	applied, err := p.store.AppliedOffsets(ctx, replays[0].TopicID)
	if err != nil {
		return nil, err
	}
	all := make([]Progress, len(replays))
	for i := range replays {
		all[i] = progressOf(&replays[i], committed, applied, m.Count)
	}
	return all, nil
}

func progressOf(r *postgres.Replay, committed, applied map[int32]int64, members int) Progress {
	progress := Progress{Replay: r, Read: read(r, committed), Lag: map[int32]int64{}, Members: members}
	for i := range r.Partitions {
		part := &r.Partitions[i]
		total := length(part)
		if !part.Taken {
			total = max(0, applied[part.Partition]+1-part.From)
		}
		progress.Total += total
		progress.Lag[part.Partition] = total - readOf(r, part, committed)
	}
	return progress
}

// length is how many records a partition's replay reads in all.
func length(part *postgres.ReplayPartition) int64 {
	if !part.Taken {
		return 0
	}
	return max(0, part.Until-part.From)
}

// read is how many records a replay has read where the group's offsets are committed.
func read(r *postgres.Replay, committed map[int32]int64) (n int64) {
	for i := range r.Partitions {
		n += readOf(r, &r.Partitions[i], committed)
	}
	return n
}

func readOf(r *postgres.Replay, part *postgres.ReplayPartition, committed map[int32]int64) int64 {
	switch {
	case !part.Taken:
		return 0
	case part.Ended:
		return length(part)
	case r.Ended():
		return 0
	}
	return min(max(0, committed[part.Partition]-part.From), length(part))
}

// followEvery is how often Follow looks.
const followEvery = 250 * time.Millisecond

// Follow tells see of a replay's progress until it has ended, or ctx.
func (p *Place) Follow(ctx context.Context, id int64, see func(Progress)) (Progress, error) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		now, err := p.Progress(ctx, id)
		if err != nil {
			return now, err
		}
		see(now)
		if now.Replay.Ended() {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case <-tick.C:
		}
	}
}

// ErrNone: nobody has a replay open.
var ErrNone = errors.New("no replay is open")

// Current is the open replay of the topic. ErrNone if there is none.
func (p *Place) Current(ctx context.Context) (*postgres.Replay, error) {
	id, err := p.offsets.TopicID(ctx)
	if err != nil {
		return nil, err
	}
	r, err := p.store.OpenReplay(ctx, id)
	if err == nil && r == nil {
		err = ErrNone
	}
	return r, err
}

// Stop ends a replay that is running, or takes one back that has not begun. Without
// members nobody else puts the group's offsets back to where live traffic goes on.
func (p *Place) Stop(ctx context.Context, r *postgres.Replay, who, why string) error {
	if r.State == postgres.ReplayPausing {
		err := p.store.AbandonReplay(ctx, r.ID)
		if !errors.Is(err, postgres.ErrReplayOver) {
			return err
		}
	}
	if err := p.store.StopReplay(ctx, r.ID, who, why); err != nil {
		return err
	}
	m, err := p.offsets.Members(ctx, p.Group())
	if err != nil || m.Count > 0 {
		return err
	}
	applied, err := p.store.AppliedOffsets(ctx, r.TopicID)
	if err != nil {
		return err
	}
	offsets := map[int32]int64{}
	for _, part := range r.Partitions {
		if part.Taken && !part.Ended {
			offsets[part.Partition] = applied[part.Partition] + 1
		}
	}
	if len(offsets) == 0 {
		return nil
	}
	return p.offsets.CommitGroup(ctx, p.Group(), offsets)
}

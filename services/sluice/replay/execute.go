package replay

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
)

// Order is what is to be done, by whom and why.
type Order struct {
	Plan        *Document
	Who, Reason string
	// Patience is how long processors may take to report before it is given up: a batch
	// may be under way. Live traffic waits as long.
	Patience time.Duration
	// Say is told of every stage, for people.
	Say func(stage string)
}

// ErrMoved: the world is not the plan's any more.
var ErrMoved = errors.New("nothing was done: the world moved under the plan")

// errUnpaused: a processor did not say that it paused.
var errUnpaused = errors.New("nothing was done")

// Execute begins what the plan says, and returns the replay's number. Unless it
// returns nil, nothing was changed: a pause that it asked for is taken back, and ends
// by itself if even that fails. Afterwards the replay goes on whatever becomes of the
// caller.
func (p *Place) Execute(ctx context.Context, o Order) (int64, error) {
	topicID, err := hex.DecodeString(o.Plan.TopicID)
	if err != nil || len(topicID) != 16 {
		return 0, fmt.Errorf("the plan names no topic: %q", o.Plan.TopicID)
	}
	ask := postgres.NewReplay{TopicID: [16]byte(topicID), Topic: o.Plan.Topic, Who: o.Who, Reason: o.Reason, Plan: o.Plan}
	for _, s := range o.Plan.Steps {
		if s.Does() {
			ask.Partitions = append(ask.Partitions, postgres.ReplayTarget{Partition: s.Partition, From: s.To, Skip: s.Ahead > 0})
		}
	}
	id, err := p.store.BeginReplay(ctx, ask)
	if err != nil {
		if errors.Is(err, postgres.ErrReplayOpen) {
			err = fmt.Errorf("nothing was done: %w; sluice replay --status shows it", err)
		}
		return 0, err
	}
	started := false
	defer func() {
		if !started {
			p.abandon(ctx, id)
		}
	}()
	o.Say("waiting for processors to pause")
	members, err := p.paused(ctx, id, o.Patience)
	if err != nil {
		return 0, err
	}
	if err := p.still(ctx, id, o.Plan); err != nil {
		return 0, err
	}
	if err := p.store.StartReplay(ctx, id); err != nil {
		if errors.Is(err, postgres.ErrReplayOver) {
			err = fmt.Errorf("nothing was done: %w; this took longer than the pause, or somebody ended it", err)
		}
		return 0, err
	}
	started = true
	if members == 0 {
		o.Say("no processor runs: its offsets are set, and the next one that starts reads on from there")
		return id, p.idle(ctx, id, o.Plan)
	}
	return id, nil
}

// abandon takes the pause back, even if ctx has ended.
func (p *Place) abandon(ctx context.Context, id int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if err := p.store.AbandonReplay(ctx, id); err != nil && !errors.Is(err, postgres.ErrReplayOver) {
		p.log.Warn("the pause ends by itself", "replay", id, "error", err)
	}
}

// poll is how often the group and the reports are looked at without a word of anybody.
const poll = 100 * time.Millisecond

// paused waits until every partition of the replay that a member has was reported, and
// returns how many members there are. It keeps the pause alive meanwhile.
func (p *Place) paused(ctx context.Context, id int64, patience time.Duration) (members int, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	woken := make(chan struct{}, 1)
	go func() { // only a hint: without it the ticks find out
		_ = p.store.ListenReplays(ctx, func() {
			select {
			case woken <- struct{}{}:
			default:
			}
		})
	}()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	began, extended := time.Now(), time.Now()
	for {
		m, silent, err := p.silent(ctx, id)
		if err != nil {
			return 0, err
		}
		if len(silent) == 0 && m.Settled {
			return m.Count, nil
		}
		if time.Since(began) > patience {
			why := "the group shares its partitions out anew"
			if len(silent) > 0 {
				why = "still reading " + strings.Join(silent, ", ")
			}
			return 0, fmt.Errorf("%w: after %v %s; does a processor hang there, or has one just died? Its session ends after 15 s; try again then", errUnpaused, patience, why)
		}
		if time.Since(extended) > postgres.PauseLease/4 {
			if err := p.store.ExtendPause(ctx, id); err != nil {
				return 0, fmt.Errorf("%w: %w", errUnpaused, err)
			}
			extended = time.Now()
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-woken:
		case <-tick.C:
		}
	}
}

// silent are the partitions of the replay that a member has and has not reported.
func (p *Place) silent(ctx context.Context, id int64) (m kafka.Members, silent []string, err error) {
	if m, err = p.offsets.Members(ctx, p.Group()); err != nil {
		return m, nil, err
	}
	r, err := p.store.Replay(ctx, id)
	if err != nil {
		return m, nil, err
	}
	if r.State != postgres.ReplayPausing {
		return m, nil, fmt.Errorf("%w: %w", errUnpaused, postgres.ErrReplayOver)
	}
	for _, part := range r.Partitions {
		if who, held := m.Of[part.Partition]; held && part.PausedBy == "" {
			silent = append(silent, fmt.Sprintf("partition %d (%s)", part.Partition, who))
		}
	}
	slices.Sort(silent)
	return m, silent, nil
}

// still says whether the world is the plan's. The replay with the given number is the
// plan's own.
func (p *Place) still(ctx context.Context, own int64, plan *Document) error {
	w, err := p.World(ctx, time.Time{})
	if err != nil {
		return err
	}
	if w.Open != nil && w.Open.ID == own {
		w.Open = nil
	}
	if moved := plan.Moved(w); len(moved) > 0 {
		return fmt.Errorf("%w:\n  %s", ErrMoved, strings.Join(moved, "\n  "))
	}
	return nil
}

// idle sets the offsets of a group without members, for whoever comes. If somebody has
// come meanwhile, the broker refuses, and that one takes its partitions by itself.
func (p *Place) idle(ctx context.Context, id int64, plan *Document) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	offsets := map[int32]int64{}
	for _, s := range plan.Steps {
		if s.Does() {
			offsets[s.Partition] = s.To
		}
	}
	if err := p.offsets.CommitGroup(ctx, p.Group(), offsets); err != nil {
		m, asked := p.offsets.Members(ctx, p.Group())
		if asked == nil && m.Count > 0 {
			return nil
		}
		return fmt.Errorf("replay %d is begun, and whoever starts takes it; Kafka shows the old offsets until then: %w", id, err)
	}
	return p.store.TakeIdleReplay(ctx, id)
}

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/postgres/internal/dbgen"
)

// ReplayState is how far a replay has come.
type ReplayState string

// The states of a replay. Of a topic at most one replay is pausing or running.
const (
	ReplayPausing   ReplayState = "pausing"   // processors stop and report; nothing is decided
	ReplayRunning   ReplayState = "running"   // processors take their partitions and read
	ReplayDone      ReplayState = "done"      // every partition was read through
	ReplayAbandoned ReplayState = "abandoned" // it was never started, or somebody stopped it
)

// PauseLease is how long processors stay paused after the last word of whoever
// asked for it: a tool that dies costs no more than that.
const PauseLease = 10 * time.Second

// Why a replay cannot do what is asked of it.
var (
	ErrReplayOpen = errors.New("another replay of the topic is open")
	ErrReplayOver = errors.New("the replay is over")
)

// Replay is a second reading of a part of a topic, as somebody asked for it.
type Replay struct {
	ID      int64
	TopicID [16]byte
	Topic   string
	State   ReplayState
	// Paused: it is pausing, and by the database's clock the pause has not run out.
	Paused                      bool
	Who, Reason                 string
	Plan                        json.RawMessage
	AskedAt, StartedAt, EndedAt time.Time // zero: not yet
	// StoppedBy is who ended it while it ran, and StopReason why; empty: nobody.
	StoppedBy, StopReason string
	Partitions            []ReplayPartition // ascending
}

// Ended says that nothing of it is to be done any more.
func (r *Replay) Ended() bool { return !r.EndedAt.IsZero() }

// Partition returns the partition of the replay, nil if it has no part in it.
func (r *Replay) Partition(p int32) *ReplayPartition {
	for i := range r.Partitions {
		if r.Partitions[i].Partition == p {
			return &r.Partitions[i]
		}
	}
	return nil
}

// ReplayPartition is what a replay wants of one partition: the offsets from From on
// and below Until.
type ReplayPartition struct {
	Partition int32
	// Until is where the live lane was when the partition was taken, -1 until then.
	From, Until int64
	// Skip: From lies ahead of what was applied, and what is between is left out.
	Skip bool
	// PausedBy is the owner that reported it; empty: nobody has.
	PausedBy     string
	Taken, Ended bool
	Counts       ReplayCounts
}

// ReplayCounts are what replayed records did. One that changed nothing, since it was
// known, is not counted.
type ReplayCounts struct {
	Applied  int64 `json:"applied"`
	NoChange int64 `json:"no_change"`
	Held     int64 `json:"held"`
	Dead     int64 `json:"dead"`    // newly kept as dead letters
	Changes  int64 `json:"changes"` // versions of orders
	Effects  int64 `json:"effects"` // caused or withdrawn
}

// Plus is the sum of both.
func (c ReplayCounts) Plus(o ReplayCounts) ReplayCounts {
	return ReplayCounts{Applied: c.Applied + o.Applied, NoChange: c.NoChange + o.NoChange, Held: c.Held + o.Held, Dead: c.Dead + o.Dead,
		Changes: c.Changes + o.Changes, Effects: c.Effects + o.Effects}
}

// NewReplay is what somebody asks for.
type NewReplay struct {
	TopicID     [16]byte
	Topic       string // its full name
	Who, Reason string
	Plan        any // as JSON, for people
	Partitions  []ReplayTarget
}

// ReplayTarget is where a partition is to be read from.
type ReplayTarget struct {
	Partition int32
	From      int64
	// Skip: From may lie ahead of what was applied. What lies between is then never
	// applied, and the books know it as written off.
	Skip bool
}

// OpenReplay returns the replay of the topic that is pausing or running, nil if there
// is none. One whose pause ran out before it was started is abandoned by this call.
func (s *Store) OpenReplay(ctx context.Context, topicID [16]byte) (*Replay, error) {
	q := dbgen.New(s.pool)
	open, err := q.OpenReplay(ctx, uuid(topicID))
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look for an open replay: %w", err)
	case open.Lapsed:
		_, err := q.AbandonLapsedReplay(ctx, uuid(topicID))
		if err == nil {
			err = q.NotifyReplays(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("abandon replay %d, whose pause ran out: %w", open.ID, err)
		}
		return nil, nil
	}
	r, err := s.Replay(ctx, open.ID)
	if err != nil || r.Ended() {
		return nil, err
	}
	return r, nil
}

// Replay returns one replay, open or ended.
func (s *Store) Replay(ctx context.Context, id int64) (*Replay, error) {
	all, err := s.replays(ctx, id, pgtype.UUID{}, 1)
	if err == nil && len(all) == 0 {
		err = errors.New("there is none of that number")
	}
	if err != nil {
		return nil, fmt.Errorf("read replay %d: %w", id, err)
	}
	return &all[0], nil
}

// Replays returns the latest replays of the topic, newest first.
func (s *Store) Replays(ctx context.Context, topicID [16]byte, limit int) ([]Replay, error) {
	all, err := s.replays(ctx, 0, uuid(topicID), limit)
	if err != nil {
		return nil, fmt.Errorf("read replays: %w", err)
	}
	return all, nil
}

func (s *Store) replays(ctx context.Context, id int64, topic pgtype.UUID, limit int) ([]Replay, error) {
	q := dbgen.New(s.pool)
	rows, err := q.ListReplays(ctx, id, topic, int32(limit))
	if err != nil {
		return nil, err
	}
	all, at, ids := make([]Replay, len(rows)), make(map[int64]int, len(rows)), make([]int64, len(rows))
	for i, r := range rows {
		at[r.ID], ids[i] = i, r.ID
		all[i] = Replay{ID: r.ID, TopicID: r.TopicID.Bytes, Topic: r.Topic, State: ReplayState(r.State), Paused: r.Paused, Who: r.Who,
			Reason: r.Reason, Plan: r.Plan, AskedAt: r.AskedAt.Time, StartedAt: r.StartedAt.Time, EndedAt: r.EndedAt.Time,
			StoppedBy: r.StoppedBy.String, StopReason: r.StopReason.String}
	}
	parts, err := q.ReplayPartitions(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		r := &all[at[p.ReplayID]]
		until := int64(-1)
		if p.UntilOffset.Valid {
			until = p.UntilOffset.Int64
		}
		r.Partitions = append(r.Partitions, ReplayPartition{Partition: p.Partition, From: p.FromOffset, Until: until, Skip: p.Skip,
			PausedBy: p.PausedBy.String, Taken: p.TakenAt.Valid, Ended: p.EndedAt.Valid, Counts: ReplayCounts{
				Applied: p.Applied, NoChange: p.NoChange, Held: p.Held, Dead: p.Dead, Changes: p.Changes, Effects: p.Effects}})
	}
	return all, nil
}

// ListenReplays calls woken once when it listens and after every change of a replay,
// on a connection of its own, until ctx ends or the connection breaks. It is only a
// hint: a pause that runs out tells nobody.
func (s *Store) ListenReplays(ctx context.Context, woken func()) error {
	return s.listen(ctx, "replays", "replays", woken)
}

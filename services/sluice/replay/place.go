// Package replay carries a replay of the raw topic out: it looks where everything is,
// has processors paused, lets them go with what was agreed on, and watches.
//
// Its path: place.go looks; document.go is the plan as it is shown, agreed on and kept;
// execute.go does it; follow.go watches and stops; print.go is for people. What to read,
// and what speaks against it, is planned by sluice/pkg/replay.
package replay

import (
	"context"
	"encoding/hex"
	"log/slog"
	"time"

	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/pkg/replay"
)

// Place is one deployment, as a replay sees it. Safe for concurrent use.
type Place struct {
	cfg     kafka.Config
	store   *postgres.Store
	offsets *kafka.Offsets
	log     *slog.Logger
	now     func() time.Time
}

// Open connects to cfg's brokers.
func Open(ctx context.Context, cfg kafka.Config, store *postgres.Store, log *slog.Logger, now func() time.Time) (*Place, error) {
	offsets, err := kafka.NewOffsets(ctx, cfg, log, cfg.Topic(kafka.Raw))
	if err != nil {
		return nil, err
	}
	return &Place{cfg: cfg, store: store, offsets: offsets, log: log, now: now}, nil
}

// Close gives the connection to the brokers back.
func (p *Place) Close() { p.offsets.Close() }

// Topic is the full name of what is replayed.
func (p *Place) Topic() string { return p.cfg.Topic(kafka.Raw) }

// Group is the full name of whose offsets are reset.
func (p *Place) Group() string { return p.cfg.Topic(kafka.Group) }

// World looks where everything is. since is the time that the target names, if it
// names one. What moves with live traffic is read in such an order that no moment
// shows a position beyond what allows it.
func (p *Place) World(ctx context.Context, since time.Time) (replay.World, error) {
	w := replay.World{Topic: p.Topic(), Group: p.Group(), Partitions: map[int32]replay.Position{}}
	committed, err := p.offsets.Group(ctx, w.Group)
	if err != nil {
		return w, err
	}
	id, err := p.offsets.TopicID(ctx)
	if err != nil {
		return w, err
	}
	applied, err := p.store.AppliedOffsets(ctx, id)
	if err != nil {
		return w, err
	}
	if w.Horizon, err = p.store.LedgerHorizon(ctx, p.now()); err != nil {
		return w, err
	}
	behind, err := p.offsets.At(ctx, w.Horizon)
	if err != nil {
		return w, err
	}
	var at map[int32]int64
	if !since.IsZero() {
		if at, err = p.offsets.At(ctx, since); err != nil {
			return w, err
		}
	}
	extent, err := p.offsets.Extent(ctx)
	if err != nil {
		return w, err
	}
	w.TopicID = hex.EncodeToString(extent.TopicID[:])
	for n, end := range extent.End {
		pos := replay.Position{First: extent.Start[n], End: end, Group: -1, Applied: -1, AtTime: at[n], AtHorizon: behind[n]}
		if g, ok := committed[n]; ok {
			pos.Group = g
		}
		if a, ok := applied[n]; ok && extent.TopicID == id {
			pos.Applied = a
		}
		w.Partitions[n] = pos
	}
	open, err := p.store.OpenReplay(ctx, extent.TopicID)
	if err != nil {
		return w, err
	}
	if open != nil {
		w.Open = &replay.Open{ID: open.ID, Who: open.Who}
	}
	return w, nil
}

// Rate is how many records a second the last replays that read at least a second were
// measured to read; 0: none was.
func (p *Place) Rate(ctx context.Context) (float64, error) {
	id, err := p.offsets.TopicID(ctx)
	if err != nil {
		return 0, err
	}
	last, err := p.store.Replays(ctx, id, 5)
	if err != nil {
		return 0, err
	}
	var records int64
	var took time.Duration
	for i := range last {
		r := &last[i]
		if d := r.EndedAt.Sub(r.StartedAt); r.State == postgres.ReplayDone && d >= time.Second {
			records, took = records+read(r, nil), took+d
		}
	}
	if took == 0 {
		return 0, nil
	}
	return float64(records) / took.Seconds(), nil
}

package relay

import (
	"context"
	"time"

	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
)

// behindInterval is the pause while a writer holds the frontier back.
const behindInterval = 2 * time.Millisecond

// backlogLimit bounds the count behind the backlog metric, for each shard.
const backlogLimit = 1000

// reader reads the owned shards up to the frontier and makes batches.
type reader struct {
	*Relay
	wake     <-chan struct{}
	leases   <-chan postgres.RelayLease
	batches  chan<- batch
	frontier *postgres.Frontier
	owned    map[int16]postgres.RelayShard // Cursor is how far it was read
	leaving  map[int16]int64               // epoch of shards that are being given back
}

func newReader(r *Relay, wake <-chan struct{}, leases <-chan postgres.RelayLease, batches chan<- batch) *reader {
	return &reader{Relay: r, wake: wake, leases: leases, batches: batches, frontier: r.store.Frontier(),
		owned: map[int16]postgres.RelayShard{}, leaving: map[int16]int64{}}
}

func (r *reader) run(ctx context.Context) error {
	var read int64 // every owned shard was read up to this frontier
	for {
		select {
		case lease := <-r.leases:
			if err := r.adopt(ctx, lease); err != nil {
				return drained(ctx, err)
			}
			read = 0
		default:
		}
		frontier, behind, err := r.frontier.Advance(ctx)
		if err != nil {
			return drained(ctx, err)
		}
		if frontier > read {
			full, err := r.poll(ctx, frontier)
			if err != nil {
				return drained(ctx, err)
			}
			if full {
				continue
			}
			read = frontier
		}
		if !r.wait(ctx, behind) {
			return nil
		}
	}
}

// drained: once ctx has ended, errors are only its echo.
func drained(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// wait until there may be something to read; false when ctx has ended.
func (r *reader) wait(ctx context.Context, behind bool) bool {
	interval := r.cfg.PollInterval
	if behind {
		interval = behindInterval
	}
	timer := time.NewTimer(interval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-r.wake:
	}
	return true
}

// adopt takes over what the newest lease says: new shards are read from their
// cursors, lost ones are dropped, and what is beyond the fair share is given back
// once its batches in flight are through. It also moves the cursors of shards
// without rows, which holds back retention otherwise.
func (r *reader) adopt(ctx context.Context, lease postgres.RelayLease) error {
	owned, leaving := make(map[int16]postgres.RelayShard, len(lease.Shards)), map[int16]int64{}
	var b batch
	var positions []postgres.Position
	for _, s := range lease.Shards {
		if epoch, ok := r.leaving[s.Shard]; ok && epoch == s.Epoch {
			leaving[s.Shard] = epoch
		}
	}
	for _, s := range lease.Shards {
		if _, ok := leaving[s.Shard]; ok {
			continue
		}
		if old, ok := r.owned[s.Shard]; ok && old.Epoch == s.Epoch {
			if old.Cursor > s.Cursor {
				b.cursors = append(b.cursors, old)
			}
			s = old
		}
		if len(leaving) < lease.Excess {
			leaving[s.Shard] = s.Epoch
			b.release = append(b.release, s.Shard)
			continue
		}
		owned[s.Shard] = s
		positions = append(positions, postgres.Position{Shard: s.Shard, After: s.Cursor})
	}
	r.owned, r.leaving = owned, leaving
	r.metrics.shards.Set(float64(len(owned)))
	if len(b.cursors) > 0 || len(b.release) > 0 {
		if err := r.send(ctx, b); err != nil {
			return err
		}
	}
	backlog, err := r.store.CountTransitions(ctx, positions, backlogLimit)
	if err != nil {
		return err
	}
	r.metrics.backlog.Set(float64(backlog))
	return nil
}

// poll reads once below frontier and sends what it found; full says that more
// may be there.
func (r *reader) poll(ctx context.Context, frontier int64) (full bool, err error) {
	if len(r.owned) == 0 {
		return false, nil
	}
	from := make([]postgres.Position, 0, len(r.owned))
	for _, s := range r.owned {
		from = append(from, postgres.Position{Shard: s.Shard, After: s.Cursor})
	}
	limit := r.cfg.Batch / len(r.owned)
	rows, err := r.store.ReadTransitions(ctx, from, frontier, limit)
	if err != nil {
		return false, err
	}
	b := batch{rows: rows, records: make([]kafka.Record, len(rows))}
	count, last := make(map[int16]int, len(r.owned)), make(map[int16]int64, len(r.owned))
	for i, row := range rows {
		if b.records[i], err = record(r.topic, row); err != nil {
			return false, err
		}
		count[row.Shard]++
		last[row.Shard] = row.ID
	}
	for no, s := range r.owned {
		// All below a frontier that was fixed before the read have been seen, unless
		// the limit cut them off.
		s.Cursor = max(s.Cursor, frontier-1)
		if count[no] == limit {
			s.Cursor, full = last[no], true
		}
		r.owned[no] = s
		if count[no] > 0 {
			b.cursors = append(b.cursors, s)
		}
	}
	if len(rows) == 0 {
		return false, nil
	}
	return full, r.send(ctx, b)
}

func (r *reader) send(ctx context.Context, b batch) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case r.batches <- b:
		return nil
	}
}

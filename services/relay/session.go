package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
)

// behindInterval is the pause while a writer holds the frontier back.
const behindInterval = 2 * time.Millisecond

// backlogLimit bounds the count behind the backlog metric, for each shard.
const backlogLimit = 1000

// session owns shards and publishes them. Its one goroutine reads for all shards
// at once, because one query over all costs little more than over one, and hands
// each shard's rows to its lane; the lanes wait for Kafka, each for itself.
type session struct {
	*Relay
	frontier *postgres.Frontier
	lanes    map[int16]*lane
	results  chan result
	acked    *progress
	running  sync.WaitGroup // lanes
	inFlight int            // rows handed to lanes and not acknowledged
}

// session runs until ctx ends (then it drains) or the database fails.
func (r *Relay) session(ctx context.Context, wake <-chan struct{}) error {
	// work outlives ctx by the drain timeout, so that what was handed to Kafka is
	// waited for.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(r.cfg.DrainTimeout, cancel)
	})()

	lease, err := r.store.ClaimRelayShards(ctx, r.owner, r.cfg.LeaseTTL)
	if err != nil {
		return drained(ctx, err)
	}
	s := &session{Relay: r, frontier: r.store.Frontier(), lanes: map[int16]*lane{}, results: make(chan result, postgres.Shards), acked: newProgress()}
	g, work := errgroup.WithContext(work)
	reading, stopReading := context.WithCancel(ctx)
	defer context.AfterFunc(work, stopReading)()
	leases := make(chan postgres.RelayLease, 1)
	leases <- lease

	g.Go(func() error { return r.renew(reading, leases) })
	g.Go(func() error {
		defer s.acked.close()
		err := s.read(reading, work, leases, wake)
		if err == nil {
			err = s.drain(work)
		}
		for _, l := range s.lanes {
			l.end()
		}
		s.running.Wait()
		return err
	})
	g.Go(func() error { return r.mark(work, s.acked) })
	return g.Wait()
}

// read hands rows to lanes until ctx ends; lanes live as long as work.
func (s *session) read(ctx, work context.Context, leases <-chan postgres.RelayLease, wake <-chan struct{}) error {
	var frontier int64
	var due time.Time // when to look for the frontier again; a wake makes it now
	for {
		select {
		case lease := <-leases:
			if err := s.adopt(ctx, work, lease); err != nil {
				return drained(ctx, err)
			}
		default:
		}
		// Not whenever a lane is through: asking for the frontier reads the locks of the
		// whole server.
		if now := s.now(); !now.Before(due) {
			at, behind, err := s.frontier.Advance(ctx)
			if err != nil {
				return drained(ctx, err)
			}
			if frontier, due = at, now.Add(s.cfg.PollInterval); behind {
				due = now.Add(behindInterval)
			}
		}
		err := s.poll(ctx, frontier)
		if err != nil {
			return drained(ctx, err)
		}
		timer := time.NewTimer(due.Sub(s.now()))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-wake:
			due = time.Time{}
		case r := <-s.results:
			err = s.settle(r)
		}
		timer.Stop()
		for len(s.results) > 0 && err == nil { // all that there is, before the next query
			err = s.settle(<-s.results)
		}
		if err != nil || ctx.Err() != nil {
			return drained(ctx, err)
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

// drain waits for what was handed over.
func (s *session) drain(work context.Context) error {
	for s.inFlight > 0 {
		select {
		case r := <-s.results:
			if err := s.settle(r); err != nil {
				return err
			}
		case <-work.Done():
			return fmt.Errorf("wait for Kafka's acknowledgement of %d rows: %w", s.inFlight, context.Cause(work))
		}
	}
	return nil
}

// settle notes what a lane has done. A lane that was fenced ends, and the next
// lease says whether the shard is still ours; any other error ends the session.
func (s *session) settle(r result) error {
	l := r.lane
	s.inFlight -= l.busy
	l.busy = 0
	current := s.lanes[l.shard.Shard] == l
	switch {
	case r.err == nil:
		l.read = max(l.read, r.cursor)
		s.acked.add(postgres.RelayShard{Shard: l.shard.Shard, Epoch: l.shard.Epoch, Cursor: r.cursor})
	case errors.Is(r.err, kafka.ErrFenced):
		s.metrics.fenced.Inc()
		s.log.Warn("another relay has taken a shard over", "shard", l.shard.Shard)
		if current {
			s.drop(l)
		}
		return nil
	case current:
		return r.err
	}
	if current && l.leaving {
		s.release(l)
	}
	return nil
}

// release gives an idle shard back, after its cursor is moved.
func (s *session) release(l *lane) {
	s.drop(l)
	s.acked.release(l.shard.Shard)
}

func (s *session) drop(l *lane) {
	l.end()
	s.inFlight, l.busy = s.inFlight-l.busy, 0
	delete(s.lanes, l.shard.Shard)
	s.troubles.set(l.shard.Shard, nil)
}

// adopt takes over what the newest lease says: new shards are taken in Kafka and
// go on behind Kafka's cursor, lost ones end, and what is beyond the fair share is
// given back as soon as it is idle. It also moves the cursors of shards without
// rows, which holds back retention otherwise.
func (s *session) adopt(ctx, work context.Context, lease postgres.RelayLease) error {
	held := map[int16]bool{}
	var fresh []postgres.RelayShard
	leaving := 0
	for _, shard := range lease.Shards {
		held[shard.Shard] = true
		l := s.lanes[shard.Shard]
		if l != nil && l.shard.Epoch != shard.Epoch {
			s.drop(l)
			l = nil
		}
		if l == nil {
			fresh = append(fresh, shard)
			continue
		}
		if l.busy == 0 && l.read > shard.Cursor {
			s.acked.add(postgres.RelayShard{Shard: shard.Shard, Epoch: shard.Epoch, Cursor: l.read})
		}
	}
	for no, l := range s.lanes {
		if !held[no] {
			s.drop(l)
		} else if l.leaving {
			leaving++
		}
	}
	for _, l := range s.lanes {
		if leaving >= lease.Excess {
			break
		}
		if !l.leaving {
			l.leaving = true
			leaving++
			if l.busy == 0 {
				s.release(l)
			}
		}
	}
	if err := s.take(ctx, work, fresh); err != nil {
		return err
	}
	s.troubles.set(noShard, nil)
	s.metrics.shards.Set(float64(len(s.lanes)))
	positions := make([]postgres.Position, 0, len(s.lanes))
	for no, l := range s.lanes {
		positions = append(positions, postgres.Position{Shard: no, After: l.read})
	}
	backlog, err := s.store.CountTransitions(ctx, positions, backlogLimit)
	if err != nil {
		return err
	}
	s.metrics.backlog.Set(float64(backlog))
	return nil
}

// take makes lanes of shards: first all are taken, which fences whoever had them,
// then their cursors are read.
func (s *session) take(ctx, work context.Context, fresh []postgres.RelayShard) (err error) {
	if len(fresh) == 0 {
		return nil
	}
	taken, nos := make([]Shard, len(fresh)), make([]int16, len(fresh))
	defer func() {
		for i, t := range taken {
			if t != nil && (err != nil || s.lanes[nos[i]] == nil) {
				t.Close()
			}
		}
	}()
	g, within := errgroup.WithContext(ctx)
	for i, shard := range fresh {
		nos[i] = shard.Shard
		g.Go(func() (err error) {
			taken[i], err = s.broker.TakeShard(within, shard.Shard)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	cursors, err := s.broker.Cursors(ctx, nos)
	if err != nil {
		return err
	}
	for i, shard := range fresh {
		if shard.Cursor, err = s.position(ctx, shard.Shard, shard.Cursor, cursors[shard.Shard]); err != nil {
			return err
		}
		fresh[i] = shard
	}
	for i, shard := range fresh {
		living, end := context.WithCancel(work)
		l := &lane{Relay: s.Relay, shard: shard, kafka: taken[i], work: make(chan []postgres.Transition, 1), end: end,
			published: shard.Cursor, read: shard.Cursor}
		s.lanes[shard.Shard] = l
		s.running.Go(func() { l.run(living, s.results) })
	}
	return nil
}

// poll reads once below frontier, for the idle lanes, and hands out what it found.
func (s *session) poll(ctx context.Context, frontier int64) error {
	from := make([]postgres.Position, 0, len(s.lanes))
	for no, l := range s.lanes {
		if l.busy == 0 && !l.leaving && l.read < frontier-1 {
			from = append(from, postgres.Position{Shard: no, After: l.read})
		}
	}
	if len(from) == 0 {
		return nil
	}
	limit := (s.cfg.Batch - s.inFlight) / len(from)
	if limit == 0 {
		return nil // until a lane is through
	}
	rows, err := s.store.ReadTransitions(ctx, from, frontier, limit)
	if err != nil {
		return err
	}
	found := make(map[int16][]postgres.Transition, len(from))
	for i := 0; i < len(rows); {
		j := i + 1
		for j < len(rows) && rows[j].Shard == rows[i].Shard {
			j++
		}
		found[rows[i].Shard] = rows[i:j:j]
		i = j
	}
	for _, p := range from {
		l, its := s.lanes[p.Shard], found[p.Shard]
		// All below a frontier that was fixed before the read have been seen, unless
		// the limit cut them off.
		if len(its) == limit {
			l.read = its[limit-1].ID
		} else {
			l.read = max(l.read, frontier-1)
		}
		if len(its) > 0 {
			l.busy = len(its)
			s.inFlight += len(its)
			l.work <- its
		}
	}
	return nil
}

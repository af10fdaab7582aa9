package processor

import (
	"context"
	"errors"
	"strconv"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// How often a member looks whether a replay is asked for, beside being woken, and
// while it is paused for one: a pause that runs out wakes nobody.
const (
	replaysEvery = 5 * time.Second
	pausedEvery  = 200 * time.Millisecond
)

// listen wakes the workers whenever a replay has changed.
func (p *Processor) listen(ctx context.Context) {
	for ctx.Err() == nil {
		err := p.Store.ListenReplays(ctx, func() {
			for _, w := range p.workers {
				w.wake()
			}
		})
		if ctx.Err() == nil {
			p.Log.Debug("not listening for replays, looking now and then", "error", err)
		}
		daemon.Pause(ctx, time.Second)
	}
}

// wake has the worker look at what replay is asked for.
func (w *worker) wake() {
	select {
	case w.replays <- struct{}{}:
	default:
	}
}

// obey does what is asked for by `sluice replay`, until ctx ends: it stops both lanes,
// says so, takes what is to be read again, and goes on.
func (m *member) obey(ctx context.Context) {
	defer m.resume(context.WithoutCancel(ctx))
	var until time.Time // a pause ends by itself, without the database too
	for ctx.Err() == nil {
		paused, err := m.look(ctx, &until)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			m.Log.Warn("cannot tell whether a replay is asked for", "worker", m.owner, "error", err)
			if m.paused && !time.Now().Before(until) {
				m.resume(ctx)
			}
		case !paused:
			m.resume(ctx)
		}
		m.settle(ctx)
		wait := replaysEvery
		if m.paused {
			wait = pausedEvery
		}
		select {
		case <-ctx.Done():
		case <-m.replays:
		case <-time.After(wait):
		}
	}
}

// look does what is asked for now, and says whether that is to pause. until is when a
// pause ends if nobody says anything more; a database that does not even say no is not
// waited for any longer.
func (m *member) look(ctx context.Context, until *time.Time) (paused bool, err error) {
	patience := postgres.PauseLease
	if m.paused {
		patience = max(time.Until(*until), time.Second)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := m.Store.OpenReplay(ctx, m.c.TopicID())
	if err != nil {
		return false, err
	}
	if r != nil && r.Paused {
		*until = time.Now().Add(postgres.PauseLease)
		m.pause(ctx, r)
		return true, nil
	}
	m.carryOut(ctx, r)
	return false, nil
}

// pause stops both lanes, each after what it has under way, and reports every
// partition that has not been.
func (m *member) pause(ctx context.Context, r *postgres.Replay) {
	if !m.paused {
		m.paused = true
		m.Log.Info("paused for a replay", "worker", m.owner, "replay", r.ID, "who", r.Who)
	}
	if m.gate.close(ctx) != nil || m.lane.change(ctx, func() { m.lane.paused = true }) != nil {
		return
	}
	for _, p := range m.c.Assigned() {
		if rp := r.Partition(p); rp == nil || rp.PausedBy == m.owner {
			continue
		}
		if err := m.Store.ReportPaused(ctx, r.ID, m.claimOf(p), m.owner); err != nil {
			m.refused(p, r, err)
		}
	}
}

// settle tells the group what it should have been told after the last batches: if
// nothing more comes in, its lag would stay.
func (m *member) settle(ctx context.Context) {
	committing, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	if err := m.c.Settle(committing); err != nil && ctx.Err() == nil {
		m.Log.Warn("offsets that are done are still not in Kafka", "worker", m.owner, "error", err)
	}
}

func (m *member) resume(ctx context.Context) {
	if !m.paused {
		return
	}
	m.paused = false
	m.gate.open() // first: the lane may have a transaction under way that waits for a lock
	_ = m.lane.change(ctx, func() { m.lane.paused = false })
	m.Log.Info("paused no more", "worker", m.owner)
}

func (w *worker) claimOf(p int32) postgres.Claim {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.claims[p]
}

// refused: another has the partition, or the replay is over. Whoever is right now
// does what is to be done.
func (m *member) refused(p int32, r *postgres.Replay, err error) {
	m.Log.Warn("replay: this partition is not ours to decide", "worker", m.owner, "partition", p, "replay", r.ID, "error", err)
}

// carryOut takes the partitions of a running replay that nobody has taken, and says
// of those that are through that they are. What was begun for a replay that is open
// no more, somebody has stopped.
func (m *member) carryOut(ctx context.Context, r *postgres.Replay) {
	var running postgres.Replay
	if r != nil && r.State == postgres.ReplayRunning {
		running = *r
	}
	var untaken, through []*postgres.ReplayPartition
	stopped := m.lane.others(running.ID)
	for _, p := range m.c.Assigned() {
		rp := running.Partition(p)
		wanted := rp != nil && !rp.Ended
		switch {
		case wanted && !rp.Taken:
			untaken = append(untaken, rp)
		case m.lane.adopt(p, running.ID, wanted):
		case m.c.Replaying(p) && wanted: // it was taken, and the answer lost
			untaken = append(untaken, rp)
		case m.c.Replaying(p): // it was to be taken, and is not wanted any more
			stopped = append(stopped, p)
		case wanted:
			through = append(through, rp)
		}
	}
	if len(untaken)+len(stopped) > 0 {
		_ = m.lane.change(ctx, func() {
			for _, p := range stopped {
				m.stop(ctx, p)
			}
			for _, rp := range untaken {
				m.begin(ctx, &running, rp)
			}
		})
	}
	for _, rp := range through {
		if err := m.Store.EndReplay(ctx, running.ID, rp.Partition); err != nil {
			m.refused(rp.Partition, r, err)
		}
	}
}

// adopt says whether a partition is read again at all; if it is wanted, it is read for
// the replay from now on.
func (l *lane) adopt(p int32, replay int64, wanted bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.spans[p]
	if s != nil && wanted {
		s.replay = replay
	}
	return s != nil
}

// others are the partitions that are read for other replays than this one.
func (l *lane) others(replay int64) (partitions []int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, s := range l.spans {
		if s.replay != 0 && s.replay != replay {
			partitions = append(partitions, p)
		}
	}
	return partitions
}

// begin has the lane read what a replay wants of a partition. The group's offset is
// set first: should this process end in between, the next one begins anew.
func (m *member) begin(ctx context.Context, r *postgres.Replay, rp *postgres.ReplayPartition) {
	if rp.Skip { // the worker itself goes on elsewhere
		m.leave(errAnew)
		return
	}
	p := rp.Partition
	_, err := m.c.Replay(ctx, p, rp.From)
	if err != nil {
		m.refused(p, r, err)
		return
	}
	from, until, err := m.Store.TakeReplay(ctx, r.ID, m.claimOf(p))
	switch {
	case err == nil && from < until:
		m.lane.add(kafka.Range{Partition: p, From: from, Before: until}, r.ID)
	case err == nil, errors.Is(err, postgres.ErrReplayOver):
		if s := m.lane.spans[p]; s == nil { // nothing to read
			err = m.c.EndReplay(ctx, p)
		}
		if err != nil {
			m.refused(p, r, err)
		}
	default:
		m.refused(p, r, err)
	}
}

// stop ends a replay that is not wanted any more.
func (m *member) stop(ctx context.Context, p int32) {
	if err := m.c.EndReplay(ctx, p); err != nil {
		m.Log.Warn("a replay that was stopped goes on", "worker", m.owner, "partition", p, "error", err)
		return
	}
	if s := m.lane.spans[p]; s != nil {
		m.lane.end(s, "replay was stopped")
	}
}

// errAnew: only a new claim begins where a replay wants.
var errAnew = errors.New("a replay leaves records out, joining anew")

// takeOnClaim takes what a running replay wants of a partition that is just being
// claimed, before anybody judges where it begins. It returns the replay that the
// partition is still part of, 0 if none, and how far it is applied now.
func (w *worker) takeOnClaim(ctx context.Context, c postgres.Claim, applied int64, reset func(from int64) error) (replay, now int64, err error) {
	r, err := w.Store.OpenReplay(ctx, c.TopicID)
	if err != nil || r == nil || r.State != postgres.ReplayRunning {
		return 0, applied, err
	}
	rp := r.Partition(c.Partition)
	switch {
	case rp == nil || rp.Ended:
		return 0, applied, nil
	case rp.Taken: // by one that is no more
		return r.ID, applied, nil
	}
	if err := reset(rp.From); err != nil {
		return 0, 0, err
	}
	_, until, err := w.Store.TakeReplay(ctx, r.ID, c)
	if errors.Is(err, postgres.ErrReplayOver) { // stopped in this moment; what it asked for is harmless
		return 0, applied, nil
	}
	return r.ID, until - 1, err
}

// begin is called by the consumer for each partition it gets.
func (l *lane) begin(ctx context.Context, behind kafka.Range) {
	l.worker.mu.Lock()
	replay := l.wanted[behind.Partition]
	l.worker.mu.Unlock()
	if behind.From < behind.Before {
		_ = l.change(ctx, func() { l.add(behind, replay) })
	}
	if replay != 0 {
		l.wake()
	}
}

// leave is called by the consumer when it loses partitions.
func (l *lane) leave(ctx context.Context, partitions []int32) {
	_ = l.change(ctx, func() { l.drop(partitions) })
}

// countReplays notes in each replay what was not a duplicate.
func (l *lane) countReplays(ctx context.Context, b *batch) error {
	counts := map[int32]postgres.ReplayCounts{}
	for _, r := range b.records {
		n := counts[r.Partition]
		switch r.verdict {
		case order.Applied:
			n.Applied++
		case order.NoChange:
			n.NoChange++
		case order.Held:
			n.Held++
		}
		counts[r.Partition] = n
	}
	first := b.records[0].Partition // has what no single record did
	n := counts[first]
	n.Dead, n.Changes, n.Effects = int64(b.deadLetters), int64(b.versions), int64(b.effects)
	counts[first] = n
	for p, n := range counts {
		if id := l.replayOf(p); id != 0 {
			if err := b.tx.CountReplay(ctx, id, p, n); err != nil {
				return err
			}
		}
	}
	return nil
}

func partitionLabel(p int32) string { return strconv.Itoa(int(p)) }

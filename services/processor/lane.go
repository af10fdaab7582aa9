package processor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
)

// lane reads again, beside a worker, what its partitions had applied before: where
// somebody reset the group's offsets, where they are lost, after a crash. What is
// known costs a look-up and no lock; only what is not goes through a transaction, as
// a replay. The group's offset of such a partition is where the lane is, so a crash
// needs no other memory; the lane's end sets it to where the worker is.
type lane struct {
	*worker
	apply   applier
	changes chan func()
	started chan struct{} // closed when c is there
	c       *kafka.Consumer
	ended   chan struct{} // closed when run has returned
	fenced  func(error)
	// problem is why it cannot go on just now, which is none of the worker's own.
	problem problem

	// mu guards which spans there are, what is left of them, and their replays, beside
	// what is said below.
	mu    sync.Mutex
	spans map[int32]*span

	// Of the goroutine that reads; of run's while none does.
	paused    bool
	committed time.Time
}

// span is what is to be read again of one partition.
type span struct {
	kafka.Range
	// replay is the number of the replay that asked for it; 0: none did.
	replay         int64
	began          time.Time
	records, taken int64
}

// How often the group is told how far a lane is, and how long it waits after an error.
const (
	laneCommit   = 250 * time.Millisecond
	lanePatience = time.Second
)

func newLane(w *worker, fenced func(error)) *lane {
	l := &lane{worker: w, changes: make(chan func()), started: make(chan struct{}), ended: make(chan struct{}), fenced: fenced,
		spans: map[int32]*span{}}
	l.apply = w.apply
	l.apply.stand, l.apply.also = l.stand, l.countReplays
	return l
}

// run reads until ctx ends. It is the only one to start and stop the reading, so a
// change of what is read finds none under way.
func (l *lane) run(ctx context.Context) {
	defer close(l.ended)
	defer func() { l.drop(slices.Collect(maps.Keys(l.spans))) }()
	started, again := l.started, (<-chan time.Time)(nil)
	for ctx.Err() == nil {
		reading, stop := context.WithCancel(ctx)
		var done chan error
		if started == nil && again == nil && !l.paused && len(l.spans) > 0 {
			done = make(chan error, 1)
			go func() { done <- l.read(reading) }()
		}
		select {
		case <-ctx.Done():
		case <-started:
			started = nil
		case <-again:
			again = nil
		case err := <-done:
			done = nil
			if err != nil && ctx.Err() == nil {
				l.failed(err)
				again = time.After(lanePatience)
			}
		case change := <-l.changes:
			l.halt(stop, done)
			done = nil
			change()
		}
		l.halt(stop, done)
	}
}

// halt ends the reading that is under way, with the transaction it has.
func (l *lane) halt(stop context.CancelFunc, done chan error) {
	stop()
	if done == nil {
		return
	}
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		l.Log.Debug("a replay's reading ended", "worker", l.owner, "error", err)
	}
}

func (l *lane) failed(err error) {
	if errors.Is(err, postgres.ErrFenced) {
		l.fenced(err)
		return
	}
	l.Log.Warn("a replay is held up, trying again", "worker", l.owner, "error", err)
}

// change calls do while nothing is read. It does not if ctx, or the lane, ends before
// somebody hears of it. If ctx ends later it does, and nobody waits for it any more.
func (l *lane) change(ctx context.Context, do func()) error {
	done := make(chan struct{})
	select {
	case l.changes <- func() { do(); close(done) }:
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ended:
		return errLaneEnded
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errLaneEnded = errors.New("the worker has left the group")

// join lets it begin: c is the worker's consumer.
func (l *lane) join(c *kafka.Consumer) {
	l.c = c
	close(l.started)
}

// add begins to read a range again, in place of what it read of the partition.
func (l *lane) add(r kafka.Range, replay int64) {
	l.drop([]int32{r.Partition})
	s := &span{Range: r, replay: replay, began: l.Now()}
	l.mu.Lock()
	l.spans[r.Partition] = s
	l.mu.Unlock()
	l.metrics.replaying.Inc()
	l.lag(s)
	l.Log.Info("replay begins", "worker", l.owner, "partition", r.Partition, "from", r.From, "before", r.Before, "replay", replay)
}

// drop ends reading before its end.
func (l *lane) drop(partitions []int32) {
	for _, p := range partitions {
		if s := l.spans[p]; s != nil {
			l.end(s, "replay is left to whoever has the partition next")
		}
	}
}

func (l *lane) end(s *span, how string) {
	l.mu.Lock()
	delete(l.spans, s.Partition)
	l.mu.Unlock()
	l.problem.set(nil) // it may have been the partition's; what is left says so again
	l.metrics.replaying.Dec()
	l.metrics.replayLag.DeleteLabelValues(partitionLabel(s.Partition))
	took := l.Now().Sub(s.began)
	l.Log.Info(how, "worker", l.owner, "partition", s.Partition, "next", s.From, "before", s.Before, "replay", s.replay,
		"records", s.records, "taken", s.taken, "took", took.Round(time.Millisecond))
}

func (l *lane) lag(s *span) {
	l.metrics.replayLag.WithLabelValues(partitionLabel(s.Partition)).Set(float64(s.Before - s.From))
}

// reads says whether anything is to be read again.
func (l *lane) reads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.spans) > 0
}

// read reads what there is until all of it is through, or ctx ends.
func (l *lane) read(ctx context.Context) error {
	if err := l.through(ctx); err != nil {
		return err
	}
	ranges := make([]kafka.Range, 0, len(l.spans))
	for _, s := range l.spans {
		ranges = append(ranges, s.Range)
	}
	err := kafka.Scan(ctx, l.Kafka, l.Log, l.Kafka.Topic(kafka.Raw), ranges, kafka.ChunkRecords, func(c kafka.Chunk) error {
		return l.take(ctx, c)
	})
	if err != nil {
		// How far it came is worth a word: a rebalance or a stop may be the reason.
		committing, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
		defer cancel()
		l.commit(committing)
	}
	return err
}

// take brings a chunk into the database.
func (l *lane) take(ctx context.Context, c kafka.Chunk) error {
	unknown, _, err := sift(ctx, c, l.look())
	if err != nil {
		return err
	}
	for part := range slices.Chunk(unknown, l.cfg.Batch) {
		if ctx.Err() != nil { // somebody waits; what is taken is known when the chunk is read once more
			return ctx.Err()
		}
		if err := l.insist(ctx, &l.apply, &l.problem, part, func() bool { return false }); err != nil {
			return err
		}
		l.metrics.taken(len(part))
	}
	l.problem.set(nil)
	l.count(c, unknown)
	if now := l.Now(); now.Sub(l.committed) >= laneCommit {
		l.committed = now
		l.commit(ctx)
	}
	return l.through(ctx)
}

// stand lets records be applied as a replay of what was applied before. It moves and
// locks nothing, and never waits for the worker's own batches.
func (l *lane) stand(ctx context.Context, tx postgres.Tx, records []*record) (ground, error) {
	claims := l.claimsOf(records)
	before, err := tx.CheckClaims(ctx, claims)
	return groundOf(claims, before), err
}

// replayOf is the replay that a partition is read for; 0: none.
func (l *lane) replayOf(p int32) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.spans[p].replay
}

// count notes that a chunk is done, all but unknown by a look-up.
func (l *lane) count(c kafka.Chunk, unknown []kafka.Record) {
	records, taken := c.Counts(), map[int32]int64{}
	for i := range unknown {
		taken[unknown[i].Partition]++
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, next := range c.Next {
		s := l.spans[p]
		s.From = next
		s.records += records[p]
		s.taken += taken[p]
		l.lag(s)
	}
	l.metrics.known(c.Len() - len(unknown))
}

// notes are a line for each partition that is read again.
func (l *lane) notes() (notes []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range slices.Sorted(maps.Keys(l.spans)) {
		s := l.spans[p]
		notes = append(notes, fmt.Sprintf("replay: partition %d is read again from %d, %d offsets are left", p, s.From, s.Before-s.From))
	}
	return notes
}

// commit tells the group how far the lane is. Less than that costs only reading.
func (l *lane) commit(ctx context.Context) {
	next := make(map[int32]int64, len(l.spans))
	for p, s := range l.spans {
		next[p] = s.From
	}
	if err := l.c.CommitReplay(ctx, next); err != nil && ctx.Err() == nil {
		l.Log.Warn("how far a replay is, is not in Kafka", "worker", l.owner, "error", err)
	}
}

// through ends what has been read to its end.
func (l *lane) through(ctx context.Context) error {
	for p, s := range l.spans {
		if s.From < s.Before {
			continue
		}
		if err := l.c.EndReplay(ctx, p); err != nil && !errors.Is(err, kafka.ErrNotAssigned) {
			return err
		}
		l.end(s, "replay ends")
		l.wake()
	}
	return nil
}

// deadHints are those hints that a replay may have something to do with: they were
// dead letters. All others armed their look-up when they were met first.
func deadHints(ctx context.Context, inTx func(context.Context, func(postgres.Tx) error) error, topicID [16]byte, places []postgres.Place) (dead []int, err error) {
	if len(places) == 0 {
		return nil, nil
	}
	err = inTx(ctx, func(tx postgres.Tx) error {
		open, err := tx.DeadLettersAt(ctx, topicID, places)
		dead = nil
		for i, p := range places {
			if open[p] {
				dead = append(dead, i)
			}
		}
		return err
	})
	return dead, err
}

// look are look-ups that are made until the database answers.
func (l *lane) look() looks {
	return looks{
		events: func(ctx context.Context, seen []postgres.Seen) ([]int, error) {
			return l.ask(ctx, func() ([]int, error) { return l.Store.UnknownEvents(ctx, seen) })
		},
		hints: func(ctx context.Context, places []postgres.Place) ([]int, error) {
			return l.ask(ctx, func() ([]int, error) { return deadHints(ctx, l.Store.InTx, l.c.TopicID(), places) })
		},
	}
}

// ask asks until the database answers.
func (l *lane) ask(ctx context.Context, try func() ([]int, error)) (answer []int, err error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		if answer, err = try(); err == nil || ctx.Err() != nil {
			return answer, err
		}
		l.problem.set(err)
		l.Log.Warn("a replay's look-up failed, trying again", "worker", l.owner, "wait", wait, "error", err)
		daemon.Pause(ctx, wait)
	}
}

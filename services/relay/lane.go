package relay

import (
	"context"
	"errors"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
)

// lane publishes one shard, one transaction after the other. It is made for one
// ownership (shard and epoch) and ends with it.
type lane struct {
	*Relay
	shard postgres.RelayShard // as it was taken
	work  chan []postgres.Transition
	end   context.CancelFunc
	// of the lane's own goroutine:
	kafka     Shard
	published int64 // every row up to this id
	// of the session's own goroutine:
	read    int64 // every row up to this id was handed over, or is none of the shard's
	busy    int   // rows handed over and not acknowledged
	leaving bool  // to be given back as soon as it is idle
}

// result is what a lane has to say: rows up to cursor are published, by it or by
// another that had the shard meanwhile, or it cannot go on.
type result struct {
	lane   *lane
	cursor int64
	err    error
}

// run publishes what it is given until ctx ends.
func (l *lane) run(ctx context.Context, results chan<- result) {
	defer func() { l.kafka.Close() }()
	for {
		select {
		case <-ctx.Done():
			return
		case rows := <-l.work:
			err := l.publish(ctx, rows)
			l.published = max(l.published, rows[len(rows)-1].ID)
			r := result{lane: l, cursor: l.published, err: err}
			select {
			case results <- r:
			case <-ctx.Done():
				return
			}
		}
	}
}

// stallAfter is how long Kafka may take before the relay says that it waits.
const stallAfter = 2 * time.Second

// publish returns nil once all rows are on the topics, each once. A transaction
// whose end is unknown is not guessed at: the shard is taken anew, and Kafka's
// cursor says whether it was committed.
func (l *lane) publish(ctx context.Context, rows []postgres.Transition) error {
	began := l.now()
	l.metrics.oldest.begin(l.shard.Shard, rows[0].ChangedAt)
	defer l.metrics.oldest.end(l.shard.Shard)
	stalled := time.AfterFunc(stallAfter, func() {
		l.troubles.set(l.shard.Shard, errors.New("Kafka has not acknowledged for "+stallAfter.String()))
		l.log.Warn("Kafka does not acknowledge; nothing is marked published until it does", "shard", l.shard.Shard, "rows", len(rows))
	})
	defer stalled.Stop()
	failures := 0
	for left := rows; len(left) > 0; {
		err := l.transact(ctx, left)
		if err == nil {
			break
		}
		if ctx.Err() != nil || errors.Is(err, kafka.ErrFenced) || errors.Is(err, errUnknownFormat) {
			return err
		}
		l.metrics.failures.Inc()
		l.troubles.set(l.shard.Shard, err)
		if errors.Is(err, kafka.ErrRefused) {
			if left, err = l.single(ctx, left, err); err != nil {
				return err
			}
			continue
		}
		l.log.Warn("publish failed; it will be tried again", "shard", l.shard.Shard, "error", err, "attempt", failures+1)
		daemon.Pause(ctx, backoff(failures))
		failures++
		if left, err = l.again(ctx, left); err != nil {
			return err
		}
	}
	if !stalled.Stop() || failures > 0 {
		l.log.Info("Kafka acknowledges again", "shard", l.shard.Shard, "after", l.now().Sub(began).String())
	}
	l.troubles.set(l.shard.Shard, nil)
	l.metrics.published.Add(float64(len(rows)))
	l.metrics.publish.Observe(l.now().Sub(began).Seconds())
	return nil
}

// transact publishes rows and their cursor in one transaction.
func (l *lane) transact(ctx context.Context, rows []postgres.Transition) error {
	records := make([]kafka.Record, 0, len(rows)*len(l.topics))
	for _, row := range rows {
		r, err := record(row)
		if err != nil {
			return err
		}
		for _, topic := range l.topics {
			r.Topic = topic
			records = append(records, r)
		}
	}
	return l.kafka.Publish(ctx, records, cursorOf(rows[len(rows)-1]).encode())
}

// again takes the shard anew and returns the rows that are not published.
func (l *lane) again(ctx context.Context, rows []postgres.Transition) ([]postgres.Transition, error) {
	l.kafka.Close()
	for failures := 0; ; failures++ {
		err := l.retake(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil, err
		}
		l.troubles.set(l.shard.Shard, err)
		daemon.Pause(ctx, backoff(failures))
	}
	for len(rows) > 0 && rows[0].ID <= l.published {
		rows = rows[1:]
	}
	return rows, nil
}

func (l *lane) retake(ctx context.Context) error {
	taken, err := l.broker.TakeShard(ctx, l.shard.Shard)
	if err != nil {
		return err
	}
	l.kafka = taken
	cursors, err := l.broker.Cursors(ctx, []int16{l.shard.Shard})
	if err != nil {
		taken.Close()
		return err
	}
	l.published, err = l.position(ctx, l.shard.Shard, l.published, cursors[l.shard.Shard])
	return err
}

// single publishes rows one by one, up to the first that the broker refuses,
// which becomes a review item; it returns what is left. Later versions of that
// order go out: each message carries the whole state, and the missing version
// shows.
func (l *lane) single(ctx context.Context, rows []postgres.Transition, why error) ([]postgres.Transition, error) {
	rows, err := l.again(ctx, rows)
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		err := l.transact(ctx, rows[i:i+1])
		if err == nil {
			continue
		}
		if !errors.Is(err, kafka.ErrRefused) {
			return rows[i:], nil // to be tried as any failure
		}
		if err := l.store.PutAside(ctx, row, why.Error()); err != nil {
			return nil, err
		}
		l.metrics.refused.Inc()
		l.log.Error("Kafka refuses a message for good; it is a review item now", "order", row.OrderID, "version", row.Version, "error", err)
		left, err := l.again(ctx, rows[i+1:])
		if err != nil || l.published > row.ID {
			return left, err // another owner has passed it meanwhile
		}
		// The cursor passes it, or another owner would meet it again. Should that fail,
		// so does what is published next, and the shard is taken anew.
		_ = l.kafka.Publish(ctx, nil, cursorOf(row).encode())
		return left, nil
	}
	return nil, nil
}

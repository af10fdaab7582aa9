package relay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"

	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// overtaken is a broker whose relay fails to publish a shard's first rows, so many
// times, with an error that does not say why: the last time because another owner has
// published them meanwhile, and later ones.
type overtaken struct {
	Broker
	failure error
	times   int32
	failed  atomic.Int32
	other   func(ctx context.Context, shard int16) error
}

func (o *overtaken) TakeShard(ctx context.Context, shard int16) (Shard, error) {
	taken, err := o.Broker.TakeShard(ctx, shard)
	if err != nil {
		return nil, err
	}
	return overtakenShard{taken, shard, o}, nil
}

type overtakenShard struct {
	Shard
	shard int16
	of    *overtaken
}

func (s overtakenShard) Publish(ctx context.Context, records []kafka.Record, cursor []byte) error {
	n := s.of.failed.Add(1)
	if n == s.of.times {
		if err := s.of.other(ctx, s.shard); err != nil {
			return err
		}
	}
	if n <= s.of.times {
		return s.of.failure
	}
	return s.Shard.Publish(ctx, records, cursor)
}

// O41: whoever takes a shard again that another had meanwhile goes on behind what that
// one has published, not only in the rows that it holds itself.
func TestWhatAnotherPublishedMeanwhileIsNotPublishedAgain(t *testing.T) {
	for name, b := range map[string]*overtaken{
		"a lost connection": {failure: errors.New("the connection is lost"), times: 1},
		// All at once, and then the first alone, which is put aside.
		"a refused record": {failure: fmt.Errorf("%w: too large", kafka.ErrRefused), times: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, testkit.Kafka(t, 0))
			b.Broker = w.broker()
			b.other = func(ctx context.Context, shard int16) error {
				w.write(8, 8, 4, 20)
				rows, err := w.store.ReadTransitions(ctx, []postgres.Position{{Shard: shard}}, math.MaxInt64, 100)
				if err != nil {
					return err
				}
				taken, err := b.Broker.TakeShard(ctx, shard)
				if err != nil {
					return err
				}
				defer taken.Close()
				var records []kafka.Record
				for _, row := range rows {
					r, err := record(row)
					if err != nil {
						return err
					}
					r.Topic = w.kafka.Topic(kafka.Status)
					records = append(records, r)
				}
				return taken.Publish(ctx, records, cursorOf(rows[len(rows)-1]).encode())
			}
			w.write(8, 8, 1, 3)
			w.start("a", config(), b)
			p := w.topic()
			p.take(20)
			w.write(8, 8, 21, 21)
			p.take(21)
			w.until("all is marked", func() bool { return w.unmarked() == 0 })
			p.whole()
			if p.copies > 0 {
				t.Errorf("%d messages came twice", p.copies)
			}
		})
	}
}

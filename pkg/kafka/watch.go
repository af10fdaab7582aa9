package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Watch hands every committed record of a topic (full name) to do, from the
// topic's start and then as they come, in order within each partition. It belongs
// to no group and commits nothing. It returns nil once do returns false, and
// ctx's error when ctx ends.
func Watch(ctx context.Context, cfg Config, log *slog.Logger, topic string, do func(Record) bool) error {
	cl, err := cfg.open(ctx, "watch", log,
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	if err != nil {
		return err
	}
	defer cl.Close()
	for {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var problems []error
		fetches.EachError(func(_ string, p int32, err error) {
			problems = append(problems, fmt.Errorf("read topic %s, partition %d: %w", topic, p, err))
		})
		if len(problems) > 0 {
			return errors.Join(problems...)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			if !do(fromKgo(it.Next())) {
				return nil
			}
		}
	}
}

// Count is how many records lie in a topic (full name): the sum over its
// partitions of end less start. On topics written in transactions the markers
// count too.
func Count(ctx context.Context, cfg Config, log *slog.Logger, topic string) (int64, error) {
	cl, err := cfg.open(ctx, "count", log)
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	starts, ends, err := bounds(ctx, adm, topic)
	if err != nil {
		return 0, err
	}
	n := int64(0)
	ends.Each(func(o kadm.ListedOffset) {
		if start, ok := starts.Lookup(o.Topic, o.Partition); ok {
			n += o.Offset - start.Offset
		}
	})
	return n, nil
}

// coordinatorTimeout is how long a cluster may take to have a coordinator for a group:
// the first group that a new one is asked about has none for a moment.
const coordinatorTimeout = 10 * time.Second

func offsetsOf(ctx context.Context, adm *kadm.Client, group, topic string) (kadm.OffsetResponses, error) {
	within, cancel := context.WithTimeout(ctx, coordinatorTimeout)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		committed, err := adm.FetchOffsetsForTopics(ctx, group, topic)
		if err == nil {
			err = committed.Error()
		}
		if !errors.Is(err, kerr.CoordinatorNotAvailable) && !errors.Is(err, kerr.CoordinatorLoadInProgress) {
			return committed, err
		}
		select {
		case <-within.Done():
			return committed, err
		case <-tick.C:
		}
	}
}

// Lag is how many records of a topic lie behind a group's committed offsets, or
// behind the topic's start where nothing is committed.
func Lag(ctx context.Context, cfg Config, log *slog.Logger, group, topic string) (int64, error) {
	cl, err := cfg.open(ctx, "lag", log)
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	committed, err := offsetsOf(ctx, adm, group, topic)
	if err != nil {
		return 0, fmt.Errorf("read offsets of group %s: %w", group, err)
	}
	starts, ends, err := bounds(ctx, adm, topic)
	if err != nil {
		return 0, err
	}
	lag := int64(0)
	ends.Each(func(end kadm.ListedOffset) {
		from := int64(0)
		if start, ok := starts.Lookup(end.Topic, end.Partition); ok {
			from = start.Offset
		}
		if c, ok := committed.Lookup(end.Topic, end.Partition); ok {
			from = max(from, c.At)
		}
		lag += end.Offset - from
	})
	return lag, nil
}

// bounds are the start and end offsets of a topic's partitions.
func bounds(ctx context.Context, adm *kadm.Client, topic string) (starts, ends kadm.ListedOffsets, err error) {
	if starts, err = adm.ListStartOffsets(ctx, topic); err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read start of topic %s: %w", topic, err)
	}
	if ends, err = adm.ListEndOffsets(ctx, topic); err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read end of topic %s: %w", topic, err)
	}
	return starts, ends, nil
}

// Reach says whether a broker answers with these settings; a wrong password or
// missing TLS shows here.
func Reach(ctx context.Context, cfg Config, log *slog.Logger) error {
	cl, err := cfg.open(ctx, "reach", log)
	if err != nil {
		return err
	}
	cl.Close()
	return nil
}

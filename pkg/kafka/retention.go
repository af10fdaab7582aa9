package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Retention is how long a topic keeps its records.
type Retention struct {
	// Time is retention.ms; negative: none is deleted for its age.
	Time time.Duration
	// Bytes is retention.bytes of each partition; negative: no limit.
	Bytes int64
	// Segment is segment.ms: whole segments are deleted, by their newest record, so
	// that a record may live so much longer than Time.
	Segment time.Duration
}

// ReadRetention reads how long topics (full names) keep their records.
func ReadRetention(ctx context.Context, cfg Config, log *slog.Logger, topics ...string) (map[string]Retention, error) {
	cl, err := cfg.open(ctx, "retention", log)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	kept := map[string]Retention{}
	for _, topic := range topics {
		got, err := topicConfig(ctx, kadm.NewClient(cl), topic)
		if err != nil {
			return nil, err
		}
		number := func(key string) int64 {
			n, parsed := strconv.ParseInt(got[key], 10, 64)
			if parsed != nil && err == nil {
				err = fmt.Errorf("read settings of topic %s: %s is not a number", topic, key)
			}
			return n
		}
		kept[topic] = Retention{Time: milliseconds(number("retention.ms")), Bytes: number("retention.bytes"), Segment: milliseconds(number("segment.ms"))}
		if err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// milliseconds is at most what a Duration holds: Kafka allows more.
func milliseconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(n, most)) * time.Millisecond
}

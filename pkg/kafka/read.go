package kafka

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Range is a stretch of one partition: the offsets from From up to Before, which
// is not one of them.
type Range struct {
	Partition    int32
	From, Before int64
}

// Read hands the committed records that lie in ranges of a topic (full name) to
// do, in order within each partition, and ends after the last of them, or when do
// returns false. Of one partition there is at most one range, and it must lie
// between the topic's start and end. It belongs to no group and commits nothing.
func Read(ctx context.Context, cfg Config, log *slog.Logger, topic string, ranges []Range, do func(Record) bool) error {
	from, before := map[int32]kgo.Offset{}, map[int32]int64{}
	for _, r := range ranges {
		if r.From < r.Before {
			from[r.Partition], before[r.Partition] = kgo.NewOffset().At(r.From), r.Before
		}
	}
	if len(before) == 0 {
		return nil
	}
	cl, err := cfg.open(ctx, "read", log,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // else a range that ends with a marker never ends
	)
	if err != nil {
		return err
	}
	defer cl.Close()
	for len(before) > 0 {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("read topic %s, partition %d: %w", topic, e.Partition, e.Err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			end, open := before[r.Partition]
			if !open {
				continue
			}
			if r.Offset < end && !r.Attrs.IsControl() && !do(fromKgo(r)) {
				return nil
			}
			if r.Offset >= end-1 {
				delete(before, r.Partition)
				cl.PauseFetchPartitions(map[string][]int32{topic: {r.Partition}})
			}
		}
	}
	return nil
}

// PartitionOf is the partition that Sluice's own producers give a key, of a topic
// that has n.
func PartitionOf(key []byte, n int) int32 {
	r := &kgo.Record{Key: key}
	return int32(kgo.StickyKeyPartitioner(nil).ForTopic("").Partition(r, n))
}

package kafka

import (
	"context"
	"errors"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Range is a stretch of one partition: the offsets from From up to Before, which
// is not one of them.
type Range struct {
	Partition    int32
	From, Before int64
}

// errEnough ends a scan early.
var errEnough = errors.New("enough was read")

// Read hands the committed records that lie in ranges of a topic (full name) to
// do, in order within each partition, and ends after the last of them, or when do
// returns false. Of one partition there is at most one range. What is gone is passed
// over. It belongs to no group and commits nothing.
func Read(ctx context.Context, cfg Config, log *slog.Logger, topic string, ranges []Range, do func(Record) bool) error {
	err := Scan(ctx, cfg, log, topic, ranges, ChunkRecords, func(c Chunk) error {
		for i := range c.Len() {
			if !do(c.Record(i, nil)) {
				return errEnough
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// PartitionOf is the partition that Sluice's own producers give a key, of a topic
// that has n.
func PartitionOf(key []byte, n int) int32 {
	r := &kgo.Record{Key: key}
	return int32(kgo.StickyKeyPartitioner(nil).ForTopic("").Partition(r, n))
}

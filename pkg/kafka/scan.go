package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/event"
)

// Chunk is what one fetch brought of the ranges of a Scan: the records of one
// partition lie together, in the order of their offsets.
type Chunk struct {
	records []*kgo.Record
	// Next is for each partition met where it goes on: at its range's end when the
	// range is through.
	Next map[int32]int64
}

// Len is how many records it holds.
func (c Chunk) Len() int { return len(c.records) }

// Record is record i. Its headers are appended to headers, so that many records can
// be looked at, one after the other, with one slice; nil: they are its own.
func (c Chunk) Record(i int, headers []event.Header) Record {
	k := c.records[i]
	if headers == nil {
		return fromKgo(k)
	}
	for j := range k.Headers {
		headers = append(headers, event.Header{Name: k.Headers[j].Key, Value: k.Headers[j].Value})
	}
	return Record{Topic: k.Topic, Partition: k.Partition, Offset: k.Offset, Timestamp: k.Timestamp, Key: k.Key, Value: k.Value, Headers: headers}
}

// Counts is how many records of each partition it holds.
func (c Chunk) Counts() map[int32]int64 {
	n := map[int32]int64{}
	for _, k := range c.records {
		n[k.Partition]++
	}
	return n
}

// ChunkRecords is how many records a chunk is to bring at most: about as many of 1 KiB as
// one fetch does.
const ChunkRecords = 10_000

// scanPatience is how long a scan waits for records before it asks whether any can
// come: retention or truncation may have taken the rest of a range.
const scanPatience = 2 * time.Second

// Scan hands the committed records of ranges to do, in chunks of at most limit, each
// range in order and several side by side, and ends when all are through or do
// returns an error. Of one partition there is at most one range. What is gone is
// passed over. It belongs to no group and commits nothing.
func Scan(ctx context.Context, cfg Config, log *slog.Logger, topic string, ranges []Range, limit int, do func(Chunk) error) error {
	open, from := map[int32]Range{}, map[int32]kgo.Offset{}
	for _, r := range ranges {
		if r.From < r.Before {
			open[r.Partition], from[r.Partition] = r, kgo.NewOffset().At(r.From)
		}
	}
	if len(open) == 0 {
		return nil
	}
	cl, err := cfg.open(ctx, "replay", log,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxPartitionBytes(fetchPartitionBytes),
		kgo.FetchMaxBytes(fetchBytes),
		kgo.KeepControlRecords(), // else a range that ends with a marker never ends
	)
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	for len(open) > 0 {
		waiting, cancel := context.WithTimeout(ctx, scanPatience)
		fetches := cl.PollRecords(waiting, limit)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c := Chunk{records: make([]*kgo.Record, 0, fetches.NumRecords()), Next: map[int32]int64{}}
		if fetches.NumRecords() == 0 {
			if err := scanProblem(waiting, fetches); err != nil {
				return err
			}
			if err := c.gone(ctx, adm, topic, open); err != nil {
				return err
			}
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			c.add(p.Records, open)
		})
		for p, next := range c.Next {
			r := open[p]
			if r.From = next; r.From < r.Before {
				open[p] = r
				continue
			}
			delete(open, p)
			cl.PauseFetchPartitions(map[string][]int32{topic: {p}})
		}
		if len(c.Next) == 0 {
			continue
		}
		if err := do(c); err != nil {
			return err
		}
	}
	return nil
}

// add takes what lies in the open ranges of one partition's records.
func (c *Chunk) add(records []*kgo.Record, open map[int32]Range) {
	if len(records) == 0 {
		return
	}
	r, ok := open[records[0].Partition]
	if !ok {
		return
	}
	for _, k := range records {
		if k.Offset < r.Before && k.Offset >= r.From && !k.Attrs.IsControl() {
			c.records = append(c.records, k)
		}
	}
	c.Next[r.Partition] = min(max(r.From, records[len(records)-1].Offset+1), r.Before)
}

// gone ends ranges whose rest is not there any more.
func (c *Chunk) gone(ctx context.Context, adm *kadm.Client, topic string, open map[int32]Range) error {
	starts, ends, err := bounds(ctx, adm, topic)
	if err != nil {
		return err
	}
	for p, r := range open {
		start, ok := starts.Lookup(topic, p)
		end, also := ends.Lookup(topic, p)
		if ok && also && (start.Offset >= r.Before || end.Offset <= r.From) {
			c.Next[p] = r.Before
		}
	}
	return nil
}

// scanProblem is why a poll brought nothing, unless it is only that nothing came or
// that records are gone.
func scanProblem(waiting context.Context, fetches kgo.Fetches) error {
	for _, e := range fetches.Errors() {
		if waiting.Err() != nil && e.Topic == "" {
			continue
		}
		var lost *kgo.ErrDataLoss
		if errors.As(e.Err, &lost) {
			continue
		}
		return fmt.Errorf("read topic %s, partition %d: %w", e.Topic, e.Partition, e.Err)
	}
	return nil
}

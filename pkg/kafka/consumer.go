package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ConsumerOptions say what a consumer reads, and what it asks its owner. Claim, Begin,
// Leave and Gap are called from other goroutines than Poll's, and not after Close.
type ConsumerOptions struct {
	// Client is what the broker knows the client by; "": processor.
	Client string
	// Topic and Group are full names; "": the raw topic and the processor's group.
	Topic, Group string
	// From, if there is any, is where each partition begins. Then there is no group:
	// all of these partitions are read, and Commit does nothing.
	From map[int32]int64
	// Claim is called for every partition before its first record, and again when
	// it comes back. It returns the highest offset that was ever applied, -1 if
	// none. While it fails the partition is not read, and Claim is tried again.
	// reset, which it may call, sets the group's offset of the partition first.
	// nil: what was committed was applied.
	Claim func(ctx context.Context, a Assignment, reset func(from int64) error) (applied int64, err error)
	// Begin is called for every partition that Claim was called for, before its first
	// record. The consumer reads on from behind.Before; what lies in behind, mostly
	// nothing, was applied before and is the owner's to read again beside it. Unless
	// that is nothing, the partition is being replayed (CommitReplay, EndReplay).
	Begin func(ctx context.Context, behind Range)
	// Leave is called when partitions are taken away, and mostly nobody else gets them
	// before it returns: how far a replay has come can still be committed. What comes
	// afterwards is dropped.
	Leave func(ctx context.Context, partitions []int32)
	// Gap is called for every gap found.
	Gap func(ctx context.Context, g Gap)
}

// Batch is what one Poll read: the records of one partition lie together, in the
// order of their offsets.
type Batch struct {
	Records []Record
}

// Last is the last offset of each partition in the batch.
func (b Batch) Last() map[int32]int64 {
	last := map[int32]int64{}
	for i := range b.Records {
		last[b.Records[i].Partition] = b.Records[i].Offset
	}
	return last
}

// What one fetch brings, and so what waits in memory to be polled. A partition's
// share decides how many records a batch really has, and how well partitions are
// read side by side. 6 partitions, two workers, events of 1 KiB, 2026-11: with 1 MiB
// a record costs the processor and PostgreSQL 41 µs of CPU and 2 of 100 events are
// held for a predecessor; with 512 KiB 48 µs and 5, since batches are 800 records in
// place of 2,000; with 4 MiB 13 of 100 are held.
const (
	fetchPartitionBytes = 1 << 20
	fetchBytes          = 8 << 20
)

// Consumer is one member of the group that reads a topic. Between Poll and
// Allow no partition is taken from it, unless it is silent for longer than its
// session. It never skips: where it has no valid offset it begins at the
// earliest record. Poll, Commit and Allow are one goroutine's.
type Consumer struct {
	cl      *kgo.Client
	adm     *kadm.Client
	log     *slog.Logger
	opts    ConsumerOptions
	topic   string
	topicID [16]byte
	wanted  atomic.Bool
	made    chan struct{} // closed when cl is there

	mu   sync.Mutex
	next map[int32]int64 // offset expected next

	replays replays
}

// NewConsumer joins the group.
func NewConsumer(ctx context.Context, cfg Config, log *slog.Logger, opts ConsumerOptions) (*Consumer, error) {
	opts.Client = cmp.Or(opts.Client, "processor")
	opts.Topic, opts.Group = cmp.Or(opts.Topic, cfg.Topic(Raw)), cmp.Or(opts.Group, cfg.Topic(Group))
	c := &Consumer{log: log, opts: opts, topic: opts.Topic, made: make(chan struct{}), next: map[int32]int64{}, replays: replays{places: map[int32]*place{}}}
	// A client of its own looks around: the group's calls start before it is made.
	admin, err := cfg.open(ctx, opts.Client, log)
	if err != nil {
		return nil, err
	}
	c.adm = kadm.NewClient(admin)
	details, err := c.adm.ListTopics(ctx, c.topic)
	if err == nil {
		err = details[c.topic].Err
	}
	if err != nil {
		c.adm.Close()
		return nil, fmt.Errorf("look up topic %s: %w", c.topic, err)
	}
	c.topicID = details[c.topic].ID
	c.cl, err = cfg.open(ctx, opts.Client, log, append(c.membership(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxPartitionBytes(fetchPartitionBytes),
		kgo.FetchMaxBytes(fetchBytes),
	)...)
	if err != nil {
		c.adm.Close()
		return nil, err
	}
	close(c.made)
	return c, nil
}

// ErrGone: the topic is gone, was made again, or may not be read. Join anew.
var ErrGone = errors.New("the topic cannot be read any more")

// Poll waits for records and returns at most limit of them, fewer if fewer are there.
// From then on no partition is taken away until Allow. It returns ctx's error
// when ctx ends and nothing was read; then too Allow is to be called.
func (c *Consumer) Poll(ctx context.Context, limit int) (Batch, error) {
	for {
		fetches := c.cl.PollRecords(ctx, limit)
		if ctx.Err() != nil && fetches.NumRecords() == 0 {
			return Batch{}, ctx.Err()
		}
		if err := c.problems(ctx, fetches); err != nil {
			return Batch{}, err
		}
		if fetches.Empty() {
			c.Allow()
			continue
		}
		b := Batch{Records: make([]Record, 0, fetches.NumRecords())}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				b.Records = append(b.Records, fromKgo(r))
			}
			if len(p.Records) > 0 {
				c.watch(ctx, p.Partition, p.Records[0].Offset, p.Records[len(p.Records)-1].Offset)
			}
		})
		return b, nil
	}
}

// expect sets the offset that a partition goes on with and returns what it was.
func (c *Consumer) expect(p int32, next int64) (before int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, c.next[p] = c.next[p], next
	return before
}

// watch notices when retention overtook a partition that was being read. A jump
// that the log's start does not explain is none of ours: markers of transactions.
func (c *Consumer) watch(ctx context.Context, p int32, first, last int64) {
	expected := c.expect(p, last+1)
	if first <= expected {
		return
	}
	starts, err := c.adm.ListStartOffsets(ctx, c.topic)
	if err != nil {
		c.log.Warn("cannot tell why offsets jumped", "topic", c.topic, "partition", p, "from", expected, "to", first-1, "error", err)
		return
	}
	if start, ok := starts.Lookup(c.topic, p); ok && start.Offset > expected {
		c.gap(ctx, Gap{Assignment{c.topicID, c.topic, p}, expected, first - 1, Expired})
	}
}

// problems sorts out what a poll reports besides records. The client itself
// repeats what can be repeated.
func (c *Consumer) problems(ctx context.Context, fetches kgo.Fetches) (fatal error) {
	fetches.EachError(func(topic string, p int32, err error) {
		var lost *kgo.ErrDataLoss
		switch {
		case errors.As(err, &lost):
			c.gap(ctx, Gap{Assignment{c.topicID, c.topic, p}, lost.ResetTo, lost.ConsumedTo - 1, Truncated})
		case errors.Is(err, kgo.ErrClientClosed), topic == "" && kerr.IsRetriable(err), topic == "":
			c.log.Warn("consumer group", "error", err)
			if errors.Is(err, kgo.ErrClientClosed) {
				fatal = err
			}
		case kerr.IsRetriable(err) && !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.UnknownTopicID):
			c.log.Warn("read topic", "topic", topic, "partition", p, "error", err)
		default:
			fatal = fmt.Errorf("%w: %s, partition %d: %w", ErrGone, topic, p, err)
		}
	})
	return fatal
}

// Commit tells the group that everything in the batch is done. Of a partition that
// is being replayed it is remembered, and told when the replay has ended.
func (c *Consumer) Commit(ctx context.Context, b Batch) error {
	if c.alone() {
		return nil
	}
	return c.replays.done(b.Last(), func(offsets map[int32]int64) error { return c.commit(ctx, offsets) })
}

// commit tells the group where each partition goes on.
func (c *Consumer) commit(ctx context.Context, next map[int32]int64) error {
	if len(next) == 0 {
		return nil
	}
	offsets := make(map[int32]kgo.EpochOffset, len(next))
	for p, at := range next {
		offsets[p] = kgo.EpochOffset{Epoch: -1, Offset: at}
	}
	var failed error
	c.cl.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{c.topic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			if err != nil {
				failed = err
				return
			}
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
						failed = fmt.Errorf("partition %d: %w", p.Partition, err)
					}
				}
			}
		})
	if failed != nil {
		return fmt.Errorf("commit offsets: %w", failed)
	}
	return nil
}

// Allow ends a batch: partitions may be taken away and given again.
func (c *Consumer) Allow() {
	c.wanted.Store(false)
	c.cl.AllowRebalance()
}

// Wanted says that the group is waiting for this consumer's batch to end.
func (c *Consumer) Wanted() bool { return c.wanted.Load() }

// leaveTimeout bounds leaving while no broker answers; then the session ends by
// itself.
const leaveTimeout = 3 * time.Second

// Close leaves the group. What was polled and not committed, another reads again.
func (c *Consumer) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	c.cl.AllowRebalance()
	if err := c.cl.LeaveGroupContext(ctx); err != nil {
		c.log.Warn("left the consumer group without a word", "error", err)
	}
	c.cl.CloseAllowingRebalance()
	c.adm.Close()
}

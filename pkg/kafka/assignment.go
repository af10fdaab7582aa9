package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Assignment is one partition that the group gave to this consumer. A topic that
// is deleted and made again has another TopicID.
type Assignment struct {
	TopicID   [16]byte
	Topic     string
	Partition int32
}

// Gap is a range of offsets, both ends included, that a consumer should have
// read next and that is not there.
type Gap struct {
	Assignment
	From, To int64
	// Reason is Expired, Truncated or Rewound.
	Reason string
}

// Why offsets are missing.
const (
	// Expired: retention was faster than the consumer.
	Expired = "expired"
	// Truncated: the log ends before them.
	Truncated = "truncated"
	// Rewound: they were committed to Kafka, and the database, restored from an
	// older state, never applied them. What is left of them is read again.
	Rewound = "rewound"
)

// sessionTimeout is how long a consumer may be silent before its partitions go
// to another. rebalanceTimeout bounds one batch.
const (
	sessionTimeout   = 15 * time.Second
	rebalanceTimeout = 60 * time.Second
)

// membership is how partitions come to this consumer.
func (c *Consumer) membership() []kgo.Opt {
	if c.alone() {
		from := map[int32]kgo.Offset{}
		for p, at := range c.opts.From {
			from[p] = kgo.NewOffset().At(at)
			c.expect(p, at)
		}
		return []kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.topic: from})}
	}
	return []kgo.Opt{
		kgo.ConsumeTopics(c.topic),
		kgo.ConsumerGroup(c.opts.Group),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(sessionTimeout),
		kgo.HeartbeatInterval(3 * time.Second),
		kgo.RebalanceTimeout(rebalanceTimeout),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.AdjustFetchOffsetsFn(c.start),
		kgo.OnPartitionsRevoked(c.leave),
		kgo.OnPartitionsLost(c.leave),
		kgo.OnPartitionsCallbackBlocked(func(context.Context, *kgo.Client) { c.wanted.Store(true) }),
	}
}

// alone: it is no member of a group.
func (c *Consumer) alone() bool { return len(c.opts.From) > 0 }

// start decides where each newly assigned partition begins: behind everything that
// was ever applied. What the group has committed below that is left to Begin.
func (c *Consumer) start(ctx context.Context, assigned map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	parts := assigned[c.topic]
	if len(parts) == 0 {
		return assigned, nil
	}
	applied, committed := make(map[int32]int64, len(parts)), make(map[int32]int64, len(parts))
	for p, o := range parts {
		committed[p] = o.EpochOffset().Offset
		if c.opts.Claim == nil {
			applied[p] = committed[p] - 1
			continue
		}
		high, err := c.claim(ctx, Assignment{c.topicID, c.topic, p}, func(from int64) error {
			select {
			case <-c.made:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := c.commit(ctx, map[int32]int64{p: from}); err != nil {
				return err
			}
			committed[p] = from
			return nil
		})
		if err != nil {
			return nil, err
		}
		applied[p] = high
	}
	starts, ends, err := bounds(ctx, c.adm, c.topic)
	if err != nil {
		return nil, err
	}
	for p := range parts {
		first, _ := starts.Lookup(c.topic, p)
		end, _ := ends.Lookup(c.topic, p)
		behind, gaps := begin(Assignment{c.topicID, c.topic, p}, committed[p], applied[p], first.Offset, end.Offset)
		parts[p] = kgo.NewOffset().At(behind.Before)
		c.expect(p, behind.Before)
		c.replays.begin(behind)
		for _, g := range gaps {
			c.gap(ctx, g)
		}
		if c.opts.Begin != nil {
			c.opts.Begin(ctx, behind)
		}
		c.replays.open([]int32{p}, true)
	}
	return assigned, nil
}

// leave ends what was begun for partitions that are taken away.
func (c *Consumer) leave(ctx context.Context, _ *kgo.Client, lost map[string][]int32) {
	partitions := lost[c.topic]
	if len(partitions) == 0 {
		return
	}
	c.replays.open(partitions, false)
	if c.opts.Leave != nil {
		c.opts.Leave(ctx, partitions)
	}
	c.replays.leave(partitions)
}

// begin is where a partition starts whose committed offset is committed (below 0:
// none), of which everything up to applied was applied (-1: nothing), and whose
// log holds [first, end): at behind.Before. What the group would read from its own
// offset up to there is behind.
func begin(a Assignment, committed, applied, first, end int64) (behind Range, gaps []Gap) {
	known := committed >= 0 || applied >= 0 // else the group and the database are new
	unapplied := max(applied, -1) + 1
	if known && unapplied < first {
		gaps = append(gaps, Gap{a, unapplied, first - 1, Expired})
	}
	if committed > unapplied {
		gaps = append(gaps, Gap{a, unapplied, committed - 1, Rewound})
	}
	live := max(first, unapplied)
	from := max(first, min(committed, live))
	if live > end {
		// Whatever the log gets at these offsets is new, though their numbers are not.
		if from > end {
			from, gaps = first, append(gaps, Gap{a, end, from - 1, Truncated})
		}
		live = end
	}
	return Range{Partition: a.Partition, From: from, Before: live}, gaps
}

// claim asks the owner until it answers: a partition without a claim must not be
// read, and giving it back would not help while the database is away.
func (c *Consumer) claim(ctx context.Context, a Assignment, reset func(int64) error) (int64, error) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		applied, err := c.opts.Claim(ctx, a, reset)
		if err == nil {
			return applied, nil
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		c.log.Warn("waiting to claim a partition", "topic", a.Topic, "partition", a.Partition, "error", err)
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(wait):
		}
	}
}

func (c *Consumer) gap(ctx context.Context, g Gap) {
	c.log.Error("offsets are missing", "topic", g.Topic, "partition", g.Partition, "from", g.From, "to", g.To, "reason", g.Reason)
	c.opts.Gap(ctx, g)
}

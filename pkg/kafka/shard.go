package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Shard publishes one shard of the outbox exactly once: what it writes and the
// cursor that says how far that was go into one Kafka transaction. So whoever
// takes the shard over after a crash reads from Kafka itself what was published,
// and goes on behind it.
//
// Not safe for concurrent use.
type Shard struct {
	// Transactions take turns on two transactional ids: an id that has just committed
	// is not ready for the next until the broker has written the markers, for which the
	// broker itself waits in steps of 20 ms (add.partitions.to.txn.retry.backoff.ms).
	// At 1,000 records/s the median from produce to commit was 26 ms with one id and
	// 1.2 ms with two (2026-11-30). A transaction begins only when the one before is
	// committed, so their order is that of the offsets.
	clients [2]*kgo.Client
	turn    int
	shard   int32
	cursors string
	dead    error
}

// ErrFenced: another program has taken the shard. What was not committed then
// never will be.
var ErrFenced = errors.New("the shard was taken over")

// ErrRefused: a record that the broker will never take as it is.
var ErrRefused = errors.New("the broker refuses a record for good")

// transactionTimeout is how long a transaction may stay open after its owner has
// vanished: so long consumers that read committed records wait behind it, unless
// another owner comes first, which ends it at once.
const transactionTimeout = 20 * time.Second

// TakeShard makes the caller the shard's only publisher: whoever had it is fenced,
// and a transaction left open is aborted before TakeShard returns. Read the cursor
// after it, never before.
func TakeShard(ctx context.Context, cfg Config, shard int32, log *slog.Logger) (*Shard, error) {
	s := &Shard{shard: shard, cursors: cfg.Topic(Cursors)}
	for i := range s.clients {
		var err error
		if s.clients[i], err = s.client(ctx, cfg, i, log); err != nil {
			s.Close()
			return nil, fmt.Errorf("take shard %d: %w", shard, err)
		}
	}
	return s, nil
}

// client begins with one of the shard's transactional ids.
func (s *Shard) client(ctx context.Context, cfg Config, i int, log *slog.Logger) (*kgo.Client, error) {
	cl, err := cfg.open(ctx, "relay", log,
		kgo.TransactionalID(fmt.Sprintf("%ssluice-relay-%d-%d", cfg.TopicPrefix, s.shard, i)),
		kgo.TransactionTimeout(transactionTimeout),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		// A transaction is sent when all of it is there: in one request to each broker, in
		// place of one for the first record and another for the rest.
		kgo.ManualFlushing(), kgo.MaxBufferedRecords(1<<20),
		// 245,000 records/s against 183,000 without compression and as many with zstd,
		// of a busy broker on 2 cores (2026-11).
		kgo.ProducerBatchCompression(kgo.SnappyCompression()),
		// A transaction that begins right after one ended may find the broker still
		// writing the markers of that; the default is to try again after 20 ms.
		kgo.ConcurrentTransactionsBackoff(2*time.Millisecond),
		kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(func(topic string) func(*kgo.Record, int) int {
			if topic == s.cursors {
				return func(*kgo.Record, int) int { return int(s.shard) }
			}
			return kgo.StickyKeyPartitioner(nil).ForTopic(topic).Partition
		})),
	)
	if err != nil {
		return nil, err
	}
	if _, _, err := cl.ProducerID(ctx); err != nil {
		cl.Close()
		return nil, fmt.Errorf("begin with its transactional id: %w", err)
	}
	return cl, nil
}

// Close gives the clients back; a transaction left open is not committed.
func (s *Shard) Close() {
	for _, cl := range s.clients {
		if cl != nil {
			cl.Close()
		}
	}
}

// Publish writes the records, in their order, and the cursor, as one transaction.
// nil: all of it is committed, on all in-sync replicas. Any error ends the Shard:
// take it anew and read the cursor, which says whether the transaction was
// committed after all. While no broker answers it waits as long as ctx lives.
func (s *Shard) Publish(ctx context.Context, records []Record, cursor []byte) error {
	if s.dead == nil {
		s.dead = s.publish(ctx, records, cursor)
	}
	return s.dead
}

func (s *Shard) publish(ctx context.Context, records []Record, cursor []byte) error {
	cl := s.clients[s.turn]
	s.turn = (s.turn + 1) % len(s.clients)
	if err := cl.BeginTransaction(); err != nil {
		return s.failed("begin a transaction", err)
	}
	var once sync.Once
	var refused error
	note := func(_ *kgo.Record, err error) {
		if err != nil {
			once.Do(func() { refused = err })
		}
	}
	for _, r := range records {
		cl.Produce(ctx, r.kgo(), note)
	}
	cl.Produce(ctx, &kgo.Record{Topic: s.cursors, Key: fmt.Append(nil, s.shard), Value: cursor}, note)
	if err := cl.Flush(ctx); err != nil {
		return s.failed("write a transaction", err)
	}
	if refused != nil {
		// What was written of it must not be committed by whoever comes next; that
		// one's TakeShard aborts it, should this not reach the broker.
		_ = cl.EndTransaction(ctx, kgo.TryAbort)
		return s.failed("write a transaction", refused)
	}
	if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return s.failed("commit a transaction", err)
	}
	return nil
}

func (s *Shard) failed(what string, err error) error {
	for _, fenced := range []error{kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping, kerr.TransactionalIDNotFound} {
		if errors.Is(err, fenced) {
			return fmt.Errorf("%s of shard %d: %w: %w", what, s.shard, ErrFenced, err)
		}
	}
	if permanent(err) {
		return fmt.Errorf("%s of shard %d: %w: %w", what, s.shard, ErrRefused, err)
	}
	return fmt.Errorf("%s of shard %d: %w", what, s.shard, err)
}

// cursorTail is how many of a shard's last records are read first to find its
// cursor: a committed transaction leaves two, the cursor and the marker behind it;
// an aborted one too.
const cursorTail = 16

// ReadCursors returns the cursors committed last, of those shards that have one.
// Only between TakeShard and the first Publish do they not change.
func ReadCursors(ctx context.Context, cfg Config, log *slog.Logger, shards []int32) (map[int32][]byte, error) {
	cl, err := cfg.open(ctx, "admin", log)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	adm, topic := kadm.NewClient(cl), cfg.Topic(Cursors)
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("find the cursors of shards: %w", err)
	}
	ends, err := adm.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("find the cursors of shards: %w", err)
	}
	found := map[int32][]byte{}
	open := make([]Range, 0, len(shards))
	for _, shard := range shards {
		start, _ := starts.Lookup(topic, shard)
		end, ok := ends.Lookup(topic, shard)
		if !ok || start.Err != nil || end.Err != nil {
			return nil, fmt.Errorf("find the cursor of shard %d: topic %s: %w", shard, topic, errors.Join(start.Err, end.Err, missing(!ok)))
		}
		open = append(open, Range{Partition: shard, From: end.Offset, Before: end.Offset})
	}
	// Backwards, in steps that grow, from the end to the first that holds a cursor.
	for tail := int64(cursorTail); len(open) > 0; tail *= 64 {
		for i, r := range open {
			start, _ := starts.Lookup(topic, r.Partition)
			open[i] = Range{Partition: r.Partition, From: max(start.Offset, r.From-tail), Before: r.From}
		}
		if err := Read(ctx, cfg, log, topic, open, func(r Record) bool {
			found[r.Partition] = r.Value
			return true
		}); err != nil {
			return nil, err
		}
		open = slices.DeleteFunc(open, func(r Range) bool {
			start, _ := starts.Lookup(topic, r.Partition)
			return found[r.Partition] != nil || r.From <= start.Offset
		})
	}
	return found, nil
}

func missing(is bool) error {
	if is {
		return errors.New("it has no such partition; it needs one for each shard")
	}
	return nil
}

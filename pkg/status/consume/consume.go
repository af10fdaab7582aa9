// Package consume reads order statuses for an application: every change once, in
// the order of its versions, whatever is repeated, restarted or lost on the way.
//
// Run is all there is to call. It hands over batches of messages that are new to
// the application, and commits a batch's offsets when the application has done it.
// After a crash the batch comes again. Whether anything is then done twice is
// decided by where the application keeps the versions: in the same transaction as
// its own work, nothing is; apart from it, at most one batch is.
package consume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice/pkg/kafka"
)

// Options say how an application follows the statuses.
type Options struct {
	// Group is the consumer group, by its full name. Its members share the
	// partitions, and so must share one store. "": no group; all partitions are read,
	// from orders.latest.v1 on, at every start, and nothing is committed.
	Group string
	// Versions is what the application has.
	Versions Versions
	// Apply does the application's work for a batch, which has messages or gaps.
	// nil says that it is done for good; an error ends Run, and the batch comes again.
	// With a group it should end within a minute, or others may be given the batch
	// too.
	Apply func(ctx context.Context, b Batch) error
	// Every: a group that has no offsets begins with the oldest message that
	// orders.status.v1 has left, in place of orders.latest.v1. For an application that
	// wants the way of an order and not only where it stands.
	Every bool
	// Lost is called when messages went before they were read: offsets that the
	// group had not read are no longer in orders.status.v1. nil, or an answer of nil:
	// the present state of all orders is read from orders.latest.v1 before anything
	// else. An error ends Run.
	Lost func(ctx context.Context, g kafka.Gap) error
	// Unreadable is called for a record that is no message of this format. nil says
	// that it was dealt with, and Run goes on; an error ends Run, and the record comes
	// again. Without it Run ends with the Unreadable.
	Unreadable func(ctx context.Context, u Unreadable) error
}

const (
	// batchRecords is the most that Apply is given at once.
	batchRecords = 1000
	// commitTimeout bounds a commit: without it, work is done twice and dropped.
	commitTimeout = 5 * time.Second
)

// Run follows the statuses until ctx ends, and then returns its error, or until
// something fails. While no broker answers it waits, except at its start. Start it
// again after an error: it goes on where it was.
func Run(ctx context.Context, cfg kafka.Config, log *slog.Logger, opts Options) error {
	if opts.Versions == nil || opts.Apply == nil {
		return errors.New("consume statuses: Versions and Apply are needed")
	}
	r := &run{cfg: cfg, log: log, opts: opts}
	from, err := r.begin(ctx)
	if err != nil {
		return fmt.Errorf("consume statuses: %w", err)
	}
	if err := r.follow(ctx, from); err != nil {
		return fmt.Errorf("consume statuses: %w", err)
	}
	return nil
}

type run struct {
	cfg  kafka.Config
	log  *slog.Logger
	opts Options
	// rebuilt is where orders.status.v1 ended after a rebuild. Until there a message
	// may follow a version that compaction took from orders.latest.v1 before it was
	// read, for a newer one that is yet to come here.
	rebuilt map[int32]int64

	mu   sync.Mutex
	lost []kafka.Gap
	wake context.CancelFunc // ends a wait for records
}

// begin rebuilds where there is no committed place to go on from. It returns where
// to read on without a group.
func (r *run) begin(ctx context.Context) (from map[int32]int64, err error) {
	status, err := kafka.NewOffsets(ctx, r.cfg, r.log, r.cfg.Topic(kafka.Status))
	if err != nil {
		return nil, err
	}
	defer status.Close()
	if r.opts.Group != "" {
		committed, err := status.Group(ctx, r.opts.Group)
		if err != nil || len(committed) > 0 || r.opts.Every {
			return nil, err
		}
	}
	// The committed end, and first: what lies before it is in orders.latest.v1 by now.
	if from, err = status.Committed(ctx); err != nil {
		return nil, err
	}
	if err := r.rebuild(ctx, status); err != nil || r.opts.Group == "" {
		return from, err
	}
	if err := status.CommitGroup(ctx, r.opts.Group, from); err != nil {
		// The broker takes offsets of no group that has members. If another member was
		// faster, its offsets hold, for it has the same store.
		if committed, asked := status.Group(ctx, r.opts.Group); asked != nil || len(committed) == 0 {
			return nil, err
		}
	}
	return nil, nil
}

// follow hands over what comes on orders.status.v1.
func (r *run) follow(ctx context.Context, from map[int32]int64) error {
	c, err := kafka.NewConsumer(ctx, r.cfg, r.log, kafka.ConsumerOptions{
		Client: "consume", Topic: r.cfg.Topic(kafka.Status), Group: r.opts.Group, From: from, Gap: r.missed,
	})
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		b, err := r.poll(ctx, c)
		if err != nil {
			return err
		}
		// Before the offsets behind what is lost are committed.
		if err := r.recover(ctx); err != nil {
			return err
		}
		if err := r.hand(ctx, b.Records, false); err != nil {
			return err
		}
		r.commit(ctx, c, b)
		c.Allow()
	}
}

// commit says that a batch is done. If it fails, the batch is read again and
// dropped by its versions.
func (r *run) commit(ctx context.Context, c *kafka.Consumer, b kafka.Batch) {
	if len(b.Records) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	if err := c.Commit(ctx, b); err != nil {
		r.log.Warn("a batch of order statuses is done, its offsets are not in Kafka", "group", r.opts.Group, "error", err)
	}
}

// poll waits for records, or for news of lost ones; then the batch may be empty.
func (r *run) poll(ctx context.Context, c *kafka.Consumer) (kafka.Batch, error) {
	waiting, wake := context.WithCancel(ctx)
	defer wake()
	r.mu.Lock()
	r.wake = wake
	if len(r.lost) > 0 {
		wake()
	}
	r.mu.Unlock()
	b, err := c.Poll(waiting, batchRecords)
	if ctx.Err() != nil {
		return kafka.Batch{}, ctx.Err()
	}
	if err != nil && waiting.Err() != nil {
		return kafka.Batch{}, nil
	}
	return b, err
}

// missed is told of offsets that were not read and are gone.
func (r *run) missed(_ context.Context, g kafka.Gap) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = append(r.lost, g)
	if r.wake != nil {
		r.wake()
	}
}

// recover makes up for what was lost: the present state of the orders.
func (r *run) recover(ctx context.Context) error {
	r.mu.Lock()
	lost := r.lost
	r.lost = nil
	r.mu.Unlock()
	if len(lost) == 0 {
		return nil
	}
	if r.opts.Lost != nil {
		for _, g := range lost {
			if err := r.opts.Lost(ctx, g); err != nil {
				return fmt.Errorf("offsets %d to %d of topic %s, partition %d are gone (%s): %w", g.From, g.To, g.Topic, g.Partition, g.Reason, err)
			}
		}
	}
	status, err := kafka.NewOffsets(ctx, r.cfg, r.log, r.cfg.Topic(kafka.Status))
	if err != nil {
		return err
	}
	defer status.Close()
	return r.rebuild(ctx, status)
}

// hand gives the application what is new of records.
func (r *run) hand(ctx context.Context, records []kafka.Record, snapshot bool) error {
	messages, unreadable := decode(records)
	for _, u := range unreadable {
		if r.opts.Unreadable == nil {
			return u
		}
		if err := r.opts.Unreadable(ctx, u); err != nil {
			return fmt.Errorf("%w: %w", u, err)
		}
	}
	if len(messages) == 0 {
		return nil
	}
	last, err := r.opts.Versions.Last(ctx, orders(messages))
	if err != nil {
		return fmt.Errorf("ask for the last versions of orders: %w", err)
	}
	b := judge(messages, last, r.rebuilt)
	if b.Snapshot = snapshot; snapshot {
		b.Gaps = nil
	}
	if len(b.Gaps) > 0 {
		r.log.Warn("versions of orders are missing", "gaps", len(b.Gaps), "first", b.Gaps[0].String(), "again", b.Gaps[0].Again())
	}
	if len(b.Messages) == 0 {
		return nil
	}
	if err := r.opts.Apply(ctx, b); err != nil {
		return fmt.Errorf("apply a batch of %d: %w", len(b.Messages), err)
	}
	return nil
}

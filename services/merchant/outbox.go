package merchant

import (
	"context"
	"time"

	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
)

// outbox moves what two-way providers caused into the raw topic.
type outbox struct {
	producer Producer
	woken    chan struct{}
}

// wake says that something was committed for the raw topic.
func (m *Merchant) wake() {
	select {
	case m.outbox.woken <- struct{}{}:
	default:
	}
}

// How often the outbox is looked at, for what another merchant left behind or Kafka
// did not take; and how often what is over is cleared.
const (
	outboxPoll  = time.Second
	outboxClear = time.Minute
)

const (
	// outboxBatch is how many records are published in one go, and outboxPatience how
	// long Kafka may take for them: the database gives up a transaction that does
	// nothing after 10 s.
	outboxBatch    = 200
	outboxPatience = 5 * time.Second
	// outboxDelete is how many are deleted in one go.
	outboxDelete = 1000
)

// publish works until ctx ends, and then once more.
func (m *Merchant) publish(ctx context.Context) {
	poll, clear := time.NewTicker(outboxPoll), time.NewTicker(outboxClear)
	defer poll.Stop()
	defer clear.Stop()
	trouble := false
	for {
		last := ctx.Err() != nil // what is committed until now is published before the end
		err := m.publishAll(context.WithoutCancel(ctx))
		switch {
		case err != nil && !trouble:
			m.log.Warn("events of two-way providers wait for Kafka", "error", err)
		case err == nil && trouble:
			m.log.Info("events of two-way providers are published again")
		}
		trouble = err != nil
		if last {
			return
		}
		select {
		case <-ctx.Done():
		case <-m.outbox.woken:
		case <-poll.C:
		case <-clear.C:
			m.clear(ctx)
		}
	}
}

// publishAll publishes all that waits, one after the other; a record is marked only
// after every in-sync replica has it.
func (m *Merchant) publishAll(ctx context.Context) error {
	defer m.measure(ctx)
	for {
		n, err := m.publishSome(ctx)
		m.metrics.published.Add(float64(n))
		if err != nil || n < outboxBatch {
			return err
		}
	}
}

func (m *Merchant) publishSome(ctx context.Context) (int, error) {
	patience, cancel := context.WithTimeout(ctx, outboxPatience)
	defer cancel()
	return m.store.PublishRaw(ctx, m.now, outboxBatch, func(r postgres.OutboxRecord) error { return m.produce(patience, r) })
}

func (m *Merchant) produce(ctx context.Context, r postgres.OutboxRecord) error {
	return m.outbox.producer.Produce(ctx, kafka.Record{Key: []byte(r.Key), Value: r.Body, Headers: r.Headers})
}

func (m *Merchant) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, outboxPatience)
	defer cancel()
	n, oldest, err := m.store.RawBacklog(ctx)
	if err != nil {
		return // what is wrong with the database, Ready says
	}
	age := time.Duration(0)
	if n > 0 {
		age = max(0, m.now().Sub(oldest))
	}
	m.metrics.backlog(n, age)
}

// clear ends transactions whose time is over and forgets what was published.
func (m *Merchant) clear(ctx context.Context) {
	n, err := m.timeOuts(ctx, m.now())
	m.metrics.timedOut.Add(float64(n))
	for err == nil {
		var dropped int64
		if dropped, err = m.store.DropRaw(ctx, m.now().Add(-m.cfg.OutboxKeep), outboxDelete); dropped < outboxDelete {
			break
		}
	}
	if err != nil && ctx.Err() == nil {
		m.log.Warn("what is over could not be cleared", "error", err)
	}
}

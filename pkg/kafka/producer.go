package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kprom"
)

// ErrTooLarge means that the record can never be written to the topic.
var ErrTooLarge = errors.New("record is larger than the topic takes")

// ErrUnavailable means that nobody knows whether the record was written; the sender
// should send it again. Every such error is an *Unavailable.
var ErrUnavailable = errors.New("the brokers did not acknowledge the record")

// Unavailable says why there is no acknowledgement. errors.Is(err,
// ErrUnavailable) holds.
type Unavailable struct {
	// Reason is one of a small set, fit for a metric label: shut (acknowledgements
	// are overdue, refused at once), full (too much waits already), deadline (the
	// caller's time ended), refused (by the broker or the client).
	Reason string
	// RetryAfter is when trying again makes sense.
	RetryAfter time.Duration
	// Cause may be nil.
	Cause error
}

func (u *Unavailable) Error() string {
	if u.Cause == nil {
		return fmt.Sprintf("%v (%s)", ErrUnavailable, u.Reason)
	}
	return fmt.Sprintf("%v (%s): %v", ErrUnavailable, u.Reason, u.Cause)
}

// Is and Unwrap make errors.Is see ErrUnavailable and the cause.
func (u *Unavailable) Is(target error) bool { return target == ErrUnavailable }
func (u *Unavailable) Unwrap() error        { return u.Cause }

// Bounds of what waits for acknowledgement: 20,000 records are a second at the
// highest rate measured; 64 MiB keep the process below 100 MiB (2026-11).
const (
	maxBufferedRecords = 20_000
	maxBufferedBytes   = 64 << 20
)

// smallRecord: the broker refuses whole batches as too large. A record below
// this size (bytes) was not the cause, it only lay beside it.
const smallRecord = 64 << 10

// Producer writes single records to one topic and waits until all in-sync
// replicas have them. It is idempotent: its own retries never write twice. Safe
// for concurrent use.
type Producer struct {
	cl    *kgo.Client
	topic string
	log   *slog.Logger
	now   func() time.Time
	gate  gate
	// broken is what the last look at the topic found while nothing was produced.
	broken  atomic.Pointer[error]
	stop    context.CancelFunc
	watched chan struct{}
}

// NewProducer reaches the brokers and checks that topic (its full name) exists
// and takes records of MaxMessage bytes. role names the client, to the brokers and in
// its metrics, which go to reg until Close.
func NewProducer(ctx context.Context, cfg Config, role, topic string, log *slog.Logger, reg prometheus.Registerer) (*Producer, error) {
	cl, err := cfg.open(ctx, role, log,
		kgo.DefaultProduceTopic(topic),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		// 1 ms: at 10,000/s half the CPU of no linger for 1 ms of latency; 5 ms
		// halves the throughput of 64 callers (measured 2026-11).
		kgo.ProducerLinger(time.Millisecond),
		kgo.ProducerBatchMaxBytes(MaxMessage),
		// Single small records do not compress into smaller batches; lz4 and zstd
		// cost 15-25 % of throughput (measured 2026-11).
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(maxBufferedRecords),
		kgo.MaxBufferedBytes(maxBufferedBytes),
		kgo.ProduceRequestTimeout(3*time.Second),
		kgo.RequestTimeoutOverhead(2*time.Second),
		kgo.WithHooks(kprom.NewMetrics("sluice_"+role+"_kafka", kprom.Registerer(reg))),
	)
	if err != nil {
		return nil, err
	}
	p := &Producer{cl: cl, topic: topic, log: log, now: time.Now, watched: make(chan struct{})}
	if err := p.checkSettings(ctx); err != nil {
		cl.Close()
		return nil, err
	}
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	go p.watch(ctx)
	return p, nil
}

// Produce writes r to the producer's topic and returns nil once all in-sync
// replicas have it. ctx bounds the wait only: a record whose caller went away is
// still written, or was never taken. The errors are ErrTooLarge and
// *Unavailable; after the latter the record may or may not be written later.
// r's memory must not change afterwards.
func (p *Producer) Produce(ctx context.Context, r Record) error {
	if !p.gate.admit(p.now()) {
		return &Unavailable{Reason: "shut", RetryAfter: 2 * time.Second}
	}
	answer := make(chan error, 1)
	k := r.kgo()
	k.Topic = p.topic
	// The context is detached on purpose: cancelling a record that may already be
	// on its way would fail every record behind it on its partition.
	p.cl.TryProduce(context.WithoutCancel(ctx), k, func(_ *kgo.Record, err error) {
		if err == nil || errors.Is(err, kerr.MessageTooLarge) {
			p.gate.acked(p.now())
		} else {
			p.gate.refused(p.now())
		}
		answer <- err
	})
	select {
	case err := <-answer:
		return p.outcome(k, err)
	case <-ctx.Done():
		return &Unavailable{Reason: "deadline", RetryAfter: 5 * time.Second, Cause: ctx.Err()}
	}
}

// outcome turns the client's answer into what a caller can act on.
func (p *Producer) outcome(k *kgo.Record, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kgo.ErrMaxBuffered):
		return &Unavailable{Reason: "full", RetryAfter: 5 * time.Second, Cause: err}
	case errors.Is(err, kerr.MessageTooLarge) && len(k.Key)+len(k.Value) >= smallRecord:
		return ErrTooLarge
	default:
		return &Unavailable{Reason: "refused", RetryAfter: 5 * time.Second, Cause: err}
	}
}

// Ready is nil while records would be taken: acknowledgements are not overdue,
// and while none are due, the topic has a leader for every partition.
func (p *Producer) Ready() error {
	if !p.gate.open(p.now()) {
		return errors.New("the brokers' acknowledgements are overdue")
	}
	if err := p.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// Buffered is how many records wait for their acknowledgement, and their bytes.
func (p *Producer) Buffered() (records, bytes int64) {
	return p.cl.BufferedProduceRecords(), p.cl.BufferedProduceBytes()
}

// Close waits until every record taken is answered or ctx ends, then closes. Its
// error says how many records were given up; nobody was told they were written.
func (p *Producer) Close(ctx context.Context) error {
	p.stop()
	<-p.watched
	err := p.cl.Flush(ctx)
	left, _ := p.Buffered()
	p.cl.Close()
	if err != nil {
		return fmt.Errorf("flush %d records to topic %s: %w", left, p.topic, err)
	}
	return nil
}

// How often the topic is looked at while nothing is produced, and for how long.
const (
	lookEvery   = time.Second
	lookTimeout = 2 * time.Second
)

// watch looks at the topic while no acknowledgement tells how the brokers are,
// and says in the log when the producer stops and starts to take records.
func (p *Producer) watch(ctx context.Context) {
	defer close(p.watched)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	ready := true
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if p.gate.idle(p.now(), lookEvery) {
			err := p.look(ctx)
			if ctx.Err() != nil {
				return
			}
			p.broken.Store(nil)
			if err != nil {
				p.broken.Store(&err)
			}
		} else {
			p.broken.Store(nil)
		}
		err := p.Ready()
		switch {
		case err != nil && ready:
			p.log.Warn("records are not taken", "topic", p.topic, "error", err)
		case err == nil && !ready:
			p.log.Info("records are taken again", "topic", p.topic)
		}
		ready = err == nil
	}
}

// look asks the brokers for the topic's leaders.
func (p *Producer) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return leaders(ctx, kadm.NewClient(p.cl), p.topic)
}

// checkSettings is look plus what must hold for accepted bodies to fit. A user
// without the right to read settings is trusted to have made the topic well.
func (p *Producer) checkSettings(ctx context.Context) error {
	if err := p.look(ctx); err != nil {
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("%w (`sluice migrate` makes the topics)", err)
		}
		return err
	}
	got, err := topicConfig(ctx, kadm.NewClient(p.cl), p.topic)
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return nil
	case err != nil:
		return err
	}
	return checkMaxMessage(p.topic, got)
}

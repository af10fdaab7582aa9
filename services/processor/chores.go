package processor

import (
	"context"
	"errors"
	"strconv"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
)

// partitionsEvery is how often table partitions are looked after.
const partitionsEvery = time.Hour

// choreLimit bounds what one round takes of held events or dead letters.
const choreLimit = 200

// chores does what no batch does, until ctx ends: held events and look-ups that are
// due, dead letters that are not yet in their topic, the books.
func (p *Processor) chores(ctx context.Context) {
	tick := time.NewTicker(p.cfg.Chores)
	defer tick.Stop()
	var books time.Time
	for {
		p.chore(ctx)
		if p.Now().Sub(books) >= booksEvery {
			p.auditBooks(ctx)
			p.countLookups(ctx)
			p.countEffects(ctx)
			p.countDeadLetters(ctx)
			books = p.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-p.letters:
		}
	}
}

// chore is one round.
func (p *Processor) chore(ctx context.Context) {
	p.review(ctx, postgres.Tx.ReviewDueHeldEvents)
	p.review(ctx, postgres.Tx.ReviewUnansweredLookups)
	p.review(ctx, postgres.Tx.SettleHangingOrders)
	p.publishDeadLetters(ctx)
}

// review brings before people what waited too long.
func (p *Processor) review(ctx context.Context, due func(postgres.Tx, context.Context, time.Time, int) (int, error)) {
	for {
		n := 0
		err := p.Store.InTx(ctx, func(tx postgres.Tx) (err error) {
			n, err = due(tx, ctx, p.Now(), choreLimit)
			return err
		})
		if err != nil && ctx.Err() == nil {
			p.Log.Warn("chore failed, trying again", "error", err)
		}
		if err != nil || n < choreLimit {
			return
		}
	}
}

// countLookups shows what waits for a provider's answer. A source that waits for
// none any more has no line.
func (p *Processor) countLookups(ctx context.Context) {
	open, err := p.Store.OpenLookups(ctx)
	if err != nil {
		if ctx.Err() == nil {
			p.Log.Warn("open look-ups could not be counted", "error", err)
		}
		return
	}
	p.metrics.lookups.Reset()
	p.metrics.lookupAge.Reset()
	for _, o := range open {
		if o.Open == 0 {
			continue // what hangs is the reconciler's to show
		}
		p.metrics.lookups.WithLabelValues(o.Source).Set(float64(o.Open))
		p.metrics.lookupAge.WithLabelValues(o.Source).Set(p.Now().Sub(o.Since).Seconds())
	}
}

// countDeadLetters shows how many nobody has settled.
func (p *Processor) countDeadLetters(ctx context.Context) {
	n, err := p.Store.OpenDeadLetters(ctx)
	if err != nil {
		if ctx.Err() == nil {
			p.Log.Warn("open dead letters could not be counted", "error", err)
		}
		return
	}
	p.metrics.deadOpen.Set(float64(n))
}

// deadLetterTimeout bounds a round of publishing, in which rows are locked: the
// database ends transactions that are idle for 10 s.
const deadLetterTimeout = 5 * time.Second

// publishDeadLetters brings dead letters into their topic. What fails is tried
// again with the next round. A round that began is finished, or a stop would
// publish twice what Kafka has and the database does not know of.
func (p *Processor) publishDeadLetters(ctx context.Context) {
	for ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*deadLetterTimeout)
		publishing, stop := context.WithTimeout(ctx, deadLetterTimeout) // leaves time to mark what was acknowledged
		n, err := p.Store.PublishDeadLetters(ctx, choreLimit, func(d postgres.DeadLetter) error {
			r := p.deadLetterRecord(d)
			err := p.publisher.Publish(publishing, []kafka.Record{r})
			var refused *kafka.PublishError
			if errors.As(err, &refused) && len(refused.Refused) > 0 {
				// Too large with the reason on top: people find the body in the database.
				r.Value = nil
				r.Headers = append(r.Headers, event.Header{Name: "sluice_dead_body", Value: []byte("omitted")})
				err = p.publisher.Publish(publishing, []kafka.Record{r})
			}
			return err
		})
		stop()
		cancel()
		if err != nil {
			p.Log.Warn("dead letters wait in the database", "error", err)
		}
		if n < choreLimit {
			return
		}
	}
}

// deadLetterRecord is the record as it was, with the reason on top.
func (p *Processor) deadLetterRecord(d postgres.DeadLetter) kafka.Record {
	headers := append([]event.Header(nil), d.Headers...)
	for _, h := range [...]struct{ name, value string }{
		{"sluice_dead_reason", d.Reason}, {"sluice_dead_detail", d.Detail}, {"sluice_dead_topic", d.Topic},
		{"sluice_dead_partition", strconv.Itoa(int(d.Partition))}, {"sluice_dead_offset", strconv.FormatInt(d.Offset, 10)},
	} {
		headers = append(headers, event.Header{Name: h.name, Value: []byte(h.value)})
	}
	return kafka.Record{Topic: p.Kafka.Topic(kafka.DeadLetters), Key: d.Key, Value: d.Body, Headers: headers}
}

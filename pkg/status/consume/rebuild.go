package consume

import (
	"context"
	"fmt"

	"sluice/pkg/kafka"
)

// rebuild hands over the present state of all orders.
func (r *run) rebuild(ctx context.Context, status *kafka.Offsets) error {
	if err := r.snapshot(ctx); err != nil {
		return fmt.Errorf("rebuild from topic %s: %w", r.cfg.Topic(kafka.Latest), err)
	}
	extent, err := status.Extent(ctx)
	r.rebuilt = extent.End
	return err
}

// snapshot hands over orders.latest.v1 from its start to where it ends now, the
// messages of transactions that are open now included: it waits for those.
//
// A relay writes a message to orders.status.v1 and orders.latest.v1 in one
// transaction. So whoever first asks for the committed end of the one, and then for
// the end of the other, finds in the second every message that lies before the
// first. Asked for the committed end of both, it would miss a transaction whose end
// the broker has marked in only one of them.
func (r *run) snapshot(ctx context.Context) error {
	topic := r.cfg.Topic(kafka.Latest)
	latest, err := kafka.NewOffsets(ctx, r.cfg, r.log, topic)
	if err != nil {
		return err
	}
	defer latest.Close()
	extent, err := latest.Extent(ctx)
	if err != nil {
		return err
	}
	var ranges []kafka.Range
	for p, end := range extent.End {
		ranges = append(ranges, kafka.Range{Partition: p, From: extent.Start[p], Before: end})
	}
	batch := make([]kafka.Record, 0, batchRecords)
	var failed error
	err = kafka.Read(ctx, r.cfg, r.log, topic, ranges, func(rec kafka.Record) bool {
		if batch = append(batch, rec); len(batch) == batchRecords {
			failed = r.hand(ctx, batch, true)
			batch = batch[:0]
		}
		return failed == nil
	})
	if err == nil {
		err = failed
	}
	if err == nil {
		err = r.hand(ctx, batch, true)
	}
	return err
}

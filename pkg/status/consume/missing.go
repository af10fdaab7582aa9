package consume

import (
	"context"
	"log/slog"

	"sluice/pkg/kafka"
	"sluice/pkg/status"
)

// Missing reads the messages of a gap again, as far as orders.status.v1 still has
// them, in the order of their versions. It reads the partition from its first
// offset up to the gap's, in no group. Fewer than g.To-g.From+1: the others are
// only in the order's history (see Gap.Again).
func Missing(ctx context.Context, cfg kafka.Config, log *slog.Logger, g Gap) ([]status.Message, error) {
	topic := cfg.Topic(kafka.Status)
	offsets, err := kafka.NewOffsets(ctx, cfg, log, topic)
	if err != nil {
		return nil, err
	}
	defer offsets.Close()
	extent, err := offsets.Extent(ctx)
	if err != nil {
		return nil, err
	}
	var found []status.Message
	next := g.From
	err = kafka.Read(ctx, cfg, log, topic, []kafka.Range{{Partition: g.Partition, From: extent.Start[g.Partition], Before: g.Offset}}, func(r kafka.Record) bool {
		if string(r.Key) != g.OrderID {
			return true
		}
		if m, err := status.Decode(r.Value); err == nil && m.Version >= next && m.Version <= g.To {
			found, next = append(found, m), m.Version+1
		}
		return next <= g.To
	})
	return found, err
}

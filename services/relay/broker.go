package relay

import (
	"context"
	"log/slog"

	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
)

// Broker is what the relay needs of Kafka.
type Broker interface {
	// TakeShard fences whoever had the shard; see kafka.TakeShard.
	TakeShard(ctx context.Context, shard int16) (Shard, error)
	// Cursors are the cursors committed last, of those shards that have one.
	Cursors(ctx context.Context, shards []int16) (map[int16][]byte, error)
}

// Shard publishes records and a cursor in one transaction; see kafka.Shard.
type Shard interface {
	Publish(ctx context.Context, records []kafka.Record, cursor []byte) error
	Close()
}

// Kafka is the Broker of a cluster.
type Kafka struct {
	Config kafka.Config
	Log    *slog.Logger
}

// Every shard has a partition of the topic of cursors.
var _ = [1]struct{}{}[kafka.CursorShards-postgres.Shards]

// TakeShard implements Broker.
func (k Kafka) TakeShard(ctx context.Context, shard int16) (Shard, error) {
	return kafka.TakeShard(ctx, k.Config, int32(shard), k.Log)
}

// Cursors implements Broker.
func (k Kafka) Cursors(ctx context.Context, shards []int16) (map[int16][]byte, error) {
	wide := make([]int32, len(shards))
	for i, s := range shards {
		wide[i] = int32(s)
	}
	found, err := kafka.ReadCursors(ctx, k.Config, k.Log, wide)
	if err != nil {
		return nil, err
	}
	cursors := make(map[int16][]byte, len(found))
	for s, c := range found {
		cursors[int16(s)] = c
	}
	return cursors, nil
}

var _ Broker = Kafka{}

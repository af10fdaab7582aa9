package relay

import (
	"context"
	"encoding/json"
	"fmt"

	"sluice/pkg/postgres"
)

// cursor is what a transaction says of itself in Kafka: the last row it has
// published. Order and version tell that row from another one of the same id,
// which a database restored from a backup gives out again.
type cursor struct {
	ID      int64  `json:"id"`
	OrderID string `json:"order_id"`
	Version int64  `json:"version"`
}

func cursorOf(t postgres.Transition) cursor { return cursor{t.ID, t.OrderID, t.Version} }

func (c cursor) encode() []byte {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // of an integer and text
	}
	return b
}

// position is the id behind which a shard goes on: of the last row that Kafka says
// was published. known is what the relay knows without Kafka; it holds where Kafka
// has no cursor, or one of another history than the database's. Then messages that
// were published before may be published again, under their ids.
func (r *Relay) position(ctx context.Context, shard int16, known int64, stored []byte) (int64, error) {
	if stored == nil {
		return known, nil
	}
	var c cursor
	if err := json.Unmarshal(stored, &c); err != nil {
		return 0, fmt.Errorf("read the cursor of shard %d: %w", shard, err)
	}
	ours, err := r.store.Published(ctx, shard, c.ID, c.OrderID, c.Version)
	if err != nil {
		return 0, err
	}
	if !ours {
		r.log.Error("the cursor in Kafka names a transition that the database does not have: it was restored or made anew; publishing goes on from the database's own cursor",
			"shard", shard, "kafka", c.ID, "database", known)
		return known, nil
	}
	return max(c.ID, known), nil
}

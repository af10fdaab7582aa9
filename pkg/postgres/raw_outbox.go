package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/postgres/internal/dbgen"
)

// OutboxRecord is a record on its way to the raw topic.
type OutboxRecord struct {
	ID      int64
	Key     string
	Headers []event.Header
	Body    []byte
}

// AddRaw puts an event on its way to the raw topic: it gets there if, and only if,
// the transaction commits.
func (tx Tx) AddRaw(ctx context.Context, now time.Time, e event.Event) error {
	headers, err := e.Headers()
	if err == nil {
		err = tx.q.AddRaw(ctx, dbgen.AddRawParams{RecordKey: e.ID, RecordHeaders: encodeHeaders(headers), Body: e.Body, CreatedAt: timestamp(now)})
	}
	if err != nil {
		return fmt.Errorf("put an event into the outbox: %w", err)
	}
	return nil
}

// PublishRaw hands up to limit records that are not published yet to publish,
// oldest first, and marks them once it has returned nil: a crash between the two
// publishes them again, under the same keys. One program at a time does it; busy
// says that it is another one. publish must end before the database gives up on a
// transaction that does nothing (10 s).
func (s *Store) PublishRaw(ctx context.Context, now func() time.Time, limit int, publish func(context.Context, []OutboxRecord) error) (published int, busy bool, err error) {
	err = s.InTx(ctx, func(tx Tx) error {
		published, busy = 0, false
		mine, err := tx.q.TryRawOutbox(ctx)
		if err != nil {
			return err
		}
		if busy = !mine; busy {
			return nil
		}
		rows, err := tx.q.UnpublishedRaw(ctx, int32(limit))
		if err != nil || len(rows) == 0 {
			return err
		}
		records, ids := make([]OutboxRecord, len(rows)), make([]int64, len(rows))
		for i, r := range rows {
			records[i], ids[i] = OutboxRecord{ID: r.ID, Key: r.RecordKey, Body: r.Body}, r.ID
			if err := json.Unmarshal(r.RecordHeaders, &records[i].Headers); err != nil {
				return fmt.Errorf("read headers of record %d: %w", r.ID, err)
			}
		}
		if err := publish(ctx, records); err != nil {
			return err
		}
		published = len(rows)
		return tx.q.MarkRawPublished(ctx, timestamp(now()), ids)
	})
	if err != nil {
		return 0, false, fmt.Errorf("publish the raw outbox: %w", err)
	}
	return published, busy, nil
}

// DropRaw deletes up to limit records that were published before until.
func (s *Store) DropRaw(ctx context.Context, until time.Time, limit int) (int64, error) {
	n, err := dbgen.New(s.pool).DeletePublishedRaw(ctx, timestamp(until), int32(limit))
	if err != nil {
		return 0, fmt.Errorf("delete published records of the raw outbox: %w", err)
	}
	return n, nil
}

// RawBacklog is how many records wait to be published, and since when the oldest
// does; zero if none.
func (s *Store) RawBacklog(ctx context.Context) (records int64, oldest time.Time, err error) {
	r, err := dbgen.New(s.pool).RawOutboxBacklog(ctx)
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("read the raw outbox's backlog: %w", err)
	}
	return r.Records, r.Oldest.Time, nil
}

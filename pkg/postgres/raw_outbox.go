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

// PublishRaw hands up to limit records that are not published yet to publish, one
// after the other, oldest first, and marks each for which it returned nil. It stops at
// the first that fails. A crash before the marks are committed publishes them again,
// under the same keys. One program at a time does it: another one's call does nothing.
// Altogether publish must end before the database gives up on a transaction that does
// nothing (10 s).
func (s *Store) PublishRaw(ctx context.Context, now func() time.Time, limit int, publish func(OutboxRecord) error) (published int, err error) {
	var failed error
	err = s.InTx(ctx, func(tx Tx) error {
		published, failed = 0, nil
		mine, err := tx.q.TryRawOutbox(ctx)
		if err != nil || !mine {
			return err
		}
		rows, err := tx.q.UnpublishedRaw(ctx, int32(limit))
		if err != nil {
			return err
		}
		var done []int64
		for _, r := range rows {
			record := OutboxRecord{ID: r.ID, Key: r.RecordKey, Body: r.Body}
			if failed = json.Unmarshal(r.RecordHeaders, &record.Headers); failed == nil {
				failed = publish(record)
			}
			if failed != nil {
				failed = fmt.Errorf("publish record %d of the raw outbox: %w", r.ID, failed)
				break // those before it are marked
			}
			done = append(done, r.ID)
		}
		published = len(done)
		if published == 0 {
			return nil
		}
		return tx.q.MarkRawPublished(ctx, timestamp(now()), done)
	})
	if err != nil {
		return 0, fmt.Errorf("publish the raw outbox: %w", err)
	}
	return published, failed
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

package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/event"
	"sluice/pkg/postgres/internal/dbgen"
)

// RawBody is one record as it was: the exact bytes, and its headers, which hold
// all that is needed to verify them again (event.Parse reads them; the key is the
// event's id).
type RawBody struct {
	EventHash [16]byte
	// Place is where the record lies in the raw topic, as long as that keeps it.
	Place
	KeptAt  time.Time
	Headers []event.Header
	Body    []byte
}

// KeepRawBodies adds records to the journal. It never looks whether one is there:
// write an event's only when it is new.
func (tx Tx) KeepRawBodies(ctx context.Context, bodies []RawBody) error {
	if len(bodies) == 0 {
		return nil
	}
	rows := make([]dbgen.AddRawBodiesParams, len(bodies))
	for i, b := range bodies {
		body := b.Body
		if body == nil {
			body = []byte{}
		}
		rows[i] = dbgen.AddRawBodiesParams{EventHash: uuid(b.EventHash), KeptAt: timestamp(b.KeptAt), RecordOffset: b.Offset,
			Partition: b.Partition, RecordHeaders: encodeHeaders(b.Headers), Body: body}
	}
	if _, err := tx.q.AddRawBodies(ctx, rows); err != nil {
		return fmt.Errorf("keep raw bodies: %w", err)
	}
	return nil
}

// RawBodies returns what the journal has of an event, oldest first: more than one
// if it came again with other bytes, none if the journal is off (see
// Retention.Bodies) or was it. The raw topic and, while it is held, held_events
// may still have its bytes.
func (s *Store) RawBodies(ctx context.Context, hash [16]byte) ([]RawBody, error) {
	rows, err := dbgen.New(s.pool).FindRawBodies(ctx, pgtype.UUID{Bytes: hash, Valid: true})
	if err != nil {
		return nil, fmt.Errorf("find raw bodies: %w", err)
	}
	bodies := make([]RawBody, len(rows))
	for i, r := range rows {
		b := RawBody{EventHash: hash, Place: Place{r.Partition, r.RecordOffset}, KeptAt: r.KeptAt.Time, Body: r.Body}
		if err := json.Unmarshal(r.RecordHeaders, &b.Headers); err != nil {
			return nil, fmt.Errorf("read headers of a raw body: %w", err)
		}
		bodies[i] = b
	}
	return bodies, nil
}

package postgres

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// writeHeld keeps held_events equal to the verdicts, and closes the review items
// of what settled itself.
func (tx Tx) writeHeld(ctx context.Context, w *writes) error {
	if len(w.held) > 0 {
		if _, err := tx.q.AddHeldEvents(ctx, w.held); err != nil {
			return fmt.Errorf("add held events: %w", err)
		}
	}
	if len(w.heldReasons.OrderNos) > 0 {
		if err := tx.q.SetHeldReasons(ctx, w.heldReasons); err != nil {
			return fmt.Errorf("set reasons of held events: %w", err)
		}
	}
	for _, r := range w.heldBytes {
		if err := tx.q.ReplaceHeldBytes(ctx, r); err != nil {
			return fmt.Errorf("replace the bytes of a held event: %w", err)
		}
	}
	if len(w.unheld) == 0 {
		return nil
	}
	nos, hashes := make([]int64, len(w.unheld)), make([]pgtype.UUID, len(w.unheld))
	for i, m := range w.unheld {
		nos[i], hashes[i] = m.OrderNo, m.EventHash
	}
	rows, err := tx.q.DeleteHeldEvents(ctx, nos, hashes)
	if err != nil {
		return fmt.Errorf("delete held events: %w", err)
	}
	var reviewed []string
	for _, r := range rows {
		if !r.DueAt.Valid {
			reviewed = append(reviewed, HeldSubject(r.EventHash.Bytes))
		}
	}
	return tx.settleReviewItems(ctx, ReviewHeld, reviewed, NoLongerHeld)
}

// ReviewDueHeldEvents makes one review item of each held event that is due, up
// to limit, and returns how many it took. It is one bounded index read if none is.
func (tx Tx) ReviewDueHeldEvents(ctx context.Context, now time.Time, limit int) (int, error) {
	rows, err := tx.q.TakeDueHeldEvents(ctx, timestamp(now), int32(limit))
	if err != nil {
		return 0, fmt.Errorf("take due held events: %w", err)
	}
	for _, r := range rows {
		reason := order.Reason(r.Reason)
		err := tx.q.OpenReviewItem(ctx, dbgen.OpenReviewItemParams{Kind: string(ReviewHeld),
			Subject: HeldSubject(r.EventHash.Bytes), OrderNo: pgtype.Int8{Int64: r.OrderNo, Valid: true}, EventHash: r.EventHash,
			Detail: "held: " + reason.String(),
		})
		if err != nil {
			return 0, fmt.Errorf("open review item of a held event: %w", err)
		}
	}
	return len(rows), nil
}

// HeldSubject is the subject of the review item of a held event.
func HeldSubject(hash [16]byte) string { return hex.EncodeToString(hash[:]) }

// encodeHeaders keeps record headers as JSON: names are text, values base64.
func encodeHeaders(hs []event.Header) []byte {
	b, err := json.Marshal(hs)
	if err != nil {
		panic(err) // a slice of strings and bytes always marshals
	}
	return b
}

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

// asking says of each reason whether a provider may know what is missing.
var asking = []order.Reason{order.AwaitingPayment, order.AwaitingPredecessor, order.AwaitingOrder}

// atLeastHeld is how long an event is held before its provider is asked: most of
// what comes in the wrong order comes within seconds.
const atLeastHeld = 5 * time.Second

// AskAboutHeldEvents arms the look-ups of the payments of a source's held events that
// lack what the provider may know, when half of their grace is over: a person is asked
// only if the answer does not settle it. Each is asked about once for its reason. Up to
// limit are armed for each reason; more says to call again.
func (s *Store) AskAboutHeldEvents(ctx context.Context, now time.Time, source string, limit int) (asked int, more bool, err error) {
	err = s.InTx(ctx, func(tx Tx) error {
		asked, more = 0, false
		nos, err := tx.nameNos(ctx, source)
		if err != nil {
			return err
		}
		var orderNos []int64
		var events []pgtype.UUID
		var toArm []arming
		for _, reason := range asking {
			half := tx.store.graces[reason] / 2
			rows, err := tx.q.UnaskedHeldEvents(ctx, dbgen.UnaskedHeldEventsParams{Reason: int16(reason), SourceNo: nos[source], N: int32(limit),
				Until: timestamp(now.Add(half)), HeldBefore: timestamp(now.Add(-atLeastHeld))})
			if err != nil {
				return fmt.Errorf("find held events: %w", err)
			}
			more = more || len(rows) == limit
			for _, r := range rows {
				orderNos, events = append(orderNos, r.OrderNo), append(events, r.EventHash)
				toArm = append(toArm, arming{object: object{nos[source], r.PaymentID}, endpointNo: r.EndpointNo, lane: LaneHanging, orderNo: r.OrderNo, event: r.EventHash,
					target: Target{Object: r.PaymentID, Type: r.EventType, Order: r.OrderID, Payment: r.PaymentID, Subject: r.ObjectID,
						Amount: r.Amount, Currency: r.Currency, Time: atMillis(r.OccurredAt)}})
			}
		}
		if asked = len(toArm); asked == 0 {
			return nil
		}
		if err := tx.armBeside(ctx, now, nos[source], toArm); err != nil {
			return err
		}
		return wrap("mark held events as asked about", tx.q.MarkHeldEventsAsked(ctx, timestamp(now), orderNos, events))
	})
	if err != nil {
		return 0, false, fmt.Errorf("ask about the held events of source %s: %w", source, err)
	}
	return asked, more, nil
}

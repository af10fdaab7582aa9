package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/postgres/internal/dbgen"
)

// ReviewKind is what a person is asked about.
type ReviewKind string

// The kinds of review item.
const (
	ReviewHeld        ReviewKind = "held"                 // an event waited longer than its grace
	ReviewDeadLetter  ReviewKind = "dead_letter"          // nobody could read a record
	ReviewBodyChanged ReviewKind = "body_changed"         // one event id, two readings
	ReviewOffsetGap   ReviewKind = "offset_gap"           // records were gone before they were read
	ReviewFutureTime  ReviewKind = "future_time"          // an event is dated after its receipt
	ReviewCrossed     ReviewKind = "payment_crossed"      // one payment, named with two orders
	ReviewRefused     ReviewKind = "message_refused"      // Kafka will never take a message
	ReviewLookup      ReviewKind = "lookup_unanswered"    // the provider was asked in vain
	ReviewHanging     ReviewKind = "order_hanging"        // an order is pending, and its provider does not say why
	ReviewContradicts ReviewKind = "provider_contradicts" // what a provider says of a payment differs from our state
	// ReviewEffectFailed: an effect's last attempt failed; its key is the subject.
	ReviewEffectFailed ReviewKind = "effect_failed"
	// ReviewEffectOutdated: an effect was attempted that a correction made untrue.
	ReviewEffectOutdated ReviewKind = "effect_outdated"
)

// ReviewDecision is how an item was settled.
type ReviewDecision string

// The decisions: the first four, SendAgain and Skip are people's, the others come by
// themselves.
const (
	Accept       ReviewDecision = "accept"         // apply the held event anyway
	Dismiss      ReviewDecision = "dismiss"        // the held event or dead letter does not count; the look-up is given up; of other items: seen
	Link         ReviewDecision = "link"           // the held event counts in another order
	Refetch      ReviewDecision = "refetch"        // ask the provider
	NoLongerHeld ReviewDecision = "no_longer_held" // its order changed, and it could be applied
	Readable     ReviewDecision = "readable"       // a replay could read the dead letter
	Answered     ReviewDecision = "answered"       // the provider answered after all
	MovedOn      ReviewDecision = "moved_on"       // the order is pending no longer
	Agrees       ReviewDecision = "agrees"         // the provider says now what we say
	SendAgain    ReviewDecision = "send_again"     // a person: send the effect again, under the same key; the dead letter, as it was
	ImpliedAgain ReviewDecision = "implied_again"  // the order's story implies the effect again
	NotImplied   ReviewDecision = "withdrawn"      // the order's story implies the failed effect no more
	EffectDone   ReviewDecision = "done"           // a late answer said that the failed effect was done
	Skip         ReviewDecision = "skip"           // a person had the records left out, by a replay that goes ahead
)

// ReviewItem is one thing a person must decide. There is one for each kind and
// subject, however often it is added.
type ReviewItem struct {
	Kind    ReviewKind
	Subject string
	OrderNo int64    // 0: none
	Event   [16]byte // zero: none
	Detail  string
}

// AddReviewItem adds an item, and says whether it was new.
func (tx Tx) AddReviewItem(ctx context.Context, item ReviewItem) (bool, error) {
	n, err := tx.q.AddReviewItem(ctx, dbgen.AddReviewItemParams{
		Kind: string(item.Kind), Subject: item.Subject, Detail: item.Detail,
		OrderNo:   orderNumber(item.OrderNo),
		EventHash: pgtype.UUID{Bytes: item.Event, Valid: item.Event != [16]byte{}},
	})
	if err != nil {
		return false, fmt.Errorf("add review item: %w", err)
	}
	return n == 1, nil
}

func orderNumber(no int64) pgtype.Int8 { return pgtype.Int8{Int64: no, Valid: no != 0} }

// settleReviewItems closes the open items of one kind whose subject needs nobody
// any more; how says why.
func (tx Tx) settleReviewItems(ctx context.Context, kind ReviewKind, subjects []string, how ReviewDecision) error {
	if len(subjects) == 0 {
		return nil
	}
	if err := tx.q.SettleReviewItems(ctx, string(how), string(kind), subjects); err != nil {
		return fmt.Errorf("settle review items: %w", err)
	}
	return nil
}

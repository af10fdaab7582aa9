package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// ClaimLease is how long a claim keeps others away: longer than a look at a case
// takes, shorter than a shift.
const ClaimLease = 15 * time.Minute

// ReviewSummary is a review item as a list shows it.
type ReviewSummary struct {
	ID        int64      `json:"id"`
	Kind      ReviewKind `json:"kind"`
	Subject   string     `json:"subject"`
	Order     string     `json:"order,omitempty"` // order id, if it has one
	Detail    string     `json:"detail"`
	CreatedAt time.Time  `json:"created_at"`
	// ClaimedBy has the item until ClaimedUntil; zero if nobody has, or has any more.
	ClaimedBy    string     `json:"claimed_by,omitempty"`
	ClaimedUntil *time.Time `json:"claimed_until,omitempty"`
	// SettledAt is nil while it is open. SettledBy is empty if it settled itself.
	SettledAt *time.Time     `json:"settled_at,omitempty"`
	SettledBy string         `json:"settled_by,omitempty"`
	Decision  ReviewDecision `json:"decision,omitempty"`
}

// ListReviewItems lists open items, the oldest first, up to limit; with settled
// also those that are settled, last. kind, if not empty, is the only one shown.
func (s *Store) ListReviewItems(ctx context.Context, now time.Time, kind ReviewKind, settled bool, limit int) ([]ReviewSummary, error) {
	rows, err := dbgen.New(s.pool).ListReviewItems(ctx, settled, string(kind), int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list review items: %w", err)
	}
	items := make([]ReviewSummary, len(rows))
	for i, r := range rows {
		items[i] = summary(now, r.OrderID, dbgen.ReviewItem{ID: r.ID, Kind: r.Kind, Subject: r.Subject, Detail: r.Detail, CreatedAt: r.CreatedAt,
			ClaimedBy: r.ClaimedBy, ClaimedAt: r.ClaimedAt, SettledAt: r.SettledAt, SettledBy: r.SettledBy, Decision: r.Decision})
	}
	return items, nil
}

func summary(now time.Time, orderID string, r dbgen.ReviewItem) ReviewSummary {
	s := ReviewSummary{ID: r.ID, Kind: ReviewKind(r.Kind), Subject: r.Subject, Order: orderID, Detail: r.Detail, CreatedAt: r.CreatedAt.Time,
		SettledBy: r.SettledBy.String, Decision: ReviewDecision(r.Decision.String)}
	if r.SettledAt.Valid {
		s.SettledAt = &r.SettledAt.Time
	} else if until := r.ClaimedAt.Time.Add(ClaimLease); r.ClaimedBy.Valid && until.After(now) {
		s.ClaimedBy, s.ClaimedUntil = r.ClaimedBy.String, &until
	}
	return s
}

// ClaimReviewItem gives an item to one person for ClaimLease, and binds what they
// decide to the order as it is now. Claiming it again begins the lease anew; of
// several people one gets it, the others ErrClaimed.
func (s *Store) ClaimReviewItem(ctx context.Context, now time.Time, id int64, who string) error {
	if strings.TrimSpace(who) == "" {
		return fmt.Errorf("claim review item %d: %w: it does not say who claims it", id, ErrDecision)
	}
	q := dbgen.New(s.pool)
	n, err := q.ClaimReviewItem(ctx, dbgen.ClaimReviewItemParams{ID: id, Who: who, Now: timestamp(now), Expired: timestamp(now.Add(-ClaimLease))})
	if err == nil && n == 0 {
		var item dbgen.ReviewItem
		switch item, err = q.GetReviewItem(ctx, id); {
		case errors.Is(err, pgx.ErrNoRows):
			err = ErrNoReviewItem
		case err == nil && item.SettledAt.Valid:
			_, err = settledBefore(item, Decision{})
		case err == nil:
			err = notClaimed(item, who, now)
		}
	}
	if err != nil {
		return fmt.Errorf("claim review item %d: %w", id, err)
	}
	return nil
}

// notClaimed says why a person may not decide on an open item.
func notClaimed(item dbgen.ReviewItem, who string, now time.Time) error {
	if by, until := item.ClaimedBy.String, item.ClaimedAt.Time.Add(ClaimLease); item.ClaimedBy.Valid && by != who && until.After(now) {
		return fmt.Errorf("%w: %s, until %s", ErrClaimed, by, until.UTC().Format(time.RFC3339))
	}
	return ErrNotClaimed
}

// ReviewCase is all that a person needs to decide on an item.
type ReviewCase struct {
	ReviewSummary
	// The rest is there if the item is about an event of an order's set.
	OrderNow *OrderState `json:"order_now,omitempty"`
	Event    *StoryEvent `json:"event,omitempty"`
	Bytes    *HeldBytes  `json:"bytes,omitempty"`
	// While the event is held: what accepting it would do, and the event of another
	// source to which it lost by seconds, on the word of two clocks.
	OnAccept *Preview    `json:"on_accept,omitempty"`
	LostTo   *StoryEvent `json:"lost_to,omitempty"`
}

// HeldBytes says where the bytes of an event are.
type HeldBytes struct {
	// Partition and Offset are its record's place in the raw topic, which keeps it
	// for as long as the topic's retention says.
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
	// Kept is the size of the body that held_events keeps until the event is
	// settled; -1: none.
	Kept int `json:"kept_bytes"`
	// HeldSince is when it began to be held; zero if it is not held.
	HeldSince time.Time `json:"held_since"`
}

// Preview is what would become of the event if it were accepted, as it stands.
type Preview struct {
	Verdict order.Verdict   `json:"verdict"`
	Reason  order.Reason    `json:"reason"`
	Changes []PreviewChange `json:"changes"`
}

// PreviewChange is one change that would be published. Amounts are minor units of
// the order's currency.
type PreviewChange struct {
	From       order.Status  `json:"from"`
	To         order.Status  `json:"to"`
	Paid       int64         `json:"paid"`
	Refunded   int64         `json:"refunded"`
	Dispute    order.Dispute `json:"dispute"`
	Correction bool          `json:"correction"`
}

// ReviewCase reads one item and all that belongs to it from one snapshot.
func (s *Store) ReviewCase(ctx context.Context, now time.Time, id int64) (c ReviewCase, err error) {
	read := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, s.pool, read, func(tx pgx.Tx) error {
		c, err = Tx{store: s, tx: tx, q: dbgen.New(tx), own: map[string]int16{}}.reviewCase(ctx, now, id)
		return err
	})
	if err != nil {
		return ReviewCase{}, fmt.Errorf("read review item %d: %w", id, err)
	}
	return c, nil
}

func (tx Tx) reviewCase(ctx context.Context, now time.Time, id int64) (c ReviewCase, err error) {
	item, err := tx.q.GetReviewItem(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, ErrNoReviewItem
	}
	if err != nil {
		return c, err
	}
	c.ReviewSummary = summary(now, "", item)
	if !item.OrderNo.Valid {
		return c, nil
	}
	row, err := tx.q.ReadOrder(ctx, item.OrderNo.Int64)
	if errors.Is(err, pgx.ErrNoRows) { // it was a stub's, and is settled
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("read order: %w", err)
	}
	o := lockedOrder{no: row.OrderNo, id: row.OrderID.String, state: dbgen.LockOrdersRow(row)}
	if err := tx.loadSets(ctx, map[int64]*lockedOrder{o.no: &o}); err != nil {
		return c, err
	}
	state := orderState(o.state)
	c.Order, c.OrderNow = o.id, &state
	m := o.find(item.EventHash.Bytes)
	if m == nil {
		return c, nil
	}
	state.Verdict, state.Reason = order.Verdict(m.Verdict), order.Reason(m.Reason)
	c.Event = m.story()
	c.Bytes = &HeldBytes{Partition: m.Partition, Offset: m.RecordOffset, Kept: -1}
	if state.Verdict != order.Held {
		return c, nil
	}
	c.OnAccept, c.LostTo = o.accepting(m, now)
	h, err := tx.q.GetHeldEvent(ctx, o.no, item.EventHash)
	if err != nil {
		return c, fmt.Errorf("read held event: %w", err)
	}
	if c.Bytes.HeldSince = h.HeldAt.Time; h.Body != nil {
		c.Bytes.Kept = len(h.Body)
	}
	return c, nil
}

// accepting folds the set as if the event were accepted now. lostTo is its close
// call, nil if it had none.
func (o *lockedOrder) accepting(m *member, now time.Time) (p *Preview, lostTo *StoryEvent) {
	registered, _ := o.registrations()
	var entries []order.Entry
	var members []*member
	at := -1
	for i := range o.set {
		if order.Kind(o.set[i].Kind) == order.KindRegistered {
			continue
		}
		if &o.set[i] == m {
			at = len(entries)
		}
		entries, members = append(entries, o.set[i].entry()), append(members, &o.set[i])
	}
	before := order.Fold(registered, entries)
	d := (&held{order: o, now: now}).decision(m, order.KindAccept)
	after := order.Fold(registered, append(entries, d.Entry))
	if other, close := before.CloseCall(entries, at); close {
		lostTo = members[other].story()
	}
	p = &Preview{Verdict: after.Judgements[at].Verdict, Reason: after.Judgements[at].Reason, Changes: []PreviewChange{}}
	for _, c := range order.Changes(before, after) {
		p.Changes = append(p.Changes, PreviewChange{c.From.Status, c.To.Status, c.To.Paid, c.To.Refunded, c.To.Dispute, c.Correction})
	}
	return p, lostTo
}

// story is the event for people.
func (m *member) story() *StoryEvent {
	e := &StoryEvent{Source: m.source, ID: m.EventID, Type: m.EventType, Kind: order.Kind(m.Kind), Verdict: order.Verdict(m.Verdict),
		Reason: order.Reason(m.Reason), AppendedAt: m.AppendedAt.Time, Amount: m.Amount, Currency: m.Currency, Payment: m.PaymentID, Object: m.ObjectID}
	if m.OccurredAt != 0 {
		e.OccurredAt = time.UnixMilli(m.OccurredAt)
	}
	return e
}

package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// Decision is one person's decision on one review item that they have claimed.
type Decision struct {
	Item   int64
	Action ReviewDecision // Accept, Dismiss, Link or Refetch
	// Who decides, and why: both are written down, neither may be blank.
	Who, Reason string
	// Amount, with Accept, is what the event counts for, in minor units of the
	// order's currency; nil: what it states.
	Amount *int64
	// OrderID, with Link, is the order that the event belongs to.
	OrderID string
}

// Decided is what a decision did.
type Decided struct {
	// Repeated: the same person had decided the same before; nothing was done now.
	Repeated bool `json:"repeated"`
	// Before and After are the order that the event belongs to; nil if the item is
	// not about a held event.
	Before *OrderState `json:"before,omitempty"`
	After  *OrderState `json:"after,omitempty"`
	// Changes is the number of transitions written; if there are any, wake the relays.
	Changes int `json:"changes"`
}

// Why a decision is refused; nothing was done then. Test with errors.Is.
var (
	ErrNoReviewItem = errors.New("there is no such review item")
	ErrSettled      = errors.New("it is settled already")
	ErrClaimed      = errors.New("somebody else has claimed it")
	ErrNotClaimed   = errors.New("you have not claimed it, or your claim has run out")
	ErrOutdated     = errors.New("the order has changed since you claimed it; look again, and claim it again")
	ErrDecision     = errors.New("that cannot be decided here")
	ErrStillHeld    = errors.New("the event would still be held")
)

// errMoved: the event went to another order while its locks were awaited.
var errMoved = errors.New("the event moved to another order")

// Decide carries out one decision, in one transaction, through the one Apply: the
// order's versions, the books and what is held follow. It acts only on an item
// that the same person has claimed (ErrNotClaimed), on the order as it was then
// (ErrOutdated). Of any number of decisions on one item, one is carried out and
// written into the audit log; the same one again, by the same person, is Repeated.
func (s *Store) Decide(ctx context.Context, now time.Time, d Decision) (done Decided, err error) {
	err = d.check()
	for try := 0; err == nil && try < 3; try++ {
		err = s.InTx(ctx, func(tx Tx) error {
			done, err = tx.decide(ctx, now, d)
			return err
		})
		if !errors.Is(err, errMoved) {
			break
		}
		err = nil
	}
	if err != nil {
		return Decided{}, fmt.Errorf("%s review item %d: %w", d.Action, d.Item, err)
	}
	return done, nil
}

// actions are what can be decided on a held event. What a provider was asked about
// can be dismissed or refetched, everything else only dismissed.
var actions = map[ReviewDecision]func(*held, context.Context, Tx, Decision) error{
	Accept:  (*held).accept,
	Dismiss: (*held).dismiss,
	Link:    (*held).link,
	Refetch: (*held).refetch,
}

// refetched are the other kinds of review item whose provider may be asked.
var refetched = map[ReviewKind]bool{ReviewLookup: true, ReviewHanging: true, ReviewContradicts: true}

func (d Decision) check() error {
	switch {
	case actions[d.Action] == nil:
		return fmt.Errorf("%w: %q is none of accept, dismiss, link, refetch", ErrDecision, d.Action)
	case strings.TrimSpace(d.Who) == "":
		return fmt.Errorf("%w: it does not say who decides", ErrDecision)
	case strings.TrimSpace(d.Reason) == "":
		return fmt.Errorf("%w: it gives no reason", ErrDecision)
	case d.Amount != nil && (d.Action != Accept || *d.Amount < 0):
		return fmt.Errorf("%w: an amount goes with accept, and is not negative", ErrDecision)
	case (d.OrderID != "") != (d.Action == Link):
		return fmt.Errorf("%w: link needs the order, and nothing else does", ErrDecision)
	}
	return nil
}

func (tx Tx) decide(ctx context.Context, now time.Time, d Decision) (Decided, error) {
	item, err := tx.q.GetReviewItem(ctx, d.Item)
	if errors.Is(err, pgx.ErrNoRows) {
		return Decided{}, ErrNoReviewItem
	}
	if err != nil {
		return Decided{}, fmt.Errorf("read review item: %w", err)
	}
	if item.SettledAt.Valid {
		return settledBefore(item, d)
	}
	audit := AuditEntry{At: now, Who: d.Who, Action: "review." + string(d.Action), Reason: d.Reason,
		Subject: fmt.Sprintf("review item %d: %s %s", item.ID, item.Kind, item.Subject)}
	if kind := ReviewKind(item.Kind); kind != ReviewHeld {
		if d.Action != Dismiss && !refetched[kind] {
			return Decided{}, fmt.Errorf("%w: a review item of kind %s can only be dismissed", ErrDecision, item.Kind)
		}
		var letter DeadLetterRef
		if kind == ReviewDeadLetter {
			if letter, err = tx.lockDeadLetter(ctx, item.Subject); err != nil {
				return Decided{}, err
			}
		}
		if done, err := tx.settleClaimed(ctx, now, d); err != nil || done.Repeated {
			return done, err
		}
		switch kind {
		case ReviewLookup, ReviewHanging:
			err = tx.decideLookup(ctx, now, item.Subject, d.Action)
		case ReviewContradicts:
			err = tx.decideContradiction(ctx, now, item.Subject, d.Action)
		case ReviewDeadLetter:
			err = tx.discardDeadLetter(ctx, now, d.Who, letter)
		}
		if err != nil {
			return Decided{}, err
		}
		return Decided{}, tx.AddAuditEntry(ctx, audit)
	}

	h := &held{item: item, now: now, moved: Books{}}
	if err := h.lock(ctx, tx, d); err != nil {
		return Decided{}, err
	}
	if done, err := tx.settleClaimed(ctx, now, d); err != nil || done.Repeated {
		return done, err
	}
	before := orderState(h.order.state)
	before.Verdict, before.Reason = order.Verdict(h.event.Verdict), order.Reason(h.event.Reason)
	switch {
	case before.Verdict != order.Held: // settled a moment ago, by its order
		return Decided{}, fmt.Errorf("%w: the event is not held any more; %s", ErrSettled, before)
	case before.Version != item.ClaimedVersion.Int64:
		return Decided{}, fmt.Errorf("%w: %s", ErrOutdated, before)
	}
	if err := actions[d.Action](h, ctx, tx, d); err != nil {
		return Decided{}, err
	}
	if err := tx.AddToBooks(ctx, [16]byte{}, -1, h.moved); err != nil {
		return Decided{}, err
	}
	after, err := tx.stateOf(ctx, h.order.no, item.EventHash.Bytes)
	if err != nil {
		return Decided{}, err
	}
	if after.Verdict == order.Held && (d.Action == Accept || d.Action == Dismiss) {
		return Decided{}, fmt.Errorf("%w: %s", ErrStillHeld, after.Reason)
	}
	if audit.Before, audit.After = before, after; d.Action == Link {
		audit.Subject += " to order " + d.OrderID
	}
	return Decided{Before: &before, After: &after, Changes: h.changes}, tx.AddAuditEntry(ctx, audit)
}

// settledBefore is the answer to a decision on an item that is settled.
func settledBefore(item dbgen.ReviewItem, d Decision) (Decided, error) {
	if item.SettledBy.String == d.Who && item.Decision.String == string(d.Action) {
		return Decided{Repeated: true}, nil
	}
	by := ""
	if item.SettledBy.Valid {
		by = " by " + item.SettledBy.String
	}
	return Decided{}, fmt.Errorf("%w: %s%s", ErrSettled, item.Decision.String, by)
}

// settleClaimed settles the item for the person who has claimed it, in one
// conditional update; otherwise it says why not.
func (tx Tx) settleClaimed(ctx context.Context, now time.Time, d Decision) (Decided, error) {
	n, err := tx.q.SettleClaimedReviewItem(ctx, dbgen.SettleClaimedReviewItemParams{
		ID: d.Item, Who: d.Who, Now: timestamp(now), Expired: timestamp(now.Add(-ClaimLease)), Decision: string(d.Action)})
	if err != nil {
		return Decided{}, fmt.Errorf("settle review item: %w", err)
	}
	if n == 1 {
		return Decided{}, nil
	}
	item, err := tx.q.GetReviewItem(ctx, d.Item)
	if err != nil {
		return Decided{}, fmt.Errorf("read review item: %w", err)
	}
	if item.SettledAt.Valid {
		return settledBefore(item, d)
	}
	return Decided{}, notClaimed(item, d.Who, now)
}

// held is a held event that is being decided on, under the locks of its orders.
type held struct {
	item    dbgen.ReviewItem
	now     time.Time
	order   *lockedOrder
	event   *member
	to      *lockedOrder // Link: the order that it belongs to
	moved   Books
	changes int
}

// lock takes every lock of a decision, in the order of Tx.
func (h *held) lock(ctx context.Context, tx Tx, d Decision) error {
	if _, err := tx.nameNos(ctx, Review); err != nil {
		return err
	}
	no := h.item.OrderNo.Int64
	nos, pay := map[int64]bool{no: true}, payment{}
	to := int64(0)
	if d.Action == Link {
		e, err := tx.q.ReadVerdict(ctx, no, h.item.EventHash)
		if errors.Is(err, pgx.ErrNoRows) {
			return errMoved
		}
		if err != nil {
			return fmt.Errorf("read the event: %w", err)
		}
		pay = payment{e.SourceNo, e.PaymentID}
		if to, err = tx.lockLink(ctx, no, pay, d.OrderID); err != nil {
			return err
		}
		nos[to] = true
	}
	orders, err := tx.lockOrders(ctx, nos)
	if errors.Is(err, errGone) {
		return errMoved
	}
	if err != nil {
		return err
	}
	h.order, h.to = orders[no], orders[to]
	if h.event = h.order.find(h.item.EventHash.Bytes); h.event == nil {
		return errMoved
	}
	if d.Action == Link && pay != (payment{h.event.SourceNo, h.event.PaymentID}) {
		return errMoved
	}
	return nil
}

// apply applies facts and notes what that did.
func (h *held) apply(ctx context.Context, tx Tx, facts ...Fact) (Applied, error) {
	applied, err := tx.Apply(ctx, h.now, facts)
	h.changes += applied.Changes
	for k, n := range applied.Moved {
		h.moved[k] += n
	}
	return applied, err
}

func (h *held) accept(ctx context.Context, tx Tx, d Decision) error {
	f := h.decision(h.event, order.KindAccept)
	if d.Amount != nil {
		f.Amount, f.Currency = *d.Amount, h.order.state.Currency
	}
	_, err := h.apply(ctx, tx, f)
	return err
}

func (h *held) dismiss(ctx context.Context, tx Tx, _ Decision) error {
	_, err := h.apply(ctx, tx, h.decision(h.event, order.KindDismiss))
	return err
}

func (h *held) refetch(ctx context.Context, tx Tx, _ Decision) error {
	return tx.awaitProvider(ctx, h.event, h.order.id, h.now)
}

// decision is a decision as an entry of the set that holds its target.
func (h *held) decision(target *member, kind order.Kind) Fact {
	at := h.now.UnixMilli()
	for i := range h.order.set { // later than the ones before, whatever the clock says
		if m := &h.order.set[i]; order.Kind(m.Kind).IsDecision() && targetOf(m.ObjectID) == target.EventHash.Bytes {
			at = max(at, m.OccurredAt+1)
		}
	}
	id := fmt.Sprintf("%s@%d", HeldSubject(target.EventHash.Bytes), at)
	return Fact{
		Entry: order.Entry{Hash: event.Event{Source: Review, ID: id}.Hash(), Source: Review, Kind: kind, Time: at,
			Target: target.EventHash.Bytes},
		OrderNo: h.order.no, EventID: id, EventType: "review." + kind.String(), Endpoint: Review,
		AppendedAt: h.now, Partition: -1, Offset: -1,
	}
}

// object is the entry's column object_id: of a decision, the entry it is about.
func (f *Fact) object() string {
	if f.Kind.IsDecision() {
		return hex.EncodeToString(f.Target[:])
	}
	return f.Object
}

func targetOf(object string) (target [16]byte) {
	if b, err := hex.DecodeString(object); err == nil && len(b) == len(target) {
		target = [16]byte(b)
	}
	return target
}

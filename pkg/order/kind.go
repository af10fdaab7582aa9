package order

import (
	"cmp"
	"slices"
)

// Kind is what a fact states about an order. The numbers are stored; never
// reuse one.
type Kind uint8

const (
	// KindNone states nothing about an order: an unknown or unused event type.
	KindNone Kind = iota
	// KindPending: a payment is under way; nothing is decided. With an Object it is a
	// refund of the payment that is, see UnderWay.
	KindPending
	// KindFailed: one attempt to pay failed. Another may follow.
	KindFailed
	// KindPaid: the money of one payment was taken.
	KindPaid
	// KindRefund: one refund of Amount was made; Object is the refund's id.
	KindRefund
	// KindRefundTotal: the payment's refunds so far sum to Amount.
	KindRefundTotal
	// KindRefundFailed: the refund Object bounced, Amount came back.
	KindRefundFailed
	// KindDisputeOpened, KindDisputeWon and KindDisputeLost tell the story of the
	// dispute Object; they set a flag beside the status.
	KindDisputeOpened
	KindDisputeWon
	KindDisputeLost
	// KindCancelled: the order or its payment was called off before it was paid.
	KindCancelled
	// KindRegistered: the shop said what the order is worth. Its money is in the
	// Registration; an entry of this kind in the set only keeps its place.
	KindRegistered
	// KindAccept and KindDismiss are decisions: a person's rulings about the entry
	// that Target names. Accepted, it counts although it does not fit, with the
	// decision's amount if that states one. Dismissed, it counts for nothing.
	KindAccept
	KindDismiss
)

const kinds = int(KindDismiss) + 1

// IsDecision says whether entries of this kind are a person's decisions.
func (k Kind) IsDecision() bool { return k == KindAccept || k == KindDismiss }

// MovesMoney says whether facts of this kind state an amount that was moved.
func (k Kind) MovesMoney() bool {
	switch k {
	case KindPaid, KindRefund, KindRefundTotal, KindRefundFailed:
		return true
	}
	return false
}

// ranks order facts of one second by cause: what must have happened first ranks
// first. Money that moved ranks before a cancellation: the
// cancellation is then held for a person. Kinds that change nothing rank 0.
var ranks = [kinds]uint8{
	KindFailed:        1,
	KindPaid:          2,
	KindRefund:        3,
	KindRefundTotal:   4,
	KindRefundFailed:  5,
	KindDisputeOpened: 6,
	KindDisputeWon:    7,
	KindDisputeLost:   8,
	KindCancelled:     9,
}

// Kinds are the kinds that can change an order, in the order in which facts of
// one second are tried.
func Kinds() []Kind {
	var list []Kind
	for k := range Kind(kinds) {
		if ranks[k] > 0 {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b Kind) int { return cmp.Compare(ranks[a], ranks[b]) })
	return list
}

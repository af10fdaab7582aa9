package order

import "slices"

// Transition is one row of the table: a fact of this kind may move an order from
// one status to another (or, where both are the same, change its money or its
// dispute).
type Transition struct {
	From Status
	Kind Kind
	To   Status
}

// transitions is the only source of what is allowed. A fact that proposes a move
// which is not here is never applied.
var transitions = []Transition{
	{StatusNone, KindRegistered, Pending},

	{Pending, KindPaid, Paid},
	{Pending, KindFailed, Failed},
	{Pending, KindCancelled, Cancelled},
	{Failed, KindPaid, Paid},
	{Failed, KindCancelled, Cancelled},
	// What was called off was an attempt to pay: an abandoned checkout, an expired
	// session. Not if the order itself was, see folding.calledOff.
	{Cancelled, KindPaid, Paid},

	{Paid, KindRefund, PartiallyRefunded},
	{Paid, KindRefund, Refunded},
	{PartiallyRefunded, KindRefund, PartiallyRefunded},
	{PartiallyRefunded, KindRefund, Refunded},

	{Paid, KindRefundTotal, PartiallyRefunded},
	{Paid, KindRefundTotal, Refunded},
	{PartiallyRefunded, KindRefundTotal, PartiallyRefunded},
	{PartiallyRefunded, KindRefundTotal, Refunded},

	// A refund that bounces gives the money back to the shop.
	{Refunded, KindRefundFailed, PartiallyRefunded},
	{Refunded, KindRefundFailed, Paid},
	{PartiallyRefunded, KindRefundFailed, PartiallyRefunded},
	{PartiallyRefunded, KindRefundFailed, Paid},

	// A dispute is a flag beside the status.
	{Paid, KindDisputeOpened, Paid},
	{PartiallyRefunded, KindDisputeOpened, PartiallyRefunded},
	{Refunded, KindDisputeOpened, Refunded},
	{Paid, KindDisputeWon, Paid},
	{PartiallyRefunded, KindDisputeWon, PartiallyRefunded},
	{Refunded, KindDisputeWon, Refunded},
	{Paid, KindDisputeLost, Paid},
	{PartiallyRefunded, KindDisputeLost, PartiallyRefunded},
	{Refunded, KindDisputeLost, Refunded},

	// Only a decision cancels an order that is paid; what was paid can still go back.
	{Cancelled, KindRefund, Cancelled},
	{Cancelled, KindRefundTotal, Cancelled},
	{Cancelled, KindRefundFailed, Cancelled},
	{Cancelled, KindDisputeOpened, Cancelled},
	{Cancelled, KindDisputeWon, Cancelled},
	{Cancelled, KindDisputeLost, Cancelled},
}

// DisputeTransition is one row of the flag's own table.
type DisputeTransition struct {
	From Dispute
	Kind Kind
	To   Dispute
}

var disputeTransitions = []DisputeTransition{
	{NoDispute, KindDisputeOpened, DisputeOpen},
	{DisputeOpen, KindDisputeWon, DisputeWon},
	{DisputeOpen, KindDisputeLost, DisputeLost},
	// Another dispute about the same payment.
	{DisputeWon, KindDisputeOpened, DisputeOpen},
	{DisputeLost, KindDisputeOpened, DisputeOpen},
}

// Payments says which payment a fact speaks of, seen from the order.
type Payments uint8

const (
	// AnyPayment: it does not matter.
	AnyPayment Payments = iota
	// SamePayment is the one that paid the order.
	SamePayment
	// OtherPayment is any other, also one the fact does not name.
	OtherPayment
)

// Refusal is one row of what is answered, without looking at any money, to a fact
// of these kinds that finds the order in one of these statuses.
type Refusal struct {
	From    []Status
	Kinds   []Kind
	Payment Payments
	Judgement
}

var (
	unpaid = []Status{Pending, Failed, Cancelled}
	taken  = []Status{Paid, PartiallyRefunded, Refunded}
	// followUps can only follow a payment.
	followUps = []Kind{KindRefund, KindRefundTotal, KindRefundFailed, KindDisputeOpened, KindDisputeWon, KindDisputeLost}
	// followsPayment is the same as a set.
	followsPayment = func() (s kindSet) {
		for _, k := range followUps {
			s |= 1 << k
		}
		return s
	}()
)

var refusals = []Refusal{
	{unpaid, followUps, AnyPayment, Judgement{Held, AwaitingPredecessor}},
	{taken, followUps, OtherPayment, Judgement{Held, AwaitingPayment}},

	{taken, []Kind{KindPaid}, SamePayment, Judgement{NoChange, NoReason}},
	{taken, []Kind{KindPaid}, OtherPayment, Judgement{Held, SecondPayment}},

	// A failure belongs to an attempt, success to the order.
	{[]Status{Failed}, []Kind{KindFailed}, AnyPayment, Judgement{NoChange, NoReason}},
	{taken, []Kind{KindFailed}, OtherPayment, Judgement{NoChange, NoReason}},
	{taken, []Kind{KindFailed}, SamePayment, Judgement{Held, IllegalTransition}},
	{[]Status{Cancelled}, []Kind{KindFailed}, AnyPayment, Judgement{NoChange, NoReason}},

	// So does a cancellation, unless it names no payment and means the order.
	{taken, []Kind{KindCancelled}, OtherPayment, Judgement{NoChange, NoReason}},
	{taken, []Kind{KindCancelled}, SamePayment, Judgement{Held, IllegalTransition}},
}

// Transitions is a copy of the table, in its own order.
func Transitions() []Transition { return slices.Clone(transitions) }

// DisputeTransitions is a copy of the flag's table, in its own order.
func DisputeTransitions() []DisputeTransition { return slices.Clone(disputeTransitions) }

// Refusals is a copy of the table of refusals, in its own order.
func Refusals() []Refusal { return slices.Clone(refusals) }

// Allowed says whether the table lets a fact of this kind move an order from one
// state to the other.
func Allowed(from State, kind Kind, to State) bool {
	if int(from.Status) >= statuses || int(kind) >= kinds || int(to.Status) >= statuses ||
		!allowed[from.Status][kind][to.Status] {
		return false
	}
	return from.Dispute == to.Dispute || slices.Contains(disputeTransitions, DisputeTransition{from.Dispute, kind, to.Dispute})
}

// The tables again, in the shape the fold reads them in.
var (
	allowed = func() (m [statuses][kinds][statuses]bool) {
		for _, t := range transitions {
			m[t.From][t.Kind][t.To] = true
		}
		return m
	}()
	// refused is Applied (the zero Judgement) where money has to be looked at.
	refused = func() (m [statuses][kinds][2]Judgement) {
		for _, r := range refusals {
			for _, from := range r.From {
				for _, kind := range r.Kinds {
					if r.Payment != OtherPayment {
						m[from][kind][0] = r.Judgement
					}
					if r.Payment != SamePayment {
						m[from][kind][1] = r.Judgement
					}
				}
			}
		}
		return m
	}()
)

// Package order decides what a set of facts means for an order. It is pure: no
// I/O, no clock, no logger. The state of an order is the fold of the distinct
// facts in its set, in one total order that does not depend on arrival.
package order

// Entry is one member of an order's set: an event seen as a fact.
type Entry struct {
	// Hash identifies the event (event.Event.Hash).
	Hash [16]byte
	// Source is the sending account.
	Source string
	// Kind is what it states.
	Kind Kind
	// Time is the provider's, in Unix milliseconds; 0 or less = undated, sorts last.
	Time int64
	// Payment is the provider's payment id; Object the refund's or dispute's id.
	// Facts are one and the same if (Source, Kind, Payment, Object) are.
	Payment string
	Object  string
	// Amount is in minor units of Currency (ISO 4217, upper case). A decision states
	// an amount only if it has a Currency.
	Amount   int64
	Currency string
	// Target is, of a decision (KindAccept, KindDismiss), the Hash of the entry that
	// it is about.
	Target [16]byte
}

// Registration is what the shop said the order is worth.
type Registration struct {
	// Hash identifies the registration's own entry in the set.
	Hash [16]byte
	// Amount is in minor units of Currency.
	Amount   int64
	Currency string
	// Time is when the shop registered or last changed it, Unix milliseconds.
	Time int64
}

// State is an order at one moment.
type State struct {
	Status   Status
	Amount   int64  // registered, minor units
	Currency string // registered, ISO 4217
	Paid     int64  // minor units taken
	Refunded int64  // minor units given back
	Dispute  Dispute
	// PaymentSource and Payment name the payment that paid the order.
	PaymentSource string
	Payment       string
}

// Verdict is what became of one event.
type Verdict uint8

const (
	// Applied: it moved the order.
	Applied Verdict = iota
	// NoChange: it is known, stale, or says nothing new.
	NoChange
	// Held: it cannot be applied now; Reason says why. It is judged again by
	// itself whenever its order changes.
	Held
	// Dead: nobody could read it; it is kept as a dead letter.
	Dead
	// Duplicate: the same event was taken over before.
	Duplicate
)

// Reason says why an event is held, or why it changed nothing.
type Reason uint8

const (
	NoReason Reason = iota
	AwaitingOrder
	AwaitingPayment
	AwaitingPredecessor
	AwaitingProvider
	IllegalTransition
	SecondPayment
	AmountMismatch
	CurrencyMismatch
	OverRefund
	OutsideWindow
	// OtherMode: a test event in a live deployment or the reverse (no change).
	OtherMode
	// Dismissed: a person decided that it counts for nothing (no change).
	Dismissed
)

// Judgement is the verdict on one entry of the set.
type Judgement struct {
	Verdict Verdict
	Reason  Reason
}

// Step is one change of an order's state.
type Step struct {
	From, To State
	// Cause is the Hash of the entry that made it; Time its provider time (Unix
	// milliseconds, 0 = undated).
	Cause [16]byte
	Time  int64
	// Override: the table does not lead from From to To; a person's decision does.
	Override bool
}

// Outcome is the fold of one set. Applied facts and the registration are exactly
// the causes of its Steps. A decision causes none: Applied means that its target
// counts, or does not count, or counts for another amount, because of it.
type Outcome struct {
	State State
	// Steps lead from nothing to State, in order; the first is the registration.
	Steps []Step
	// Judgements has one element for each entry, at the entry's place.
	Judgements []Judgement
	// Dismissals are the decisions because of which a fact of the set counts for
	// nothing.
	Dismissals []Dismissal
}

// Dismissal is one decision by its Hash and Time (Unix milliseconds).
type Dismissal struct {
	Hash [16]byte
	Time int64
}

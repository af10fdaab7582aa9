// Package lookup asks the providers' APIs, as far as that is a computation: which
// requests to make about an object, what an answer says, and the form in which it
// becomes an event. It is pure: no I/O, no clock, no logger; services/reconciler
// does the asking.
package lookup

import (
	"cmp"
	"time"

	"sluice/pkg/webhook"
)

// Target is what is asked about: what a hint named. Nothing in it is believed; it
// only says where to ask.
type Target struct {
	// Object names the look-up within its source: one row, however many hints. The
	// latest hint's target is the one to ask about.
	Object string
	// Type is the hint's event type.
	Type string
	// Order, Payment and Subject are as in a webhook.Reading, each empty if the hint
	// names none. Subject is the refund's or dispute's id where it names one.
	Order, Payment, Subject string
	// Amount is the hint's own, in minor units of Currency. It is used only where the
	// provider's API states none (Click); the order's amount then judges it.
	Amount   int64
	Currency string
	// Time is when it happened by the hint's own word, or when it was received.
	Time time.Time
}

// TargetOf is what a hint asks about. The payment comes first: its answer tells of
// its refunds and disputes too.
func TargetOf(hint webhook.Reading) Target {
	return Target{
		Object:  cmp.Or(hint.Payment, hint.Object, hint.Subject, hint.Order, hint.ID),
		Type:    hint.Type,
		Order:   hint.Order,
		Payment: hint.Payment,
		Subject: cmp.Or(hint.Object, hint.Subject),
		Amount:  hint.Amount, Currency: hint.Currency,
		Time: hint.Time,
	}
}

package order

import (
	"fmt"
	"slices"
)

// Standing is how one payment stands by the facts that one side knows of it.
type Standing struct {
	Paid     bool
	Amount   int64 // minor units of Currency
	Currency string
	// Refunded is the sum of the refunds that did not bounce; Refunds says whether any
	// refund is known at all.
	Refunded int64
	Refunds  bool
	// UnderWay is the sum of the refunds that are not decided, which some providers count
	// in their totals already.
	UnderWay int64
	// Unpaid is what is said in place of paid: pending, failed or cancelled; KindNone
	// if nothing is.
	Unpaid Kind
}

// UnderWay says whether a fact is that a refund was begun and nothing is decided. It
// changes no order, but its end must be learnt.
func UnderWay(kind Kind, payment, object string) bool {
	return kind == KindPending && payment != "" && object != "" && object != payment
}

// StandingOf is how a payment stands by entries that count: applied ones of ours, or
// all that its provider states now. Other payments' entries are passed over, and a
// fact that is stated twice counts once.
func StandingOf(payment string, entries []Entry) Standing {
	var s Standing
	var total int64
	refunds, bounced := map[string]int64{}, map[string]int64{}
	for _, e := range entries {
		if e.Payment != payment {
			continue
		}
		switch e.Kind {
		case KindPaid:
			s.Paid, s.Amount, s.Currency = true, e.Amount, e.Currency
		case KindRefund:
			refunds[e.Object], s.Refunds = e.Amount, true
		case KindRefundFailed:
			bounced[e.Object], s.Refunds = e.Amount, true
		case KindRefundTotal:
			total, s.Refunds = max(total, e.Amount), true
		case KindPending, KindFailed, KindCancelled:
			if UnderWay(e.Kind, e.Payment, e.Object) {
				s.UnderWay += e.Amount
				continue
			}
			s.Unpaid = max(s.Unpaid, e.Kind)
		}
	}
	for object, amount := range refunds {
		if _, back := bounced[object]; back {
			bounced[object] = amount // the refund itself says how much
			continue
		}
		s.Refunded += amount
	}
	for _, amount := range bounced {
		total -= amount // it was in the total, as the fold has it
	}
	s.Refunded = max(s.Refunded, total)
	return s
}

// Contradicts says, for people, in what a provider's present word on a payment differs
// from ours; nothing if it does not. Only what it states counts: a provider that tells
// of no refunds does not deny them.
func (s Standing) Contradicts(theirs Standing) (differences []string) {
	switch {
	case !s.Paid:
		return nil // what they state that we have not applied is held, and has an item of its own
	case !theirs.Paid && theirs.Unpaid != KindNone:
		return []string{fmt.Sprintf("we say paid, the provider says %s", theirs.Unpaid)}
	case !theirs.Paid:
		return nil
	case s.Currency != theirs.Currency:
		differences = append(differences, fmt.Sprintf("we say paid in %s, the provider says in %s", s.Currency, theirs.Currency))
	case s.Amount != theirs.Amount:
		differences = append(differences, fmt.Sprintf("we say %s paid, the provider says %s", amountText(s.Amount, s.Currency), amountText(theirs.Amount, s.Currency)))
	}
	if theirs.Refunds && (s.Refunded < theirs.Refunded || s.Refunded > theirs.Refunded+theirs.UnderWay) {
		differences = append(differences, fmt.Sprintf("we say %s refunded, the provider says %s", amountText(s.Refunded, s.Currency), amountText(theirs.Refunded, s.Currency)))
	}
	return slices.Clip(differences)
}

func amountText(minor int64, currency string) string {
	text, err := FormatDecimal(minor, currency)
	if err != nil {
		text = fmt.Sprintf("%d minor units of", minor)
	}
	return text + " " + currency
}

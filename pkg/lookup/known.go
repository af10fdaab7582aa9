package lookup

import (
	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// Knowledge is what a set says of a fact that a provider states.
type Knowledge uint8

const (
	// Missing: the set says nothing of it.
	Missing Knowledge = iota
	// Known: the set says it, or more.
	Known
	// Differs: the set says it, with other money.
	Differs
)

// Knows says what a set of one source's entries knows of a fact, whatever event told
// it: two events may state one fact. That nothing is decided yet is nothing to know.
//
// All refunds so far are known if the single ones that stayed sum up to as much; a
// single one only under its own id, for a total does not say of whom it is.
func Knows(set []order.Entry, fact webhook.Reading) Knowledge {
	if fact.Fact == order.KindNone || fact.Fact == order.KindPending {
		return Known
	}
	answer := Missing
	for _, e := range set {
		switch {
		case e.Kind != fact.Fact, e.Payment != "" && fact.Payment != "" && e.Payment != fact.Payment,
			e.Object != "" && fact.Object != "" && e.Object != fact.Object:
			continue
		case fact.Currency == "" || e.Currency == "" || e.Currency == fact.Currency && e.Amount == fact.Amount:
			return Known
		}
		answer = Differs
	}
	if fact.Fact != order.KindRefundTotal {
		return answer
	}
	if refunded, currency := Refunded(set, fact.Payment); refunded >= fact.Amount && currency == fact.Currency {
		return Known
	}
	return Missing // it has grown
}

// Refunded is what a set says was refunded of a payment, as the fold reckons it: the
// single refunds that did not bounce, or the greatest total less what bounced.
func Refunded(set []order.Entry, payment string) (amount int64, currency string) {
	single, bounced := map[string]int64{}, map[string]int64{}
	var total int64
	for _, e := range set {
		if payment != "" && e.Payment != payment {
			continue
		}
		switch e.Kind {
		case order.KindRefund:
			single[e.Object] = e.Amount
		case order.KindRefundFailed:
			bounced[e.Object] = e.Amount
		case order.KindRefundTotal:
			total = max(total, e.Amount)
		default:
			continue
		}
		currency = e.Currency
	}
	for object, n := range single {
		if _, back := bounced[object]; !back {
			amount += n
		}
	}
	for _, n := range bounced {
		total -= n
	}
	return max(amount, total), currency
}

package explain

import (
	"fmt"

	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// reasons say of each reason why the event stands where it does, and what would
// let a held one go.
var reasons = map[order.Reason]struct{ why, release string }{
	order.AwaitingOrder:       {"the shop has not registered the order", "the shop registers the order"},
	order.AwaitingPayment:     {"no payment of the order is known yet", "the payment's own event comes"},
	order.AwaitingPredecessor: {"what must have happened before it is not known yet", "the event before it comes"},
	order.AwaitingProvider:    {"the provider is being asked", "the provider's answer comes, as an event of its own"},
	order.IllegalTransition:   {"the order does not lead there from where it stands", "an event between the two comes late, or a person decides"},
	order.SecondPayment:       {"another payment has paid the order already", "a person decides: a second payment is never taken by itself"},
	order.AmountMismatch:      {"its amount is not the one registered", "the shop registers this amount, or a person decides"},
	order.CurrencyMismatch:    {"its currency is not the one registered", "the shop registers this currency, or a person decides"},
	order.OverRefund:          {"it would give back more than was paid", "an earlier refund bounces, or a person decides"},
	order.OutsideWindow:       {"it is older than the dedupe window, and its order is not registered", "the shop registers the order, or a person decides"},
	order.OtherMode:           {"it belongs to the other mode, test or live", ""},
	order.Dismissed:           {"a person decided that it does not count", ""},
}

// verdictOf is what became of an event, in words.
func verdictOf(e *postgres.StoryEvent, s *postgres.Story) Verdict {
	v := Verdict{Verdict: e.Verdict, Reason: e.Reason, HeldAt: when(e.HeldAt), DueAt: when(e.DueAt)}
	r := reasons[e.Reason]
	v.Why = r.why
	if e.Verdict == order.Held {
		v.Release = r.release
	}
	switch {
	case e.Verdict == order.Held && (e.Reason == order.AmountMismatch || e.Reason == order.CurrencyMismatch):
		v.Why = fmt.Sprintf("it states %s, registered are %s", Money(e.Amount, e.Currency), Money(s.Amount, s.Currency))
	case e.Verdict == order.Held && e.Reason == order.OverRefund:
		v.Why = fmt.Sprintf("it states %s; %s were paid and %s given back", Money(e.Amount, e.Currency), Money(s.Paid, s.Currency), Money(s.Refunded, s.Currency))
	case e.Verdict == order.Held && e.Reason == order.IllegalTransition:
		v.Why = fmt.Sprintf("the order is %s, and %s does not lead on from there", s.Status, e.Kind)
	case e.Verdict == order.NoChange && e.Reason == order.NoReason:
		v.Why = "it says nothing that the rest does not say, or came late"
	}
	return v
}

// Money is an amount as people read it.
func Money(minor int64, currency string) string {
	text, err := order.FormatDecimal(minor, currency)
	if err != nil {
		return fmt.Sprintf("%d %s", minor, currency)
	}
	return text + " " + currency
}

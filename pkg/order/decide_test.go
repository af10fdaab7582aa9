package order

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func accept(target int, at int64) Entry {
	return Entry{Hash: hash(900 + int(at)), Source: "review", Kind: KindAccept, Time: at, Target: hash(200 + target)}
}

func dismiss(target int, at int64) Entry {
	return Entry{Hash: hash(900 + int(at)), Source: "review", Kind: KindDismiss, Time: at, Target: hash(200 + target)}
}

func stating(d Entry, amount int64, currency string) Entry {
	d.Amount, d.Currency = amount, currency
	return d
}

// Entries are numbered by place: decisions name their targets so.
func TestWhatAPersonDecidesAboutAnEntryHoldsInEveryOrderOfArrival(t *testing.T) {
	paid := Entry{Kind: KindPaid, Time: 1000, Payment: "A", Amount: 100}
	second := Entry{Kind: KindPaid, Time: 2000, Payment: "B", Amount: 100}
	refund := func(payment, id string, at, amount int64) Entry {
		return Entry{Kind: KindRefund, Time: at, Payment: payment, Object: id, Amount: amount}
	}
	for _, c := range []struct {
		name    string
		set     []Entry
		want    State // Amount, Currency and the names of the payment aside
		reasons []string
	}{
		{"another amount, accepted, is what was paid",
			[]Entry{{Kind: KindPaid, Time: 1000, Payment: "A", Amount: 90}, accept(0, 9)},
			State{Status: Paid, Paid: 90}, []string{"applied", "applied"}},
		{"unless the decision states how much",
			[]Entry{{Kind: KindPaid, Time: 1000, Payment: "A", Amount: 90}, stating(accept(0, 9), 95, "EUR")},
			State{Status: Paid, Paid: 95}, []string{"applied", "applied"}},
		{"another currency is no money of this order",
			[]Entry{{Kind: KindPaid, Time: 1000, Payment: "A", Amount: 100, Currency: "USD"}, accept(0, 9)},
			State{Status: Pending}, []string{"currency_mismatch", "currency_mismatch"}},
		{"unless the decision says what it is worth",
			[]Entry{{Kind: KindPaid, Time: 1000, Payment: "A", Amount: 100, Currency: "USD"}, stating(accept(0, 9), 92, "EUR")},
			State{Status: Paid, Paid: 92}, []string{"applied", "applied"}},
		{"in the order's currency",
			[]Entry{{Kind: KindPaid, Time: 1000, Payment: "A", Amount: 100}, stating(accept(0, 9), 92, "USD")},
			State{Status: Pending}, []string{"currency_mismatch", "currency_mismatch"}},
		{"a second payment adds its money, and both go back",
			[]Entry{paid, second, accept(1, 9), refund("B", "rb", 3000, 100), refund("A", "ra", 4000, 60)},
			State{Status: PartiallyRefunded, Paid: 200, Refunded: 160}, []string{"applied", "applied", "applied", "applied", "applied"}},
		{"each payment has totals of its own",
			[]Entry{paid, second, accept(1, 9), {Kind: KindRefundTotal, Time: 3000, Payment: "A", Amount: 100}, {Kind: KindRefundTotal, Time: 3000, Payment: "B", Amount: 100}},
			State{Status: Refunded, Paid: 200, Refunded: 200}, []string{"applied", "applied", "applied", "applied", "applied"}},
		{"a payment of a cancelled order pays it",
			[]Entry{{Kind: KindCancelled, Time: 500}, paid, accept(1, 9), refund("A", "r", 3000, 100)},
			State{Status: Refunded, Paid: 100, Refunded: 100}, []string{"applied", "applied", "applied", "applied"}},
		{"a payment of an order that was called off after an attempt was pays it",
			[]Entry{{Kind: KindCancelled, Time: 400, Payment: "X"}, {Kind: KindCancelled, Time: 500}, paid, accept(2, 9)},
			State{Status: Paid, Paid: 100}, []string{"applied", "no_change", "applied", "applied"}},
		{"a cancellation after payment cancels, the money stays until it goes back",
			[]Entry{paid, {Kind: KindCancelled, Time: 2000}, accept(1, 9), refund("A", "r", 3000, 40), {Kind: KindDisputeOpened, Time: 4000, Payment: "A", Object: "d"}},
			State{Status: Cancelled, Paid: 100, Refunded: 40, Dispute: DisputeOpen}, []string{"applied", "applied", "applied", "applied", "applied"}},
		{"a payment that failed after all is undone, and another may pay",
			[]Entry{paid, {Kind: KindFailed, Time: 2000, Payment: "A"}, accept(1, 9), second},
			State{Status: Paid, Paid: 100}, []string{"applied", "applied", "applied", "applied"}},
		{"one of two payments that failed leaves the other",
			[]Entry{paid, second, accept(1, 9), {Kind: KindFailed, Time: 3000, Payment: "A"}, accept(3, 8)},
			State{Status: Paid, Paid: 100}, []string{"applied", "applied", "applied", "applied", "applied"}},
		{"more than was paid is counted as given back",
			[]Entry{paid, refund("A", "r", 2000, 130), accept(1, 9)},
			State{Status: Refunded, Paid: 100, Refunded: 130}, []string{"applied", "applied", "applied"}},
		{"a refund of another payment counts against the order's, and so does its bounce",
			[]Entry{paid, refund("X", "r", 2000, 40), accept(1, 9), {Kind: KindRefundFailed, Time: 3000, Payment: "X", Object: "r", Amount: 40}},
			State{Status: Paid, Paid: 100}, []string{"applied", "applied", "applied", "applied"}},
		{"what follows a payment needs one",
			[]Entry{refund("A", "r", 2000, 40), accept(0, 9)},
			State{Status: Pending}, []string{"awaiting_predecessor", "awaiting_predecessor"}},
		{"and what fits when it comes is not forced",
			[]Entry{refund("A", "r", 500, 40), accept(0, 9), paid},
			State{Status: PartiallyRefunded, Paid: 100, Refunded: 40}, []string{"applied", "no_change", "applied"}},
		{"nor what a bounce makes room for",
			[]Entry{paid, refund("A", "r1", 2000, 100), refund("A", "r2", 4000, 60), accept(2, 9), {Kind: KindRefundFailed, Time: 9000, Payment: "A", Object: "r1", Amount: 100}},
			State{Status: PartiallyRefunded, Paid: 100, Refunded: 60}, []string{"applied", "applied", "applied", "no_change", "applied"}},
		{"a cancelled order of which one of two payments failed stays cancelled",
			[]Entry{paid, second, accept(1, 9), {Kind: KindCancelled, Time: 3000}, accept(3, 8), {Kind: KindFailed, Time: 4000, Payment: "A"}, accept(5, 7)},
			State{Status: Cancelled, Paid: 100}, []string{"applied", "applied", "applied", "applied", "applied", "applied", "applied"}},
		{"a payment whose refund counts is still a second payment",
			[]Entry{paid, {Kind: KindRefund, Time: 2000, Payment: "B", Amount: 40}, accept(1, 9), second},
			State{Status: PartiallyRefunded, Paid: 100, Refunded: 40}, []string{"applied", "applied", "applied", "second_payment"}},
		{"a dispute that is decided is not opened by a late opening",
			[]Entry{paid, {Kind: KindDisputeWon, Time: 2000, Payment: "X", Object: "d"}, accept(1, 9), {Kind: KindDisputeOpened, Payment: "X", Object: "d"}},
			State{Status: Paid, Paid: 100, Dispute: DisputeWon}, []string{"applied", "applied", "applied", "no_change"}},
		{"a payment that is undone takes its dispute with it",
			[]Entry{paid, {Kind: KindDisputeOpened, Time: 2000, Payment: "A", Object: "d1"}, {Kind: KindFailed, Time: 3000, Payment: "A"}, accept(2, 9),
				{Kind: KindPaid, Time: 4000, Payment: "B", Amount: 100}, {Kind: KindDisputeOpened, Time: 5000, Payment: "B", Object: "d2"}, {Kind: KindDisputeWon, Time: 6000, Payment: "B", Object: "d2"}},
			State{Status: Paid, Paid: 100, Dispute: DisputeWon}, []string{"applied", "applied", "applied", "applied", "applied", "applied", "applied"}},
		{"no amount is negative",
			[]Entry{paid, refund("A", "r", 2000, -40), accept(1, 9)},
			State{Status: Paid, Paid: 100}, []string{"applied", "over_refund", "over_refund"}},
		{"an echo counts once, accepted or not",
			[]Entry{paid, {Kind: KindPaid, Time: 1500, Payment: "A", Amount: 100}, accept(1, 9)},
			State{Status: Paid, Paid: 100}, []string{"applied", "no_change", "no_change"}},
		{"what is dismissed counts for nothing",
			[]Entry{paid, refund("A", "r", 2000, 40), dismiss(1, 9)},
			State{Status: Paid, Paid: 100}, []string{"applied", "no_change", "applied"}},
		{"and shadows nothing",
			[]Entry{paid, second, dismiss(0, 9)},
			State{Status: Paid, Paid: 100}, []string{"no_change", "applied", "applied"}},
		{"the latest decision rules",
			[]Entry{paid, second, accept(1, 8), dismiss(1, 9)},
			State{Status: Paid, Paid: 100}, []string{"applied", "no_change", "no_change", "applied"}},
		{"whichever it is",
			[]Entry{paid, second, dismiss(1, 8), accept(1, 9)},
			State{Status: Paid, Paid: 200}, []string{"applied", "applied", "no_change", "applied"}},
		{"a decision about nothing that is known waits",
			[]Entry{paid, accept(77, 9)},
			State{Status: Paid, Paid: 100}, []string{"applied", "awaiting_predecessor"}},
		{"a decision about a decision changes nothing",
			[]Entry{paid, {Hash: hash(201), Source: "review", Kind: KindDismiss, Time: 8, Target: hash(200)}, dismiss(1, 9)},
			State{Status: Pending}, []string{"no_change", "applied", "no_change"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := arrive(t, c.set, anyPath)
			checkOutcome(t, c.set, &o)
			got := o.State
			got.Amount, got.Currency, got.PaymentSource, got.Payment = 0, "", "", ""
			if got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			for i, want := range c.reasons {
				if o.reason(i) != want {
					t.Errorf("entry %d is %s, not %s", i, o.reason(i), want)
				}
			}
		})
	}
}

func TestAnOverrideIsPublishedAsACorrectionCausedByTheFact(t *testing.T) {
	set := dated([]Entry{paidA, {Kind: KindPaid, Payment: "B", Amount: 100, Currency: "EUR"}})
	before := Fold(registered, set)
	after := Fold(registered, append(set, Entry{Hash: hash(90), Kind: KindAccept, Target: set[1].Hash, Time: 9000}))
	changes := Changes(before, after)
	if len(changes) != 1 || !changes[0].Correction || changes[0].Cause != set[1].Hash || changes[0].To.Paid != 200 {
		t.Errorf("%+v", changes)
	}
	if all := Changes(Outcome{}, after); len(all) != 3 || all[0].Correction || all[1].Correction || !all[2].Correction {
		t.Errorf("told from the start: %+v", all)
	}
}

func TestADismissalIsTheCauseOfTheCorrectionItMakes(t *testing.T) {
	set := dated([]Entry{paidA})
	d := Entry{Hash: hash(90), Kind: KindDismiss, Target: set[0].Hash, Time: 9000}
	changes := Changes(Fold(registered, set), Fold(registered, append(set, d)))
	if len(changes) != 1 || !changes[0].Correction || changes[0].Cause != d.Hash || changes[0].Time != d.Time || changes[0].To.Status != Pending {
		t.Errorf("%+v", changes)
	}
}

func TestWhatWaitsForItsOrderCanBeDismissed(t *testing.T) {
	set := dated([]Entry{paidA, paidA})
	set = append(set, Entry{Hash: hash(90), Kind: KindDismiss, Target: set[0].Hash}, Entry{Hash: hash(91), Kind: KindAccept, Target: set[1].Hash})
	o := Fold(nil, set)
	want := []Judgement{{NoChange, Dismissed}, {Held, AwaitingOrder}, {Applied, NoReason}, {Held, AwaitingOrder}}
	if !slices.Equal(o.Judgements, want) {
		t.Errorf("%v", o.Judgements)
	}
}

// A dismissed entry may as well not be there, and so may an acceptance of what fits.
func TestADismissedEntryMayAsWellNotBeThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawFacts(t, 10)
		at := rapid.IntRange(0, len(set)-1).Draw(t, "dismissed")
		d := Entry{Hash: hash(20_000), Source: "review", Kind: KindDismiss, Target: set[at].Hash, Time: 1}
		with := Fold(registered, append(slices.Clone(set), d))
		without := Fold(registered, slices.Delete(slices.Clone(set), at, at+1))
		if rank(set[at].Kind) == 0 {
			return // nothing to dismiss
		}
		if with.State != without.State || !slices.Equal(with.Steps, without.Steps) ||
			!slices.Equal(slices.Delete(with.Judgements[:len(set)], at, at+1), without.Judgements) {
			t.Fatalf("dismissed: %+v\nabsent: %+v", with, without)
		}
	})
}

func TestSumsThatADecisionMakesStopAtTheMostAnInt64Holds(t *testing.T) {
	const most = math.MaxInt64
	reg := &Registration{Hash: hash(1), Amount: most, Currency: "EUR"}
	set := dated([]Entry{
		{Kind: KindPaid, Payment: "A", Amount: most, Currency: "EUR"},
		{Kind: KindPaid, Payment: "B", Amount: most, Currency: "EUR"},
		{Kind: KindRefund, Payment: "A", Object: "1", Amount: most, Currency: "EUR"},
		{Kind: KindRefund, Payment: "A", Object: "2", Amount: most, Currency: "EUR"},
		{Kind: KindRefund, Payment: "B", Object: "3", Amount: most, Currency: "EUR"},
		{Kind: KindRefundFailed, Payment: "B", Object: "4", Amount: most, Currency: "EUR"},
		{Kind: KindRefundFailed, Payment: "B", Object: "5", Amount: most, Currency: "EUR"},
	})
	for i := range 7 {
		set = append(set, Entry{Hash: hash(300 + i), Kind: KindAccept, Target: set[i].Hash})
	}
	o := Fold(reg, set)
	checkOutcome(t, set, &o)
	if o.State.Paid != most || o.State.Refunded != most {
		t.Errorf("%+v", o.State)
	}
}

package order

import (
	"slices"
	"testing"
)

// arrive folds the set in every order and at every moment of registration, and
// hands over what was published in each.
func arrive(t *testing.T, set []Entry, check func(t *testing.T, published []Status)) Outcome {
	t.Helper()
	return arriveFor(t, registered, set, check)
}

func arriveFor(t *testing.T, registered *Registration, set []Entry, check func(t *testing.T, published []Status)) Outcome {
	t.Helper()
	for i := range set {
		if set[i].Source == "" {
			set[i].Source = "shop"
		}
		if set[i].Hash == [16]byte{} {
			set[i].Hash = hash(200 + i)
		}
		if set[i].Amount != 0 && set[i].Currency == "" {
			set[i].Currency = registered.Currency
		}
	}
	want := Fold(registered, set)
	permute(set, func(arrival []Entry) {
		for registeredAfter := range len(arrival) + 1 {
			var statuses []Status
			var before Outcome
			for i := range len(arrival) + 1 {
				reg := registered
				if i < registeredAfter {
					reg = nil
				}
				after := Fold(reg, arrival[:i])
				for _, c := range Changes(before, after) {
					statuses = append(statuses, c.To.Status)
				}
				before = after
			}
			if before.State != want.State {
				t.Fatalf("%v ended in %+v, not %+v", arrival, before.State, want.State)
			}
			check(t, statuses)
		}
	})
	return want
}

func anyPath(*testing.T, []Status) {}

func (o Outcome) reason(i int) string {
	j := o.Judgements[i]
	if j.Verdict == Held {
		return j.Reason.String()
	}
	return j.Verdict.String()
}

func TestO27EventsOfOneSecondAreOrderedByCause(t *testing.T) {
	const at = 1_700_000_000_000
	for _, hashes := range [][]int{{1, 2, 3}, {3, 2, 1}, {2, 3, 1}} { // the hash must not decide
		o := arrive(t, []Entry{
			{Hash: hash(10 + hashes[0]), Kind: KindPending, Time: at, Payment: "pi"},
			{Hash: hash(10 + hashes[1]), Kind: KindPaid, Time: at + 999, Payment: "pi", Amount: 100},
		}, anyPath)
		if o.State.Status != Paid {
			t.Errorf("processing and paid in one second end in %v", o.State.Status)
		}
		o = arrive(t, []Entry{
			{Hash: hash(10 + hashes[0]), Kind: KindPending, Time: at, Payment: "pi"},
			{Hash: hash(10 + hashes[1]), Kind: KindPaid, Time: at + 900, Payment: "pi", Amount: 100},
			{Hash: hash(10 + hashes[2]), Kind: KindRefund, Time: at, Payment: "pi", Object: "re", Amount: 100},
		}, anyPath)
		if o.State.Status != Refunded {
			t.Errorf("processing, paid and refunded in one second end in %v", o.State.Status)
		}
	}
}

func TestO28ALateFailureOfAnEarlierAttemptLeavesTheOrderPaid(t *testing.T) {
	neverFailedAfterPaid := func(t *testing.T, published []Status) {
		if paid := slices.Index(published, Paid); paid >= 0 && slices.Contains(published[paid:], Failed) {
			t.Fatalf("published %v", published)
		}
	}
	paid := Entry{Kind: KindPaid, Time: 60_000, Payment: "pi_2", Amount: 100}
	for _, c := range []struct {
		name    string
		late    Entry
		verdict string
	}{
		{"another attempt failed before", Entry{Kind: KindFailed, Time: 1000, Payment: "pi_1"}, "applied"},
		{"the same payment failed before", Entry{Kind: KindFailed, Time: 1000, Payment: "pi_2"}, "applied"},
		{"another attempt failed after", Entry{Kind: KindFailed, Time: 90_000, Payment: "pi_1"}, "no_change"},
		{"another attempt failed, undated", Entry{Kind: KindFailed, Payment: "pi_1"}, "no_change"},
		{"the same payment failed after", Entry{Kind: KindFailed, Time: 90_000, Payment: "pi_2"}, "illegal_transition"},
		{"the payment was cancelled after", Entry{Kind: KindCancelled, Time: 90_000, Payment: "pi_2"}, "illegal_transition"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := arrive(t, []Entry{paid, c.late}, neverFailedAfterPaid)
			if o.State.Status != Paid || o.reason(1) != c.verdict {
				t.Errorf("status %v, verdict %s; want paid, %s", o.State.Status, o.reason(1), c.verdict)
			}
		})
	}
}

func TestO29AFactBeforeItsOrderIsHeldAndAppliedWhenTheOrderComes(t *testing.T) {
	set := []Entry{{Hash: hash(9), Kind: KindPaid, Time: 1000, Payment: "pi", Amount: 100, Currency: "EUR"}, {Hash: hash(8)}}
	o := Fold(nil, set)
	if o.State != (State{}) || len(o.Steps) != 0 || o.Judgements[0] != (Judgement{Held, AwaitingOrder}) || o.Judgements[1].Verdict != NoChange {
		t.Fatalf("without an order: %+v", o)
	}
	after := Fold(registered, set)
	changes := Changes(o, after)
	if len(changes) != 2 || changes[0].To.Status != Pending || changes[1].To.Status != Paid || after.Judgements[0].Verdict != Applied {
		t.Fatalf("with it: %+v", changes)
	}
}

func TestO34FactsScatteredOverPartitionsEndInTheRightState(t *testing.T) {
	o := arrive(t, []Entry{
		{Kind: KindPending, Time: 1000, Payment: "pi"},
		{Kind: KindPaid, Time: 2000, Payment: "pi", Amount: 100},
		{Kind: KindRefund, Time: 3000, Payment: "pi", Object: "re_1", Amount: 40},
		{Kind: KindRefund, Time: 4000, Payment: "pi", Object: "re_2", Amount: 60},
	}, func(t *testing.T, published []Status) {
		want := []Status{Pending, Paid, PartiallyRefunded, Refunded}
		at := 0
		for _, s := range published { // each status follows the one before in the machine's order
			for at < len(want) && want[at] != s {
				at++
			}
			if at == len(want) && s != PartiallyRefunded {
				t.Fatalf("published %v", published)
			}
		}
		if published[len(published)-1] != Refunded {
			t.Fatalf("published %v", published)
		}
	})
	for i, j := range o.Judgements {
		if j.Verdict == Held {
			t.Errorf("fact %d is lost as %v", i, j.Reason)
		}
	}
}

func TestOneFactToldTwiceCountsOnce(t *testing.T) {
	o := arrive(t, []Entry{
		{Kind: KindPaid, Time: 1000, Payment: "pi", Amount: 100},
		{Kind: KindPaid, Time: 1500, Payment: "pi", Amount: 100}, // order.paid beside payment.captured
		{Kind: KindRefund, Time: 3000, Payment: "pi", Object: "re", Amount: 40},
		{Kind: KindRefundTotal, Time: 3000, Payment: "pi", Amount: 40}, // charge.refunded beside refund.created
	}, anyPath)
	if o.State.Refunded != 40 || o.reason(1) != "no_change" || o.reason(3) != "no_change" {
		t.Errorf("%+v", o)
	}
}

func TestASecondPaymentIsHeldOnceForAPerson(t *testing.T) {
	o := arrive(t, []Entry{
		{Kind: KindPaid, Time: 1000, Payment: "pi_1", Amount: 100},
		{Kind: KindPaid, Time: 2000, Payment: "pi_2", Amount: 100},
		{Kind: KindPaid, Time: 2000, Payment: "pi_2", Amount: 100}, // told twice
		{Kind: KindRefund, Time: 3000, Payment: "pi_2", Object: "re", Amount: 100},
	}, anyPath)
	if o.State.Status != Paid || o.reason(1) != "second_payment" || o.reason(2) != "no_change" || o.reason(3) != "awaiting_payment" {
		t.Errorf("%v", o.Judgements)
	}
}

func TestAMismatchedFactDoesNotShadowTheRightOne(t *testing.T) {
	o := arrive(t, []Entry{
		{Kind: KindPaid, Time: 1000, Payment: "pi", Amount: 99},
		{Kind: KindPaid, Time: 2000, Payment: "pi", Amount: 100},
	}, anyPath)
	if o.State.Status != Paid || o.reason(0) != "no_change" || o.reason(1) != "applied" {
		t.Errorf("%+v", o)
	}
}

func TestABouncedRefundGivesTheMoneyBackAndMakesRoomForAnother(t *testing.T) {
	o := arrive(t, []Entry{
		{Kind: KindPaid, Time: 1000, Payment: "pi", Amount: 100},
		{Kind: KindRefund, Time: 2000, Payment: "pi", Object: "re_1", Amount: 100},
		{Kind: KindRefundFailed, Time: 9000, Payment: "pi", Object: "re_1", Amount: 100},
		{Kind: KindRefund, Time: 4000, Payment: "pi", Object: "re_2", Amount: 60}, // over until re_1 bounced
	}, anyPath)
	if o.State.Status != PartiallyRefunded || o.State.Refunded != 60 {
		t.Errorf("%+v", o.State)
	}
	o = arrive(t, []Entry{ // the same, told by totals
		{Kind: KindPaid, Time: 1000, Payment: "pi", Amount: 100},
		{Kind: KindRefundTotal, Time: 2000, Payment: "pi", Amount: 70},
		{Kind: KindRefundFailed, Time: 3000, Payment: "pi", Object: "re_1", Amount: 30},
		{Kind: KindRefundFailed, Time: 3000, Payment: "pi", Object: "re_2", Amount: 50}, // of nothing
	}, anyPath)
	if o.State.Refunded != 40 || o.reason(3) != "awaiting_predecessor" {
		t.Errorf("%+v %v", o.State, o.Judgements)
	}
}

func TestAChainThatWaitsBackwardsIsAppliedWhole(t *testing.T) {
	o := arrive(t, []Entry{ // each waits for the one after it
		{Kind: KindRefundFailed, Time: 1000, Payment: "pi", Object: "re", Amount: 40},
		{Kind: KindRefund, Time: 2000, Payment: "pi", Object: "re", Amount: 40},
		{Kind: KindPaid, Time: 3000, Payment: "pi", Amount: 100},
	}, anyPath)
	if o.State.Status != Paid || o.reason(0) != "applied" || o.reason(1) != "applied" {
		t.Errorf("%+v", o)
	}
}

func TestADisputeStaysOpenUntilTheLastOneIsDecided(t *testing.T) {
	o := arrive(t, []Entry{
		{Kind: KindPaid, Time: 1000, Payment: "pi", Amount: 100},
		{Kind: KindDisputeOpened, Time: 2000, Payment: "pi", Object: "d1"},
		{Kind: KindDisputeOpened, Time: 3000, Payment: "pi", Object: "d2"},
		{Kind: KindDisputeWon, Time: 4000, Payment: "pi", Object: "d1"},
	}, anyPath)
	if o.State.Status != Paid || o.State.Dispute != DisputeOpen || o.reason(3) != "no_change" {
		t.Errorf("%+v", o)
	}
}

func TestMoneyThatFitsNoInt64IsHeldAndNeverPanics(t *testing.T) {
	const most, least = 1<<63 - 1, -1 << 63
	reg := &Registration{Hash: hash(1), Amount: most, Currency: "EUR"}
	set := []Entry{
		{Kind: KindPaid, Amount: most},
		{Kind: KindRefund, Object: "a", Amount: most},
		{Kind: KindRefundFailed, Object: "a", Amount: most},
		{Kind: KindRefund, Object: "b", Amount: most},
		{Kind: KindRefund, Object: "over", Amount: most},
		{Kind: KindRefund, Object: "below", Amount: least},
		{Kind: KindRefundTotal, Amount: least},
		{Kind: KindRefundFailed, Object: "unknown", Amount: least},
	}
	for i := range set {
		set[i].Payment, set[i].Currency = "pi", "EUR"
	}
	o := Fold(reg, dated(set))
	checkOutcome(t, set, &o)
	for i, want := range []string{"applied", "applied", "applied", "applied", "over_refund", "over_refund", "over_refund", "awaiting_predecessor"} {
		if o.reason(i) != want {
			t.Errorf("fact %d is %s, not %s", i, o.reason(i), want)
		}
	}
	// More bounced than an int64 holds: a total of it all covers none of it.
	set = append(set[:4:4], Entry{Kind: KindRefundFailed, Object: "b", Payment: "pi", Currency: "EUR"},
		Entry{Kind: KindRefundTotal, Payment: "pi", Amount: most, Currency: "EUR"})
	if o = Fold(reg, dated(set)); o.State.Refunded != 0 {
		t.Errorf("%+v", o.State)
	}
}

func TestAnotherAmountIsACorrectionUntilItIsPaid(t *testing.T) {
	set := []Entry{{Hash: hash(7), Kind: KindPaid, Time: 1000, Payment: "pi", Amount: 200, Currency: "EUR"}}
	before := Fold(registered, set)
	if before.Judgements[0].Reason != AmountMismatch {
		t.Fatalf("%+v", before)
	}
	after := Fold(&Registration{Hash: hash(2), Amount: 200, Currency: "EUR"}, set)
	changes := Changes(before, after)
	if len(changes) != 1 || !changes[0].Correction || changes[0].To.Status != Paid || changes[0].Cause != hash(7) {
		t.Fatalf("%+v", changes)
	}
}

func TestALateFactThatUndoesAStateIsOneCorrectionCausedByIt(t *testing.T) {
	cancelled := Entry{Hash: hash(7), Kind: KindCancelled, Time: 5000}
	paid := Entry{Hash: hash(8), Source: "shop", Kind: KindPaid, Time: 3000, Payment: "pi", Amount: 100, Currency: "EUR"}
	changes := Changes(Fold(registered, []Entry{cancelled}), Fold(registered, []Entry{cancelled, paid}))
	if len(changes) != 1 || !changes[0].Correction || changes[0].Cause != paid.Hash || changes[0].From.Status != Cancelled || changes[0].To.Status != Paid {
		t.Fatalf("%+v", changes)
	}
}

func TestFoldLeavesItsArgumentsAlone(t *testing.T) {
	reg, set := four()
	slices.Reverse(set)
	wantReg, want := *reg, slices.Clone(set)
	Fold(reg, set)
	if *reg != wantReg || !slices.Equal(set, want) {
		t.Error("the caller's set changed")
	}
}

func TestFoldingInPlaceAllocatesNothingForUsualSets(t *testing.T) {
	reg, set := four()
	var o Outcome
	if n := testing.AllocsPerRun(100, func() { o.Fold(reg, set) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestLargeSetsFoldLikeSmallOnes(t *testing.T) {
	reg := &Registration{Hash: hash(1), Amount: 1000, Currency: "EUR"}
	var set []Entry
	for i := range 100 {
		set = append(set, Entry{Kind: KindRefund, Payment: "pi", Object: string(rune('a' + i)), Amount: 10, Currency: "EUR"})
	}
	set = append(set, set[3], Entry{Kind: KindPaid, Payment: "pi", Amount: 1000, Currency: "EUR"})
	o := Fold(reg, dated(set))
	if o.State.Status != Refunded || len(o.Steps) != 102 || o.Judgements[100].Verdict != NoChange {
		t.Errorf("%+v, %d steps", o.State, len(o.Steps))
	}
	checkOutcome(t, set, &o)
}

func TestNamesAreReadBack(t *testing.T) {
	for s := range Status(statuses) {
		if got, err := ParseStatus(s.String()); err != nil || got != s {
			t.Errorf("%v: %v, %v", s, got, err)
		}
	}
	for k := range Kind(kinds) {
		if got, err := ParseKind(k.String()); err != nil || got != k {
			t.Errorf("%v: %v, %v", k, got, err)
		}
	}
	for r := range Dismissed + 1 {
		if got, err := ParseReason(r.String()); err != nil || got != r {
			t.Errorf("%v: %v, %v", r, got, err)
		}
	}
	if _, err := ParseStatus("Paid"); err == nil {
		t.Error("Paid is read as a status")
	}
	if _, err := Status(99).MarshalText(); err == nil {
		t.Error("status 99 is written")
	}
}

func TestWithinOneSecondTheCauseGoesFirstAndTheSecondDecidesElse(t *testing.T) {
	paid := Entry{Kind: KindPaid, Time: 5500, Payment: "pi", Amount: 100}
	refund := Entry{Kind: KindRefund, Time: 5900, Payment: "pi", Object: "re", Amount: 100}
	for _, c := range []struct {
		name  string
		a, b  Entry
		wants [2]string
		ends  Status
	}{
		{"a failure of that second was before the payment", paid, Entry{Kind: KindFailed, Time: 5900, Payment: "pi"}, [2]string{"applied", "applied"}, Paid},
		{"a failure of the next was after it", paid, Entry{Kind: KindFailed, Time: 6000, Payment: "pi"}, [2]string{"applied", "illegal_transition"}, Paid},
		{"money goes before a cancellation of that second", paid, Entry{Kind: KindCancelled, Time: 5000}, [2]string{"applied", "illegal_transition"}, Paid},
		{"an undated cancellation is the last", paid, Entry{Kind: KindCancelled}, [2]string{"applied", "illegal_transition"}, Paid},
		{"a cancellation of the order before it stands", paid, Entry{Kind: KindCancelled, Time: 4999}, [2]string{"illegal_transition", "applied"}, Cancelled},
		{"a cancellation of another attempt before it does not", paid, Entry{Kind: KindCancelled, Time: 4999, Payment: "px"}, [2]string{"applied", "applied"}, Paid},
		{"nor of the same payment", paid, Entry{Kind: KindCancelled, Time: 4999, Payment: "pi"}, [2]string{"applied", "applied"}, Paid},
		{"a cancellation of another attempt after it says nothing", paid, Entry{Kind: KindCancelled, Time: 9000, Payment: "px"}, [2]string{"applied", "no_change"}, Paid},
		{"one of the same payment is for a person", paid, Entry{Kind: KindCancelled, Time: 9000, Payment: "pi"}, [2]string{"applied", "illegal_transition"}, Paid},
		{"a failed attempt that is called off is", Entry{Kind: KindFailed, Time: 5900, Payment: "pi"}, Entry{Kind: KindCancelled, Time: 5000, Payment: "pi"}, [2]string{"applied", "applied"}, Cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := arrive(t, []Entry{c.a, c.b}, anyPath)
			if o.reason(0) != c.wants[0] || o.reason(1) != c.wants[1] || o.State.Status != c.ends {
				t.Errorf("%v, %v: %s, %s", o.State.Status, c.wants, o.reason(0), o.reason(1))
			}
		})
	}
	t.Run("a single refund goes before the total", func(t *testing.T) {
		total := Entry{Kind: KindRefundTotal, Time: 5500, Payment: "pi", Amount: 100}
		if o := arrive(t, []Entry{paid, refund, total}, anyPath); o.reason(1) != "applied" || o.reason(2) != "no_change" {
			t.Errorf("%s, %s", o.reason(1), o.reason(2))
		}
	})
}

func TestARefundThatBouncedBeforeItWasHeardOfIsNoRefund(t *testing.T) {
	o := arrive(t, []Entry{
		{Kind: KindPaid, Time: 1000, Payment: "pi", Amount: 100},
		{Kind: KindRefundTotal, Time: 2000, Payment: "pi", Amount: 70},
		{Kind: KindRefundFailed, Time: 3000, Payment: "pi", Object: "re_1", Amount: 30},
		{Kind: KindRefund, Time: 9000, Payment: "pi", Object: "re_1", Amount: 60},
	}, anyPath)
	if o.State.Refunded != 40 || o.reason(3) != "no_change" {
		t.Errorf("%+v %v", o.State, o.Judgements)
	}
}

func TestOnePaymentIDOfTwoSourcesIsTwoPayments(t *testing.T) {
	set := dated([]Entry{
		{Kind: KindPaid, Payment: "1001", Amount: 100, Currency: "EUR"},
		{Kind: KindPaid, Payment: "1001", Amount: 100, Currency: "EUR"},
		{Kind: KindRefund, Payment: "1001", Object: "re", Amount: 100, Currency: "EUR"},
	})
	set[1].Source, set[2].Source = "other", "other"
	if o := Fold(registered, set); o.reason(1) != "second_payment" || o.reason(2) != "awaiting_payment" {
		t.Errorf("%v", o.Judgements)
	}
}

// The design's table ended at cancelled. Then a checkout that expired, told late,
// took a published paid back.
func TestO28AnAttemptThatWasCalledOffNeverTakesAPaidOrderBack(t *testing.T) {
	paid := Entry{Kind: KindPaid, Time: 60_000, Payment: "p2", Amount: 100}
	for name, abandoned := range map[string]Entry{
		"before the payment": {Kind: KindCancelled, Time: 1_000, Payment: "p1"},
		"after the payment":  {Kind: KindCancelled, Time: 90_000, Payment: "p1"},
		"undated":            {Kind: KindCancelled, Payment: "p1"},
	} {
		t.Run(name, func(t *testing.T) {
			if o := arrive(t, []Entry{paid, abandoned}, anyPath); o.State.Status != Paid {
				t.Errorf("%v", o.State.Status)
			}
			failed := Entry{Kind: KindFailed, Time: 500, Payment: "p1"}
			if o := arrive(t, []Entry{failed, abandoned, paid}, anyPath); o.State.Status != Paid {
				t.Errorf("with a failure before: %v", o.State.Status)
			}
		})
	}
}

// Which of two payments counts is for a person; the message would be the same.
func TestAnotherPaymentOfTheSameMoneyPublishesNothing(t *testing.T) {
	late := Entry{Hash: hash(300), Source: "shop", Kind: KindPaid, Time: 9_000, Payment: "A", Amount: 100, Currency: "EUR"}
	early := Entry{Hash: hash(301), Source: "shop", Kind: KindPaid, Time: 5_000, Payment: "B", Amount: 100, Currency: "EUR"}
	before, after := Fold(registered, []Entry{late}), Fold(registered, []Entry{late, early})
	if before.State.Payment != "A" || after.State.Payment != "B" {
		t.Fatalf("paid by %q, then by %q; the test wanted A, then B", before.State.Payment, after.State.Payment)
	}
	if changes := Changes(before, after); len(changes) != 0 {
		t.Errorf("%d changes are published, want none: %+v", len(changes), changes)
	}
}

// Where the payment that paid has no name, a cancellation may mean it.
func TestACancellationOfAnOrderPaidByAnUnnamedPaymentIsForAPerson(t *testing.T) {
	set := []Entry{{Kind: KindPaid, Time: 5_000, Amount: 100}, {Kind: KindCancelled, Time: 9_000, Payment: "p1"}}
	if o := arrive(t, set, anyPath); o.State.Status != Paid || o.reason(1) != "illegal_transition" {
		t.Errorf("%v, %s", o.State.Status, o.reason(1))
	}
}

package postgres_test

import (
	"strings"
	"testing"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// answered is a look-up of payment p whose answer stated facts.
func (d desk) answered(now time.Time, facts ...postgres.Fact) {
	d.Helper()
	d.hold(now, hint(now.String(), "p", now))
	var said []postgres.Said
	for _, f := range facts {
		said = append(said, postgres.Said{Event: f.Hash, Kind: f.Kind, Payment: f.Payment, Object: f.Object, Amount: f.Amount, Currency: f.Currency})
	}
	ls := d.claimed(now, "a")
	if len(ls) != 1 {
		d.Fatalf("claimed %+v", ls)
	}
	if _, err := d.AnswerLookup(d.Context(), now, ls[0], said...); err != nil {
		d.Fatal(err)
	}
}

func (d desk) compare(now time.Time) {
	d.Helper()
	if _, err := d.CompareAnswers(d.Context(), now, "psp", 100); err != nil {
		d.Fatal(err)
	}
}

func (d desk) contradictions() []postgres.ReviewSummary {
	d.Helper()
	items, err := d.ListReviewItems(d.Context(), later, postgres.ReviewContradicts, false, 100)
	if err != nil {
		d.Fatal(err)
	}
	return items
}

func TestAnAnswerThatContradictsUsTwiceIsForAPersonAndSettlesItself(t *testing.T) {
	d := newDesk(t)
	paid, failed := fact("e", "o", "p", order.KindPaid, 1000, 5), fact("looked up: failed", "o", "p", order.KindFailed, 1000, 6)
	d.apply(registered("o", 1000), paid)

	d.answered(at, failed)
	d.compare(at.Add(time.Hour)) // the pipeline is slow
	if n := d.number(`SELECT count(*) FROM comparisons`); n != 1 || len(d.contradictions()) != 0 {
		t.Fatalf("%d wait to be compared; items: %+v", n, d.contradictions())
	}
	d.apply(failed)
	d.compare(at.Add(2 * time.Hour))
	if items := d.contradictions(); len(items) != 0 {
		t.Fatalf("before it was asked again: %+v", items)
	}
	now := at.Add(2*time.Hour + 2*time.Minute)
	d.answered(now, failed) // the same look-up, armed by the doubt
	d.compare(now.Add(time.Minute))
	items := d.contradictions()
	if len(items) != 1 || items[0].Order != "o" || items[0].Subject != postgres.LookupSubject("psp", "p") || !strings.Contains(items[0].Detail, "we say paid, the provider says failed") {
		t.Fatalf("%+v", items)
	}
	d.wants("o", order.Paid, "pending paid")

	now = now.Add(time.Hour)
	d.answered(now, paid)
	d.compare(now.Add(time.Minute))
	if items := d.contradictions(); len(items) != 0 {
		t.Errorf("the provider agrees, and open is %+v", items)
	}
	if n := d.number(`SELECT count(*) FROM comparisons`); n != 0 {
		t.Errorf("%d wait to be compared", n)
	}
}

func TestWhatTheProviderConfirmsNeedsNobody(t *testing.T) {
	d := newDesk(t)
	paid, refund := fact("e", "o", "p", order.KindPaid, 1000, 5), fact("r", "o", "p", order.KindRefund, 400, 6)
	d.apply(registered("o", 1000), paid)
	d.answered(at, paid, refund)
	d.apply(refund)
	d.compare(at.Add(time.Hour))
	if n := d.number(`SELECT count(*) FROM comparisons`) + int64(len(d.contradictions())) + d.number(`SELECT count(*) FROM lookups WHERE answered < armed`); n != 0 {
		t.Errorf("%d are open", n)
	}
}

func TestAPaymentThatWeSayIsPaidAndThatTheProviderDoesNotKnowIsForAPerson(t *testing.T) {
	d := newDesk(t)
	d.apply(registered("o", 1000), fact("e", "o", "p", order.KindPaid, 1000, 5))
	d.hold(at, hint("h", "p", at), hint("forged", "q", at))
	for _, l := range d.claimed(at, "a") {
		if err := d.DoubtPayment(t.Context(), at, l); err != nil {
			t.Fatal(err)
		}
	}
	d.compare(at)
	items := d.contradictions()
	if len(items) != 1 || !strings.Contains(items[0].Detail, "knows no such payment") || items[0].Order != "o" {
		t.Fatalf("%+v", items)
	}
	d.wants("o", order.Paid, "pending paid")
}

func TestAPersonHasAContradictionAskedAboutAgain(t *testing.T) {
	d := newDesk(t)
	less := fact("looked up: less", "o", "p", order.KindPaid, 900, 6)
	d.apply(registered("o", 1000), fact("e", "o", "p", order.KindPaid, 1000, 5), less)
	for i := range 2 {
		now := at.Add(time.Duration(i) * time.Hour)
		d.answered(now, less)
		d.compare(now.Add(time.Minute))
	}
	items := d.contradictions()
	if len(items) != 1 || !strings.Contains(items[0].Detail, "we say 10.00 EUR paid, the provider says 9.00 EUR") {
		t.Fatalf("%+v", items)
	}
	d.decideLate(items[0].ID, postgres.Refetch)
	if ls := d.claimed(later.Add(2*time.Hour), "a"); len(ls) != 1 || ls[0].Object != "p" {
		t.Errorf("asked about %+v", ls)
	}
}

func TestWhatWasNeverProcessedIsNeverCompared(t *testing.T) {
	d := newDesk(t)
	d.apply(registered("o", 1000), fact("e", "o", "p", order.KindPaid, 1000, 5))
	d.answered(at, fact("of the other mode", "o", "p", order.KindFailed, 1000, 6))
	for _, in := range []time.Duration{time.Minute, time.Hour, 25 * time.Hour} {
		d.compare(at.Add(in))
	}
	if n := d.number(`SELECT count(*) FROM comparisons`) + int64(len(d.contradictions())); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// A total that comes before its single refunds is what makes the steps, and they
// count all the same; so do single ones that come before their total.
func TestRefundsThatChangedNothingWhenTheyCameAreNoContradiction(t *testing.T) {
	d := newDesk(t)
	refund := func(id, object string, kind order.Kind, amount int64, second int) postgres.Fact {
		f := fact(id, "o", "p", kind, amount, second)
		f.Object = object
		return f
	}
	paid, first, second := fact("e", "o", "p", order.KindPaid, 1000, 5), refund("r1", "re_1", order.KindRefund, 300, 7), refund("r2", "re_2", order.KindRefund, 200, 8)
	d.apply(registered("o", 1000), paid, refund("t1", "", order.KindRefundTotal, 300, 6))
	d.apply(first)
	d.apply(second)
	d.apply(refund("t2", "", order.KindRefundTotal, 500, 9))
	d.answered(at, paid, first, second)
	d.compare(at.Add(time.Hour))
	if n := d.number(`SELECT count(*) FROM lookups WHERE answered < armed`) + int64(len(d.contradictions())); n != 0 {
		t.Errorf("the provider agrees, and %d are open: %+v", n, d.contradictions())
	}
	// One of them bounces.
	bounced := refund("b", "re_1", order.KindRefundFailed, 300, 10)
	d.apply(bounced)
	d.answered(at.Add(2*time.Hour), paid, second, bounced)
	d.compare(at.Add(3 * time.Hour))
	if n := d.number(`SELECT count(*) FROM lookups WHERE answered < armed`) + int64(len(d.contradictions())); n != 0 {
		t.Errorf("the provider agrees on what bounced, and %d are open: %+v", n, d.contradictions())
	}
}

// What a person has dismissed counts for nothing, whatever it was about.
func TestARefundThatAPersonDismissedIsNotCounted(t *testing.T) {
	d := newDesk(t)
	paid, dismissed := fact("e", "o", "p", order.KindPaid, 1000, 5), fact("r1", "o", "p", order.KindRefund, 1300, 6)
	second := fact("r2", "o", "p", order.KindRefund, 200, 7)
	d.apply(registered("o", 1000), paid, dismissed, second)
	d.decide(d.one().ID, postgres.Decision{Action: postgres.Dismiss})
	d.answered(at, paid, second)
	d.compare(at.Add(time.Hour))
	if n := d.number(`SELECT count(*) FROM lookups WHERE answered < armed`) + int64(len(d.contradictions())); n != 0 {
		t.Errorf("%d are open: %+v", n, d.contradictions())
	}
}

package postgres_test

import (
	"errors"
	"testing"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

var terms = postgres.SweepTerms{Source: "psp", Every: 15 * time.Minute, Back: 2 * time.Hour, Kept: 720 * time.Hour, Delay: 5 * time.Minute, Lease: time.Minute}

func (d desk) claimSweep(now time.Time, owner string) *postgres.Sweep {
	d.Helper()
	s, err := d.ClaimSweep(d.Context(), now, owner, terms)
	if err != nil {
		d.Fatal(err)
	}
	return s
}

func (d desk) advanceSweep(now time.Time, s *postgres.Sweep, next string, ask ...postgres.Target) error {
	d.Helper()
	err := d.AdvanceSweep(d.Context(), now, s, next, "psp", ask)
	if err != nil && !errors.Is(err, postgres.ErrSweepOver) {
		d.Fatal(err)
	}
	return err
}

func TestASourceIsSweptByOneAtATimeAndGoneOnWithWhereItWasLeft(t *testing.T) {
	d := newDesk(t)
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	first := d.claimSweep(now, "a")
	if first == nil || !first.Until.Equal(now.Add(-5*time.Minute)) || !first.Since.Equal(now.Add(-125*time.Minute)) || first.Page != "" || first.Lost != 0 {
		t.Fatalf("the first sweep: %+v", first)
	}
	if other := d.claimSweep(now, "b"); other != nil {
		t.Fatalf("claimed by two: %+v", other)
	}
	if err := d.advanceSweep(now.Add(10*time.Second), first, "0:p2", postgres.Target{Object: "pay_1", Payment: "pay_1"}); err != nil {
		t.Fatal(err)
	}
	if l := d.claimed(now.Add(11*time.Second), "a"); len(l) != 1 || l[0].Payment != "pay_1" {
		t.Errorf("nobody asks about what was missing: %+v", l)
	}
	// It dies. Its lease counts from its last page.
	if early := d.claimSweep(now.Add(65*time.Second), "b"); early != nil {
		t.Fatalf("claimed within its lease: %+v", early)
	}
	second := d.claimSweep(now.Add(71*time.Second), "b")
	if second == nil || second.Page != "0:p2" || !second.Until.Equal(first.Until) || !second.Since.Equal(first.Since) {
		t.Fatalf("it does not go on where it was left: %+v", second)
	}
	if err := d.advanceSweep(now.Add(72*time.Second), first, "0:p3", postgres.Target{Object: "pay_2", Payment: "pay_2"}); !errors.Is(err, postgres.ErrSweepOver) {
		t.Fatalf("who had it before goes on: %v", err)
	}
	if l := d.claimed(now.Add(60*time.Second), "a"); len(l) != 0 {
		t.Errorf("and has something asked about: %+v", l)
	}
	if err := d.advanceSweep(now.Add(75*time.Second), second, ""); err != nil {
		t.Fatal(err)
	}
	if again := d.claimSweep(now.Add(10*time.Minute), "a"); again != nil {
		t.Fatalf("swept again before it is due: %+v", again)
	}
	// After an outage of two days the whole of it is swept.
	late := d.claimSweep(now.Add(48*time.Hour), "a")
	if late == nil || !late.Since.Equal(first.Until.Add(-2*time.Hour)) || !late.Until.Equal(now.Add(48*time.Hour-5*time.Minute)) {
		t.Fatalf("after an outage: %+v", late)
	}
	if err := d.ReturnSweep(t.Context(), late, now.Add(49*time.Hour), true); err != nil {
		t.Fatal(err)
	}
	if early := d.claimSweep(now.Add(48*time.Hour+30*time.Minute), "b"); early != nil {
		t.Fatalf("given back until a time, claimed before: %+v", early)
	}
	if s := d.claimSweep(now.Add(50*time.Hour), "b"); s == nil || !s.Since.Equal(late.Since) || !s.Until.Equal(late.Until) {
		t.Fatalf("given back, and then: %+v", s)
	}
}

func TestWhatTheProviderListsNoMoreIsSaid(t *testing.T) {
	d := newDesk(t)
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	s := d.claimSweep(now, "a")
	if err := d.advanceSweep(now, s, ""); err != nil {
		t.Fatal(err)
	}
	s = d.claimSweep(now.Add(31*24*time.Hour), "a")
	if want := 24*time.Hour + 125*time.Minute; s == nil || s.Lost != want || !s.Since.Equal(now.Add(24*time.Hour)) {
		t.Fatalf("%+v, want %s lost", s, want)
	}
}

// O36: reconciliation picks up the period of what is gone.
func TestAGapHasEverySourceSweptAgainFromThereOn(t *testing.T) {
	d := newDesk(t)
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	if err := d.advanceSweep(now, d.claimSweep(now, "a"), ""); err != nil {
		t.Fatal(err)
	}
	running := d.claimSweep(now.Add(time.Hour), "a")
	gone := now.Add(-50 * time.Hour)
	var since time.Time
	err := d.InTx(t.Context(), func(tx postgres.Tx) (err error) {
		books := postgres.Books{}
		books.Add(gone, "psp", order.Applied, 1)
		if err := tx.AddToBooks(t.Context(), [16]byte{7}, 3, books); err != nil {
			return err
		}
		since, err = tx.SweepGap(t.Context(), now.Add(time.Hour), [16]byte{7}, 3)
		return err
	})
	if err != nil || !since.Equal(gone.Truncate(time.Hour)) {
		t.Fatalf("since %s, %v", since, err)
	}
	if err := d.advanceSweep(now.Add(time.Hour), running, ""); !errors.Is(err, postgres.ErrSweepOver) {
		t.Errorf("the sweep that was under way hides the gap: %v", err)
	}
	s := d.claimSweep(now.Add(time.Hour+time.Second), "b")
	if s == nil || !s.Since.Equal(since.Add(-2*time.Hour)) {
		t.Fatalf("not swept again from the gap on: %+v", s)
	}
}

// An event came in wherever it lies: what a sweep would write again is in none of these.
func TestAnEventThatCameInIsKnownWhereverItLies(t *testing.T) {
	d := newDesk(t)
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	key := func(name string) (k postgres.EventKey) {
		copy(k.Key[6:], name) // undated
		copy(k.Hash[:], name)
		k.ID = name
		return k
	}
	d.hold(now, hint("waits", "pay_hint", now))
	err := d.InTx(t.Context(), func(tx postgres.Tx) error {
		if _, err := tx.TakeProcessedEvents(t.Context(), []postgres.Seen{{Key: key("taken").Key, Fingerprint: 1}}, false); err != nil {
			return err
		}
		if _, err := tx.AddDeadLetter(t.Context(), postgres.DeadLetter{Topic: "raw", Endpoint: "psp", Reason: "body", Key: []byte("dead"), AppendedAt: now}); err != nil {
			return err
		}
		_, err := tx.Apply(t.Context(), now, []postgres.Fact{{OrderID: "o-1", EventID: "set", EventType: "paid", Endpoint: "psp", AppendedAt: now,
			Entry: order.Entry{Hash: key("set").Hash, Source: "psp", Kind: order.KindPaid, Time: now.UnixMilli(), Payment: "pay_1", Amount: 1000, Currency: "EUR"}}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	told, err := d.Told(t.Context(), postgres.Question{Source: "psp", Payments: []string{"pay_1", "pay_2"}, Objects: []string{"pay_hint", "pay_2"},
		Events: []postgres.EventKey{key("taken"), key("waits"), key("dead"), key("set"), key("never")}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"taken": true, "waits": true, "dead": true, "set": true, "never": false} {
		if told.Events[key(name).Hash] != want {
			t.Errorf("%s came in: %t", name, !want)
		}
	}
	if !told.Asked["pay_hint"] || told.Asked["pay_2"] || len(told.Facts) != 1 || told.Facts[0].OrderID != "o-1" || told.Facts[0].Amount != 1000 {
		t.Errorf("asked %v, facts %+v", told.Asked, told.Facts)
	}
	if other, err := d.Told(t.Context(), postgres.Question{Source: "nobody", Payments: []string{"pay_1"}, Orders: []string{"o-1"}}); err != nil || len(other.Facts) != 0 {
		t.Errorf("another source: %+v, %v", other, err)
	}
	payments, err := d.PaymentsOfSpan(t.Context(), "psp", now.Add(-time.Hour), now.Add(time.Hour))
	if err != nil || len(payments) != 1 || payments[0] != "pay_1" {
		t.Errorf("%v, %v", payments, err)
	}
	if payments, err = d.PaymentsOfSpan(t.Context(), "psp", now.Add(time.Hour), now.Add(2*time.Hour)); err != nil || len(payments) != 0 {
		t.Errorf("%v, %v", payments, err)
	}
}

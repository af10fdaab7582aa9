package postgres_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/pkg/event"
	"sluice/pkg/postgres"
)

// dead keeps n dead letters, of partition 0 from offset 0 on.
func (d desk) dead(n int) []postgres.DeadLetterSummary {
	d.Helper()
	err := d.InTx(d.Context(), func(tx postgres.Tx) error {
		for i := range n {
			_, err := tx.AddDeadLetter(d.Context(), postgres.DeadLetter{TopicID: [16]byte{1}, Topic: "raw", Offset: int64(i), Endpoint: "stripe-eu",
				Reason: "body", Detail: "is not JSON", Key: []byte("evt"), Headers: []event.Header{{Name: "h", Value: []byte{0, 255}}}, Body: []byte("{"), AppendedAt: at})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		d.Fatal(err)
	}
	return d.letters(postgres.DeadLetterFilter{})
}

func (d desk) letters(f postgres.DeadLetterFilter) []postgres.DeadLetterSummary {
	d.Helper()
	f.Limit = 1000
	letters, err := d.ListDeadLetters(d.Context(), later, f)
	if err != nil {
		d.Fatal(err)
	}
	return letters
}

// oneTruth is a query for how many letters differ from their review items.
const oneTruth = `SELECT count(*) FROM dead_letters l FULL JOIN review_items i ON i.subject = l.topic || '/' || l.partition || '/' || l.record_offset
	WHERE l.settled_at IS DISTINCT FROM i.settled_at OR l.settled_by IS DISTINCT FROM i.settled_by
	   OR (l.settled_as, i.decision) NOT IN (('sent_again', 'send_again'), ('discarded', 'dismiss'))`

func TestALetterThatIsSentAgainIsSettledOnceKafkaHasIt(t *testing.T) {
	d := newDesk(t)
	letters := d.dead(3)
	broken := errors.New("no acknowledgement")
	sent, others, err := d.SendDeadLettersAgain(t.Context(), later, "anna", "the reader is mended", letters, func(taken []postgres.DeadLetter) []error {
		if n := d.number(`SELECT count(*) FROM dead_letters WHERE settled_at IS NOT NULL`); n != 0 {
			t.Errorf("%d letters are settled before Kafka has them", n)
		}
		want := postgres.DeadLetter{TopicID: [16]byte{1}, Topic: "raw", Reason: "body", Detail: "is not JSON", Key: []byte("evt"),
			Headers: []event.Header{{Name: "h", Value: []byte{0, 255}}}, Body: []byte("{"), AppendedAt: taken[0].AppendedAt}
		if diff := cmp.Diff(want, taken[0]); diff != "" || len(taken) != 3 {
			t.Errorf("%d letters, the first:\n%s", len(taken), diff)
		}
		return []error{nil, broken, nil}
	})
	if err != nil || len(sent) != 2 || len(others) != 1 || !errors.Is(others["raw/0/1"], broken) {
		t.Fatalf("sent %v, others %v, %v", sent, others, err)
	}
	open := d.letters(postgres.DeadLetterFilter{})
	if len(open) != 1 || open[0].Letter != "raw/0/1" || open[0].ClaimedBy != "anna" {
		t.Errorf("open: %+v", open)
	}
	settled := d.letters(postgres.DeadLetterFilter{Settled: true})
	if len(settled) != 2 || settled[0].SettledAs != postgres.WasSentAgain || settled[0].SettledBy != "anna" {
		t.Errorf("settled: %+v", settled)
	}
	if n := d.number(`SELECT count(*) FROM audit_log WHERE who = 'anna' AND reason = 'the reader is mended' AND action = 'dead_letter.send_again'`); n != 2 {
		t.Errorf("%d lines of the audit log", n)
	}
	// The rest, and what is settled is not sent twice.
	sent, others, err = d.SendDeadLettersAgain(t.Context(), later, "anna", "again", letters, func(taken []postgres.DeadLetter) []error { return make([]error, len(taken)) })
	if err != nil || len(sent) != 1 || len(others) != 2 || !errors.Is(others["raw/0/0"], postgres.ErrSettled) {
		t.Errorf("sent %v, others %v, %v", sent, others, err)
	}
	if n := d.number(oneTruth); n != 0 {
		t.Errorf("%d letters and review items differ", n)
	}
	if _, _, err := d.SendDeadLettersAgain(t.Context(), later, "anna", " ", letters, nil); !errors.Is(err, postgres.ErrDecision) {
		t.Errorf("without a reason: %v", err)
	}
}

func TestWhatIsWithheldIsNobodysUnlessItWasSomebodysBefore(t *testing.T) {
	d := newDesk(t)
	letters := d.dead(2)
	if err := d.ClaimReviewItem(t.Context(), later, letters[1].Item, "anna"); err != nil {
		t.Fatal(err)
	}
	withhold := func(taken []postgres.DeadLetter) []error {
		failed := make([]error, len(taken))
		for i := range failed {
			failed[i] = fmt.Errorf("%w: it would die again", postgres.ErrWithheld)
		}
		return failed
	}
	sent, others, err := d.SendDeadLettersAgain(t.Context(), later, "anna", "try", d.letters(postgres.DeadLetterFilter{}), withhold)
	if err != nil || len(sent) != 0 || len(others) != 2 {
		t.Fatalf("sent %v, others %v, %v", sent, others, err)
	}
	if left := d.letters(postgres.DeadLetterFilter{}); len(left) != 2 || left[0].ClaimedBy != "" || left[1].ClaimedBy != "anna" {
		t.Errorf("left: %+v", left)
	}
}

func TestADismissedItemAndADiscardedLetterAreTheSame(t *testing.T) {
	d := newDesk(t)
	letters := d.dead(2)
	d.decide(letters[0].Item, postgres.Decision{Action: postgres.Dismiss})
	if err := d.DiscardDeadLetter(t.Context(), later, "bo", "a test of ours", letters[1]); err != nil {
		t.Fatal(err)
	}
	for _, l := range d.letters(postgres.DeadLetterFilter{All: true}) {
		if l.SettledAs != postgres.WasDiscarded || l.SettledAt == nil || l.SettledBy == "" {
			t.Errorf("letter %+v", l)
		}
	}
	if n := d.number(oneTruth); n != 0 {
		t.Errorf("%d letters and review items differ", n)
	}
	if err := d.DiscardDeadLetter(t.Context(), later, "bo", "again", letters[0]); !errors.Is(err, postgres.ErrSettled) {
		t.Errorf("discarded again: %v", err)
	}
}

// Many people, several of them in two terminals, send and discard the same letters.
func TestOfManyPeopleOneActsOnALetter(t *testing.T) {
	d := newDesk(t)
	letters := d.dead(20)
	var all sync.WaitGroup
	var sent [20]atomic.Int32
	for n := range 12 {
		all.Go(func() {
			who := fmt.Sprint("person ", n/2)
			if n%3 == 0 {
				for _, l := range letters {
					if err := d.DiscardDeadLetter(t.Context(), later, who, "why not", l); err != nil &&
						!errors.Is(err, postgres.ErrSettled) && !errors.Is(err, postgres.ErrClaimed) && !errors.Is(err, postgres.ErrNotClaimed) {
						t.Error(err)
					}
				}
				return
			}
			for i := 0; i < len(letters); i += 5 {
				_, _, err := d.SendDeadLettersAgain(t.Context(), later, who, "why not", letters[i:i+5], func(taken []postgres.DeadLetter) []error {
					for _, l := range taken {
						sent[l.Offset].Add(1)
					}
					return make([]error, len(taken))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, l := range d.letters(postgres.DeadLetterFilter{All: true}) {
		want := int32(0)
		if l.SettledAs == postgres.WasSentAgain {
			want = 1
		}
		if got := sent[l.Offset].Load(); got != want || l.SettledAt == nil {
			t.Errorf("letter %s is settled as %q and was sent %d times", l.Letter, l.SettledAs, got)
		}
	}
	if n := d.number(oneTruth); n != 0 {
		t.Errorf("%d letters and review items differ", n)
	}
	if n := d.number(`SELECT count(*) FROM audit_log`); n != 20 {
		t.Errorf("%d lines of the audit log for 20 letters", n)
	}
}

func TestLettersAreFoundByWhereTheyCameFromAndWhyTheyDied(t *testing.T) {
	d := newDesk(t)
	d.dead(3)
	page := d.letters(postgres.DeadLetterFilter{Endpoint: "stripe-eu", Reason: "body", Since: at.AddDate(-1, 0, 0)})
	if len(page) != 3 || page[0].Size != 1 || string(page[0].Key) != "evt" {
		t.Fatalf("found %+v", page)
	}
	if rest := d.letters(postgres.DeadLetterFilter{After: &page[1]}); len(rest) != 1 || rest[0].Letter != "raw/0/2" {
		t.Errorf("behind the second: %+v", rest)
	}
	for _, f := range []postgres.DeadLetterFilter{{Endpoint: "nobody"}, {Reason: "headers"}, {Settled: true}, {Since: later.AddDate(10, 0, 0)}} {
		if found := d.letters(f); len(found) != 0 {
			t.Errorf("%+v found %+v", f, found)
		}
	}
	counts, err := d.CountDeadLetters(t.Context(), postgres.DeadLetterFilter{})
	if err != nil || len(counts) != 1 || counts[0].Open != 3 || counts[0].Oldest == nil {
		t.Errorf("counted %+v, %v", counts, err)
	}
	for text, want := range map[string]string{"0/2": "raw/0/2", "raw/0/2": "raw/0/2", "other/0/2": "", "0/7": ""} {
		ref, err := postgres.ParseDeadLetterRef(text)
		if err != nil {
			t.Fatal(err)
		}
		c, err := d.DeadLetterCase(t.Context(), later, ref)
		if c.Letter != want || (want == "") != errors.Is(err, postgres.ErrNoDeadLetter) {
			t.Errorf("%s is %q, %v", text, c.Letter, err)
		}
	}
	for _, bad := range []string{"", "7", "a/b", "/0/1", "0/-1", "0/1/x", "raw//1"} {
		if ref, err := postgres.ParseDeadLetterRef(bad); err == nil {
			t.Errorf("%q was read as %v", bad, ref)
		}
	}
}

package postgres_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

func ledger(t testing.TB) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), testkit.Database(t), 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// seenAt are n events from a time on, a millisecond apart, in no order.
func seenAt(from time.Time, n int) []postgres.Seen {
	random := rand.New(rand.NewPCG(3, uint64(from.UnixMilli())))
	events := make([]postgres.Seen, n)
	for i := range events {
		var head [8]byte
		binary.BigEndian.PutUint64(head[:], uint64(from.UnixMilli()+int64(i))<<16)
		k := &events[i].Key
		copy(k[:6], head[:6])
		binary.BigEndian.PutUint64(k[8:], random.Uint64())
		events[i].Fingerprint = random.Int64()
	}
	random.Shuffle(n, func(i, j int) { events[i], events[j] = events[j], events[i] })
	return events
}

func enter(t testing.TB, s *postgres.Store, events []postgres.Seen) {
	t.Helper()
	for part := range slices.Chunk(events, 10_000) {
		err := s.InTx(t.Context(), func(tx postgres.Tx) error {
			_, err := tx.TakeProcessedEvents(t.Context(), part, false)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestOnlyWhatWasNeverEnteredOrWithAnotherBodyIsUnknown(t *testing.T) {
	s := ledger(t)
	at := time.Now().Add(-time.Hour)
	known := append(seenAt(at, 300), seenAt(at.Add(-20*24*time.Hour), 300)...)
	for i := range known[:20] {
		clear(known[i].Key[:6]) // undated
	}
	enter(t, s, known)
	asked := append(slices.Clone(known), known[5], known[400]) // some twice
	var want []int
	for _, i := range []int{0, 7, 150, 310, 599, 600} {
		want = append(want, i)
		if i%2 == 0 {
			asked[i].Fingerprint++
		} else {
			asked[i].Key[15]++
		}
	}
	got, err := s.UnknownEvents(t.Context(), asked)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v are unknown, %v; want %v", got, err, want)
	}
	nobody := seenAt(at.Add(-3*time.Hour), 3)
	if got, err := s.UnknownEvents(t.Context(), nobody); err != nil || !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("of three that nobody entered %v are unknown, %v", got, err)
	}
	outside := seenAt(at.AddDate(-2, 0, 0), 2) // no table partition has a place for them
	if got, err := s.UnknownEvents(t.Context(), outside); err != nil || len(got) != 2 {
		t.Errorf("of two that are older than the window %v are unknown, %v", got, err)
	}
	if got, err := s.UnknownEvents(t.Context(), nil); err != nil || got != nil {
		t.Errorf("of nothing %v is unknown, %v", got, err)
	}
}

// BenchmarkUnknownEvents looks up what is known, by the key: one operation is one key.
func BenchmarkUnknownEvents(b *testing.B) {
	s := ledger(b)
	events := seenAt(time.Now().Add(-time.Hour), 300_000)
	enter(b, s, events)
	slices.SortFunc(events, func(a, b postgres.Seen) int { return slices.Compare(a.Key[:], b.Key[:]) })
	for name, every := range map[string]int{"each": 1, "every second": 2, "every sixth": 6} {
		var some []postgres.Seen
		for i := 0; i < len(events); i += every {
			some = append(some, events[i])
		}
		b.Run(name, func(b *testing.B) {
			for done := 0; done < b.N; {
				for part := range slices.Chunk(some, 4000) {
					unknown, err := s.UnknownEvents(b.Context(), part)
					if err != nil || len(unknown) > 0 {
						b.Fatal(len(unknown), err)
					}
					if done += len(part); done >= b.N {
						break
					}
				}
			}
		})
	}
}

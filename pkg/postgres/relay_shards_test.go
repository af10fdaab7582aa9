package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

const ttl = time.Minute

func claim(t *testing.T, s *postgres.Store, owner string, ttl time.Duration) postgres.RelayLease {
	t.Helper()
	lease, err := s.ClaimRelayShards(t.Context(), owner, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func TestOneRelayOwnsEveryShardAndTwoShareThem(t *testing.T) {
	s := testkit.Store(t)
	if got := claim(t, s, "a", ttl); len(got.Shards) != postgres.Shards || got.Excess != 0 {
		t.Fatalf("alone: %d shards, %d too many", len(got.Shards), got.Excess)
	}
	if got := claim(t, s, "b", ttl); len(got.Shards) != 0 {
		t.Fatalf("b took %d shards under a's lease", len(got.Shards))
	}
	a := claim(t, s, "a", ttl)
	if a.Excess != postgres.Shards/2 {
		t.Fatalf("a is told to give back %d shards, want %d", a.Excess, postgres.Shards/2)
	}
	var release []int16
	for _, sh := range a.Shards[:a.Excess] {
		release = append(release, sh.Shard)
	}
	if err := s.ReleaseRelayShards(t.Context(), "a", release); err != nil {
		t.Fatal(err)
	}
	if got := claim(t, s, "b", ttl); len(got.Shards) != postgres.Shards/2 {
		t.Fatalf("b has %d shards, want half", len(got.Shards))
	}
	if err := s.RetireRelay(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if got := claim(t, s, "b", ttl); len(got.Shards) != postgres.Shards {
		t.Fatalf("after a retired b has %d shards", len(got.Shards))
	}
}

// O41: a resumed relay does not overwrite what the new owner did.
func TestAShardThatWasTakenOverIgnoresItsOldOwner(t *testing.T) {
	s, ctx := testkit.Store(t), t.Context()
	old := claim(t, s, "frozen", 0) // its lease has run out at once
	fresh := claim(t, s, "next", ttl)
	if len(fresh.Shards) != postgres.Shards {
		t.Fatalf("next has %d shards; a relay whose lease ended counts as dead", len(fresh.Shards))
	}
	move := func(owner string, sh postgres.RelayShard, cursor int64) int {
		sh.Cursor = cursor
		n, err := s.MoveCursors(ctx, owner, []postgres.RelayShard{sh}, ttl)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := move("next", fresh.Shards[0], 20); n != 1 {
		t.Fatalf("the owner moved %d cursors", n)
	}
	if n := move("frozen", old.Shards[0], 10); n != 0 {
		t.Fatal("the old owner moved a cursor")
	}
	// Nor after it owns the shard again: what it read before belongs to its old epoch.
	stale := fresh.Shards[0]
	if err := s.RetireRelay(ctx, "next"); err != nil {
		t.Fatal(err)
	}
	if again := claim(t, s, "next", ttl); again.Shards[0].Cursor != 20 || again.Shards[0].Epoch <= stale.Epoch {
		t.Fatalf("claimed again: %+v, want cursor 20 and an epoch above %d", again.Shards[0], stale.Epoch)
	}
	if n := move("next", stale, 15); n != 0 {
		t.Fatal("a batch of an earlier epoch moved a cursor")
	}
}

func TestClaimsThatRaceNeverShareAShard(t *testing.T) {
	s := testkit.Store(t)
	const relays = 8
	got := make(chan postgres.RelayLease, relays)
	for i := range relays {
		go func() {
			lease, err := s.ClaimRelayShards(context.WithoutCancel(t.Context()), fmt.Sprint("relay-", i), ttl)
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
	}
	owner := map[int16]bool{}
	for range relays {
		for _, sh := range (<-got).Shards {
			if owner[sh.Shard] {
				t.Errorf("shard %d has two owners", sh.Shard)
			}
			owner[sh.Shard] = true
		}
	}
}

func TestListenersAreWokenAfterACommit(t *testing.T) {
	s := testkit.Store(t)
	ctx, cancel := context.WithCancel(t.Context())
	woken := make(chan struct{}, 8)
	ended := make(chan error, 1)
	go func() { ended <- s.ListenTransitions(ctx, func() { woken <- struct{}{} }) }()
	<-woken // listens
	if err := s.WakeRelays(ctx); err != nil {
		t.Fatal(err)
	}
	<-woken
	cancel()
	if err := <-ended; err == nil {
		t.Fatal("listening ended without saying why")
	}
}

// O32: once for each message, however often it is tried.
func TestAMessagePutAsideTwiceIsOneReviewItem(t *testing.T) {
	db := newTransitions(t)
	tr := postgres.Transition{ID: 1, OrderNo: 7, OrderID: "o-7", Version: 3}
	for range 2 {
		if err := db.store.PutAside(t.Context(), tr, "MESSAGE_TOO_LARGE"); err != nil {
			t.Fatal(err)
		}
	}
	var n int
	if err := db.pool.QueryRow(t.Context(),
		`SELECT count(*) FROM review_items WHERE kind = 'message_refused' AND subject = 'o-7/3'`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n != 1 {
		t.Fatalf("%d review items, want 1", n)
	}
}

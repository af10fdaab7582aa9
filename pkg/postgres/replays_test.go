package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

var replayTopic = [16]byte{7}

type replays struct {
	*postgres.Store
	t      *testing.T
	url    string
	claims []postgres.Claim
}

// newReplays has partitions 0 and 1, owned by "w" and applied up to 9.
func newReplays(t *testing.T) *replays {
	cfg := testkit.Database(t)
	s, err := postgres.Open(t.Context(), cfg, 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	r := &replays{Store: s, t: t, url: cfg.URL}
	for p := range int32(2) {
		r.claims = append(r.claims, r.claim(p, "w"))
	}
	r.ok(s.InTx(t.Context(), func(tx postgres.Tx) error {
		_, err := tx.Advance(t.Context(), r.claims, []int64{9, 9})
		return err
	}))
	return r
}

func (r *replays) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *replays) is(err, want error) {
	r.t.Helper()
	if !errors.Is(err, want) {
		r.t.Fatalf("got %v, want %v", err, want)
	}
}

func (r *replays) claim(p int32, owner string) postgres.Claim {
	r.t.Helper()
	c, _, err := r.ClaimPartition(r.t.Context(), replayTopic, "raw", p, owner)
	r.ok(err)
	return c
}

func (r *replays) ask(targets ...postgres.ReplayTarget) (int64, error) {
	return r.BeginReplay(r.t.Context(), postgres.NewReplay{TopicID: replayTopic, Topic: "raw", Who: "ana", Reason: "a bug", Plan: map[string]int{"records": 10}, Partitions: targets})
}

func (r *replays) begin(targets ...postgres.ReplayTarget) int64 {
	r.t.Helper()
	id, err := r.ask(targets...)
	r.ok(err)
	return id
}

func (r *replays) read(id int64) *postgres.Replay {
	r.t.Helper()
	got, err := r.Replay(r.t.Context(), id)
	r.ok(err)
	return got
}

func (r *replays) open() *postgres.Replay {
	r.t.Helper()
	got, err := r.OpenReplay(r.t.Context(), replayTopic)
	r.ok(err)
	return got
}

func (r *replays) take(id int64, c postgres.Claim, from, until int64) {
	r.t.Helper()
	gotFrom, gotUntil, err := r.TakeReplay(r.t.Context(), id, c)
	r.ok(err)
	if gotFrom != from || gotUntil != until {
		r.t.Fatalf("took [%d, %d), want [%d, %d)", gotFrom, gotUntil, from, until)
	}
}

// sql changes what only time changes.
func (r *replays) sql(statement string) string {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.url)
	r.ok(err)
	defer func() { _ = conn.Close(r.t.Context()) }()
	var got *string
	r.ok(conn.QueryRow(r.t.Context(), statement).Scan(&got))
	if got == nil {
		return ""
	}
	return *got
}

// lapse ends every pause.
func (r *replays) lapse() {
	r.t.Helper()
	r.sql(`UPDATE replays SET pause_until = clock_timestamp() RETURNING id::text`)
}

func target(p int32, from int64) postgres.ReplayTarget {
	return postgres.ReplayTarget{Partition: p, From: from}
}

func TestAReplayIsPausedStartedTakenAndEnded(t *testing.T) {
	r := newReplays(t)
	ctx := t.Context()
	if r.open() != nil {
		t.Fatal("a replay is open that nobody asked for")
	}
	id := r.begin(target(0, 3), target(1, 0))
	if got := r.open(); got == nil || !got.Paused || got.State != postgres.ReplayPausing || got.Who != "ana" || len(got.Partitions) != 2 {
		t.Fatalf("open is %+v", got)
	}
	_, _, err := r.TakeReplay(ctx, id, r.claims[0])
	r.is(err, postgres.ErrReplayOver)
	r.ok(r.ReportPaused(ctx, id, r.claims[0], "w"))
	if got := r.open(); got.Partitions[0].PausedBy != "w" || got.Partitions[1].PausedBy != "" {
		t.Fatalf("reported: %+v", got.Partitions)
	}
	r.ok(r.ExtendPause(ctx, id))
	r.ok(r.StartReplay(ctx, id))
	r.is(r.StartReplay(ctx, id), postgres.ErrReplayOver)
	r.is(r.AbandonReplay(ctx, id), postgres.ErrReplayOver)
	r.is(r.ExtendPause(ctx, id), postgres.ErrReplayOver)
	r.is(r.ReportPaused(ctx, id, r.claims[1], "w"), postgres.ErrReplayOver)

	r.take(id, r.claims[0], 3, 10)
	r.ok(r.InTx(ctx, func(tx postgres.Tx) error { // live traffic goes on
		_, err := tx.Advance(ctx, r.claims[:1], []int64{20})
		return err
	}))
	r.take(id, r.claims[0], 3, 10)
	r.ok(r.InTx(ctx, func(tx postgres.Tx) error {
		return tx.CountReplay(ctx, id, 0, postgres.ReplayCounts{Applied: 2, Changes: 3})
	}))
	r.ok(r.EndReplay(ctx, id, 0))
	r.ok(r.EndReplay(ctx, id, 0))
	r.ok(r.EndReplay(ctx, id, 1)) // nobody took it
	if got := r.open(); got == nil || got.State != postgres.ReplayRunning || got.Paused {
		t.Fatalf("one of two partitions is through, and open is %+v", got)
	}
	r.take(id, r.claims[1], 0, 10)
	r.ok(r.EndReplay(ctx, id, 1))
	if r.open() != nil {
		t.Fatal("still open")
	}
	got := r.read(id)
	if got.State != postgres.ReplayDone || !got.Ended() || got.Partitions[0].Counts != (postgres.ReplayCounts{Applied: 2, Changes: 3}) {
		t.Fatalf("ended as %+v", got)
	}
	if audit := r.sql(`SELECT string_agg(who||'|'||action||'|'||subject||'|'||reason||'|'||after, ';') FROM audit_log`); audit != fmt.Sprintf(`ana|replay.start|replay %d of raw|a bug|{"records":10}`, id) {
		t.Fatalf("audit log: %s", audit)
	}
	if all, err := r.Replays(ctx, replayTopic, 5); err != nil || len(all) != 1 || all[0].ID != id {
		t.Fatalf("list is %v, %v", all, err)
	}
}

func TestAPauseThatNobodyRenewsEndsTheReplayBeforeItBegan(t *testing.T) {
	r := newReplays(t)
	ctx := t.Context()
	id := r.begin(target(0, 0))
	r.lapse()
	r.is(r.ExtendPause(ctx, id), postgres.ErrReplayOver)
	r.is(r.StartReplay(ctx, id), postgres.ErrReplayOver)
	if r.open() != nil || r.read(id).State != postgres.ReplayAbandoned {
		t.Fatalf("a replay whose pause ran out is %+v", r.read(id))
	}
	next := r.begin(target(0, 0))
	r.lapse()
	if last := r.begin(target(0, 0)); r.read(next).State != postgres.ReplayAbandoned || r.open().ID != last {
		t.Fatal("a replay whose pause ran out stands in the way of the next")
	}
	if n := r.sql(`SELECT count(*)::text FROM audit_log`); n != "0" {
		t.Fatalf("%s audit rows of replays that never began", n)
	}
}

func TestOfTwoReplaysOfATopicOneIsOpen(t *testing.T) {
	r := newReplays(t)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { _, errs[i] = r.ask(target(0, 0)) })
	}
	wg.Wait()
	open := 0
	for _, err := range errs {
		if err == nil {
			open++
		} else if !errors.Is(err, postgres.ErrReplayOpen) {
			t.Fatal(err)
		}
	}
	if open != 1 {
		t.Fatalf("%d replays are open", open)
	}
	r.ok(r.AbandonReplay(t.Context(), r.open().ID))
	r.begin(target(0, 0))
}

func TestAnOldOwnerNeitherReportsNorTakes(t *testing.T) {
	r := newReplays(t)
	ctx := t.Context()
	id := r.begin(target(0, 2))
	fresh := r.claim(0, "next")
	r.is(r.ReportPaused(ctx, id, r.claims[0], "w"), postgres.ErrFenced)
	r.ok(r.ReportPaused(ctx, id, r.claims[1], "w")) // partition 1 has no part in it
	r.ok(r.ReportPaused(ctx, id, fresh, "next"))
	r.ok(r.StartReplay(ctx, id))
	_, _, err := r.TakeReplay(ctx, id, r.claims[0])
	r.is(err, postgres.ErrFenced)
	_, _, err = r.TakeReplay(ctx, id, r.claims[1])
	r.is(err, postgres.ErrReplayOver)
	r.take(id, fresh, 2, 10)
	r.take(id, r.claim(0, "third"), 2, 10)
}

func TestARunningReplayCanBeStopped(t *testing.T) {
	r := newReplays(t)
	ctx := t.Context()
	id := r.begin(target(0, 2))
	r.is(r.StopReplay(ctx, id, "bo", "wrong day"), postgres.ErrReplayOver)
	r.ok(r.StartReplay(ctx, id))
	r.take(id, r.claims[0], 2, 10)
	r.ok(r.StopReplay(ctx, id, "bo", "wrong day"))
	if got := r.read(id); got.State != postgres.ReplayAbandoned || !got.Ended() || r.open() != nil || got.StoppedBy != "bo" || got.StopReason != "wrong day" {
		t.Fatalf("stopped: %+v", got)
	}
	r.ok(r.EndReplay(ctx, id, 0)) // the lane's owner may say so late
	if got := r.read(id); got.State != postgres.ReplayAbandoned {
		t.Fatalf("a stopped replay became %s", got.State)
	}
	if who := r.sql(`SELECT string_agg(who, ',' ORDER BY id) FROM audit_log`); who != "ana,bo" {
		t.Fatalf("audit log names %s", who)
	}
}

func TestSkippedOffsetsCountAsAppliedAndAreWrittenOff(t *testing.T) {
	r := newReplays(t)
	ctx := t.Context()
	id := r.begin(postgres.ReplayTarget{Partition: 0, From: 15, Skip: true}, target(1, 12))
	r.ok(r.StartReplay(ctx, id))
	r.take(id, r.claims[0], 15, 15)
	r.take(id, r.claims[1], 12, 10) // ahead without a word of skipping: nothing moves
	if got := r.read(id); got.State != postgres.ReplayDone {
		t.Fatalf("nothing is left to read, and it is %s", got.State)
	}
	ledger, err := r.Ledger(ctx)
	r.ok(err)
	if a := ledger.Applied[replayTopic]; a[0] != 14 || a[1] != 9 {
		t.Fatalf("applied is %v", a)
	}
	if want := (postgres.LedgerGap{Topic: "raw", Partition: 0, From: 10, To: 14, Settled: true}); len(ledger.Gaps) != 1 || ledger.Gaps[0] != want {
		t.Fatalf("gaps are %+v", ledger.Gaps)
	}
	if by := r.sql(`SELECT settled_by || ' ' || decision FROM review_items`); by != "ana skip" {
		t.Fatalf("settled by %s", by)
	}
}

func TestAReplayWithoutProcessorsIsTakenForWhoeverComes(t *testing.T) {
	r := newReplays(t)
	ctx := t.Context()
	id := r.begin(target(0, 4), target(1, 5), target(2, 0)) // nobody ever claimed partition 2
	r.is(r.TakeIdleReplay(ctx, id), postgres.ErrReplayOver)
	r.ok(r.StartReplay(ctx, id))
	r.take(id, r.claims[0], 4, 10)
	r.ok(r.TakeIdleReplay(ctx, id))
	got := r.read(id).Partitions
	for p, want := range []postgres.ReplayPartition{
		{Partition: 0, From: 4, Until: 10, Taken: true}, {Partition: 1, From: 5, Until: 10, Taken: true},
		{Partition: 2, From: 0, Until: 0, Taken: true, Ended: true},
	} {
		if got[p] != want {
			t.Errorf("partition %d is %+v, want %+v", p, got[p], want)
		}
	}
}

func TestEveryChangeOfAReplayIsHeard(t *testing.T) {
	r := newReplays(t)
	ctx, stop := context.WithCancel(t.Context())
	woken, ended := make(chan bool, 100), make(chan error, 1)
	go func() { ended <- r.ListenReplays(ctx, func() { woken <- true }) }()
	<-woken
	id := r.begin(target(0, 0))
	<-woken
	r.ok(r.ReportPaused(ctx, id, r.claims[0], "w"))
	<-woken
	r.ok(r.StartReplay(ctx, id))
	<-woken
	stop()
	r.is(<-ended, context.Canceled)
}

func TestTheLedgersHorizonIsTheWindowOrWhatWasDropped(t *testing.T) {
	r := newReplays(t)
	now := time.Now().UTC()
	horizon, err := r.LedgerHorizon(t.Context(), now)
	r.ok(err)
	if want := now.AddDate(0, 0, -90); !horizon.Equal(want) {
		t.Fatalf("the horizon is %v, want %v", horizon, want)
	}
	conn, err := pgx.Connect(t.Context(), r.url)
	r.ok(err)
	defer func() { _ = conn.Close(context.Background()) }()
	first := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	for m := first.AddDate(0, -4, 0); m.Before(first); m = m.AddDate(0, 1, 0) {
		_, err := conn.Exec(t.Context(), `DROP TABLE IF EXISTS processed_events_`+m.Format("2006_01"))
		r.ok(err)
	}
	if horizon, err = r.LedgerHorizon(t.Context(), now); err != nil || !horizon.Equal(first) {
		t.Fatalf("with the current month alone the horizon is %v, %v", horizon, err)
	}
	if applied, err := r.AppliedOffsets(t.Context(), replayTopic); err != nil || len(applied) != 2 || applied[1] != 9 {
		t.Fatalf("applied: %v, %v", applied, err)
	}
}

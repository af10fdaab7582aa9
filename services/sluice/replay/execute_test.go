package replay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/pkg/replay"
	"sluice/pkg/testkit"
	replaying "sluice/services/sluice/replay"
	"sluice/services/sluice/terminal"
)

// world is a deployment whose raw topic has two partitions of 10 records, all applied
// and committed, and no processors.
type world struct {
	*testing.T
	cfg     kafka.Config
	store   *postgres.Store
	offsets *kafka.Offsets
	client  *kgo.Client
	place   *replaying.Place
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, cfg: testkit.Kafka(t, 2), store: testkit.Store(t)}
	w.client = testkit.Client(t, w.cfg, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var err error
	if w.offsets, err = kafka.NewOffsets(t.Context(), w.cfg, slog.New(slog.DiscardHandler), w.cfg.Topic(kafka.Raw)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.offsets.Close)
	if w.place, err = replaying.Open(t.Context(), w.cfg, w.store, slog.New(slog.DiscardHandler), time.Now); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.place.Close)
	for p := range int32(2) {
		w.produce(p, 10)
		w.apply(p, 9)
	}
	w.commit(map[int32]int64{0: 10, 1: 10})
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) produce(partition int32, n int) {
	w.Helper()
	for range n {
		w.must(w.client.ProduceSync(w.Context(), &kgo.Record{Topic: w.cfg.Topic(kafka.Raw), Partition: partition, Value: []byte("x")}).FirstErr())
	}
}

func (w *world) topicID() [16]byte {
	w.Helper()
	extent, err := w.offsets.Extent(w.Context())
	w.must(err)
	return extent.TopicID
}

func (w *world) apply(partition int32, last int64) {
	w.Helper()
	c, _, err := w.store.ClaimPartition(w.Context(), w.topicID(), w.cfg.Topic(kafka.Raw), partition, "w")
	w.must(err)
	w.must(w.store.InTx(w.Context(), func(tx postgres.Tx) error {
		_, err := tx.Advance(w.Context(), []postgres.Claim{c}, []int64{last})
		return err
	}))
}

func (w *world) commit(offsets map[int32]int64) {
	w.Helper()
	w.must(w.offsets.CommitGroup(w.Context(), w.place.Group(), offsets))
}

func (w *world) group() map[int32]int64 {
	w.Helper()
	at, err := w.offsets.Group(w.Context(), w.place.Group())
	w.must(err)
	return at
}

func (w *world) plan(target replay.Target, allowed replay.Allowed) *replaying.Document {
	w.Helper()
	d, err := w.place.Plan(w.Context(), replaying.Asked{Words: "--" + string(target.How), Target: target, Allowed: allowed}, nil, nil, nil)
	w.must(err)
	return d
}

func (w *world) execute(d *replaying.Document, say func(string)) (int64, error) {
	w.Helper()
	if say == nil {
		say = func(string) {}
	}
	return w.place.Execute(w.Context(), replaying.Order{Plan: d, Who: "ana", Reason: "a bug", Patience: time.Second, Say: say})
}

// member joins the group and says nothing of pauses.
func (w *world) member() {
	w.Helper()
	cl := testkit.Client(w, w.cfg, kgo.ConsumerGroup(w.place.Group()), kgo.ConsumeTopics(w.cfg.Topic(kafka.Raw)), kgo.DisableAutoCommit(), kgo.ClientID("hangs"))
	go cl.PollFetches(w.Context())
	for tick := time.Tick(20 * time.Millisecond); ; <-tick {
		m, err := w.offsets.Members(w.Context(), w.place.Group())
		w.must(err)
		if m.Settled && len(m.Of) == 2 {
			return
		}
	}
}

// untouched: no replay is open and the group is where it was.
func (w *world) untouched() {
	w.Helper()
	if r, err := w.place.Current(w.Context()); !errors.Is(err, replaying.ErrNone) {
		w.Errorf("open is %+v, %v", r, err)
	}
	if g := w.group(); !maps.Equal(g, map[int32]int64{0: 10, 1: 10}) {
		w.Errorf("the group is at %v", g)
	}
}

func TestWithoutProcessorsTheOffsetsAreSetForWhoeverComes(t *testing.T) {
	w := newWorld(t)
	d := w.plan(replay.Target{How: replay.ToOffset, N: 4, Partitions: []int32{1}}, replay.Allowed{})
	if d.Records != 6 {
		t.Fatalf("the plan reads %d records", d.Records)
	}
	id, err := w.execute(d, nil)
	w.must(err)
	if g := w.group(); !maps.Equal(g, map[int32]int64{0: 10, 1: 4}) {
		t.Fatalf("the group is at %v", g)
	}
	now, err := w.place.Progress(t.Context(), id)
	w.must(err)
	if now.Read != 0 || now.Total != 6 || now.Lag[1] != 6 || now.Members != 0 || !now.Replay.Partitions[0].Taken {
		t.Fatalf("it is %+v", now)
	}
	w.commit(map[int32]int64{1: 7})
	if now, err = w.place.Progress(t.Context(), id); err != nil || now.Read != 3 || now.Lag[1] != 3 {
		t.Fatalf("three records on it is %+v, %v", now, err)
	}
	again := w.plan(replay.Target{How: replay.ToEarliest}, replay.Allowed{})
	if err := again.Refused(); err == nil || !strings.Contains(err.Error(), "is open") {
		t.Fatalf("beside it: %v", err)
	}
	w.must(w.place.Stop(t.Context(), now.Replay, "bo", "enough"))
	w.untouched()
	// The group is where live traffic goes on, and that is not how far it had read.
	if now, err = w.place.Progress(t.Context(), id); err != nil || now.Read != 0 {
		t.Fatalf("stopped after three records it has read %d, %v", now.Read, err)
	}
	var out bytes.Buffer
	now.Status().Print(terminal.New(&out))
	if text := out.String(); !strings.Contains(text, "0 of 6 records lie in partitions that were read to the end") || strings.Contains(text, "were read again") ||
		!strings.Contains(text, "by ana: a bug") || !strings.Contains(text, "stopped by bo: enough") {
		t.Errorf("stopped, it says\n%s", text)
	}
}

func TestAMemberThatDoesNotReportIsNamedAndNothingChanges(t *testing.T) {
	w := newWorld(t)
	d := w.plan(replay.Target{How: replay.ToEarliest}, replay.Allowed{})
	w.member()
	_, err := w.execute(d, nil)
	if err == nil || !strings.Contains(err.Error(), "nothing was done") || !strings.Contains(err.Error(), "partition 0 (hangs at") || !strings.Contains(err.Error(), "partition 1") {
		t.Fatal(err)
	}
	w.untouched()
}

func TestBrokenOffBeforeItBeganNothingChanges(t *testing.T) {
	w := newWorld(t)
	d := w.plan(replay.Target{How: replay.ToEarliest}, replay.Allowed{})
	w.member()
	ctx, stop := context.WithCancel(t.Context())
	_, err := w.place.Execute(ctx, replaying.Order{Plan: d, Who: "ana", Reason: "a bug", Patience: time.Minute, Say: func(string) { stop() }})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	w.untouched()
}

func TestAPlanThatTheWorldMovedUnderIsRefusedByName(t *testing.T) {
	for want, move := range map[string]func(w *world){
		"somebody reset the group from offset 10 to 2": func(w *world) { w.commit(map[int32]int64{0: 2}) },
		"offset 0 has expired; the log begins at 3": func(w *world) {
			to := kadm.Offsets{}
			to.AddOffset(w.cfg.Topic(kafka.Raw), 0, 3, -1)
			_, err := kadm.NewClient(w.client).DeleteRecords(w.Context(), to)
			w.must(err)
		},
		"was made anew": func(w *world) {
			adm := kadm.NewClient(w.client)
			before, err := w.place.World(w.Context(), time.Time{})
			w.must(err)
			_, err = adm.DeleteTopic(w.Context(), w.cfg.Topic(kafka.Raw))
			w.must(err)
			for tick := time.Tick(50 * time.Millisecond); ; <-tick { // what a broker tells may be a moment old
				_, _ = adm.CreateTopic(w.Context(), 2, 1, nil, w.cfg.Topic(kafka.Raw))
				if now, err := w.place.World(w.Context(), time.Time{}); err == nil && now.TopicID != before.TopicID {
					return
				}
			}
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id, d := w.topicID(), w.plan(replay.Target{How: replay.ToEarliest}, replay.Allowed{})
			_, err := w.execute(d, func(string) { move(w) })
			if !errors.Is(err, replaying.ErrMoved) || !strings.Contains(err.Error(), want) {
				t.Fatal(err)
			}
			if all, err := w.store.Replays(t.Context(), id, 5); err != nil || len(all) != 1 || all[0].State != postgres.ReplayAbandoned {
				t.Fatalf("%+v, %v", all, err)
			}
		})
	}
}

func TestOfTwoToolsAtOnceOneBegins(t *testing.T) {
	w := newWorld(t)
	d := w.plan(replay.Target{How: replay.ToEarliest}, replay.Allowed{})
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() { _, errs[i] = w.execute(d, nil) })
	}
	wg.Wait()
	begun := 0
	for _, err := range errs {
		switch {
		case err == nil:
			begun++
		case !errors.Is(err, postgres.ErrReplayOpen):
			t.Error(err)
		}
	}
	if begun != 1 {
		t.Fatalf("%d began", begun)
	}
}

func TestWhatIsSkippedIsWrittenOffAndTheGroupGoesOnBehindIt(t *testing.T) {
	w := newWorld(t)
	w.produce(0, 5)
	target := replay.Target{How: replay.ToLatest, Partitions: []int32{0}}
	if d := w.plan(target, replay.Allowed{}); d.Refused() == nil {
		t.Fatal("it was not refused without a word of skipping")
	}
	id, err := w.execute(w.plan(target, replay.Allowed{Skip: true}), nil)
	w.must(err)
	now, err := w.place.Progress(t.Context(), id)
	w.must(err)
	if now.Replay.State != postgres.ReplayDone || w.group()[0] != 15 {
		t.Fatalf("it is %s, the group at %v", now.Replay.State, w.group())
	}
	ledger, err := w.store.Ledger(t.Context())
	w.must(err)
	if want := fmt.Sprint([]postgres.LedgerGap{{Topic: w.place.Topic(), Partition: 0, From: 10, To: 14, Settled: true}}); fmt.Sprint(ledger.Gaps) != want {
		t.Fatalf("gaps are %v, want %s", ledger.Gaps, want)
	}
}

package consume_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/kafka"
	"sluice/pkg/status"
	"sluice/pkg/status/consume"
	"sluice/pkg/testkit"
)

func TestRepeatsAreDroppedAndGapsAreReported(t *testing.T) {
	w := newWorld(t)
	publish := w.relay()
	publish(message("a", 1), message("b", 1), message("a", 2))
	publish(message("a", 2), message("a", 1), message("a", 5), message("b", 2))
	s := newShop(w)
	opts := s.follows(w.cfg.TopicPrefix + "shop")
	opts.Every = true
	w.start(opts)
	s.has(map[string]int64{"a": 5, "b": 2})
	if s.repeats != 2 || len(s.gaps) != 1 || s.gaps[0].OrderID != "a" || s.gaps[0].From != 3 || s.gaps[0].To != 4 {
		t.Errorf("%d repeats, gaps %v", s.repeats, s.gaps)
	}
	for id, n := range s.times {
		if n != 1 {
			t.Errorf("%s was applied %d times", id, n)
		}
	}
	// Nobody ever published what is missing.
	if again, err := consume.Missing(t.Context(), w.cfg, w.log, s.gaps[0]); err != nil || len(again) != 0 {
		t.Errorf("read again: %v, %v", again, err)
	}
}

// Offsets that somebody moved forward leave a gap, and what it names is still there.
func TestWhatAGapMissesCanBeReadAgain(t *testing.T) {
	w := newWorld(t)
	publish := w.relay()
	s := newShop(w)
	opts := s.follows(w.cfg.TopicPrefix + "shop")
	opts.Every = true
	publish(message("a", 1), message("other", 1))
	stop := w.start(opts)
	s.has(map[string]int64{"a": 1, "other": 1})
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	publish(message("a", 2), message("a", 3))
	publish(message("a", 3)) // a repeat on the topic is one message
	w.ended()
	offsets, err := kafka.NewOffsets(t.Context(), w.cfg, w.log, w.cfg.Topic(kafka.Status))
	if err != nil {
		t.Fatal(err)
	}
	defer offsets.Close()
	end, err := offsets.Committed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := offsets.CommitGroup(t.Context(), w.cfg.TopicPrefix+"shop", end); err != nil {
		t.Fatal(err)
	}
	publish(message("a", 4))
	w.start(opts)
	s.has(map[string]int64{"a": 4, "other": 1})
	if len(s.gaps) != 1 {
		t.Fatalf("gaps %v", s.gaps)
	}
	again, err := consume.Missing(t.Context(), w.cfg, w.log, s.gaps[0])
	if err != nil || len(again) != 2 || again[0].ID() != "a.2" || again[1].ID() != "a.3" {
		t.Errorf("read again: %v, %v", again, err)
	}
}

// A consumer that ends anywhere goes on at the offsets that its group committed.
// Where versions are kept with the work, each message is applied once; where they
// are kept apart and lost with the crash, at most that one batch comes twice.
func TestAConsumerThatIsStoppedAnywhereGoesOnWhereItWas(t *testing.T) {
	for name, every := range map[string]bool{"on the status topic": true, "in a rebuild": false} {
		t.Run(name, func(t *testing.T) { stopAnywhere(t, every) })
	}
}

func stopAnywhere(t *testing.T, every bool) {
	w := newWorld(t)
	publish := w.relay()
	want := map[string]int64{}
	s := newShop(w)
	follows := s.follows(w.cfg.TopicPrefix + "shop")
	follows.Every = every
	crash := errors.New("crash")
	for round := range int64(6) {
		var batch []status.Message
		for v := 3*round + 1; v <= 3*round+3; v++ {
			for o := range 40 {
				batch = append(batch, message(fmt.Sprintf("o-%d", o), v))
				want[fmt.Sprintf("o-%d", o)] = v
			}
		}
		publish(batch...)
		opts := follows
		before, after := round%3 == 1, round%3 == 2
		opts.Apply = func(ctx context.Context, b consume.Batch) error {
			if before { // nothing of it was done
				return crash
			}
			if err := s.apply(ctx, b); err != nil || !after {
				return err
			}
			return crash // it was done, and its offsets are not committed
		}
		if before || after {
			if err := w.run(opts); !errors.Is(err, crash) {
				t.Fatalf("round %d: %v", round, err)
			}
			continue
		}
		stop := w.start(opts)
		s.has(want)
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	w.start(follows)
	s.has(want)
	for id, n := range s.times {
		if n != 1 {
			t.Errorf("%s was applied %d times", id, n)
		}
	}
	if len(s.gaps) > 0 {
		t.Errorf("gaps %v", s.gaps)
	}
	w.committed(w.cfg.TopicPrefix + "shop")
}

func TestAConsumerThatIsRebuiltWhileMessagesFlowMissesNothing(t *testing.T) {
	w := newWorld(t)
	publish := w.relay()
	want := map[string]int64{}
	round := func() {
		var batch []status.Message
		for range 1 + rand.IntN(30) {
			id := fmt.Sprintf("o-%d", rand.IntN(50))
			want[id]++
			batch = append(batch, message(id, want[id]))
		}
		publish(batch...)
	}
	for range 20 {
		round()
	}
	shops := map[string]*shop{}
	for i := range 6 {
		for range 5 {
			round()
		}
		group := ""
		if i%2 == 0 {
			group = fmt.Sprintf("%sshop-%d", w.cfg.TopicPrefix, i)
		}
		s := newShop(w)
		shops[fmt.Sprint(i, " ", group)] = s
		w.start(s.follows(group))
	}
	for range 60 {
		round()
	}
	for name, s := range shops {
		s.has(want)
		if len(s.gaps) > 0 {
			t.Errorf("consumer %s: %d gaps, the first: %s", name, len(s.gaps), s.gaps[0])
		}
	}
}

// A group is not sent through all of the status topic after a rebuild: its offsets
// are where that topic ended before, in every partition, empty ones too.
func TestARebuildLeavesTheGroupBehindWhatItRead(t *testing.T) {
	w := newWorld(t)
	w.relay()(message("a", 1), message("a", 2))
	s := newShop(w)
	opts := s.follows(w.cfg.TopicPrefix + "shop")
	stop := w.start(opts)
	w.committed(opts.Group)
	_ = stop()
	s.has(map[string]int64{"a": 2})
	offsets, err := kafka.NewOffsets(t.Context(), w.cfg, w.log, w.cfg.Topic(kafka.Status))
	if err != nil {
		t.Fatal(err)
	}
	defer offsets.Close()
	at, err := offsets.Group(t.Context(), opts.Group)
	if err != nil {
		t.Fatal(err)
	}
	end, err := offsets.Committed(t.Context())
	if diff := cmp.Diff(end, at); err != nil || diff != "" {
		t.Errorf("%v, offsets (-end +group):\n%s", err, diff)
	}
}

// A transaction that is open in the middle of a rebuild is in neither part of it,
// unless the offsets are the right ones: the committed end of the one topic, the
// end of the other.
func TestARebuildDoesNotMissATransactionThatIsOpen(t *testing.T) {
	for _, c := range []struct {
		name  string
		first string // the topic that has its part before the rebuild
	}{{"half of it on the status topic", kafka.Status}, {"half of it on the latest topic", kafka.Latest}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			publish := w.relay()
			publish(message("a", 1))
			cl := testkit.Client(t, w.cfg, kgo.TransactionalID(w.cfg.TopicPrefix+"other"))
			if err := cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			produce := func(topic string) {
				r := w.on(topic, message("a", 2))
				if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			produce(c.first)
			s := newShop(w)
			w.start(s.follows(""))
			if c.first == kafka.Status {
				s.has(map[string]int64{"a": 1}) // the rebuild is over
				produce(kafka.Latest)
			} else {
				produce(kafka.Status)
			}
			if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
				t.Fatal(err)
			}
			s.has(map[string]int64{"a": 2})
			if len(s.gaps) > 0 {
				t.Errorf("gaps %v", s.gaps)
			}
		})
	}
}

// A message is committed on the status topic while, on the latest topic, another
// transaction is open before it: its committed end lies before the message, its end
// behind.
func TestARebuildWaitsForATransactionThatIsOpenBeforeAMessage(t *testing.T) {
	w := newWorld(t)
	cl := testkit.Client(t, w.cfg, kgo.TransactionalID(w.cfg.TopicPrefix+"other"))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	r := w.on(kafka.Latest, message("a", 9))
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	w.relay()(message("a", 1), message("a", 2))
	s := newShop(w)
	w.start(s.follows(w.cfg.TopicPrefix + "shop"))
	w.relay()(message("b", 1))
	// The rebuild reads while it is open, and cannot end before it does.
	if err := cl.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	s.has(map[string]int64{"a": 2, "b": 1})
	if len(s.gaps) > 0 {
		t.Errorf("gaps %v", s.gaps)
	}
}

// What a transaction wrote that was aborted was never published.
func TestAnAbortedMessageIsNeverSeen(t *testing.T) {
	w := newWorld(t)
	publish := w.relay()
	publish(message("a", 1))
	cl := testkit.Client(t, w.cfg, kgo.TransactionalID(w.cfg.TopicPrefix+"other"))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{kafka.Status, kafka.Latest} {
		r := w.on(topic, message("a", 9))
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if err := cl.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	publish(message("a", 2))
	for _, every := range []bool{false, true} {
		s := newShop(w)
		opts := s.follows(fmt.Sprint(w.cfg.TopicPrefix, every))
		opts.Every = every
		w.start(opts)
		s.has(map[string]int64{"a": 2})
		if s.times["a.9"] > 0 || len(s.gaps) > 0 {
			t.Errorf("every %t: %v, gaps %v", every, s.times, s.gaps)
		}
	}
}

func TestARecordThatIsNoMessageStopsAConsumerUntilSomebodyDealsWithIt(t *testing.T) {
	w := newWorld(t)
	publish := w.relay()
	publish(message("a", 1))
	poison := kafka.Record{Topic: w.cfg.Topic(kafka.Status), Key: []byte("a"), Value: []byte(`{"specversion":"1.0"}`)}
	w.plain(poison)
	publish(message("a", 2))
	s := newShop(w)
	opts := s.follows(w.cfg.TopicPrefix + "shop")
	opts.Every = true
	for range 2 { // it is not skipped by starting again
		err := w.run(opts)
		var u consume.Unreadable
		if !errors.As(err, &u) || string(u.Record.Value) != string(poison.Value) || !strings.Contains(err.Error(), fmt.Sprintf("offset %d", u.Record.Offset)) {
			t.Fatalf("it ended with %v", err)
		}
	}
	var seen []consume.Unreadable
	opts.Unreadable = func(_ context.Context, u consume.Unreadable) error {
		seen = append(seen, u)
		return nil
	}
	stop := w.start(opts)
	s.has(map[string]int64{"a": 2})
	_ = stop()
	if len(seen) != 1 || len(s.gaps) > 0 {
		t.Errorf("%d unreadable, gaps %v", len(seen), s.gaps)
	}
}

// The topic's retention was faster than a consumer: the last message of an order
// may be gone, and no later one tells of it. So the present is read again.
func TestAConsumerThatRetentionOvertookIsRebuilt(t *testing.T) {
	w := newWorld(t)
	publish := w.relay()
	publish(message("a", 1), message("b", 1))
	s := newShop(w)
	opts := s.follows(w.cfg.TopicPrefix + "shop")
	stop := w.start(opts)
	s.has(map[string]int64{"a": 1, "b": 1})
	publish(message("a", 2)) // what comes behind a rebuild says that it is over
	s.has(map[string]int64{"a": 2, "b": 1})
	_ = stop()
	publish(message("a", 3), message("b", 2), message("c", 1), message("a", 4))
	adm, topic := testkit.Admin(t, w.cfg), w.cfg.Topic(kafka.Status)
	ends, err := adm.ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := adm.DeleteRecords(t.Context(), ends.Offsets()); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("every message is wanted")
	opts.Lost = func(_ context.Context, g kafka.Gap) error {
		if g.Topic != topic || g.Reason != kafka.Expired || g.From > g.To {
			t.Errorf("lost: %+v", g)
		}
		return refused
	}
	if err := w.run(opts); !errors.Is(err, refused) {
		t.Fatalf("it ended with %v", err)
	}
	opts.Lost = nil // and nothing more comes on the topic
	w.start(opts)
	s.has(map[string]int64{"a": 4, "b": 2, "c": 1})
	publish(message("c", 2))
	s.has(map[string]int64{"a": 4, "b": 2, "c": 2})
	if len(s.gaps) > 0 {
		t.Errorf("gaps %v", s.gaps)
	}
}

// Compaction really happens: small segments, and the cleaner has little to wait
// for. What it leaves is enough to rebuild from.
func TestOrdersLatestIsCompactedAndRebuiltFrom(t *testing.T) {
	w := newWorld(t)
	adm, topic := testkit.Admin(t, w.cfg), w.cfg.Topic(kafka.Latest)
	var settings []kadm.AlterConfig
	for name, value := range map[string]string{"segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "100", "delete.retention.ms": "100"} {
		settings = append(settings, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	if _, err := adm.AlterTopicConfigs(t.Context(), settings, topic); err != nil {
		t.Fatal(err)
	}
	publish := w.relay()
	want := map[string]int64{}
	round := func() {
		var batch []status.Message
		for o := range 12 {
			id := fmt.Sprintf("o-%d", o)
			want[id]++
			batch = append(batch, message(id, want[id]))
		}
		publish(batch...)
	}
	for range 30 {
		round()
	}
	left := func() (records int) {
		offsets, err := kafka.NewOffsets(t.Context(), w.cfg, w.log, topic)
		if err != nil {
			t.Fatal(err)
		}
		defer offsets.Close()
		extent, err := offsets.Extent(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var ranges []kafka.Range
		for p, end := range extent.End {
			ranges = append(ranges, kafka.Range{Partition: p, From: extent.Start[p], Before: end})
		}
		if err := kafka.Read(t.Context(), w.cfg, w.log, topic, ranges, func(kafka.Record) bool { records++; return true }); err != nil {
			t.Fatal(err)
		}
		return records
	}
	limit, tick := time.After(patience), time.NewTicker(time.Second)
	defer tick.Stop()
	for written := 30 * 12; ; {
		n := left()
		t.Logf("%d of %d records are left", n, written)
		if n < written/3 {
			break
		}
		select {
		case <-tick.C:
			round() // a segment is closed by the record that comes after it
			written += 12
		case <-limit:
			t.Fatalf("after %s %d of %d records are left: it was not compacted", patience, n, written)
		}
	}
	s := newShop(w)
	w.start(s.follows(""))
	s.has(want)
	round()
	s.has(want)
	if len(s.gaps) > 0 || len(s.times) > len(want)*20 {
		t.Errorf("gaps %v, %d messages applied", s.gaps, len(s.times))
	}
}

// Two members share one store: one rebuilds, both go on, and one that goes leaves
// its partitions to the other.
func TestMembersOfAGroupShareTheWork(t *testing.T) {
	w := newWorld(t)
	publish := w.relay()
	want := map[string]int64{}
	round := func() {
		var batch []status.Message
		for o := range 30 {
			id := fmt.Sprintf("o-%d", o)
			want[id]++
			batch = append(batch, message(id, want[id]))
		}
		publish(batch...)
	}
	round()
	s := newShop(w)
	opts := s.follows(w.cfg.TopicPrefix + "shop")
	stop := w.start(opts)
	w.start(opts)
	for range 10 {
		round()
	}
	s.has(want)
	_ = stop()
	round()
	s.has(want)
	if len(s.gaps) > 0 {
		t.Errorf("gaps %v", s.gaps)
	}
}

func TestMemoryNeverGoesBack(t *testing.T) {
	var m consume.Memory
	m.Keep(message("a", 1), message("a", 3), message("a", 2), message("b", 1))
	got, err := m.Last(t.Context(), []string{"a", "b", "c"})
	if diff := cmp.Diff(map[string]int64{"a": 3, "b": 1}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

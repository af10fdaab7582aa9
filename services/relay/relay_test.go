package relay

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/pkg/daemon"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

func TestEveryTransitionIsPublishedOnceAndInVersionOrder(t *testing.T) {
	w := newWorld(t, testkit.Kafka(t, 0))
	w.write(1, 200, 1, 5)
	r, stop := w.start("a", config(), w.broker())
	p := w.topic()
	p.take(1000)
	w.write(1, 200, 6, 10)
	p.take(2000)
	w.until("all is marked", func() bool { return w.unmarked() == 0 })
	if err := r.Ready(); err != nil {
		t.Errorf("not ready: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatalf("drain: %v", err)
	}
	p.whole()

	// Another relay begins where the cursors are.
	w.start("b", config(), w.broker())
	w.write(201, 201, 1, 1)
	p.take(2001)
	if p.copies > 0 {
		t.Errorf("%d messages came twice", p.copies)
	}
}

// O40: a row with a lower id that commits later is published, and a gap that a
// roll-back left holds nothing up.
func TestALateCommitIsPublishedToo(t *testing.T) {
	w := newWorld(t, testkit.Kafka(t, 0))
	w.start("a", config(), w.broker())
	p := w.topic()
	late, err := w.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := late.ExecContext(t.Context(), insert, 1, 1, 1, 1); err != nil {
		t.Fatal(err)
	}
	w.write(2, 2, 1, 1)
	gone, err := w.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gone.ExecContext(t.Context(), insert, 3, 3, 1, 1); err != nil {
		t.Fatal(err)
	}
	if err := gone.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := late.Commit(); err != nil {
		t.Fatal(err)
	}
	w.write(4, 4, 1, 1)
	p.take(3)
	w.until("all is marked", func() bool { return w.unmarked() == 0 })
}

// switchable is a broker whose produce requests can be made to fail.
func switchable(t *testing.T) (brokers kafka.Config, fail func(bool)) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(6, kafka.Status, kafka.Latest), kfake.SeedTopics(postgres.Shards, kafka.Cursors))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var away atomic.Bool
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if away.Load() {
			return nil, errors.New("the broker hangs up"), true
		}
		return nil, nil, false
	})
	return kafka.Config{Brokers: c.ListenAddrs()}, away.Store
}

// O39: nothing is marked that Kafka has not acknowledged; the relay says that it
// waits, and goes on by itself.
func TestNothingIsMarkedWhileKafkaIsAway(t *testing.T) {
	brokers, away := switchable(t)
	w := newWorld(t, brokers)
	away(true)
	r, _ := w.start("a", config(), w.broker())
	w.write(1, 20, 1, 1)
	w.until("the relay says that it waits for Kafka", func() bool {
		err := r.Ready()
		return err != nil && strings.Contains(err.Error(), "Kafka")
	})
	if n := w.unmarked(); n != 20 {
		t.Fatalf("%d of 20 rows are marked that no broker has", 20-n)
	}
	away(false)
	p := w.topic()
	p.take(20)
	w.until("all is marked", func() bool { return w.unmarked() == 0 })
	w.until("the relay is ready", func() bool { return r.Ready() == nil })
	p.whole()
}

// O39, second run: one partition fails; its rows stay, in order, and only they
// are tried again.
func TestOnePartitionThatFailsKeepsItsRows(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(6, kafka.Status, kafka.Latest), kfake.SeedTopics(postgres.Shards, kafka.Cursors))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := newWorld(t, kafka.Config{Brokers: c.ListenAddrs()})
	fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: kafka.Status, Partitions: []int32{3}, Err: kerr.UnknownServerError, Count: -1})
	r, _ := w.start("a", config(), w.broker())
	w.write(1, 100, 1, 2)
	w.until("the relay says that publishing fails", func() bool {
		err := r.Ready()
		return err != nil && strings.Contains(err.Error(), "UNKNOWN_SERVER_ERROR")
	})
	if n := w.unmarked(); n == 0 {
		t.Fatal("rows of the failing partition are marked")
	}
	fault.Remove()
	p := w.topic()
	p.take(200)
	w.until("all is marked", func() bool { return w.unmarked() == 0 })
	p.whole()
	if p.copies > 0 {
		t.Errorf("%d messages of sound partitions came twice", p.copies)
	}
}

// O32: an oversized message is put aside, once, and the others go out.
func TestAMessageThatIsTooLargeTakesNoHostages(t *testing.T) {
	w := newWorld(t, testkit.Kafka(t, 0))
	w.write(1, 25, 1, 1)
	w.exec(`INSERT INTO order_transitions (shard, order_no, order_id, version, from_status, to_status, amount, currency,
		paid, refunded, cause_source, cause_event_id, occurred_at)
		SELECT 1, 999, 'large', 1, 0, 1, 100, 'USD', 0, 0, 'stripe-eu', string_agg(md5(i::text), ''), 0 FROM generate_series(1, 80000) i`)
	w.write(26, 50, 1, 1)
	w.start("a", config(), w.broker())
	p := w.topic()
	p.take(50)
	w.until("all is marked", func() bool { return w.unmarked() == 0 })
	if n := w.number(`SELECT count(*) FROM review_items WHERE kind = 'message_refused' AND subject = 'large/1'`); n != 1 {
		t.Errorf("%d review items for the large one, want 1", n)
	}
	if p.copies > 0 {
		t.Errorf("%d messages came twice", p.copies)
	}
}

// stalling is a broker whose relay freezes before some transactions, for longer
// than the lease, and dies after others: it never hears that they were committed.
type stalling struct {
	Broker
	ttl time.Duration
	mu  sync.Mutex
	rnd *rand.Rand
}

func (s *stalling) dice() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rnd.IntN(12)
}

func (s *stalling) TakeShard(ctx context.Context, shard int16) (Shard, error) {
	taken, err := s.Broker.TakeShard(ctx, shard)
	if err != nil {
		return nil, err
	}
	return stallingShard{taken, s}, nil
}

type stallingShard struct {
	Shard
	of *stalling
}

var errKilled = errors.New("killed between the commit and the news of it")

func (s stallingShard) Publish(ctx context.Context, records []kafka.Record, cursor []byte) error {
	dice := s.of.dice()
	if dice == 0 {
		daemon.Pause(ctx, 2*s.of.ttl)
	}
	if err := s.Shard.Publish(ctx, records, cursor); err != nil {
		return err
	}
	if dice == 1 {
		return errKilled
	}
	return nil
}

// O41: relays that freeze and die share the shards; nothing is missing, out of
// order, or there twice.
func TestRelaysThatFreezeAndDiePublishEachMessageOnce(t *testing.T) {
	w := newWorld(t, testkit.Kafka(t, 0))
	cfg := config()
	cfg.Batch, cfg.LeaseTTL = 128, 150*time.Millisecond
	for i, owner := range []string{"a", "b", "c"} {
		w.start(owner, cfg, &stalling{Broker: w.broker(), ttl: cfg.LeaseTTL, rnd: rand.New(rand.NewPCG(41, uint64(i)))})
	}
	p := w.topic()
	for v := 1; v <= 20; v++ {
		w.write(1, 100, v, v)
		p.take(v * 50)
	}
	p.take(2000)
	w.until("all is marked", func() bool { return w.unmarked() == 0 })
	p.whole()
	if p.copies > 0 {
		t.Errorf("%d messages came twice", p.copies)
	}
}

// A database that was restored from a backup gives ids out again: Kafka's cursor
// speaks of rows that it does not have, and must not hide the new ones.
func TestARestoredDatabaseIsPublishedFromItsOwnCursor(t *testing.T) {
	w := newWorld(t, testkit.Kafka(t, 0))
	w.write(1, 40, 1, 1)
	_, stop := w.start("a", config(), w.broker())
	p := w.topic()
	p.take(40)
	w.until("all is marked", func() bool { return w.unmarked() == 0 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	// As it was before half of them; then other orders come under the same ids.
	w.exec(`DELETE FROM order_transitions WHERE order_no > 20`)
	w.exec(`UPDATE relay_shards SET cursor = 20`)
	w.exec(`SELECT setval('order_transitions_id_seq', 20)`)
	w.write(101, 140, 1, 1)
	w.start("b", config(), w.broker())
	p.take(80)
	w.until("all is marked", func() bool { return w.unmarked() == 0 })
	p.whole()
	if p.copies > 0 {
		t.Errorf("%d messages came twice", p.copies)
	}
}

// Retention drops what was published; a cursor that names a row of it still holds.
func TestACursorOfARowThatRetentionDroppedStillHolds(t *testing.T) {
	w := newWorld(t, testkit.Kafka(t, 0))
	w.write(1, 40, 1, 1)
	_, stop := w.start("a", config(), w.broker())
	p := w.topic()
	p.take(40)
	w.until("all is marked", func() bool { return w.unmarked() == 0 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	w.exec(`DELETE FROM order_transitions`)
	w.exec(`UPDATE relay_shards SET cursor = 0`) // Kafka's alone must do
	w.write(41, 60, 1, 1)
	w.start("b", config(), w.broker())
	p.take(60)
	w.until("all is marked", func() bool { return w.unmarked() == 0 })
	if p.copies > 0 {
		t.Errorf("%d messages came twice", p.copies)
	}
}

// O41: without stalls two relays share the work and nothing is repeated.
func TestTwoRelaysShareTheShards(t *testing.T) {
	w := newWorld(t, testkit.Kafka(t, 0))
	_, stopA := w.start("a", config(), w.broker())
	w.start("b", config(), w.broker())
	half := func(owner string) bool {
		return w.number(`SELECT count(*) FROM relay_shards WHERE owner = $1 AND lease_until > now()`, owner) == postgres.Shards/2
	}
	w.until("each has half of the shards", func() bool { return half("a") && half("b") })
	w.write(1, 100, 1, 5)
	p := w.topic()
	p.take(500)
	if err := stopA(); err != nil {
		t.Fatal(err)
	}
	w.until("b has all shards", func() bool {
		return w.number(`SELECT count(*) FROM relay_shards WHERE owner = 'b'`) == postgres.Shards
	})
	w.write(1, 100, 6, 10)
	p.take(1000)
	p.whole()
	if p.copies > 0 {
		t.Errorf("%d messages came twice", p.copies)
	}
}

// blocked is a broker that commits only when it is told to.
type blocked struct {
	entered   chan struct{}
	release   chan struct{}
	committed atomic.Int64 // records, on two topics
}

func (b *blocked) TakeShard(context.Context, int16) (Shard, error)            { return b, nil }
func (b *blocked) Cursors(context.Context, []int16) (map[int16][]byte, error) { return nil, nil }
func (b *blocked) Close()                                                     {}

func (b *blocked) Publish(ctx context.Context, records []kafka.Record, _ []byte) error {
	b.entered <- struct{}{}
	select {
	case <-b.release:
		b.committed.Add(int64(len(records)))
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestAStopWaitsForTheBatchInFlightAndMarksIt(t *testing.T) {
	w := newWorld(t, testkit.Kafka(t, 0))
	b := &blocked{entered: make(chan struct{}, postgres.Shards), release: make(chan struct{})}
	_, stop := w.start("a", config(), b)
	w.write(1, 10, 1, 1)
	<-b.entered
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	close(b.release)
	if err := <-ended; err != nil {
		t.Fatalf("drain: %v", err)
	}
	// It may have been stopped before it had read them all.
	if marked, committed := 10-w.unmarked(), b.committed.Load()/2; marked != committed || committed == 0 {
		t.Errorf("%d rows are committed, %d are marked", committed, marked)
	}
	if n := w.number(`SELECT count(*) FROM relay_shards WHERE owner IS NOT NULL`); n != 0 {
		t.Errorf("a stopped relay keeps %d shards", n)
	}
}

func TestAStopBeforeTheFirstShardIsClean(t *testing.T) {
	w := newWorld(t, testkit.Kafka(t, 0))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := w.relay("a", config(), w.broker()).Run(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestAStopWhileKafkaIsAwaySaysThatItWasNotClean(t *testing.T) {
	w := newWorld(t, testkit.Kafka(t, 0))
	b := &blocked{entered: make(chan struct{}, postgres.Shards), release: make(chan struct{})}
	cfg := config()
	cfg.DrainTimeout = 50 * time.Millisecond
	_, stop := w.start("a", cfg, b)
	w.write(1, 10, 1, 1)
	<-b.entered
	if err := stop(); err == nil {
		t.Error("the drain was reported as clean")
	}
	if n := w.unmarked(); n != 10 {
		t.Errorf("%d rows are marked that nobody acknowledged", 10-n)
	}
}

// O39 for the other side: the database's connections die.
func TestARelayThatLosesTheDatabaseGoesOnByItself(t *testing.T) {
	w := newWorld(t, testkit.Kafka(t, 0))
	w.start("a", config(), w.broker())
	p := w.topic()
	for v := 1; v <= 5; v++ {
		w.write(1, 50, v, v)
		w.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	}
	p.take(250)
	w.until("all is marked", func() bool { return w.unmarked() == 0 })
	p.whole()
}

func TestARowOfALaterReleaseStopsTheRelayRatherThanBeSkipped(t *testing.T) {
	w := newWorld(t, testkit.Kafka(t, 0))
	r, _ := w.start("a", config(), w.broker())
	w.write(1, 1, 1, 1)
	w.exec(`ALTER TABLE order_transitions ALTER format SET DEFAULT 2`)
	w.write(1, 1, 2, 2)
	w.until("the relay says so", func() bool {
		err := r.Ready()
		return err != nil && strings.Contains(err.Error(), "format 2")
	})
	if n := w.number(`SELECT count(*) FROM order_transitions t JOIN relay_shards s USING (shard) WHERE t.id > s.cursor AND format = 2`); n != 1 {
		t.Error("the row is marked")
	}
}

func TestEveryProblemOfTheConfigurationIsNamed(t *testing.T) {
	_, err := New(Config{}, Deps{})
	for _, want := range []string{"SLUICE_RELAY_BATCH", "SLUICE_RELAY_POLL_INTERVAL", "SLUICE_RELAY_LEASE_TTL", "SLUICE_RELAY_DRAIN_TIMEOUT"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named in: %v", want, err)
		}
	}
}

package consume_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/status"
	"sluice/pkg/status/consume"
	"sluice/pkg/testkit"
)

// patience is how long a test waits for what must come.
const patience = 90 * time.Second

// world is the topics of one deployment, and who publishes to them.
type world struct {
	testing.TB
	cfg kafka.Config
	log *slog.Logger
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return &world{t, testkit.Kafka(t, 0), slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
}

func message(id string, version int64) status.Message {
	m := status.Message{
		Source: "sluice", OrderID: id, Version: version, Status: order.Pending, Amount: 100, Currency: "EUR",
		Cause: status.Cause{Source: "stripe", EventID: fmt.Sprintf("evt_%s_%d", id, version)}, ChangedAt: time.UnixMicro(1_764_504_002_000_500).UTC(),
	}
	if version > 1 {
		m.Previous, m.Status, m.Paid = order.Pending, order.Paid, 100
	}
	return m
}

// on is the message as a record of a topic.
func (w *world) on(topic string, m status.Message) kafka.Record {
	return kafka.Record{Topic: w.cfg.Topic(topic), Key: m.Key(), Value: m.Encode(), Headers: m.Headers()}
}

// ended waits until the brokers have written the end of every transaction on the
// status topic, which they do a moment after its commit was answered.
func (w *world) ended() {
	w.Helper()
	adm, topic := testkit.Admin(w, w.cfg), w.cfg.Topic(kafka.Status)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		committed, err := adm.ListCommittedOffsets(w.Context(), topic)
		if err != nil {
			w.Fatal(err)
		}
		end, err := adm.ListEndOffsets(w.Context(), topic)
		if err != nil {
			w.Fatal(err)
		}
		if maps.Equal(committed.Offsets()[topic], end.Offsets()[topic]) {
			return
		}
		<-tick.C
	}
}

// relay publishes as the relay does: each call one transaction of both topics.
func (w *world) relay() (publish func(...status.Message)) {
	w.Helper()
	shard, err := kafka.TakeShard(w.Context(), w.cfg, 0, w.log)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(shard.Close)
	return func(messages ...status.Message) {
		w.Helper()
		var records []kafka.Record
		for _, m := range messages {
			records = append(records, w.on(kafka.Status, m), w.on(kafka.Latest, m))
		}
		if err := shard.Publish(w.Context(), records, []byte("{}")); err != nil {
			w.Fatal(err)
		}
	}
}

// plain writes records to one topic alone, in no transaction.
func (w *world) plain(records ...kafka.Record) {
	w.Helper()
	cl := testkit.Client(w, w.cfg)
	for _, r := range records {
		if err := cl.ProduceSync(w.Context(), &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value}).FirstErr(); err != nil {
			w.Fatal(err)
		}
	}
}

// shop is a downstream application: orders and their versions, kept together.
type shop struct {
	world   *world
	mu      sync.Mutex
	orders  map[string]status.Message
	times   map[string]int // by message id
	gaps    []consume.Gap
	repeats int
	wrong   []string
	changed chan struct{}
}

func newShop(w *world) *shop {
	return &shop{world: w, orders: map[string]status.Message{}, times: map[string]int{}, changed: make(chan struct{}, 1)}
}

func (s *shop) Last(_ context.Context, orders []string) (map[string]int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := map[string]int64{}
	for _, id := range orders {
		if m, ok := s.orders[id]; ok {
			last[id] = m.Version
		}
	}
	return last, nil
}

func (s *shop) apply(_ context.Context, b consume.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gaps, s.repeats = append(s.gaps, b.Gaps...), s.repeats+b.Repeats
	for _, m := range b.Messages {
		if before := s.orders[m.OrderID].Version; m.Version <= before {
			s.wrong = append(s.wrong, fmt.Sprintf("%s after version %d", m.ID(), before))
		}
		s.orders[m.OrderID] = m
		s.times[m.ID()]++
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return nil
}

func (s *shop) versions() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := map[string]int64{}
	for id, m := range s.orders {
		v[id] = m.Version
	}
	return v
}

// has waits until the shop has exactly these versions, and says what it did wrong.
func (s *shop) has(want map[string]int64) {
	s.world.Helper()
	limit := time.After(patience)
	for !maps.Equal(s.versions(), want) {
		select {
		case <-s.changed:
		case <-limit:
			s.world.Fatalf("after %s the shop has %v, want %v", patience, s.versions(), want)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.wrong) > 0 {
		s.world.Errorf("%d older versions applied, the first: %s", len(s.wrong), s.wrong[0])
	}
}

func (s *shop) follows(group string) consume.Options {
	return consume.Options{Group: group, Versions: s, Apply: s.apply}
}

// start runs a consumer until stop, which returns how it ended; at the latest at
// the test's end.
func (w *world) start(opts consume.Options) (stop func() error) {
	w.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	ended := make(chan error, 1)
	go func() { ended <- consume.Run(ctx, w.cfg, w.log, opts) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() {
			cancel()
			err = <-ended
		})
		return err
	}
	w.Cleanup(func() {
		if err := stop(); err != nil && !errors.Is(err, context.Canceled) {
			w.Errorf("the consumer ended: %v", err)
		}
	})
	return stop
}

// committed waits until the group has committed all that there is; behind the last
// message lies a transaction's marker, which nobody commits.
func (w *world) committed(group string) {
	w.Helper()
	offsets, err := kafka.NewOffsets(w.Context(), w.cfg, w.log, w.cfg.Topic(kafka.Status))
	if err != nil {
		w.Fatal(err)
	}
	defer offsets.Close()
	extent, err := offsets.Extent(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	limit, tick := time.After(patience), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for {
		at, err := offsets.Group(w.Context(), group)
		if err != nil {
			w.Fatal(err)
		}
		behind := maps.Clone(extent.End)
		maps.DeleteFunc(behind, func(p int32, end int64) bool { return at[p] >= end-1 })
		if len(behind) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			w.Fatalf("after %s group %s is at %v of %v", patience, group, at, extent.End)
		}
	}
}

// run runs a consumer that ends by itself.
func (w *world) run(opts consume.Options) error {
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	return consume.Run(ctx, w.cfg, w.log, opts)
}

package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/kafka"
	"sluice/pkg/testkit"
)

func takeShard(t *testing.T, cfg kafka.Config, shard int32) *kafka.Shard {
	t.Helper()
	s, err := kafka.TakeShard(t.Context(), cfg, shard, testkit.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func cursorOf(t *testing.T, cfg kafka.Config, shard int32) string {
	t.Helper()
	cursors, err := kafka.ReadCursors(t.Context(), cfg, testkit.Log(t), []int32{shard})
	if err != nil {
		t.Fatal(err)
	}
	return string(cursors[shard])
}

// committed are the values on the status topic that consumers of committed
// records see, once one has come that says end.
func committed(t *testing.T, cfg kafka.Config, end string) (values []string) {
	t.Helper()
	cl := testkit.Client(t, cfg, kgo.ConsumeTopics(cfg.Topic(kafka.Status)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		ended := false
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if string(r.Value) == end {
				ended = true
				return
			}
			values = append(values, string(r.Value))
		})
		if ended {
			return values
		}
	}
	t.Fatalf("%q did not come", end)
	return nil
}

func one(cfg kafka.Config, value string) []kafka.Record {
	return []kafka.Record{{Topic: cfg.Topic(kafka.Status), Key: []byte("order"), Value: []byte(value)}}
}

func TestAShardsCursorIsTheOneOfItsLastTransaction(t *testing.T) {
	cfg := testkit.Kafka(t, 1)
	s := takeShard(t, cfg, 0)
	if c := cursorOf(t, cfg, 0); c != "" {
		t.Fatalf("a new shard has the cursor %q", c)
	}
	for i := range 40 {
		if err := s.Publish(t.Context(), one(cfg, fmt.Sprint(i)), fmt.Append(nil, "at ", i)); err != nil {
			t.Fatal(err)
		}
	}
	if c := cursorOf(t, cfg, 0); c != "at 39" {
		t.Errorf("the cursor is %q", c)
	}
	if c := cursorOf(t, cfg, 1); c != "" {
		t.Errorf("another shard has the cursor %q", c)
	}
}

// O41: who was frozen between writing and committing wakes up to nothing.
func TestWhoTakesAShardFencesTheOneBefore(t *testing.T) {
	cfg := testkit.Kafka(t, 1)
	old := takeShard(t, cfg, 1)
	if err := old.Publish(t.Context(), one(cfg, "first"), []byte("1")); err != nil {
		t.Fatal(err)
	}
	next := takeShard(t, cfg, 1)
	err := old.Publish(t.Context(), one(cfg, "of the old one"), []byte("2"))
	if !errors.Is(err, kafka.ErrFenced) {
		t.Fatalf("the old one got %v", err)
	}
	if again := old.Publish(t.Context(), one(cfg, "again"), []byte("3")); !errors.Is(again, kafka.ErrFenced) {
		t.Errorf("it was used after it had failed: %v", again)
	}
	if c := cursorOf(t, cfg, 1); c != "1" {
		t.Errorf("the cursor is %q", c)
	}
	if err := next.Publish(t.Context(), one(cfg, "end"), []byte("2")); err != nil {
		t.Fatal(err)
	}
	if got := committed(t, cfg, "end"); len(got) != 1 || got[0] != "first" {
		t.Errorf("consumers see %q", got)
	}
}

// A cursor behind many transactions that came to nothing is found all the same.
func TestACursorIsFoundBehindAbortedTransactions(t *testing.T) {
	cfg := testkit.Kafka(t, 1)
	s := takeShard(t, cfg, 0)
	if err := s.Publish(t.Context(), one(cfg, "first"), []byte("kept")); err != nil {
		t.Fatal(err)
	}
	large := []kafka.Record{{Topic: cfg.Topic(kafka.Status), Key: []byte("order"), Value: make([]byte, 3<<20)}}
	for range 20 {
		s = takeShard(t, cfg, 0)
		if err := s.Publish(t.Context(), append(one(cfg, "lost"), large...), []byte("lost")); !errors.Is(err, kafka.ErrRefused) {
			t.Fatalf("a record that is too large: %v", err)
		}
	}
	if c := cursorOf(t, cfg, 0); c != "kept" {
		t.Errorf("the cursor is %q", c)
	}
	s = takeShard(t, cfg, 0)
	if err := s.Publish(t.Context(), one(cfg, "end"), []byte("2")); err != nil {
		t.Fatal(err)
	}
	if got := committed(t, cfg, "end"); len(got) != 1 {
		t.Errorf("consumers see %q", got)
	}
}

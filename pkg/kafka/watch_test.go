package kafka_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/kafka"
	"sluice/pkg/testkit"
)

func TestWatchHandsOverWhatLiesThereAndWhatComes(t *testing.T) {
	cfg := testkit.Kafka(t, 0)
	topic := cfg.Topic(kafka.Status)
	cl := testkit.Client(t, cfg)
	put := func(i int) {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte("order"), Value: []byte(strconv.Itoa(i))}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	put(0)
	put(1)
	next := 0
	err := kafka.Watch(t.Context(), cfg, testkit.Log(t), topic, func(r kafka.Record) bool {
		if string(r.Value) != strconv.Itoa(next) || r.Topic != topic {
			t.Errorf("got %s, want %d", r.Value, next)
		}
		if next++; next == 2 {
			put(2)
		}
		return next < 3
	})
	if err != nil || next != 3 {
		t.Errorf("watched %d records: %v", next, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := kafka.Watch(ctx, cfg, testkit.Log(t), topic, func(kafka.Record) bool { return true }); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

func TestCountAndLagAreTheRecordsThereAndTheRecordsBehind(t *testing.T) {
	cfg := testkit.Kafka(t, 3)
	raw, group := cfg.Topic(kafka.Raw), cfg.Topic(kafka.Group)
	cl := testkit.Client(t, cfg, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range 10 {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: raw, Partition: int32(i % 2), Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, count, lag int64) {
		t.Helper()
		if n, err := kafka.Count(t.Context(), cfg, testkit.Log(t), raw); err != nil || n != count {
			t.Errorf("%s: count %d (%v), want %d", when, n, err, count)
		}
		if n, err := kafka.Lag(t.Context(), cfg, testkit.Log(t), group, raw); err != nil || n != lag {
			t.Errorf("%s: lag %d (%v), want %d", when, n, err, lag)
		}
	}
	check("nothing committed", 10, 10)
	adm := kadm.NewClient(cl)
	var at kadm.Offsets
	at.AddOffset(raw, 0, 3, -1)
	if err := adm.CommitAllOffsets(t.Context(), group, at); err != nil {
		t.Fatal(err)
	}
	check("three of one partition committed", 10, 7)
	var gone kadm.Offsets
	gone.AddOffset(raw, 1, 2, -1)
	if _, err := adm.DeleteRecords(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	check("two of the other expired", 8, 5)
	if _, err := kafka.Count(t.Context(), cfg, testkit.Log(t), cfg.Topic("no-such-topic")); err == nil {
		t.Error("counted a topic that does not exist")
	}
}

func TestReachFailsWhereNobodyAnswers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := kafka.Reach(ctx, kafka.Config{Brokers: []string{"127.0.0.1:1"}}, testkit.Log(t)); err == nil {
		t.Error("reached nobody")
	}
	if err := kafka.Reach(t.Context(), testkit.Kafka(t, 0), testkit.Log(t)); err != nil {
		t.Error(err)
	}
}

package testkit

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/kafka"
)

// Kafka gives t all of Sluice's topics under a prefix of its own on the broker
// at KAFKA_BROKERS, deleted at its end. partitions, if positive, overrides the
// raw topic's number.
func Kafka(t testing.TB, partitions int32) kafka.Config {
	t.Helper()
	brokers := os.Getenv("KAFKA_BROKERS")
	if brokers == "" {
		t.Fatalf("KAFKA_BROKERS %s", advice)
	}
	cfg := kafka.Config{Brokers: strings.Split(brokers, ","), TopicPrefix: "t-" + strings.ToLower(rand.Text()[:10]) + "."}
	if partitions > 0 {
		raw := kafka.Topics[slices.IndexFunc(kafka.Topics, func(s kafka.TopicSpec) bool { return s.Name == kafka.Raw })]
		settings := map[string]*string{}
		for k, v := range raw.Config {
			settings[k] = &v
		}
		if _, err := Admin(t, cfg).CreateTopic(t.Context(), partitions, 1, settings, cfg.Topic(raw.Name)); err != nil {
			t.Fatalf("create topic %s: %v", raw.Name, err)
		}
	}
	if _, err := kafka.EnsureTopics(t.Context(), cfg, slog.New(slog.DiscardHandler), kafka.EnsureOptions{Replication: 1}); err != nil {
		t.Fatalf("create topics: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		cl, err := kgo.NewClient(kgo.SeedBrokers(cfg.Brokers...))
		if err != nil {
			t.Errorf("delete test topics: %v", err)
			return
		}
		defer cl.Close()
		for _, topic := range kafka.Topics {
			_, _ = kadm.NewClient(cl).DeleteTopic(ctx, cfg.Topic(topic.Name))
		}
	})
	return cfg
}

// Client is a plain client of cfg's brokers, closed at t's end.
func Client(t testing.TB, cfg kafka.Config, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(cfg.Brokers...)}, opts...)...)
	if err != nil {
		t.Fatalf("set up Kafka client: %v", err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// Admin is an admin client of cfg's brokers, closed at t's end.
func Admin(t testing.TB, cfg kafka.Config) *kadm.Client { return kadm.NewClient(Client(t, cfg)) }

// Log writes to t's own output.
func Log(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

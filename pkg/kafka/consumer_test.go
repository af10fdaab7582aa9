package kafka

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// O48: a stop while Kafka is down is bounded.
func TestClosingAConsumerWhileNoBrokerAnswersIsBounded(t *testing.T) {
	cfg := Config{}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, cfg.Topic(Raw)))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Brokers = cluster.ListenAddrs()
	assigned := make(chan struct{})
	c, err := NewConsumer(t.Context(), cfg, slog.New(slog.DiscardHandler), ConsumerOptions{
		Claim: func(context.Context, Assignment, func(int64) error) (int64, error) { close(assigned); return -1, nil },
		Gap:   func(context.Context, Gap) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-assigned
	cluster.Close()
	closed := make(chan struct{})
	go func() { c.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(3 * leaveTimeout):
		t.Fatal("it did not close")
	}
}

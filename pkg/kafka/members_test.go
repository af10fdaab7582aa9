package kafka_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"sluice/pkg/kafka"
	"sluice/pkg/testkit"
)

func TestAGroupSaysWhoReadsWhat(t *testing.T) {
	cfg := testkit.Kafka(t, 3)
	o, err := kafka.NewOffsets(t.Context(), cfg, testkit.Log(t), cfg.Topic(kafka.Raw))
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	group := cfg.Topic(kafka.Group)
	if _, err := o.Group(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	if m, err := o.Members(t.Context(), group); err != nil || !m.Settled || m.Count != 0 {
		t.Fatalf("a group that never was has %+v, %v", m, err)
	}
	c, err := kafka.NewConsumer(t.Context(), cfg, testkit.Log(t), kafka.ConsumerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	polling, stop := context.WithCancel(t.Context())
	polled := make(chan struct{})
	go func() { defer close(polled); _, _ = c.Poll(polling, 1) }()
	until := func(what string, is func(kafka.Members) bool) {
		t.Helper()
		for began, tick := time.Now(), time.Tick(20*time.Millisecond); ; <-tick {
			m, err := o.Members(t.Context(), group)
			if err != nil {
				t.Fatal(err)
			}
			if is(m) {
				return
			}
			if time.Since(began) > 20*time.Second {
				t.Fatalf("%s: it has %+v", what, m)
			}
		}
	}
	until("one member", func(m kafka.Members) bool {
		return m.Settled && m.Count == 1 && len(m.Of) == 3 && strings.HasPrefix(m.Of[2], "sluice-processor at ")
	})
	stop()
	<-polled
	c.Close()
	until("it left", func(m kafka.Members) bool { return m.Settled && m.Count == 0 && len(m.Of) == 0 })
}

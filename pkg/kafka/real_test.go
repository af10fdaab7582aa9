package kafka_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/testkit"
)

func TestWhatIsProducedLiesOnApacheKafkaByteForByte(t *testing.T) {
	cfg := testkit.Kafka(t, 3)
	p, err := kafka.NewProducer(t.Context(), cfg, "ingress", cfg.Topic(kafka.Raw), testkit.Log(t), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	bodies := map[string][]byte{"evt_ff": {'"', 0xff, '"'}, "evt_empty": {}, "evt_limit": bytes.Repeat([]byte{0xa5}, kafka.MaxBody)}
	for i := range 50 {
		bodies[fmt.Sprintf("evt_%d", i)] = fmt.Appendf(nil, "{\"n\":%d}\n", i)
	}
	var wg sync.WaitGroup
	for key, body := range bodies {
		wg.Go(func() {
			if err := p.Produce(t.Context(), kafka.Record{Key: []byte(key), Value: body, Headers: []event.Header{{Name: "ce_id", Value: []byte(key)}}}); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		})
	}
	wg.Wait()
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	cl := testkit.Client(t, cfg, kgo.ConsumeTopics(cfg.Topic(kafka.Raw)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for got := 0; got < len(bodies); {
		cl.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) {
			got++
			if want, ok := bodies[string(r.Key)]; !ok || !bytes.Equal(want, r.Value) || r.Value == nil {
				t.Errorf("%s differs (%d bytes)", r.Key, len(r.Value))
			}
			if r.Attrs.TimestampType() != 1 {
				t.Error("the timestamp is not the broker's")
			}
		})
	}
}

func TestMissingTopicsAreMadeAndTheOthersChecked(t *testing.T) {
	cfg := testkit.Kafka(t, 2) // two partitions are the operator's choice
	adm := testkit.Admin(t, cfg)
	if _, err := adm.DeleteTopic(t.Context(), cfg.Topic(kafka.Latest)); err != nil {
		t.Fatal(err)
	}
	ensure := func() ([]string, error) {
		return kafka.EnsureTopics(t.Context(), cfg, testkit.Log(t), kafka.EnsureOptions{Replication: 1})
	}
	created, err := ensure()
	if err != nil || !slices.Equal(created, []string{cfg.Topic(kafka.Latest)}) {
		t.Fatalf("created %v, %v", created, err)
	}
	if created, err = ensure(); err != nil || len(created) != 0 {
		t.Fatalf("a second time: created %v, %v", created, err)
	}
	changed := time.Now()
	for _, c := range []struct{ topic, key, value string }{
		{kafka.Raw, "message.timestamp.type", "CreateTime"}, {kafka.Raw, "max.message.bytes", "1000000"}, {kafka.Latest, "cleanup.policy", "delete"},
		{kafka.Status, "cleanup.policy", "compact"},
	} {
		if _, err := adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: c.key, Value: &c.value}}, cfg.Topic(c.topic)); err != nil {
			t.Fatal(err)
		}
	}
	// A busy broker hears of a changed setting later than the one who changed it.
	for tick := time.Tick(20 * time.Millisecond); ; <-tick {
		if _, err = ensure(); err != nil && strings.Count(err.Error(), "\n") == 3 || t.Context().Err() != nil || time.Since(changed) > 10*time.Second {
			break
		}
	}
	for _, want := range []string{"message.timestamp.type=CreateTime", "max.message.bytes=1000000", "cleanup.policy=delete; it must be compact", "cleanup.policy=compact; it must be delete"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
}

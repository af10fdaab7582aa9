package ingress

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/testkit"
)

// O01, O02, O30: on Apache Kafka, every 2xx is in the raw topic, byte for byte.
func TestEveryAcceptedWebhookLiesOnApacheKafkaByteForByte(t *testing.T) {
	brokers := testkit.Kafka(t, 0)
	r := startOn(t, config(), brokers)
	bodies := map[string][]byte{"evt_limit": padded("evt_limit", kafka.MaxBody)}
	for i := range 200 {
		id := fmt.Sprint("evt_", i)
		bodies[id] = append(paid(id), " \r\n\t☕"[:i%4]...)
	}
	unreadable := []byte{0xef, 0xbb, 0xbf, 0xff, 0}
	want(t, "unreadable", r.send(unreadable), 200)
	var wg sync.WaitGroup
	for id, body := range bodies {
		wg.Go(func() { want(t, id, r.send(body), 200) })
	}
	wg.Wait()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	cl := testkit.Client(t, brokers, kgo.ConsumeTopics(brokers.Topic(kafka.Raw)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for got := 0; got < len(bodies)+1; {
		cl.PollFetches(t.Context()).EachRecord(func(k *kgo.Record) {
			got++
			var hs []event.Header
			for _, h := range k.Headers {
				hs = append(hs, event.Header{Name: h.Key, Value: h.Value})
			}
			e, err := event.Parse(k.Key, k.Value, hs)
			switch {
			case err != nil:
				t.Error(err)
			case e.Type == event.Unreadable:
				if !bytes.Equal(e.Body, unreadable) {
					t.Errorf("unreadable: %q", e.Body)
				}
			case !bytes.Equal(e.Body, bodies[e.ID]):
				t.Errorf("%s was changed", e.ID)
			}
		})
	}
}

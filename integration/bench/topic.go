package main

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/integration/harness"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/testkit"
	"sluice/pkg/webhook"
)

// fill writes events to the raw topic as ingress would, without its waiting. now
// dates them: filled again with the same now, they are the same to the byte.
func fill(t *scope, d *harness.Deployment, ds []delivery, now time.Time) {
	fillEach(t, d, ds, now, func(event.Event) {})
}

// fillEach is fill, and hands over every event.
func fillEach(t *scope, d *harness.Deployment, ds []delivery, now time.Time, each func(event.Event)) {
	producer := testkit.Client(t, d.Kafka, kgo.DefaultProduceTopic(d.Kafka.Topic(kafka.Raw)),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(20_000))
	defer producer.Close()
	provider, _ := webhook.Builtin("stripe")
	var failed atomic.Pointer[error]
	for _, one := range ds {
		b := body(one, now.Add(-time.Hour))
		reading, err := provider.Read(func(string) []string { return nil }, b)
		if err != nil {
			t.Fatalf("read a webhook: %v", err)
		}
		e := event.Event{
			Source: "stripe", Provider: "stripe", Endpoint: "stripe", Mode: reading.Mode, Trust: reading.Trust, TimeRepeats: provider.TimeRepeats(),
			ID: reading.ID, Type: reading.Type, Time: reading.Time, Order: reading.Order, Payment: reading.Payment,
			ContentType: "application/json; charset=utf-8", ReceivedAt: now, SecretName: "env:STRIPE_SECRET", Body: b,
			Signature: []event.Header{{Name: "stripe-signature", Value: []byte(harness.Stripe(b).Header.Get("Stripe-Signature"))}},
		}
		each(e)
		headers, err := e.Headers()
		if err != nil {
			t.Fatalf("encode a record: %v", err)
		}
		r := &kgo.Record{Key: []byte(reading.ID), Value: b}
		for _, h := range headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
		producer.Produce(t.Context(), r, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	if err := producer.Flush(t.Context()); err != nil {
		t.Fatalf("fill the raw topic: %v", err)
	}
	if err := failed.Load(); err != nil {
		t.Fatalf("fill the raw topic: %v", *err)
	}
}

package ingress

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/pkg/kafka"
)

// BenchmarkHandler is one webhook of 1 KiB without network and Kafka: routing,
// verification, reading and headers.
func BenchmarkHandler(b *testing.B) {
	p := &discard{}
	in, err := build(config(), endpoints(b), p, time.Now, quiet, prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	h := in.handler()
	body := padded("evt_1", 1024)
	signature := sign(b, time.Now(), body)["Stripe-Signature"]
	b.ReportAllocs()
	for b.Loop() {
		req := httptest.NewRequest(http.MethodPost, "/webhooks/shop", bytes.NewReader(body))
		req.Header.Set("Stripe-Signature", signature)
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		if rec.Code != 200 {
			b.Fatal(rec.Code)
		}
	}
}

type discard struct{ fakeProducer }

func (*discard) Produce(context.Context, kafka.Record) error { return nil }

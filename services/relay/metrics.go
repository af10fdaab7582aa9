package relay

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	published, refused, failures, fenced prometheus.Counter
	publish                              prometheus.Histogram
	shards, backlog                      prometheus.Gauge
	oldest                               atomic.Int64 // changed_at of the batch in flight, Unix µs; 0 = none
}

func newMetrics(reg prometheus.Registerer, now func() time.Time) *metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: "sluice_relay_" + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: "sluice_relay_" + name, Help: help})
	}
	m := &metrics{
		published: counter("messages_published_total", "Status messages that Kafka has acknowledged."),
		refused:   counter("messages_refused_total", "Status messages that Kafka will never take; each is a review item."),
		failures:  counter("publish_failures_total", "Attempts to publish a batch that failed and are tried again."),
		fenced:    counter("cursors_fenced_total", "Cursor moves that changed nothing because the shard had a new owner."),
		publish: f.NewHistogram(prometheus.HistogramOpts{Name: "sluice_relay_publish_seconds",
			Help: "From handing a batch to Kafka to its last acknowledgement.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)}),
		shards:  gauge("owned_shards", "Shards that this relay owns."),
		backlog: gauge("backlog_rows", "Transitions not read yet in the owned shards; counted up to 1000 for each shard."),
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_relay_oldest_unacknowledged_seconds",
		Help: "Age of the first transition in the batch that waits for Kafka; 0 if none waits. Alert on this."},
		func() float64 {
			at := m.oldest.Load()
			if at == 0 {
				return 0
			}
			return max(0, now().Sub(time.UnixMicro(at)).Seconds())
		})
	return m
}

package relay

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	published, refused, failures, fenced prometheus.Counter
	publish                              prometheus.Histogram
	shards, backlog                      prometheus.Gauge
	oldest                               oldest
}

// oldest knows since when each shard's transaction in flight is due.
type oldest struct {
	mu  sync.Mutex
	due map[int16]time.Time // changed_at of its first row
}

func (o *oldest) begin(shard int16, due time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.due[shard] = due
}

func (o *oldest) end(shard int16) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.due, shard)
}

// age of the oldest; 0 if none is in flight.
func (o *oldest) age(now time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	var age time.Duration
	for _, due := range o.due {
		age = max(age, now.Sub(due))
	}
	return age
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
		oldest:    oldest{due: map[int16]time.Time{}},
		published: counter("messages_published_total", "Status messages that Kafka has acknowledged."),
		refused:   counter("messages_refused_total", "Status messages that Kafka will never take; each is a review item."),
		failures:  counter("publish_failures_total", "Transactions that failed or whose end is unknown; the shard is taken anew, and what is not committed is tried again."),
		fenced:    counter("cursors_fenced_total", "Transactions and moves of cursors that changed nothing because the shard had a new owner."),
		publish: f.NewHistogram(prometheus.HistogramOpts{Name: "sluice_relay_publish_seconds",
			Help: "From handing a shard's rows to Kafka to the commit of their transaction.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)}),
		shards:  gauge("owned_shards", "Shards that this relay owns."),
		backlog: gauge("backlog_rows", "Transitions not read yet in the owned shards; counted up to 1000 for each shard."),
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_relay_oldest_unacknowledged_seconds",
		Help: "Age of the oldest transition that was handed to Kafka and is not acknowledged; 0 if none waits. Alert on this."},
		func() float64 { return m.oldest.age(now()).Seconds() })
	return m
}

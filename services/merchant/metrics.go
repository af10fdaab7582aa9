package merchant

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	registered prometheus.Counter
	requests   *prometheus.HistogramVec
	calls      *prometheus.HistogramVec
	published  prometheus.Counter
	timedOut   prometheus.Counter
	waiting    prometheus.Gauge
	oldest     prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		registered: f.NewCounter(prometheus.CounterOpts{Name: "sluice_merchant_orders_registered_total", Help: "Orders registered for the first time."}),
		requests: f.NewHistogramVec(prometheus.HistogramOpts{Name: "sluice_merchant_request_seconds",
			Help: "Requests by operation and answer.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}, []string{"operation", "code"}),
		calls: f.NewHistogramVec(prometheus.HistogramOpts{Name: "sluice_merchant_call_seconds",
			Help: "Calls of two-way providers by endpoint, operation and outcome (ok, or the protocol's error).", Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}, []string{"endpoint", "operation", "outcome"}),
		published: f.NewCounter(prometheus.CounterOpts{Name: "sluice_merchant_outbox_published_total", Help: "Records of the outbox that the raw topic has."}),
		timedOut:  f.NewCounter(prometheus.CounterOpts{Name: "sluice_merchant_timed_out_total", Help: "Payme transactions that were not performed within 12 hours."}),
		waiting:   f.NewGauge(prometheus.GaugeOpts{Name: "sluice_merchant_outbox_records", Help: "Records of the outbox that wait for Kafka."}),
		oldest:    f.NewGauge(prometheus.GaugeOpts{Name: "sluice_merchant_outbox_age_seconds", Help: "How long the oldest record of the outbox has waited for Kafka."}),
	}
}

func (m *metrics) count(operation string, code int, took time.Duration) {
	m.requests.WithLabelValues(operation, strconv.Itoa(code)).Observe(took.Seconds())
}

func (m *metrics) countCall(endpoint, operation, outcome string, took time.Duration) {
	m.calls.WithLabelValues(endpoint, operation, outcome).Observe(took.Seconds())
}

func (m *metrics) backlog(records int64, age time.Duration) {
	m.waiting.Set(float64(records))
	m.oldest.Set(age.Seconds())
}

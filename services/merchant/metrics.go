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
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		registered: f.NewCounter(prometheus.CounterOpts{Name: "sluice_merchant_orders_registered_total", Help: "Orders registered for the first time."}),
		requests: f.NewHistogramVec(prometheus.HistogramOpts{Name: "sluice_merchant_request_seconds",
			Help: "Requests by operation and answer.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}, []string{"operation", "code"}),
	}
}

func (m *metrics) count(operation string, code int, took time.Duration) {
	m.requests.WithLabelValues(operation, strconv.Itoa(code)).Observe(took.Seconds())
}

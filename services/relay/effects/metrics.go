package effects

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	attempts *prometheus.CounterVec
	failed   *prometheus.CounterVec
	calls    *prometheus.HistogramVec
	stopped  *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		attempts: f.NewCounterVec(prometheus.CounterOpts{Name: "sluice_relay_effect_attempts_total",
			Help: "Attempts by effect and result: done, overtaken (it ended after its lease), or the class of what went wrong."}, []string{"effect", "result"}),
		failed: f.NewCounterVec(prometheus.CounterOpts{Name: "sluice_relay_effects_failed_total",
			Help: "Effects that failed for good and are review items. Alert on any."}, []string{"effect"}),
		calls: f.NewHistogramVec(prometheus.HistogramOpts{Name: "sluice_relay_effect_call_seconds",
			Help: "Calls of effects, from the look-up of the name to the answer's end.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)}, []string{"effect"}),
		stopped: f.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_relay_effect_calls_stopped",
			Help: "1 while no calls are made because the destination fails or asked for quiet, 0.5 while one tries. Alert on this."}, []string{"effect"}),
	}
}

func (m *metrics) attempt(effect, result string, took time.Duration) {
	m.attempts.WithLabelValues(effect, result).Inc()
	m.calls.WithLabelValues(effect).Observe(took.Seconds())
}

func (m *metrics) circuit(effect string, is circuitState) {
	m.stopped.WithLabelValues(effect).Set(map[circuitState]float64{closed: 0, halfOpen: 0.5, open: 1}[is])
}

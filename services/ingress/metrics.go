package ingress

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// unknownEndpoint is the endpoint label of everything that reached no configured
// endpoint. No endpoint can have this name.
const unknownEndpoint = "(unknown)"

type metrics struct {
	webhooks *prometheus.CounterVec
	// verified is how often each secret was the one that had signed: once the old one
	// of a rotation stands still, it can go.
	verified *prometheus.CounterVec
	duration prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer, in *Ingress) *metrics {
	m := &metrics{
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_ingress_webhooks_total",
			Help: "Requests by endpoint, outcome (accepted, challenged, refused, aborted, unavailable, failed) and reason.",
		}, []string{"endpoint", "outcome", "reason"}),
		verified: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_ingress_verified_webhooks_total",
			Help: "Webhooks whose signature is right, by endpoint and the reference of the secret that signed them.",
		}, []string{"endpoint", "secret"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_ingress_webhook_duration_seconds", Help: "From the request's head to the answer, accepted webhooks only.",
			Buckets: []float64{.001, .002, .003, .005, .0075, .01, .015, .025, .05, .1, .25, .5, 1, 2, 4},
		}),
	}
	gauge := func(name, help string, value func() int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	reg.MustRegister(m.webhooks, m.verified, m.duration,
		gauge("sluice_ingress_buffered_records", "Records that wait for the brokers' acknowledgement.", func() int64 { n, _ := in.producer.Buffered(); return n }),
		gauge("sluice_ingress_buffered_bytes", "Bytes of the records that wait for the brokers' acknowledgement.", func() int64 { _, n := in.producer.Buffered(); return n }),
		gauge("sluice_ingress_active_requests", "Requests being worked on.", in.inFlight.Load),
		gauge("sluice_ingress_large_body_bytes", "Bytes held by bodies above 16 KiB.", in.bodies.taken.Load),
	)
	for _, rt := range in.routes {
		for _, secret := range rt.Secrets {
			m.verified.WithLabelValues(rt.Name, secret.Name) // one that signs nothing shows it
		}
	}
	return m
}

func (m *metrics) count(endpoint string, a answer, took time.Duration) {
	m.webhooks.WithLabelValues(endpoint, string(a.outcome), a.reason).Inc()
	if a.outcome == accepted {
		m.duration.Observe(took.Seconds())
	}
}

package reconciler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"sluice/pkg/postgres"
	"sluice/pkg/webhook"
)

type metrics struct {
	lookups, facts, hanging                *prometheus.CounterVec
	requests                               *prometheus.HistogramVec
	openLookups, openHanging, oldest, stop *prometheus.GaugeVec
	sweptEvents                            *prometheus.CounterVec
	sweepLag                               *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		lookups: f.NewCounterVec(prometheus.CounterOpts{Name: "sluice_reconciler_lookups_total",
			Help: "Attempts of look-ups by provider and outcome (answered, pointless, undecided, unknown, unavailable, refused, unreadable, undelivered, unmarked)."}, []string{"provider", "outcome"}),
		facts: f.NewCounterVec(prometheus.CounterOpts{Name: "sluice_reconciler_facts_total",
			Help: "Facts that were learnt and that Kafka has acknowledged."}, []string{"provider", "fact"}),
		requests: f.NewHistogramVec(prometheus.HistogramOpts{Name: "sluice_reconciler_request_seconds",
			Help: "Requests to providers, from the first byte sent to the last one read.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 12)}, []string{"provider"}),
		hanging: f.NewCounterVec(prometheus.CounterOpts{Name: "sluice_reconciler_hanging_total",
			Help: "What was found to hang and is asked about: order (pending for as long as its provider says) or held_event (half of its grace is over)."}, []string{"source", "what"}),
		openLookups: f.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_reconciler_open_lookups", Help: "Look-ups without an answer that hints wait for."}, []string{"source"}),
		openHanging: f.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_reconciler_hanging_lookups",
			Help: "Orders and held events that hang and that the provider has not decided yet."}, []string{"source"}),
		oldest: f.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_reconciler_oldest_lookup_seconds",
			Help: "Age of the oldest look-up without an answer that hints wait for. Alert on this."}, []string{"source"}),
		stop: f.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_reconciler_requests_stopped",
			Help: "1 while no requests are made because the provider fails or asked for quiet."}, []string{"source"}),
		sweptEvents: f.NewCounterVec(prometheus.CounterOpts{Name: "sluice_reconciler_swept_events_total",
			Help: "What providers list, by what is known of it (known, missing, undecided, differs, unreadable, other_mode), and pages without an answer (unanswered). Alert on missing: webhooks were lost."}, []string{"provider", "result"}),
		sweepLag: f.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_reconciler_sweep_lag_seconds",
			Help: "How long ago that is up to which everything that a provider lists is known."}, []string{"source"}),
	}
}

func (m *metrics) swept(provider string, t tally) {
	for result, n := range t.counts() {
		m.sweptEvents.WithLabelValues(provider, result).Add(float64(n))
	}
}

// sweptUntil shows how far each source was swept.
func (m *metrics) sweptUntil(states []postgres.SweepState, now time.Time) {
	m.sweepLag.Reset()
	for _, s := range states {
		m.sweepLag.WithLabelValues(s.Source).Set(max(0, now.Sub(s.SweptUntil).Seconds()))
	}
}

func (m *metrics) request(provider string) func(time.Duration) {
	h := m.requests.WithLabelValues(provider)
	return func(took time.Duration) { h.Observe(took.Seconds()) }
}

func (m *metrics) ended(provider, outcome string) { m.lookups.WithLabelValues(provider, outcome).Inc() }

func (m *metrics) learnt(provider string, facts []webhook.Reading) {
	for _, f := range facts {
		m.facts.WithLabelValues(provider, f.Fact.String()).Inc()
	}
}

func (m *metrics) found(source, what string, n int) {
	m.hanging.WithLabelValues(source, what).Add(float64(n))
}

func (m *metrics) breaker(source string, open bool) {
	is := 0.0
	if open {
		is = 1
	}
	m.stop.WithLabelValues(source).Set(is)
}

// counted shows the open look-ups of each source; what is not in the list has none.
func (m *metrics) counted(open []postgres.OpenLookups, now time.Time) {
	m.openLookups.Reset()
	m.openHanging.Reset()
	m.oldest.Reset()
	for _, o := range open {
		m.openLookups.WithLabelValues(o.Source).Set(float64(o.Open))
		m.openHanging.WithLabelValues(o.Source).Set(float64(o.Hanging))
		if o.Open > 0 {
			m.oldest.WithLabelValues(o.Source).Set(max(0, now.Sub(o.Since).Seconds()))
		}
	}
}

package processor

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/pkg/order"
)

type metrics struct {
	events      *prometheus.CounterVec
	skipped     prometheus.Counter
	size        prometheus.Histogram
	duration    prometheus.Histogram
	retries     prometheus.Counter
	dead        *prometheus.CounterVec
	fenced      prometheus.Counter
	gaps        *prometheus.CounterVec
	unaccounted prometheus.Gauge
	hints       *prometheus.CounterVec
	lookups     *prometheus.GaugeVec
	lookupAge   *prometheus.GaugeVec
	effectsDue  *prometheus.GaugeVec
	effectAge   *prometheus.GaugeVec
	effectsFail *prometheus.GaugeVec
	horizons    *prometheus.GaugeVec
	ahead       *prometheus.GaugeVec
	deadOpen    prometheus.Gauge
	unarchived  prometheus.Gauge
	again       *prometheus.CounterVec
	replaying   prometheus.Gauge
	replayLag   *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_processor_events_total",
			Help: "Records taken from the raw topic, by what became of them."}, []string{"verdict"}),
		skipped: prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_processor_tombstones_total",
			Help: "Records without a value, skipped by rule."}),
		size: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "sluice_processor_batch_records",
			Help: "Records in one transaction.", Buckets: prometheus.ExponentialBuckets(1, 4, 8)}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "sluice_processor_batch_seconds",
			Help: "Time of one transaction that committed.", Buckets: prometheus.ExponentialBuckets(0.002, 2, 14)}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_processor_retries_total",
			Help: "Transactions that failed and are tried again."}),
		dead: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_processor_dead_letters_total",
			Help: "Records kept as dead letters, by reason."}, []string{"reason"}),
		fenced: prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_processor_fenced_total",
			Help: "Batches given up because another consumer has the partition."}),
		gaps: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_processor_offset_gaps_total",
			Help: "Ranges of offsets that were missing, by reason."}, []string{"reason"}),
		unaccounted: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_processor_unaccounted_events",
			Help: "Accepted records of the whole deployment less those with a verdict and those in flight, every minute; not 0 if any was lost or counted twice."}),
		hints: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_processor_hints_total",
			Help: "Records that nobody has signed, by what became of them at first: held until their provider was asked, a duplicate of one that waits, no_change if it was asked since, or dead."}, []string{"verdict"}),
		lookups: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_processor_open_lookups",
			Help: "Objects that a provider must be asked about, of the whole deployment, by source."}, []string{"source"}),
		lookupAge: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_processor_oldest_lookup_seconds",
			Help: "How long the longest open look-up of a source has waited."}, []string{"source"}),
		effectsDue: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_processor_due_effects",
			Help: "Effects that may be attempted now and are not done, of the whole deployment, by effect."}, []string{"effect"}),
		effectAge: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_processor_oldest_due_effect_seconds",
			Help: "For how long the effect that is due the longest has been."}, []string{"effect"}),
		effectsFail: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_processor_failed_effects",
			Help: "Effects whose last attempt failed and that nobody has sent again, by effect."}, []string{"effect"}),
		again: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_processor_replay_records_total",
			Help: "Records read again beside what is new: known by a look-up, or taken into a transaction."}, []string{"outcome"}),
		replaying: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_processor_replay_partitions",
			Help: "Partitions of which something is being read again."}),
		replayLag: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_processor_replay_lag_records",
			Help: "Offsets that are left to be read again, by partition."}, []string{"partition"}),
	}
	m.horizons = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_processor_horizon_seconds",
		Help: "For how long what is named is kept, by the settings at start; +Inf where that is for ever."}, []string{"horizon"})
	m.ahead = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_processor_partitions_ahead_seconds",
		Help: "For how long from now on table partitions are made."}, []string{"table"})
	m.deadOpen = prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_processor_open_dead_letters",
		Help: "Dead letters of the whole deployment that nobody has settled."})
	m.unarchived = prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_processor_unarchived_partitions",
		Help: "Table partitions that are old and stay because they cannot be archived."})
	m.unaccounted.Set(math.NaN()) // not known yet
	m.deadOpen.Set(math.NaN())
	reg.MustRegister(m.events, m.skipped, m.size, m.duration, m.retries, m.dead, m.fenced, m.gaps, m.unaccounted, m.hints, m.lookups, m.lookupAge,
		m.effectsDue, m.effectAge, m.effectsFail, m.horizons, m.ahead, m.deadOpen, m.unarchived, m.again, m.replaying, m.replayLag)
	return m
}

// known counts what was read again and a look-up knew.
func (m *metrics) known(records int) {
	m.again.WithLabelValues("known").Add(float64(records))
	m.events.WithLabelValues(order.Duplicate.String()).Add(float64(records))
}

// taken counts what was read again and went through a transaction, which counts its
// verdicts itself.
func (m *metrics) taken(records int) { m.again.WithLabelValues("taken").Add(float64(records)) }

// batch counts a committed transaction.
func (m *metrics) batch(b *batch, took time.Duration) {
	m.size.Observe(float64(len(b.records)))
	m.duration.Observe(took.Seconds())
	var verdicts, hints [order.Duplicate + 1]int
	for _, r := range b.records {
		if r.skip {
			m.skipped.Inc()
			continue
		}
		verdicts[r.verdict]++
		if r.hint {
			hints[r.verdict]++
		}
		if r.dead != "" {
			m.dead.WithLabelValues(r.dead).Inc()
		}
	}
	for v, n := range verdicts {
		if n > 0 {
			m.events.WithLabelValues(order.Verdict(v).String()).Add(float64(n))
		}
		if hints[v] > 0 {
			m.hints.WithLabelValues(order.Verdict(v).String()).Add(float64(hints[v]))
		}
	}
}

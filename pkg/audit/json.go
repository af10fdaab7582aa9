package audit

import (
	"maps"
	"slices"
	"time"

	"sluice/pkg/order"
)

// Outside is what is unaccounted before and after the span's hours.
func (r *Report) Outside() (n int64) {
	for _, l := range r.Lines {
		if l.From.IsZero() || l.Before.IsZero() {
			n += abs(l.Unaccounted())
		}
	}
	return n
}

// Document is a report for programs. Its names are stable.
type Document struct {
	// Unaccounted is the one figure; 0 if the books add up.
	Unaccounted int64          `json:"unaccounted"`
	Hours       []HourDocument `json:"hours"`
	// Former are raw topics that were deleted: what was applied of them and what is
	// counted.
	Former *FormerDocument `json:"former_topics,omitempty"`
	// Gaps expired before they were read; nobody has settled their review items.
	Gaps []GapDocument `json:"gaps,omitempty"`
	// Truncated are partitions of which the brokers lost records.
	Truncated []int32 `json:"truncated_partitions,omitempty"`
	// Lookups are the questions to providers that wait for an answer, by source.
	Lookups  []LookupDocument `json:"open_lookups,omitempty"`
	Findings []Finding        `json:"findings"`
}

// LookupDocument is what waits for a provider's answer.
type LookupDocument struct {
	Source string    `json:"source"`
	Open   int64     `json:"open"`
	Since  time.Time `json:"oldest_since"`
}

// HourDocument is one line. From is absent where it begins with the first record,
// Before where it ends with the last.
type HourDocument struct {
	From        *time.Time       `json:"from,omitempty"`
	Before      *time.Time       `json:"before,omitempty"`
	Accepted    int64            `json:"accepted"`
	Verdicts    map[string]int64 `json:"verdicts"`
	InFlight    int64            `json:"in_flight"`
	WrittenOff  int64            `json:"written_off"`
	Unaccounted int64            `json:"unaccounted"`
	// Endpoints are the verdicts by endpoint. Accepted and unaccounted are there
	// only for hours that were read.
	Endpoints map[string]EndpointDocument `json:"endpoints"`
}

// EndpointDocument is one endpoint's part of a line.
type EndpointDocument struct {
	Accepted *int64           `json:"accepted,omitempty"`
	Verdicts map[string]int64 `json:"verdicts"`
}

// FormerDocument are the sums of topics that are gone.
type FormerDocument struct {
	Applied int64 `json:"applied"`
	Counted int64 `json:"counted"`
}

// GapDocument is a range of offsets, both ends included.
type GapDocument struct {
	Partition int32 `json:"partition"`
	From      int64 `json:"from"`
	To        int64 `json:"to"`
}

// JSON is the report as a document.
func (r *Report) JSON(findings []Finding) Document {
	d := Document{Unaccounted: r.Unaccounted(), Hours: []HourDocument{}, Findings: findings, Truncated: r.Truncated}
	if findings == nil {
		d.Findings = []Finding{}
	}
	if f := r.Books.Former; f != (Sums{}) {
		d.Former = &FormerDocument{f.Accepted, f.Counted}
	}
	for _, g := range r.Gaps {
		d.Gaps = append(d.Gaps, GapDocument{g.Partition, g.From, g.To})
	}
	for _, l := range r.Lookups {
		d.Lookups = append(d.Lookups, LookupDocument{l.Source, l.Open, l.Since.UTC()})
	}
	for _, l := range r.Lines {
		h := HourDocument{Accepted: l.Accepted, InFlight: l.InFlight, WrittenOff: l.WrittenOff, Unaccounted: l.Unaccounted(),
			Verdicts: words(l.Verdicts()), Endpoints: map[string]EndpointDocument{}}
		if !l.From.IsZero() {
			h.From = &l.From
		}
		if !l.Before.IsZero() {
			h.Before = &l.Before
		}
		for _, name := range l.Names() {
			e := EndpointDocument{Verdicts: words(l.Endpoints[name])}
			if n, ok := l.ByEndpoint[name]; ok {
				e.Accepted = &n
			}
			h.Endpoints[name] = e
		}
		d.Hours = append(d.Hours, h)
	}
	return d
}

// Names are the line's endpoints, sorted: those that were counted and those that
// its records name.
func (l Line) Names() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(l.Endpoints)), maps.Keys(l.ByEndpoint))
	slices.Sort(names)
	return slices.Compact(names)
}

// Verdicts are those that end a record, in the order in which they are shown.
var Verdicts = []order.Verdict{order.Applied, order.NoChange, order.Duplicate, order.Held, order.Dead}

func words(verdicts map[order.Verdict]int64) map[string]int64 {
	all := map[string]int64{}
	for _, v := range Verdicts {
		all[v.String()] = verdicts[v]
	}
	return all
}

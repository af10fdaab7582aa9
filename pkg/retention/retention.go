// Package retention sets against each other how long everything is kept that
// recognises a repeat, or holds bytes that may be needed again: pure, from settings
// to findings.
//
// Its path: retention.go is what is known and what is found, rules.go the rules.
package retention

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

const day = 24 * time.Hour

// Topic is how long a topic keeps its records, in Kafka's own terms.
type Topic struct {
	Name string // full name
	// Time is retention.ms; negative: none is deleted for its age.
	Time time.Duration
	// Bytes is retention.bytes of each partition; negative: no limit.
	Bytes int64
	// Segment is segment.ms: a record may live so much longer than Time.
	Segment time.Duration
}

// longest is how long a record may live that Time deletes.
func (t Topic) longest() time.Duration { return t.Time + t.Segment }

// Endpoint is who may repeat.
type Endpoint struct {
	Name, Provider string
	// Repeats is how long after the first delivery its provider may repeat by itself.
	Repeats time.Duration
}

// Settings are one deployment's.
type Settings struct {
	// Raw, Status and DeadLetters are nil where Kafka was not asked; what depends on
	// them is then not checked.
	Raw, Status, DeadLetters *Topic
	// Window is for how long of provider time a repeat is recognised (SLUICE_WINDOW).
	Window time.Duration
	// Journal is how long PostgreSQL keeps every event's bytes; 0: not at all.
	Journal time.Duration
	// Transitions is how long published order transitions are kept; 0: for ever.
	Transitions time.Duration
	// Grace is the longest that a held event waits before a person is asked.
	Grace     time.Duration
	Endpoints []Endpoint
	// DevBroker: topics are kept by size.
	DevBroker bool
}

// Severity is how much a finding matters.
type Severity string

// The severities, the worst first.
const (
	Refuse Severity = "refuse" // the processor does not start
	Warn   Severity = "warn"
	Fine   Severity = "fine"
)

// Finding is what one rule says.
type Finding struct {
	Severity Severity `json:"severity"`
	// Rule is its name; Subject the topic or endpoint that it is about, if one.
	Rule    string `json:"rule"`
	Subject string `json:"subject,omitempty"`
	// Says is a sentence without its full stop; Change is what to do, empty where all is well.
	Says   string `json:"says"`
	Change string `json:"change,omitempty"`
}

// Horizon is how far back one thing reaches.
type Horizon struct {
	// Name is what is kept, Setting what decides for how long.
	Name    string `json:"name"`
	Setting string `json:"setting"`
	// Kept is for how long everything is; -1: for ever. AtMost is how long the last of
	// it may be, never less than Kept.
	Kept   time.Duration `json:"kept_ns"`
	AtMost time.Duration `json:"at_most_ns"`
	// BySize: it is kept by size, for an unknown time.
	BySize bool `json:"by_size,omitempty"`
	// Repeats: it is a provider that repeats, and nothing that is kept.
	Repeats bool `json:"repeats,omitempty"`
}

// Forever is the Kept of a horizon without an end.
const Forever time.Duration = -1

// Report is what Check found: every rule that applies has at least one finding.
type Report struct {
	Horizons []Horizon `json:"horizons"`
	Findings []Finding `json:"findings"`
}

// Check applies every rule.
func Check(s Settings) Report {
	r := Report{Horizons: s.horizons()}
	for _, rule := range rules {
		for _, f := range rule.check(s) {
			f.Rule = rule.name
			r.Findings = append(r.Findings, f)
		}
	}
	return r
}

// Of returns the findings of one severity.
func (r Report) Of(severity Severity) (found []Finding) {
	for _, f := range r.Findings {
		if f.Severity == severity {
			found = append(found, f)
		}
	}
	return found
}

// Refusal is every finding that forbids to start, as one error; nil if there is none.
func (r Report) Refusal() error {
	var problems []error
	for _, f := range r.Of(Refuse) {
		problems = append(problems, errors.New(f.String()))
	}
	return errors.Join(problems...)
}

// String is the finding in one line.
func (f Finding) String() string {
	if f.Change == "" {
		return f.Says
	}
	return f.Says + ": " + f.Change
}

func (s Settings) horizons() (all []Horizon) {
	topic := func(name string, t *Topic) {
		if t == nil {
			return
		}
		h := Horizon{Name: name, Setting: "retention.ms of " + t.Name, Kept: t.Time, AtMost: t.longest()}
		if t.Time < 0 {
			h.Kept, h.AtMost, h.BySize = Forever, Forever, t.Bytes >= 0
		}
		all = append(all, h)
	}
	topic("raw topic", s.Raw)
	all = append(all, Horizon{Name: "repeats recognised", Setting: "SLUICE_WINDOW", Kept: s.Window, AtMost: s.Window})
	for _, e := range s.Endpoints {
		all = append(all, Horizon{Name: "repeats of " + e.Name, Setting: e.Provider, Kept: e.Repeats, AtMost: e.Repeats, Repeats: true})
	}
	all = append(all, Horizon{Name: "journal of bodies", Setting: "SLUICE_PROCESSOR_KEEP_BODIES", Kept: s.Journal, AtMost: s.Journal})
	kept := s.Transitions
	if kept == 0 {
		kept = Forever
	}
	all = append(all, Horizon{Name: "order transitions", Setting: "SLUICE_PROCESSOR_KEEP_TRANSITIONS", Kept: kept, AtMost: kept})
	topic("status topic", s.Status)
	topic("dead-letter topic", s.DeadLetters)
	return all
}

// Span says a length of time as people do: 90 days, 1.5 days, 28 hours.
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "for ever"
	case d%day == 0:
		return count(int64(d/day), "day")
	case d > 3*day:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Hours()/24), ".0") + " days"
	case d%time.Hour == 0:
		return count(int64(d/time.Hour), "hour")
	case d >= time.Minute && d%time.Minute == 0:
		return count(int64(d/time.Minute), "minute")
	}
	return d.String()
}

func count(n int64, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

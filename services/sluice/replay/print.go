package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/pkg/postgres"
	"sluice/services/processor"
	"sluice/services/sluice/terminal"
)

// Print is the plan for people; again is the command line that carries it out.
func (d *Document) Print(p *terminal.Printer, again string) {
	p.Line("%s  %s", p.Bold("Plan "+d.Digest), d.Asked)
	rows := [][]string{{"partition", "group is at", "will be at", "reads again", "leaves out"}}
	for _, s := range d.Steps {
		group := "nowhere"
		if s.Group >= 0 {
			group = fmt.Sprint(s.Group)
		}
		row := []string{fmt.Sprint(s.Partition), group, fmt.Sprint(s.To), fmt.Sprint(s.Records), fmt.Sprint(s.Ahead)}
		if !s.Does() {
			row = append(row[:2], p.Dim("stays"), p.Dim("0"), p.Dim("0"))
		}
		rows = append(rows, row)
	}
	p.Table(append(rows, []string{p.Bold("total"), "", "", fmt.Sprint(d.Records), fmt.Sprint(d.Ahead)}))
	if !d.Does() {
		p.Line("\n%s", p.Green("nothing is to be read again"))
	}
	if d.Records > 0 {
		how := "which is assumed: no replay was long enough here to be measured"
		if d.Measured {
			how = "as the last replays were measured"
		}
		p.Line("\n  %s; at %.0f records/s, %s", terminal.Roughly(time.Duration(d.Seconds*float64(time.Second))), d.Rate, how)
		p.Title("What the records would do")
		if d.Outlook == nil {
			p.Line("  nobody looked: --no-dry-run; events that were taken over change nothing")
		} else {
			d.Outlook.Print(p)
		}
	}
	notes(p, "Worth knowing", p.Yellow, d.Notices)
	notes(p, "It cannot be done like this", p.Red, d.Refusals)
	if d.Does() && len(d.Refusals) == 0 && again != "" {
		p.Line("\n%s\n  %s", p.Dim("nothing was changed; to do it:"), again)
	}
}

func notes(p *terminal.Printer, title string, style func(string) string, lines []string) {
	if len(lines) == 0 {
		return
	}
	p.Title(title)
	for _, line := range lines {
		p.Line("  %s", style(line))
	}
}

// Note is the lag in a few words, by partition.
func (g Progress) Note() string {
	if g.Members == 0 {
		return "no processor runs"
	}
	var lags []string
	for _, p := range slices.Sorted(maps.Keys(g.Lag)) {
		if g.Lag[p] > 0 {
			lags = append(lags, fmt.Sprintf("%d:%d", p, g.Lag[p]))
		}
	}
	if len(lags) == 0 {
		return ""
	}
	return "lag " + strings.Join(lags, " ")
}

// Status is a replay as --status and --json show it.
type Status struct {
	Replay     int64                `json:"replay"`
	State      postgres.ReplayState `json:"state"`
	Who        string               `json:"who"`
	Reason     string               `json:"reason"`
	AskedAt    time.Time            `json:"asked_at"`
	StartedAt  *time.Time           `json:"started_at,omitempty"`
	EndedAt    *time.Time           `json:"ended_at,omitempty"`
	StoppedBy  string               `json:"stopped_by,omitempty"` // while it ran
	StopReason string               `json:"stop_reason,omitempty"`
	Read       int64                `json:"read"`
	Total      int64                `json:"total"`
	Processors *int                 `json:"group_members,omitempty"` // only of one that is open
	Partitions []PartitionStatus    `json:"partitions"`
	// Did is what records did that were not known; Plan what was agreed on.
	Did  postgres.ReplayCounts `json:"did"`
	Plan json.RawMessage       `json:"plan"`
}

// PartitionStatus is how one partition stands.
type PartitionStatus struct {
	Partition int32                 `json:"partition"`
	From      int64                 `json:"from"`
	Before    int64                 `json:"before"` // -1: nobody has taken it yet
	State     string                `json:"state"`  // waiting, paused, running, done, skipped, stopped
	Lag       int64                 `json:"lag"`
	Did       postgres.ReplayCounts `json:"did"`
}

// Status is how far it is, for people and programs.
func (g Progress) Status() Status {
	r := g.Replay
	s := Status{Replay: r.ID, State: r.State, Who: r.Who, Reason: r.Reason, AskedAt: r.AskedAt, StoppedBy: r.StoppedBy, StopReason: r.StopReason,
		Read: g.Read, Total: g.Total, Plan: r.Plan}
	if !r.StartedAt.IsZero() {
		s.StartedAt = &r.StartedAt
	}
	if r.Ended() {
		s.EndedAt = &r.EndedAt
	} else {
		s.Processors = &g.Members
	}
	for i := range r.Partitions {
		part := &r.Partitions[i]
		s.Partitions = append(s.Partitions, PartitionStatus{Partition: part.Partition, From: part.From, Before: part.Until,
			State: stateOf(r, part), Lag: g.Lag[part.Partition], Did: part.Counts})
		s.Did = s.Did.Plus(part.Counts)
	}
	return s
}

// stopped is a partition that a replay did not read to its end.
const stopped = "stopped"

func stateOf(r *postgres.Replay, part *postgres.ReplayPartition) string {
	switch {
	case part.Ended && part.Skip:
		return "skipped"
	case part.Ended:
		return "done"
	case r.Ended():
		return stopped
	case part.Taken:
		return "running"
	case part.PausedBy != "":
		return "paused"
	}
	return "waiting"
}

// Print is for people.
func (s Status) Print(p *terminal.Printer) {
	state := map[postgres.ReplayState]func(string) string{postgres.ReplayDone: p.Green, postgres.ReplayAbandoned: p.Yellow}[s.State]
	if state == nil {
		state = p.Bold
	}
	p.Line("%s  %s  by %s: %s", p.Bold(fmt.Sprintf("Replay %d", s.Replay)), state(string(s.State)), s.Who, s.Reason)
	when := "asked for at " + stamp(s.AskedAt) + " UTC"
	if s.StartedAt != nil {
		when = "begun at " + stamp(*s.StartedAt) + " UTC"
		if s.EndedAt != nil {
			when += ", it took " + terminal.Roughly(s.EndedAt.Sub(*s.StartedAt))
		}
	}
	p.Line("  %s", when)
	if s.StoppedBy != "" {
		p.Line("  stopped by %s: %s", s.StoppedBy, s.StopReason)
	}
	rows := [][]string{{"partition", "from", "before", "state", "lag"}}
	for _, part := range s.Partitions {
		before := "-"
		if part.Before >= 0 {
			before = fmt.Sprint(part.Before)
		}
		lag := fmt.Sprint(part.Lag)
		if part.State == stopped {
			lag = "-"
		}
		rows = append(rows, []string{fmt.Sprint(part.Partition), fmt.Sprint(part.From), before, part.State, lag})
	}
	p.Table(rows)
	switch {
	case s.State != postgres.ReplayAbandoned:
		p.Line("  %d of %d records were read again", s.Read, s.Total)
	case s.StartedAt == nil:
		p.Line("  it ended before it began; nothing was changed")
	default:
		p.Line("  %d of %d records lie in partitions that were read to the end; how far it was in the others is not known", s.Read, s.Total)
	}
	if s.Processors != nil && *s.Processors == 0 {
		p.Line("  %s", p.Yellow("no processor runs; it goes on when one does"))
	}
	s.totals(p)
}

// totals sets what was done against the plan.
func (s Status) totals(p *terminal.Printer) {
	if s.StartedAt == nil {
		return
	}
	var plan struct {
		Records int64              `json:"records"`
		Outlook *processor.Outlook `json:"dry_run"`
	}
	_ = json.Unmarshal(s.Plan, &plan) // an older program's may say less
	again := fmt.Sprint(s.Read)
	if s.State == postgres.ReplayAbandoned {
		again = "?"
	}
	rows := [][]string{{"", "planned", "done"}, {"read again", fmt.Sprint(plan.Records), again}}
	planned := func(of func(processor.Outlook) int64) string {
		if plan.Outlook == nil {
			return "?"
		}
		return fmt.Sprint(of(*plan.Outlook))
	}
	rows = append(rows,
		[]string{"taken over as new", planned(func(o processor.Outlook) int64 { return o.New + o.Mended }), fmt.Sprint(s.Did.Applied + s.Did.NoChange + s.Did.Held)},
		[]string{"messages of orders", planned(func(o processor.Outlook) int64 { return o.Messages }), fmt.Sprint(s.Did.Changes)},
		[]string{"effects", planned(func(o processor.Outlook) (n int64) {
			for _, e := range o.Effects {
				n += e.Caused + e.Again + e.Withdrawn
			}
			return n
		}), fmt.Sprint(s.Did.Effects)})
	p.Title("Against the plan")
	p.Table(rows)
	if s.Did.Dead > 0 {
		p.Line("  %s", p.Yellow(fmt.Sprintf("%d records could not be read and are dead letters now", s.Did.Dead)))
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

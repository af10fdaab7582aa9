package audit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
)

// Finding is one record or verdict that has nothing on the other side.
type Finding struct {
	// Problem is NoVerdict, NoTrace or NoRecord.
	Problem string `json:"problem"`
	// Source and EventID name the event; empty where its headers cannot be read.
	Source  string `json:"source"`
	EventID string `json:"event_id"`
	// Endpoint, Order and Payment are what the record says.
	Endpoint string `json:"endpoint"`
	Order    string `json:"order,omitempty"`
	Payment  string `json:"payment,omitempty"`
	// Partition and Offset are where the record lies, or should.
	Partition  int32     `json:"partition"`
	Offset     int64     `json:"offset"`
	AppendedAt time.Time `json:"appended_at"`
	// Detail says what is known all the same.
	Detail string `json:"detail,omitempty"`
}

// The problems of a Finding.
const (
	// NoVerdict: a record that was passed and that the database does not know.
	NoVerdict = "no_verdict"
	// NoTrace: a record of which nothing need be left: a hint that needed no look-up, or
	// an event that states nothing about an order and lies outside the dedupe window.
	NoTrace = "no_trace"
	// NoRecord: a verdict on a record that Kafka does not have.
	NoRecord = "no_record"
)

// Examine reads the records of every line that does not add up, and says which of
// them the database does not know, and which verdicts have no record. Afterwards
// those lines are counted by the records themselves and no longer by offsets: a
// marker of a transaction, or a record whose broker had another clock, is no
// fault. progress is told how many records there are, and then of every step.
func (r *Report) Examine(ctx context.Context, a *Auditor, total func(int), step func(int)) ([]Finding, error) {
	runs := r.runs()
	n := 0
	for _, run := range runs {
		for _, ranges := range r.ranges(run) {
			n += int(ranges.Before - ranges.From)
		}
	}
	total(n)
	var findings []Finding
	for _, run := range runs {
		x := examination{Auditor: a, report: r, lines: run, present: map[int32][]uint64{}, step: step}
		if err := x.read(ctx); err != nil {
			return nil, err
		}
		if err := x.verdicts(ctx); err != nil {
			return nil, err
		}
		findings = append(findings, x.findings...)
	}
	return findings, nil
}

// runs are the lines that do not add up, neighbours together.
func (r *Report) runs() (runs [][]Line) {
	begin := -1
	for i := range r.Lines {
		switch off := r.Lines[i].Unaccounted() != 0; {
		case off && begin < 0:
			begin = i
		case !off && begin >= 0:
			runs, begin = append(runs, r.Lines[begin:i]), -1
		}
	}
	if begin >= 0 {
		runs = append(runs, r.Lines[begin:])
	}
	return runs
}

// ranges are what is left of the records of some lines that were applied.
func (r *Report) ranges(lines []Line) (ranges []kafka.Range) {
	first, last := lines[0], lines[len(lines)-1]
	for p, before := range last.before {
		applied, ok := r.ledger.Applied[r.topicID][p]
		if !ok {
			continue
		}
		rg := kafka.Range{Partition: p, From: max(first.from[p], r.extent.Start[p]), Before: min(before, applied+1)}
		if rg.From < rg.Before {
			ranges = append(ranges, rg)
		}
	}
	slices.SortFunc(ranges, func(a, b kafka.Range) int { return int(a.Partition - b.Partition) })
	return ranges
}

// examination reads one run of lines.
type examination struct {
	*Auditor
	report   *Report
	lines    []Line
	ranges   []kafka.Range
	present  map[int32][]uint64 // one bit an offset of its range
	findings []Finding
	step     func(int)
}

// examineBatch is how many records are looked up at once.
const examineBatch = 2000

// read reads the run's records and looks for their traces.
func (x *examination) read(ctx context.Context) error {
	x.ranges = x.report.ranges(x.lines)
	for _, rg := range x.ranges {
		x.present[rg.Partition] = make([]uint64, (rg.Before-rg.From)/64+1)
	}
	read := make([]int64, len(x.lines)) // records by line
	for i := range x.lines {
		x.lines[i].ByEndpoint = map[string]int64{}
	}
	var (
		seekers []postgres.Seeker
		records []kafka.Record
		failed  error
	)
	look := func() bool {
		failed = x.look(ctx, seekers, records)
		x.step(len(records))
		seekers, records = seekers[:0], records[:0]
		return failed == nil
	}
	err := kafka.Read(ctx, x.cfg, x.log, x.cfg.Topic(kafka.Raw), x.ranges, func(rec kafka.Record) bool {
		x.mark(rec.Partition, rec.Offset)
		e, err := event.Parse(rec.Key, rec.Value, rec.Headers)
		if err != nil {
			e = event.Event{}
		}
		i := x.lineOf(rec.Timestamp)
		read[i]++
		x.lines[i].ByEndpoint[e.Endpoint]++
		rec.Headers = nil
		if rec.Value != nil {
			rec.Value = []byte{} // a body each would be much memory
		}
		e.Body, e.Signature = nil, nil
		seekers = append(seekers, postgres.Seeker{Place: postgres.Place{Partition: rec.Partition, Offset: rec.Offset}, Event: e})
		records = append(records, rec)
		return len(records) < examineBatch || look()
	})
	if err == nil && failed == nil {
		look()
	}
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("examine the raw topic: %w", err)
	}
	for i := range x.lines {
		l := &x.lines[i]
		l.Accepted = l.Expired + l.Former + l.InFlight + read[i]
	}
	return nil
}

// lineOf is the line of a record's own time.
func (x *examination) lineOf(t time.Time) int {
	i := 0
	for i+1 < len(x.lines) && !t.Before(x.lines[i+1].From) {
		i++
	}
	return i
}

func (x *examination) mark(p int32, offset int64) {
	for _, rg := range x.ranges {
		if rg.Partition == p {
			x.present[p][(offset-rg.From)/64] |= 1 << ((offset - rg.From) % 64)
		}
	}
}

// look finds the records that left no trace.
func (x *examination) look(ctx context.Context, seekers []postgres.Seeker, records []kafka.Record) error {
	traces, err := x.store.Traces(ctx, x.report.topicID, seekers)
	if err != nil {
		return err
	}
	oldest := x.now().Add(-x.store.Window())
	for i, t := range traces {
		e, rec := seekers[i].Event, records[i]
		// A dead letter is kept under its place, and a tombstone nowhere.
		hint := e.Trust == event.Hint // what is known of its id may be another event's
		if rec.Value == nil || t.Dead || t.Processed && !hint || t.Hint && hint {
			continue
		}
		f := Finding{Problem: NoVerdict, Source: e.Source, EventID: e.ID, Endpoint: e.Endpoint, Order: e.Order, Payment: e.Payment,
			Partition: rec.Partition, Offset: rec.Offset, AppendedAt: rec.Timestamp}
		outside := e.TimeRepeats && e.Dated() && e.Time.Before(oldest)
		switch {
		case hint:
			f.Problem, f.Detail = NoTrace, "a hint that needed no look-up leaves nothing"
		case outside && t.InSet:
			continue
		case outside:
			f.Problem, f.Detail = NoTrace, "its time lies outside the dedupe window; if it states nothing about an order, nothing of it is kept"
		case t.InSet:
			f.Detail = "its order's set has it, processed_events does not"
		case e.ID == "":
			f.Detail = "its headers cannot be read, and it is no dead letter"
		}
		x.findings = append(x.findings, f)
	}
	return nil
}

// verdicts finds those whose record is not where they say. Where a former topic's
// records were counted too, the rows do not say which topic is meant.
func (x *examination) verdicts(ctx context.Context) error {
	first, last := x.lines[0], x.lines[len(x.lines)-1]
	for _, l := range x.lines {
		if l.Former != 0 {
			return nil
		}
	}
	until := last.Before
	if until.IsZero() {
		until = x.now().Add(24 * time.Hour)
	}
	var suspects []postgres.VerdictRow
	err := x.store.VerdictRows(ctx, x.report.topicID, first.From, until, func(v postgres.VerdictRow) {
		if !x.there(v.Partition, v.Offset) {
			suspects = append(suspects, v)
		}
	})
	if err != nil {
		return err
	}
	for i, v := range suspects {
		f := Finding{Problem: NoRecord, Source: v.Source, EventID: v.EventID, Endpoint: v.Endpoint,
			Partition: v.Partition, Offset: v.Offset, AppendedAt: v.AppendedAt, Detail: "the raw topic has no such record"}
		if i < maxSuspects {
			elsewhere, err := x.elsewhere(ctx, v)
			if err != nil {
				return err
			}
			if elsewhere {
				continue
			}
		} else {
			f.Detail = "the raw topic has no such record in that hour"
		}
		x.findings = append(x.findings, f)
	}
	return nil
}

// maxSuspects bounds how many single records are read: each is a fetch of its own.
const maxSuspects = 200

// elsewhere says whether the event's record lies in another hour: an event that
// was read anew stays in the hour it is counted in, and names its new record.
func (x *examination) elsewhere(ctx context.Context, v postgres.VerdictRow) (found bool, err error) {
	at, end := v.Offset, x.report.extent.End[v.Partition]
	if at >= end || v.EventID == "" {
		return false, nil
	}
	for _, rg := range x.ranges {
		if rg.Partition == v.Partition && at >= rg.From && at < rg.Before {
			return false, nil
		}
	}
	err = kafka.Read(ctx, x.cfg, x.log, x.cfg.Topic(kafka.Raw), []kafka.Range{{Partition: v.Partition, From: at, Before: at + 1}}, func(r kafka.Record) bool {
		found = string(r.Key) == v.EventID
		return true
	})
	return found, err
}

// there says whether a record was read at a place. What expired is believed, and
// what was applied while this looked.
func (x *examination) there(p int32, offset int64) bool {
	if offset < x.report.extent.Start[p] || offset > x.report.ledger.Applied[x.report.topicID][p] {
		return true
	}
	for _, rg := range x.ranges {
		if rg.Partition == p && offset >= rg.From && offset < rg.Before {
			return x.present[p][(offset-rg.From)/64]&(1<<((offset-rg.From)%64)) != 0
		}
	}
	return false
}

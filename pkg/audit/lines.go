package audit

import (
	"cmp"
	"slices"
	"time"

	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// Line is one hour of the books, or everything before or after the span.
type Line struct {
	// From is zero where the line begins with the first record; Before is zero where
	// it ends with the last.
	From, Before time.Time
	// Accepted, InFlight, WrittenOff and Counted are as in Books.
	Accepted, InFlight, WrittenOff, Counted int64
	// Endpoints are the verdicts counted, by endpoint.
	Endpoints map[string]map[order.Verdict]int64
	// Expired is how many of its records are not in Kafka any more.
	Expired int64
	// Former are the records of Counted that lay in topics which are gone; Kafka
	// cannot confirm them by the hour.
	Former int64
	// ByEndpoint is what was accepted by each endpoint; nil unless Examine read the
	// hour's records, which alone say it.
	ByEndpoint map[string]int64

	from, before map[int32]int64 // the line's offsets, by partition
}

// Unaccounted is accepted less everything known.
func (l Line) Unaccounted() int64 {
	return l.Accepted - l.InFlight - l.WrittenOff - l.Counted
}

// Verdicts are the line's verdicts over all endpoints.
func (l Line) Verdicts() map[order.Verdict]int64 {
	sum := map[order.Verdict]int64{}
	for _, verdicts := range l.Endpoints {
		for v, n := range verdicts {
			sum[v] += n
		}
	}
	return sum
}

// Unaccounted is the report's one figure. Lines do not make up for each other:
// one lost here and one counted twice there are two.
func (r *Report) Unaccounted() (n int64) {
	n = abs(r.Books.Former.Accepted - r.Books.Former.Counted)
	for _, l := range r.Lines {
		n += abs(l.Unaccounted())
	}
	return n
}

func abs(n int64) int64 { return max(n, -n) }

// boundary is the begin of an hour and the offsets of the first records behind it.
type boundary struct {
	at      time.Time
	offsets map[int32]int64
}

// sums sets the two sides side by side.
func sums(l postgres.Ledger, e kafka.Extent, topic string) Books {
	var b Books
	gaps := writtenOff(l.Gaps, topic)
	for p, end := range e.End {
		b.Accepted += end
		b.InFlight += inFlight(l, e, p, 0, end)
		b.WrittenOff += gaps.within(p, 0, end)
	}
	b.Counted = l.Counted[e.TopicID]
	for id, partitions := range l.Applied {
		if id == e.TopicID {
			continue
		}
		for _, applied := range partitions {
			b.Former.Accepted += applied + 1
		}
		b.Former.Counted += l.Counted[id]
	}
	b.Accepted += b.Former.Accepted
	b.Counted += b.Former.Counted
	return b
}

// inFlight is how many of a partition's offsets from up to before hold a record
// that was not applied. What expired first is not on its way any more.
func inFlight(l postgres.Ledger, e kafka.Extent, p int32, from, before int64) int64 {
	next := int64(0)
	if applied, ok := l.Applied[e.TopicID][p]; ok {
		next = applied + 1
	}
	return max(0, before-max(from, next, e.Start[p]))
}

// report sets them side by side hour by hour. bounds are whole hours, ascending.
//
// An hour's records are the offsets between its two boundaries. A boundary can be
// believed only while a record in front of it is left, or none ever was there;
// what lies before the first such boundary is one line, in which offsets that
// were ever given are compared with all that was counted.
func report(l postgres.Ledger, e kafka.Extent, topic string, bounds []boundary) *Report {
	r := &Report{Books: sums(l, e, topic), topicID: e.TopicID, extent: e, ledger: l}
	for p, end := range e.End {
		if applied, ok := l.Applied[e.TopicID][p]; ok && applied >= end {
			r.Truncated = append(r.Truncated, p)
		}
	}
	slices.Sort(r.Truncated)
	for _, g := range l.Gaps {
		if !g.Settled && g.Topic == topic {
			r.Gaps = append(r.Gaps, g)
		}
	}
	bounds = slices.DeleteFunc(bounds, func(b boundary) bool { return !believable(e, b) })
	gaps := writtenOff(l.Gaps, topic)
	from, at := map[int32]int64{}, time.Time{}
	add := func(before map[int32]int64, until time.Time) {
		line := Line{From: at, Before: until, Endpoints: map[string]map[order.Verdict]int64{}, from: from, before: before}
		for p, end := range before {
			begin := from[p]
			line.Accepted += end - begin
			line.InFlight += inFlight(l, e, p, begin, end)
			line.WrittenOff += gaps.within(p, begin, end)
			line.Expired += max(0, min(end, e.Start[p])-begin)
		}
		r.Lines = append(r.Lines, line)
		from, at = before, until
	}
	for _, b := range bounds {
		before := map[int32]int64{}
		for p, end := range e.End {
			before[p] = max(from[p], min(b.offsets[p], end))
		}
		add(before, b.at)
	}
	add(e.End, time.Time{})
	r.count(l, e.TopicID)
	r.Lines = slices.DeleteFunc(r.Lines, func(line Line) bool {
		return line.Accepted == 0 && line.Counted == 0 && len(line.Endpoints) == 0
	})
	return r
}

func believable(e kafka.Extent, b boundary) bool {
	for p, start := range e.Start {
		if start > 0 && b.offsets[p] <= start {
			return false
		}
	}
	return true
}

// count puts the books' hours into their lines. Of a former topic, whose offsets
// are gone, what was counted in an hour is taken for accepted: Books.Former holds
// its sum to its own offsets.
func (r *Report) count(l postgres.Ledger, topicID [16]byte) {
	for _, h := range l.Hours {
		i, found := slices.BinarySearchFunc(r.Lines, h.Hour, func(line Line, at time.Time) int { return line.From.Compare(at) })
		if !found {
			i--
		}
		line := &r.Lines[max(i, 0)]
		line.Counted += h.Events
		if h.TopicID != topicID {
			line.Accepted += h.Events
			line.Former += h.Events
		}
		if line.Endpoints[h.Endpoint] == nil {
			line.Endpoints[h.Endpoint] = map[order.Verdict]int64{}
		}
		line.Endpoints[h.Endpoint][h.Verdict] += h.Events
	}
}

// written are the offsets that a person has written off, by partition: sorted,
// and none of them twice.
type written map[int32][]kafka.Range

func writtenOff(gaps []postgres.LedgerGap, topic string) written {
	w := written{}
	gaps = slices.Clone(gaps)
	slices.SortFunc(gaps, func(a, b postgres.LedgerGap) int { return cmp.Compare(a.From, b.From) })
	for _, g := range gaps {
		if !g.Settled || g.Topic != topic {
			continue
		}
		from := g.From
		if have := w[g.Partition]; len(have) > 0 { // found twice, with more gone the second time
			from = max(from, have[len(have)-1].Before)
		}
		if from <= g.To {
			w[g.Partition] = append(w[g.Partition], kafka.Range{Partition: g.Partition, From: from, Before: g.To + 1})
		}
	}
	return w
}

func (w written) within(p int32, from, before int64) (n int64) {
	for _, r := range w[p] {
		n += max(0, min(before, r.Before)-max(from, r.From))
	}
	return n
}

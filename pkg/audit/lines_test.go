package audit

import (
	"testing"
	"time"

	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

const raw = "webhooks.raw.v1"

var (
	now     = [16]byte{1} // the raw topic
	former  = [16]byte{2} // one that was deleted
	hour    = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	nothing = [16]byte{} // what the merchant counts under
)

// day is one partition of 100 records in four hours: 12 h: 0-9, 13 h: 10-39,
// 14 h: 40-89, 15 h: 90-99; all but the last five are applied.
func day() (postgres.Ledger, kafka.Extent, []boundary) {
	l := postgres.Ledger{
		Applied: map[[16]byte]map[int32]int64{now: {0: 94}},
		Counted: map[[16]byte]int64{now: 95},
	}
	for i, n := range []int64{10, 30, 50, 5} {
		l.Hours = append(l.Hours, postgres.LedgerHour{TopicID: now, Hour: hour.Add(time.Duration(i) * time.Hour), Endpoint: "stripe", Verdict: order.Applied, Events: n})
	}
	e := kafka.Extent{TopicID: now, Start: map[int32]int64{0: 0}, End: map[int32]int64{0: 100}}
	var bounds []boundary
	for i, at := range []int64{0, 10, 40, 90, 100} {
		bounds = append(bounds, boundary{hour.Add(time.Duration(i) * time.Hour), map[int32]int64{0: at}})
	}
	return l, e, bounds
}

func check(t *testing.T, r *Report, unaccounted int64, lines ...int64) {
	t.Helper()
	if n := r.Unaccounted(); n != unaccounted {
		t.Errorf("unaccounted is %d, want %d", n, unaccounted)
	}
	var got []int64
	for _, l := range r.Lines {
		got = append(got, l.Unaccounted())
	}
	if len(got) != len(lines) {
		t.Fatalf("lines are off by %v, want %v", got, lines)
	}
	for i := range lines {
		if got[i] != lines[i] {
			t.Fatalf("lines are off by %v, want %v", got, lines)
		}
	}
}

func TestABusyDeploymentAddsUpByTheHour(t *testing.T) {
	l, e, bounds := day()
	r := report(l, e, raw, bounds)
	check(t, r, 0, 0, 0, 0, 0)
	if r.Lines[3].InFlight != 5 || r.Books.InFlight != 5 || r.Books.Unaccounted() != 0 {
		t.Errorf("in flight: %d of the last hour, %d in all; want 5 and 5", r.Lines[3].InFlight, r.Books.InFlight)
	}
}

func TestLinesDoNotMakeUpForEachOther(t *testing.T) {
	l, e, bounds := day()
	l.Hours[0].Events--
	l.Hours[1].Events++
	check(t, report(l, e, raw, bounds), 2, 1, -1, 0, 0)
}

func TestAnEventLostAndAnEventCountedTwiceAreUnaccounted(t *testing.T) {
	l, e, bounds := day()
	l.Counted[now]--
	l.Hours[2].Events--
	r := report(l, e, raw, bounds)
	check(t, r, 1, 0, 0, 1, 0)
	if n := r.Books.Unaccounted(); n != 1 {
		t.Errorf("the sums are off by %d, want 1", n)
	}
	l.Counted[now] += 3
	if n := sums(l, e, raw).Unaccounted(); n != -2 {
		t.Errorf("two counted twice: the sums are off by %d, want -2", n)
	}
}

func TestALaterVerdictMovesWithinItsHourAndTheSumStays(t *testing.T) {
	l, e, bounds := day()
	for v, n := range map[order.Verdict]int64{order.Held: -1, order.Applied: 1} {
		l.Hours = append(l.Hours, postgres.LedgerHour{TopicID: nothing, Hour: hour, Endpoint: "stripe", Verdict: v, Events: n})
	}
	r := report(l, e, raw, bounds)
	check(t, r, 0, 0, 0, 0, 0)
	if n := r.Lines[0].Endpoints["stripe"][order.Applied]; n != 11 {
		t.Errorf("%d applied in the first hour, want 11", n)
	}
}

func TestWhatExpiredIsStillCompared(t *testing.T) {
	l, e, bounds := day()
	e.Start[0] = 25 // in the second hour
	for i := range bounds {
		bounds[i].offsets[0] = max(bounds[i].offsets[0], 25) // as Kafka answers
	}
	r := report(l, e, raw, bounds)
	check(t, r, 0, 0, 0, 0)
	if first := r.Lines[0]; !first.Before.Equal(hour.Add(2*time.Hour)) || first.Accepted != 40 || first.Expired != 25 {
		t.Errorf("the first line reaches to %v with %d accepted, %d expired; want 14 h, 40, 25", first.Before, first.Accepted, first.Expired)
	}
	l.Hours[0].Events-- // one of those that expired was never counted
	check(t, report(l, e, raw, bounds), 1, 1, 0, 0)
}

func TestAPartitionThatExpiredWholeLeavesOneLineAndHidesNothing(t *testing.T) {
	l, e, bounds := day()
	e.Start[1], e.End[1], l.Applied[now][1] = 7, 7, 6
	for i := range bounds {
		bounds[i].offsets[1] = 7
	}
	l.Hours[0].Events += 7
	l.Counted[now] += 7
	check(t, report(l, e, raw, bounds), 0, 0)
	l.Hours[0].Events--
	check(t, report(l, e, raw, bounds), 1, 1)
}

func TestRecordsThatExpiredUnreadAreUnaccountedUntilAPersonWritesThemOff(t *testing.T) {
	l, e, bounds := day()
	l.Applied[now][0], l.Counted[now] = 9, 10 // stopped after the first hour
	l.Hours = l.Hours[:1]
	e.Start[0] = 40
	for i := range bounds {
		bounds[i].offsets[0] = max(bounds[i].offsets[0], 40)
	}
	l.Gaps = []postgres.LedgerGap{{Topic: raw, Partition: 0, From: 10, To: 39}, {Topic: raw, Partition: 0, From: 10, To: 29, Settled: true}}
	r := report(l, e, raw, bounds)
	if n := r.Unaccounted(); n != 10 || r.Books.Unaccounted() != 10 || len(r.Gaps) != 1 {
		t.Errorf("unaccounted is %d and %d with %d gaps; want 10, 10, 1", n, r.Books.Unaccounted(), len(r.Gaps))
	}
	l.Gaps[0].Settled = true // found twice, with more gone the second time
	r = report(l, e, raw, bounds)
	if n := r.Unaccounted(); n != 0 || r.Books.WrittenOff != 30 || r.Books.InFlight != 60 {
		t.Errorf("unaccounted is %d, written off %d, in flight %d; want 0, 30, 60", n, r.Books.WrittenOff, r.Books.InFlight)
	}
}

func TestATopicThatWasMadeAgainIsHeldToItsOwnOffsets(t *testing.T) {
	l, e, bounds := day()
	l.Applied[former] = map[int32]int64{0: 19, 1: 9}
	l.Counted[former] = 30
	l.Hours = append(l.Hours, postgres.LedgerHour{TopicID: former, Hour: hour.Add(time.Hour), Endpoint: "shop", Verdict: order.Duplicate, Events: 30})
	r := report(l, e, raw, bounds)
	check(t, r, 0, 0, 0, 0, 0)
	if r.Lines[1].Accepted != 60 || r.Books.Accepted != 130 {
		t.Errorf("accepted: %d in the second hour, %d in all; want 60 and 130", r.Lines[1].Accepted, r.Books.Accepted)
	}
	l.Counted[former]--
	if n := report(l, e, raw, bounds).Unaccounted(); n != 1 {
		t.Errorf("one of the former topic is missing: unaccounted is %d", n)
	}
}

func TestALogThatLostRecordsIsSaid(t *testing.T) {
	l, e, bounds := day()
	e.End[0] = 92
	bounds[4].offsets[0] = 92
	r := report(l, e, raw, bounds)
	check(t, r, 3, 0, 0, 0, -3)
	if len(r.Truncated) != 1 {
		t.Errorf("truncated partitions are %v, want the first", r.Truncated)
	}
}

func TestASpanLeavesOneLineBeforeAndOneAfterIt(t *testing.T) {
	l, e, bounds := day()
	r := report(l, e, raw, bounds[1:3])
	check(t, r, 0, 0, 0, 0)
	if r.Lines[0].Accepted != 10 || r.Lines[1].Accepted != 30 || r.Lines[2].Accepted != 60 {
		t.Errorf("accepted %d, %d, %d; want 10, 30, 60", r.Lines[0].Accepted, r.Lines[1].Accepted, r.Lines[2].Accepted)
	}
	l.Hours[0].Events--
	r = report(l, e, raw, bounds[1:3])
	if r.Outside() != 1 {
		t.Errorf("outside the span %d are unaccounted, want 1", r.Outside())
	}
	r.Within(bounds[1].at, bounds[2].at)
	check(t, r, 0, 0)
}

package kafka

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// O36
func TestAPartitionBeginsWhereNothingIsSkippedAndEveryGapIsNamed(t *testing.T) {
	a := Assignment{Topic: "raw", Partition: 3}
	gap := func(from, to int64, reason string) Gap { return Gap{a, from, to, reason} }
	for _, c := range []struct {
		name                           string
		committed, applied, first, end int64
		again, at                      int64 // what lies between is read again
		gaps                           []Gap
	}{
		{"a new group begins at the earliest record", -1, -1, 0, 100, 0, 0, nil},
		{"a new group does not miss what expired before it", -1, -1, 40, 100, 40, 40, nil},
		{"a group whose owner keeps no record of its own", 50, 49, 0, 100, 50, 50, nil},
		{"no committed offset at all", -2, -3, 40, 100, 40, 40, nil},
		{"an empty topic", -1, -1, 0, 0, 0, 0, nil},
		{"everything is read", 100, 99, 0, 100, 100, 100, nil},
		{"a crash before the offsets were committed", 30, 49, 0, 100, 30, 50, nil},
		{"an engineer's reset", 0, 99, 0, 100, 0, 100, nil},
		{"an engineer's reset behind what is left", 10, 99, 40, 100, 40, 100, nil},
		{"the group's offsets are gone", -1, 49, 0, 100, 0, 50, nil},
		{"the group's offsets are gone and so are records", -1, 49, 70, 100, 70, 70, []Gap{gap(50, 69, Expired)}},
		{"retention was faster", 50, 49, 70, 100, 70, 70, []Gap{gap(50, 69, Expired)}},
		{"what expired had been applied", 10, 49, 40, 100, 40, 50, nil},
		{"the database is older than the offsets", 80, 49, 0, 100, 50, 50, []Gap{gap(50, 79, Rewound)}},
		{"the database is older, and records are gone", 80, 49, 60, 100, 60, 60, []Gap{gap(50, 59, Expired), gap(50, 79, Rewound)}},
		{"the database is empty", 80, -1, 0, 100, 0, 0, []Gap{gap(0, 79, Rewound)}},
		{"the log ends before the offset", 50, 49, 0, 20, 0, 20, []Gap{gap(20, 49, Truncated)}},
		{"the log ends before what was applied, and was read again up to here", 15, 49, 0, 20, 15, 20, nil},
		{"the log has grown again after it was truncated", 20, 49, 0, 30, 20, 30, nil},
	} {
		behind, gaps := begin(a, c.committed, c.applied, c.first, c.end)
		if want := (Range{Partition: 3, From: c.again, Before: c.at}); behind != want {
			t.Errorf("%s: reads again %v, want %v", c.name, behind, want)
		}
		if d := cmp.Diff(c.gaps, gaps); d != "" {
			t.Errorf("%s: gaps (-want +got):\n%s", c.name, d)
		}
	}
}

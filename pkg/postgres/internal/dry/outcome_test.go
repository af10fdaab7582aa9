package dry

import (
	"testing"

	"sluice/pkg/effect"
	"sluice/pkg/postgres/internal/dbgen"
)

func TestWhatBecomesOfAnEffectIsToldByHowItWasAndIs(t *testing.T) {
	for _, c := range []struct {
		name    string
		was, is effect.State
		before  bool // outdated
		after   bool
		fresh   bool
		want    string
	}{
		{name: "new", is: effect.Pending, fresh: true, want: caused},
		{name: "new, and not implied any more", is: effect.Withdrawn, fresh: true},
		{name: "stands", was: effect.Done, is: effect.Done},
		{name: "not implied any more", was: effect.Pending, is: effect.Withdrawn, want: withdrawn},
		{name: "was done, and should not have been", was: effect.Done, is: effect.Done, after: true, want: outdated},
		{name: "had failed, and need not be done", was: effect.Failed, is: effect.Withdrawn, after: true, want: outdated},
		{name: "withdrawn, and implied again", was: effect.Withdrawn, is: effect.Pending, want: again},
		{name: "failed, outdated and implied again: it is called", was: effect.Failed, is: effect.Pending, want: again},
		{name: "done, outdated and implied again: nobody calls", was: effect.Done, before: true, is: effect.Done},
		{name: "under way", was: effect.Leased, is: effect.Pending},
	} {
		r := effectRow{LockEffectsOfOrdersRow: dbgen.LockEffectsOfOrdersRow{State: int16(c.is), Outdated: c.after}, fresh: c.fresh, wasState: c.was, wasOutdated: c.before}
		if got := r.what(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

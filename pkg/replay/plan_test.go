package replay

import (
	"maps"
	"strings"
	"testing"
	"time"
)

const (
	topic = "shop.webhooks.raw.v1"
	group = "shop.sluice-processor"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// world has three partitions: 0 is read through, 1 lags by 10 and has lost its first
// 20 records to retention, 2 is new.
func world() World {
	return World{TopicID: "t1", Topic: topic, Group: group, Horizon: noon.AddDate(0, 0, -90), Partitions: map[int32]Position{
		0: {First: 0, End: 100, Group: 100, Applied: 99, AtTime: 60},
		1: {First: 20, End: 100, Group: 90, Applied: 89, AtTime: 95, AtHorizon: 20},
		2: {First: 0, End: 0, Group: -1, Applied: -1, AtTime: 0},
	}}
}

func TestEveryWayOfKafkasToolLeadsToItsOffsets(t *testing.T) {
	for name, c := range map[string]struct {
		target  Target
		offsets map[int32]int64
		records int64
		ahead   int64
		notices int
	}{
		"earliest":         {Target{How: ToEarliest}, map[int32]int64{0: 0, 1: 20, 2: 0}, 170, 0, 1},
		"latest":           {Target{How: ToLatest}, map[int32]int64{0: 100, 1: 100, 2: 0}, 0, 10, 1},
		"current":          {Target{How: ToCurrent}, map[int32]int64{0: 100, 1: 90, 2: 0}, 0, 0, 0},
		"a time":           {Target{How: ToDatetime}, map[int32]int64{0: 60, 1: 95, 2: 0}, 40, 5, 1},
		"a duration":       {Target{How: ByDuration, Partitions: []int32{0}}, map[int32]int64{0: 60}, 40, 0, 0},
		"an offset":        {Target{How: ToOffset, N: 50, Partitions: []int32{1, 0, 0}}, map[int32]int64{0: 50, 1: 50}, 90, 0, 0},
		"an expired one":   {Target{How: ToOffset, N: 5, Partitions: []int32{1}}, map[int32]int64{1: 20}, 70, 0, 2},
		"one too far":      {Target{How: ToOffset, N: 500, Partitions: []int32{0}}, map[int32]int64{0: 100}, 0, 0, 1},
		"a shift back":     {Target{How: ShiftBy, N: -30, Partitions: []int32{0, 1}}, map[int32]int64{0: 70, 1: 60}, 60, 0, 0},
		"too far back":     {Target{How: ShiftBy, N: -1000, Partitions: []int32{0, 1}}, map[int32]int64{0: 0, 1: 20}, 170, 0, 3},
		"a shift ahead":    {Target{How: ShiftBy, N: 5, Partitions: []int32{1}}, map[int32]int64{1: 95}, 0, 5, 1},
		"a file":           {Target{How: FromFile, Offsets: map[int32]int64{1: 80}}, map[int32]int64{1: 80}, 10, 0, 0},
		"a part of a file": {Target{How: FromFile, Offsets: map[int32]int64{0: 90, 1: 80}, Partitions: []int32{0, 2}}, map[int32]int64{0: 90}, 10, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Make(c.target, world(), Allowed{Skip: true})
			if err != nil || p.Refused() != nil {
				t.Fatal(err, p.Refused())
			}
			if got := p.Offsets(); !maps.Equal(got, c.offsets) {
				t.Errorf("offsets are %v, want %v", got, c.offsets)
			}
			if p.Records() != c.records || p.Ahead() != c.ahead || p.Does() != (c.records+c.ahead > 0) {
				t.Errorf("%d records and %d ahead, want %d and %d", p.Records(), p.Ahead(), c.records, c.ahead)
			}
			if len(p.Notices) != c.notices {
				t.Errorf("want %d notices, got %q", c.notices, p.Notices)
			}
		})
	}
}

func TestATargetThatMakesNoSenseIsAnError(t *testing.T) {
	for want, target := range map[string]Target{
		"no partition 7; it has 0, 1, 2": {How: ToEarliest, Partitions: []int32{0, 7}},
		"no partition 9":                 {How: FromFile, Offsets: map[int32]int64{9: 1}},
		"no partition is left":           {How: FromFile, Offsets: map[int32]int64{1: 1}, Partitions: []int32{2}},
	} {
		if _, err := Make(target, world(), Allowed{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", target, err)
		}
	}
}

func TestGuardsRefuseUntilToldThatItIsMeant(t *testing.T) {
	old := world()
	at := old.Partitions[1]
	at.AtHorizon = 50
	old.Partitions[1] = at
	open := world()
	open.Open = &Open{ID: 7, Who: "ana"}
	for name, c := range map[string]struct {
		target  Target
		world   World
		allowed Allowed
		refusal string // part of it; empty: it is not refused
		notice  string
	}{
		"ahead":                   {Target{How: ToLatest}, world(), Allowed{BeyondWindow: true}, "10 records ahead were never applied", ""},
		"ahead, and meant":        {Target{How: ToLatest}, world(), Allowed{Skip: true}, "", "left out for ever"},
		"behind the ledger":       {Target{How: ToEarliest}, old, Allowed{Skip: true}, "30 records are older than 2026-09-01 12:00", ""},
		"behind it, and meant":    {Target{How: ToEarliest}, old, Allowed{BeyondWindow: true}, "", "held as outside_window"},
		"beside another":          {Target{How: ToEarliest}, open, Allowed{true, true}, "replay 7 of ana is open", ""},
		"as far as the ledger is": {Target{How: ToOffset, N: 50, Partitions: []int32{1}}, old, Allowed{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Make(c.target, c.world, c.allowed)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Refused(); (err == nil) != (c.refusal == "") || err != nil && !strings.Contains(err.Error(), c.refusal) {
				t.Errorf("refused: %v", err)
			}
			if !strings.Contains(strings.Join(p.Notices, "\n"), c.notice) {
				t.Errorf("notices are %q", p.Notices)
			}
		})
	}
}

func TestOnlyWhatIsReadAgainLiesBehindTheLedger(t *testing.T) {
	w := world()
	w.Partitions[1] = Position{First: 20, End: 100, Group: 90, Applied: 89, AtHorizon: 95} // live records are old, too
	p, err := Make(Target{How: ToOffset, N: 80, Partitions: []int32{1}}, w, Allowed{})
	if err != nil || p.Steps[0].Behind != 10 {
		t.Errorf("%+v, %v", p.Steps, err)
	}
}

func TestAPlanHoldsUntilTheWorldMovesUnderIt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *World)
		moved  string // empty: it has not moved
	}{
		"nothing happened":       {func(*World) {}, ""},
		"live traffic":           {func(w *World) { w.Partitions[0] = Position{End: 150, Group: 130, Applied: 140} }, ""},
		"applied, not committed": {func(w *World) { w.Partitions[0] = Position{End: 150, Group: 100, Applied: 149} }, ""},
		"another expired":        {func(w *World) { w.Partitions[2] = Position{First: 5, End: 9, Group: -1, Applied: -1} }, ""},
		"made anew":              {func(w *World) { w.TopicID = "t2" }, "made anew"},
		"another replay":         {func(w *World) { w.Open = &Open{ID: 3, Who: "bo"} }, "replay 3 of bo"},
		"reset back":             {func(w *World) { w.Partitions[0] = Position{End: 100, Group: 10, Applied: 99} }, "reset the group from offset 100 to 10"},
		"set ahead":              {func(w *World) { w.Partitions[1] = Position{First: 20, End: 100, Group: 95, Applied: 89} }, "set the group ahead"},
		"its group deleted":      {func(w *World) { w.Partitions[0] = Position{End: 100, Group: -1, Applied: 99} }, "partition 0"},
		"expired":                {func(w *World) { w.Partitions[1] = Position{First: 21, End: 100, Group: 90, Applied: 89} }, "offset 20 has expired; the log begins at 21"},
		"cut off":                {func(w *World) { w.Partitions[1] = Position{First: 3, End: 9, Group: 90, Applied: 89} }, "ends at 9"},
		"partition gone":         {func(w *World) { delete(w.Partitions, 0) }, "partition 0 is gone"},
		"an older database":      {func(w *World) { w.Partitions[0] = Position{End: 100, Group: 100, Applied: 50} }, "restored from a backup"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Make(Target{How: ToEarliest}, world(), Allowed{})
			if err != nil {
				t.Fatal(err)
			}
			now := world()
			c.change(&now)
			moved := strings.Join(p.Moved(now), "\n")
			if (moved == "") != (c.moved == "") || !strings.Contains(moved, c.moved) {
				t.Errorf("moved: %q", moved)
			}
		})
	}
	p, err := Make(Target{How: ToLatest}, world(), Allowed{Skip: true})
	if err != nil {
		t.Fatal(err)
	}
	now := world()
	now.Partitions[1] = Position{First: 20, End: 120, Group: 110, Applied: 109}
	if moved := p.Moved(now); len(moved) != 1 || !strings.Contains(moved[0], "not ahead any more") {
		t.Errorf("what was to be left out was applied meanwhile: %q", moved)
	}
}

func TestADigestIsOfWhatMattersAlone(t *testing.T) {
	digest := func(target Target, w World, answers any) string {
		p, err := Make(target, w, Allowed{})
		if err != nil {
			t.Fatal(err)
		}
		return p.Digest(answers)
	}
	first := digest(Target{How: ToOffset, N: 30}, world(), 1)
	grown := world()
	grown.Partitions[0] = Position{End: 900, Group: 900, Applied: 899}
	for name, same := range map[string]string{
		"live traffic":     digest(Target{How: ToOffset, N: 30}, grown, 1),
		"the same by file": digest(Target{How: FromFile, Offsets: map[int32]int64{0: 30, 1: 30, 2: 0}}, world(), 1),
	} {
		if same != first {
			t.Errorf("%s: another plan", name)
		}
	}
	anew := world()
	anew.TopicID = "t2"
	for name, other := range map[string]string{
		"another offset":  digest(Target{How: ToOffset, N: 31}, world(), 1),
		"fewer":           digest(Target{How: ToOffset, N: 30, Partitions: []int32{0}}, world(), 1),
		"other answers":   digest(Target{How: ToOffset, N: 30}, world(), 2),
		"a topic renewed": digest(Target{How: ToOffset, N: 30}, anew, 1),
	} {
		if other == first {
			t.Errorf("%s: the same plan", name)
		}
	}
}

func TestAnEstimateKnowsThatNewRecordsCostMore(t *testing.T) {
	p := Plan{Steps: []Step{{Records: 5 * KnownRate}}}
	for want, c := range map[time.Duration]struct {
		fresh int64
		rate  float64
	}{5 * time.Second: {0, 0}, 5 * KnownRate * time.Second / FreshRate: {5 * KnownRate, 0}, 50 * time.Second: {0, KnownRate / 10}} {
		if got := p.Estimate(c.fresh, c.rate); got != want {
			t.Errorf("%d fresh at %.0f/s take %v, want %v", c.fresh, c.rate, got, want)
		}
	}
}

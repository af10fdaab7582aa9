package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Position is where one partition is.
type Position struct {
	First, End int64 // what the log holds: [First, End)
	Group      int64 // what the group has committed, -1: nothing
	Applied    int64 // the highest offset ever applied, -1: none
	// AtTime is the first offset appended at the target's time or later, and AtHorizon
	// at the ledger's horizon or later; End if there is none.
	AtTime, AtHorizon int64
}

// World is how everything stands at one moment.
type World struct {
	TopicID      string // of the broker: a topic that was made anew has another
	Topic, Group string
	Partitions   map[int32]Position
	// Horizon is the time back to which the ledger knows repeats.
	Horizon time.Time
	// Open is the replay that is open, if any: its number and whose it is.
	Open *Open
}

// Open is a replay that somebody has not ended yet.
type Open struct {
	ID  int64
	Who string
}

// Allowed is what was said that may be done, in spite of what it means.
type Allowed struct{ Skip, BeyondWindow bool }

// Step is what becomes of one partition.
type Step struct {
	Partition int32 `json:"partition"`
	Group     int64 `json:"group"`   // its committed offset now, -1: none
	Applied   int64 `json:"applied"` // the highest offset ever applied, -1: none
	To        int64 `json:"to"`      // the offset that is read next
	// Records are read again: [To, Applied].
	Records int64 `json:"records"`
	// Ahead were never applied, and never will be: [Applied+1, To).
	Ahead int64 `json:"ahead,omitempty"`
	// Behind of the Records are so old that the ledger has forgotten them.
	Behind int64 `json:"behind,omitempty"`
}

// Does says that something is to be done in the partition.
func (s Step) Does() bool { return s.Records > 0 || s.Ahead > 0 }

// Plan is what a replay will do. It says only where; what the records will do, a dry
// run says.
type Plan struct {
	TopicID string    `json:"topic_id"`
	Topic   string    `json:"topic"`
	Group   string    `json:"group"`
	Steps   []Step    `json:"partitions"` // ascending
	Horizon time.Time `json:"horizon"`
	// Notices are what is worth knowing before it is done.
	Notices []string `json:"notices,omitempty"`
	// Refusals are why it cannot be done as it was asked for.
	Refusals []string `json:"refusals,omitempty"`
}

// Make plans. What cannot be is in the plan's refusals; an error says that the target
// itself makes no sense in this world.
func Make(t Target, w World, allowed Allowed) (Plan, error) {
	p := Plan{TopicID: w.TopicID, Topic: w.Topic, Group: w.Group, Horizon: w.Horizon}
	chosen, err := choose(t, w)
	if err != nil {
		return Plan{}, err
	}
	if w.Open != nil {
		p.refuse("replay %d of %s is open; wait for it (sluice replay --follow) or stop it (sluice replay --stop)", w.Open.ID, w.Open.Who)
	}
	for _, n := range chosen {
		at := w.Partitions[n]
		s := Step{Partition: n, Group: at.Group, Applied: at.Applied}
		wanted := t.offset(n, at)
		s.To = min(max(wanted, at.First), at.End)
		if s.To != wanted {
			p.notice("partition %d: offset %d is not there; its log holds %d to %d, so it is %d", n, wanted, at.First, at.End, s.To)
		}
		live := at.Applied + 1
		s.Records = max(0, live-s.To)
		s.Ahead = max(0, s.To-live)
		s.Behind = max(0, min(live, at.AtHorizon)-s.To)
		if s.To == at.First && at.First > 0 && s.Records > 0 {
			p.notice("partition %d: it begins with the oldest record that is left; what expires before it is read again is not read again, and is as it was", n)
		}
		p.Steps = append(p.Steps, s)
	}
	p.guard(allowed)
	return p, nil
}

// choose returns the partitions that are meant, ascending.
func choose(t Target, w World) ([]int32, error) {
	there := slices.Sorted(maps.Keys(w.Partitions))
	chosen := there
	if t.How == FromFile {
		chosen = slices.Sorted(maps.Keys(t.Offsets))
	}
	if t.Partitions != nil {
		meant := slices.Compact(slices.Sorted(slices.Values(t.Partitions)))
		if t.How == FromFile { // the file may hold more
			chosen = slices.DeleteFunc(slices.Clone(chosen), func(p int32) bool { return !slices.Contains(meant, p) })
		} else {
			chosen = meant
		}
	}
	if len(chosen) == 0 {
		return nil, errors.New("no partition is left of what was asked for")
	}
	for _, p := range chosen {
		if _, ok := w.Partitions[p]; !ok {
			return nil, fmt.Errorf("topic %s has no partition %d; it has %s", w.Topic, p, list(there))
		}
	}
	return chosen, nil
}

// offset is what is asked for of one partition, whether it is there or not.
func (t Target) offset(n int32, at Position) int64 {
	current := at.Group
	if current < 0 {
		current = at.First // where a processor begins then
	}
	switch t.How {
	case ToEarliest:
		return at.First
	case ToLatest:
		return at.End
	case ToDatetime, ByDuration:
		return at.AtTime
	case ToOffset:
		return t.N
	case ShiftBy:
		return current + t.N
	case FromFile:
		return t.Offsets[n]
	default: // ToCurrent
		return current
	}
}

// guard refuses what nobody should do without knowing.
func (p *Plan) guard(allowed Allowed) {
	ahead, behind := p.sum(func(s Step) int64 { return s.Ahead }), p.sum(func(s Step) int64 { return s.Behind })
	if ahead > 0 {
		what := fmt.Sprintf("%d records ahead were never applied: they would be left out for ever, and written off in the books", ahead)
		if allowed.Skip {
			p.notice("%s", what)
		} else {
			p.refuse("%s; --skip does that", what)
		}
	}
	if behind > 0 {
		what := fmt.Sprintf("%d records are older than %s, and the ledger of processed events does not reach back so far: their repeats are recognised by "+
			"their orders' own sets of events, and effects by their keys, so no order changes twice and no effect is repeated; an event whose order is "+
			"not known is held as outside_window", behind, p.Horizon.UTC().Format("2006-01-02 15:04"))
		if allowed.BeyondWindow {
			p.notice("%s", what)
		} else {
			p.refuse("%s; --beyond-window does that", what)
		}
	}
}

// Records is how many records are read again.
func (p *Plan) Records() int64 { return p.sum(func(s Step) int64 { return s.Records }) }

// Ahead is how many records are left out for ever.
func (p *Plan) Ahead() int64 { return p.sum(func(s Step) int64 { return s.Ahead }) }

// Does says that it does anything.
func (p *Plan) Does() bool { return slices.ContainsFunc(p.Steps, Step.Does) }

func (p *Plan) sum(of func(Step) int64) (n int64) {
	for _, s := range p.Steps {
		n += of(s)
	}
	return n
}

// How fast one processor with two workers on two cores reads again what it knows, and
// takes over what it does not, in records a second, beside live traffic of 500/s (2026-12).
const (
	KnownRate = 170_000
	FreshRate = 20_000
)

// Estimate is about how long it will take if fresh of the records were never taken
// over. rate is what a replay was measured to read of known ones in a second; 0: none
// was, it is KnownRate.
func (p *Plan) Estimate(fresh int64, rate float64) time.Duration {
	if rate <= 0 {
		rate = KnownRate
	}
	seconds := float64(p.Records()-fresh)/rate + float64(fresh)/min(rate, FreshRate)
	return time.Duration(seconds * float64(time.Second))
}

// Refused is nil if nothing speaks against the plan.
func (p *Plan) Refused() error {
	if len(p.Refusals) == 0 {
		return nil
	}
	return errors.New(strings.Join(p.Refusals, "\n  "))
}

// Offsets are what the plan sets, by partition.
func (p *Plan) Offsets() map[int32]int64 {
	offsets := map[int32]int64{}
	for _, s := range p.Steps {
		offsets[s.Partition] = s.To
	}
	return offsets
}

// Digest names what was agreed on: where each partition is read from, and what the
// dry run answered. What live traffic adds meanwhile is not in it, unless answers
// hold it.
func (p *Plan) Digest(answers any) string {
	return Digest(struct {
		TopicID, Group string
		Offsets        map[int32]int64
		Skips          bool
		Answers        any
	}{p.TopicID, p.Group, p.Offsets(), p.Ahead() > 0, answers})
}

// Digest is a short name of whatever JSON can say.
func Digest(of any) string {
	text, err := json.Marshal(of)
	if err != nil {
		panic(fmt.Sprintf("digest of a %T: %v", of, err)) // a programmer's mistake
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:5])
}

func (p *Plan) notice(format string, args ...any) {
	p.Notices = append(p.Notices, fmt.Sprintf(format, args...))
}

func (p *Plan) refuse(format string, args ...any) {
	p.Refusals = append(p.Refusals, fmt.Sprintf(format, args...))
}

func list(ps []int32) string {
	words := make([]string, len(ps))
	for i, p := range ps {
		words[i] = fmt.Sprint(p)
	}
	return strings.Join(words, ", ")
}

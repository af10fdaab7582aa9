// Package replay plans the reading once more of a part of a topic: from what was
// asked for and from where the offsets are, to what will be read and what will not.
// It is pure: offsets and times come in as arguments.
//
// Its path: target.go reads what was asked for, in the habits of Kafka's own
// `kafka-consumer-groups --reset-offsets`; file.go its CSV files; plan.go makes the
// plan, with what speaks against it; moved.go says what changed since.
package replay

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"
)

// How says by what the offsets are chosen; the values are the names of Kafka's flags.
type How string

// The ways of kafka-consumer-groups.
const (
	ToEarliest How = "to-earliest"
	ToLatest   How = "to-latest"
	ToCurrent  How = "to-current"
	ToDatetime How = "to-datetime"
	ByDuration How = "by-duration"
	ToOffset   How = "to-offset"
	ShiftBy    How = "shift-by"
	FromFile   How = "from-file"
)

// Target is where to read from.
type Target struct {
	How How
	At  time.Time // ToDatetime and ByDuration: the broker's append time
	// N is the offset of ToOffset, the number of records of ShiftBy.
	N int64
	// Offsets are FromFile's. Other partitions stay as they are.
	Offsets map[int32]int64
	// Partitions are the only ones that are meant; nil: all.
	Partitions []int32
}

// timeLayouts are how people write times, and how Kafka's tool does; without a zone
// it is UTC there too.
var timeLayouts = []string{time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07", "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00",
	"2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly}

// ParseTime reads a time, to the millisecond: Kafka knows no finer ones.
func ParseTime(text string) (time.Time, error) {
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC().Truncate(time.Millisecond), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time like 2026-11-30T14:00:00.000, 2026-11-30T14:00:00+02:00 or 2026-11-30 (UTC without a zone)", text)
}

// isoDuration is java.time.Duration's form, which Kafka's tool takes.
var isoDuration = regexp.MustCompile(`^[Pp](?:(\d+)[Dd])?(?:[Tt](?:(\d+)[Hh])?(?:(\d+)[Mm])?(?:(\d+(?:\.\d+)?)[Ss])?)?$`)

// ParseDuration reads a duration above 0: 2h30m, or P1DT2H as Kafka's tool takes it.
func ParseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if m := isoDuration.FindStringSubmatch(text); m != nil {
		sum := 0.0
		for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
			n, _ := strconv.ParseFloat("0"+m[i+1], 64) // it is digits
			sum += n * float64(unit)
		}
		if err = nil; sum > math.MaxInt64/2 {
			err = fmt.Errorf("it is longer than %v", time.Duration(math.MaxInt64/2).Truncate(time.Hour))
		}
		d = time.Duration(sum)
	}
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is not a duration like 2h30m or P1DT2H", text)
	}
	return d, nil
}

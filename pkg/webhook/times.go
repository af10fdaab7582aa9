package webhook

import (
	"fmt"
	"time"
)

// timeForm is how a provider writes a time. The zero value is none; see newTimeForm.
type timeForm struct {
	unit   time.Duration // of integers; 0: there are none
	format string        // of text, as package time writes it; empty: RFC 3339
	zone   *time.Location
}

var timeUnits = map[string]time.Duration{"": time.Second, "s": time.Second, "ms": time.Millisecond, "rfc3339": 0}

// reference is the moment that stands for the time in a format.
var reference = time.Date(2006, time.January, 2, 15, 4, 5, 0, time.UTC)

// newTimeForm makes it of a layout's keys, each wrong one reported under its name.
func newTimeForm(l Layout, problem func(format string, args ...any)) timeForm {
	unit, ok := timeUnits[l.TimeUnit]
	if !ok {
		problem("time_unit: %q is none of s, ms, rfc3339", l.TimeUnit)
	}
	f := timeForm{unit: unit, format: l.TimeFormat, zone: time.UTC}
	if l.TimeFormat != "" {
		if l.TimeUnit != "" {
			problem("time_unit: a time has a unit or a time_format, not both")
		}
		// A format that cannot write the reference moment leaves a part of the time out.
		if t, err := time.ParseInLocation(l.TimeFormat, reference.Format(l.TimeFormat), time.UTC); err != nil || !t.Equal(reference) {
			problem("time_format: %q is no format: write how the provider would write 2006-01-02 15:04:05", l.TimeFormat)
		}
	}
	if l.TimeZone != "" {
		t, err := time.Parse("-07:00", l.TimeZone)
		if err != nil {
			problem("time_zone: %q is no offset: write it as +05:00", l.TimeZone)
		}
		if l.TimeFormat == "" {
			problem("time_zone: is of times in a time_format, and there is none: Unix times and RFC 3339 have their own")
		}
		f.zone = t.Location()
	}
	return f
}

// lastSecond is the end of the year 9999, the last that RFC 3339 can write.
const lastSecond = 253402300799

// read is a time written in the form.
func (f timeForm) read(v value) (time.Time, error) {
	if f.format == "" && f.unit > 0 {
		if n, err := v.integer(); err == nil {
			return f.unix(n)
		}
	}
	s, err := v.text()
	if err != nil {
		return time.Time{}, f.err()
	}
	if f.format != "" {
		t, err := time.ParseInLocation(f.format, s, f.zone)
		if err != nil {
			return time.Time{}, f.err()
		}
		return inYears(t, f.err())
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		// ISO 8601 has the offset without a colon too, and some send it.
		if t, err = time.Parse("2006-01-02T15:04:05-0700", s); err != nil {
			return time.Time{}, f.err()
		}
	}
	return inYears(t, f.err())
}

func (f timeForm) unix(n int64) (time.Time, error) {
	perSecond := int64(time.Second / f.unit)
	if n < 0 || n/perSecond > lastSecond {
		return time.Time{}, f.err()
	}
	return time.Unix(n/perSecond, n%perSecond*int64(f.unit)).UTC(), nil
}

// inYears refuses what an offset moves out of the years 1 to 9999.
func inYears(t time.Time, otherwise error) (time.Time, error) {
	if t = t.UTC(); t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}, otherwise
	}
	return t, nil
}

func (f timeForm) err() error {
	if f.format != "" {
		return fmt.Errorf("is not a time written as %s", f.format)
	}
	return errNotTime
}

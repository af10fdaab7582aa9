package replay

import (
	"maps"
	"strings"
	"testing"
	"time"
)

func TestTimesAreReadAsKafkasToolReadsThem(t *testing.T) {
	for text, want := range map[string]string{
		"2026-11-30T14:00:00.250":      "2026-11-30T14:00:00.25Z",
		"2026-11-30T14:00:00.250Z":     "2026-11-30T14:00:00.25Z",
		"2026-11-30T14:00:00.25+02:00": "2026-11-30T12:00:00.25Z",
		"2026-11-30T14:00:00.25+0200":  "2026-11-30T12:00:00.25Z",
		"2026-11-30T14:00:00+02":       "2026-11-30T12:00:00Z",
		"2026-11-30T14:00":             "2026-11-30T14:00:00Z",
		"2026-11-30 14:00":             "2026-11-30T14:00:00Z",
		"2026-11-30":                   "2026-11-30T00:00:00Z",
		"yesterday":                    "",
		"2026-13-01":                   "",
		"":                             "",
	} {
		got, err := ParseTime(text)
		if (err == nil) != (want != "") || err == nil && got.Format(time.RFC3339Nano) != want {
			t.Errorf("%q is %v, %v; want %s", text, got, err, want)
		}
	}
}

func TestDurationsAreReadAsPeopleAndAsKafkasToolWriteThem(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"2h30m": 150 * time.Minute, "P1D": 24 * time.Hour, "PT1H30M": 90 * time.Minute, "P1DT0H0M1.5S": 24*time.Hour + 1500*time.Millisecond, "pt5s": 5 * time.Second,
		"": 0, "P": 0, "PT": 0, "0s": 0, "-2h": 0, "P-1D": 0, "P0DT0H0M0S": 0, "2 hours": 0, "P999999999999D": 0, "P1W": 0,
	} {
		if got, err := ParseDuration(text); got != want || (err == nil) != (want != 0) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestAFileIsReadAsKafkasToolWritesIt(t *testing.T) {
	for text, want := range map[string]map[int32]int64{
		topic + ",1,3\n" + topic + ",0,0\n":                        {0: 0, 1: 3},
		group + "," + topic + ",1,3\r\n\n":                         {1: 3},
		`"` + topic + `", 2, 17`:                                   {2: 17},
		WriteFile(topic, map[int32]int64{0: 5, 1: 0, 11: 1 << 40}): {0: 5, 1: 0, 11: 1 << 40},
	} {
		if got, err := ReadFile(text, group, topic); err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                                "there are none",
		topic + ",1\n":                    "line 1: it is not topic,partition,offset",
		topic + ",1,2\nother,1,3\n":       `line 2: it is about topic "other"`,
		"g," + topic + ",1,2\n":           `line 1: it is about group "g"`,
		topic + ",1,2\n" + topic + ",1,3": "line 2: partition 1 is there twice",
		topic + ",x,2":                    `"x" is not a partition`,
		topic + ",1,-2":                   `"-2" is not an offset`,
		topic + ",1,99999999999999999999": "is not an offset",
		`"` + topic:                       "line 1",
	} {
		if _, err := ReadFile(text, group, topic); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %s", text, err, want)
		}
	}
}

func FuzzAFileOfOffsetsIsReadOrRefused(f *testing.F) {
	f.Add(topic + ",1,3\n")
	f.Add(`"a""b",0,` + "\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		offsets, err := ReadFile(text, group, topic)
		if err != nil {
			return
		}
		again, err := ReadFile(WriteFile(topic, offsets), group, topic)
		if err != nil || !maps.Equal(again, offsets) {
			t.Errorf("%v came back as %v, %v", offsets, again, err)
		}
	})
}

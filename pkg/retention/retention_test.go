package retention

import (
	"strings"
	"testing"
	"time"
)

// good is a deployment with Sluice's defaults.
func good() Settings {
	return Settings{
		Raw: &Topic{"raw", 30 * day, -1, 7 * day}, Status: &Topic{"status", 30 * day, -1, 7 * day}, DeadLetters: &Topic{"dead", 90 * day, -1, 7 * day},
		Window: 90 * day, Grace: 15 * time.Minute,
		Endpoints: []Endpoint{{"stripe-eu", "stripe", 3 * day}, {"tbank", "tbank", 31 * day}},
	}
}

func TestTheDefaultsAreFineInEveryRule(t *testing.T) {
	r := Check(good())
	for _, f := range r.Findings {
		if f.Severity != Fine || f.Change != "" || f.Says == "" {
			t.Errorf("%+v", f)
		}
	}
	for _, rule := range rules {
		if rule.name == "journal_beyond_topic" { // the journal is off
			continue
		}
		if !strings.Contains(names(r.Findings), rule.name) {
			t.Errorf("rule %s says nothing", rule.name)
		}
	}
	if err := r.Refusal(); err != nil || len(r.Horizons) != 8 {
		t.Errorf("%v, %d horizons", err, len(r.Horizons))
	}
}

func names(found []Finding) string {
	var all []string
	for _, f := range found {
		all = append(all, f.Rule)
	}
	return strings.Join(all, " ")
}

func TestEachRuleFindsItsFaultAloneAndSaysWhatToChange(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*Settings)
		// worst is the severity, rule whose, and says what its text must hold.
		worst Severity
		rule  string
		says  []string
	}{
		{"the topic keeps just as long as the window", func(s *Settings) { s.Raw.Time, s.Raw.Segment, s.Endpoints = 90*day, 0, nil }, Fine, "", nil},
		{"longer", func(s *Settings) { s.Raw.Time = 91 * day }, Refuse, "topic_within_window repeats_within_window repeats_within_window",
			[]string{"91.0 days", "retention.ms=7862400000", "90 days", "SLUICE_WINDOW"}},
		{"longer, on the development broker too", func(s *Settings) { s.Raw.Time, s.DevBroker, s.Endpoints = 91*day, true, nil }, Refuse, "topic_within_window repeats_within_window",
			[]string{"91.0 days"}},
		{"for ever", func(s *Settings) { s.Raw.Time = -1 }, Refuse, "topic_within_window", []string{"for ever", "90 days", "retention.ms of at most 7776000000"}},
		{"by size", func(s *Settings) { s.Raw.Time, s.Raw.Bytes = -1, 1<<30 }, Refuse, "topic_within_window", []string{"1073741824 bytes", "90 days"}},
		{"by size, on the development broker", func(s *Settings) { s.Raw.Time, s.Raw.Bytes, s.DevBroker = -1, 1<<30, true }, Warn, "topic_within_window", []string{"by size"}},
		{"a segment longer than the window", func(s *Settings) { s.Raw.Time, s.Raw.Segment, s.Endpoints = 80*day, 11*day, nil }, Warn, "repeats_within_window",
			[]string{"up to 91 days", "SLUICE_WINDOW to 91"}},
		{"a patient provider", func(s *Settings) { s.Endpoints[1].Repeats = 60 * day }, Warn, "repeats_within_window", []string{"tbank may repeat for 60 days", "37 days", "SLUICE_WINDOW to 97"}},
		{"a patient provider, and nobody asked Kafka", func(s *Settings) { s.Raw, s.Endpoints[1].Repeats = nil, 91*day }, Warn, "repeats_within_window", []string{"SLUICE_WINDOW to 91"}},
		{"no time to read", func(s *Settings) { s.Raw.Time, s.Journal = 2*day, 30*day }, Warn, "time_to_read", []string{"2 days", "259200000"}},
		{"by time and by size", func(s *Settings) { s.Raw.Bytes = 1 << 30 }, Warn, "kept_by_time", []string{"1073741824", "retention.bytes of the topic to -1"}},
		{"a grace that outlasts the bytes", func(s *Settings) { s.Grace = 24 * day }, Warn, "bytes_for_review", []string{"SLUICE_PROCESSOR_KEEP_BODIES to 31"}},
		{"the same with a journal", func(s *Settings) { s.Grace, s.Journal = 24*day, 31*day }, Fine, "", []string{"1 day longer than the raw topic"}},
		{"a journal for nothing", func(s *Settings) { s.Journal = 7 * day }, Fine, "", []string{"the raw topic has for 30 days anyway"}},
		{"a history that goes before its messages", func(s *Settings) { s.Transitions = 29 * day }, Warn, "status_has_its_history", []string{"29 days", "for 30 days", "KEEP_TRANSITIONS"}},
		{"messages for ever, and a history that goes", func(s *Settings) { s.Transitions, s.Status.Time = 365*day, -1 }, Warn, "status_has_its_history", []string{"for ever"}},
		{"no time to consume", func(s *Settings) { s.Status.Time = 30 * time.Hour }, Warn, "time_to_consume", []string{"30 hours", "259200000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := good()
			c.set(&s)
			r := Check(s)
			var bad []Finding
			text := ""
			for _, f := range r.Findings {
				text += f.String() + "\n"
				if f.Severity != Fine {
					bad = append(bad, f)
					if f.Change == "" {
						t.Errorf("it does not say what to change: %+v", f)
					}
				}
			}
			if names(bad) != c.rule {
				t.Errorf("found by %q, want %q:\n%s", names(bad), c.rule, text)
			}
			if refused := r.Refusal() != nil; refused != (c.worst == Refuse) {
				t.Errorf("refused: %v", r.Refusal())
			}
			for _, want := range c.says {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
		})
	}
}

func TestSpansAreSaidAsPeopleDo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 days", day: "1 day", 90 * day: "90 days", 36 * time.Hour: "36 hours", time.Hour: "1 hour", 15 * time.Minute: "15 minutes",
		10*day + 12*time.Hour: "10.5 days", -1: "for ever", 90 * time.Second: "1m30s",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

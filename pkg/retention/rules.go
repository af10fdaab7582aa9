package retention

import (
	"fmt"
	"time"
)

// rules are all that is checked. A rule that does not apply finds nothing.
var rules = []struct {
	name  string
	check func(Settings) []Finding
}{
	{"topic_within_window", topicWithinWindow},
	{"repeats_within_window", repeatsWithinWindow},
	{"time_to_read", timeToRead},
	{"kept_by_time", keptByTime},
	{"bytes_for_review", bytesForReview},
	{"journal_beyond_topic", journalBeyondTopic},
	{"status_has_its_history", statusHasItsHistory},
	{"time_to_consume", timeToConsume},
}

// What people need. A weekend with a holiday is the longest that a stopped service
// is left alone; a person who is asked has an answer from a provider within a week.
const (
	longestStop  = 3 * day
	reviewTakes  = 7 * day
	raiseWindow  = "raise SLUICE_WINDOW"
	lowerRaw     = "Lower retention.ms of the topic, or " + raiseWindow
	reachesPast  = "a replay would reach events whose repeats are forgotten"
	keepsAndKnow = "topic %s keeps records %s, and repeats are recognised for %s (SLUICE_WINDOW)"
)

// topicWithinWindow: a replay must not reach what is forgotten.
func topicWithinWindow(s Settings) []Finding {
	if s.Raw == nil {
		return nil
	}
	t, window := *s.Raw, Span(s.Window)
	f := Finding{Subject: t.Name}
	switch {
	case t.Time >= 0 && t.Time <= s.Window:
		f.Severity = Fine
		f.Says = fmt.Sprintf(keepsAndKnow, t.Name, "for "+Span(t.Time), window)
	case t.Time >= 0:
		f.Severity = Refuse
		f.Says = fmt.Sprintf(keepsAndKnow, t.Name, fmt.Sprintf("for %.1f days (retention.ms=%d)", t.Time.Hours()/24, t.Time.Milliseconds()), window)
		f.Change = reachesPast + ". " + lowerRaw
	case s.DevBroker:
		f.Severity = Warn
		f.Says = fmt.Sprintf(keepsAndKnow, t.Name, "by size", window)
		f.Change = "that is for a development broker only"
	default:
		how := "for ever (retention.ms=-1, retention.bytes=-1)"
		if t.Bytes >= 0 {
			how = fmt.Sprintf("until they are %d bytes (retention.ms=-1), however old", t.Bytes)
		}
		f.Severity = Refuse
		f.Says = fmt.Sprintf(keepsAndKnow, t.Name, how, window)
		f.Change = fmt.Sprintf("%s. Give the topic a retention.ms of at most %d", reachesPast, s.Window.Milliseconds())
	}
	return []Finding{f}
}

// repeatsWithinWindow: what a provider repeats, and a replay reads once more, is
// recognised. A record is at most so old, by the provider's time, as its provider
// repeats, and then lies in the topic.
func repeatsWithinWindow(s Settings) (found []Finding) {
	lies := time.Duration(0)
	if s.Raw != nil {
		if s.Raw.Time < 0 { // the rule before says what to think of it
			return nil
		}
		lies = s.Raw.longest()
	}
	endpoints := s.Endpoints
	if len(endpoints) == 0 && s.Raw != nil {
		endpoints = []Endpoint{{}}
	}
	for _, e := range endpoints {
		f := Finding{Severity: Fine, Subject: e.Name}
		what := fmt.Sprintf("the topic keeps its records for up to %s", Span(lies))
		switch {
		case s.Raw == nil:
			what = fmt.Sprintf("endpoint %s: %s may repeat for %s", e.Name, e.Provider, Span(e.Repeats))
		case e.Name != "":
			what = fmt.Sprintf("endpoint %s: %s may repeat for %s, and %s", e.Name, e.Provider, Span(e.Repeats), what)
		}
		f.Says = fmt.Sprintf("%s, within the %s for which repeats are recognised", what, Span(s.Window))
		if over := e.Repeats + lies; over > s.Window {
			f.Severity = Warn
			f.Says = fmt.Sprintf("%s: together longer than the %s for which repeats are recognised, so a repeat of an old event may come after it was forgotten "+
				"(its order's set still knows it)", what, Span(s.Window))
			f.Change = fmt.Sprintf("%s to %d", raiseWindow, (over+day-1)/day)
		}
		found = append(found, f)
	}
	return found
}

// timeToRead: what expires before it was read is lost.
func timeToRead(s Settings) []Finding {
	if s.Raw == nil || s.Raw.Time < 0 {
		return nil
	}
	f := Finding{Severity: Fine, Subject: s.Raw.Name, Says: fmt.Sprintf("the processor may stand still for %s before a record is lost unread", Span(s.Raw.Time))}
	if s.Raw.Time < longestStop {
		f.Severity, f.Change = Warn, fmt.Sprintf("that is less than a long weekend; raise retention.ms of the topic to %d or more", longestStop.Milliseconds())
	}
	return []Finding{f}
}

// keptByTime: a bound of bytes may come before the time is over.
func keptByTime(s Settings) []Finding {
	if s.Raw == nil || s.DevBroker || s.Raw.Time < 0 {
		return nil
	}
	if s.Raw.Bytes < 0 {
		return []Finding{{Severity: Fine, Subject: s.Raw.Name, Says: "the topic keeps its records by time, and not by size"}}
	}
	return []Finding{{Severity: Warn, Subject: s.Raw.Name,
		Says: fmt.Sprintf("topic %s also deletes what is beyond %d bytes in a partition (retention.bytes), so on a busy day records may go before %s, read or not",
			s.Raw.Name, s.Raw.Bytes, Span(s.Raw.Time)),
		Change: "set retention.bytes of the topic to -1"}}
}

// bytesForReview: an event that was applied first and is held again has its bytes in
// the raw topic and the journal only, and so has whatever is read anew after a fix.
func bytesForReview(s Settings) []Finding {
	if s.Raw == nil || s.Raw.Time < 0 {
		return nil
	}
	reach, needed := max(s.Raw.Time, s.Journal), s.Grace+reviewTakes
	f := Finding{Severity: Fine, Says: fmt.Sprintf("the bytes of every event can be read anew for %s; a person is asked after at most %s", Span(reach), Span(s.Grace))}
	if reach < needed {
		f.Severity = Warn
		f.Says += fmt.Sprintf(", and may need %s: they may be gone before somebody looks", Span(reviewTakes))
		f.Change = fmt.Sprintf("set SLUICE_PROCESSOR_KEEP_BODIES to %d, or raise retention.ms of the raw topic", (needed+day-1)/day)
	}
	return []Finding{f}
}

// journalBeyondTopic: a journal that ends before the topic does costs and adds nothing.
func journalBeyondTopic(s Settings) []Finding {
	if s.Raw == nil || s.Raw.Time < 0 || s.Journal == 0 {
		return nil
	}
	says := fmt.Sprintf("the journal keeps bytes for %s, %s longer than the raw topic", Span(s.Journal), Span(s.Journal-s.Raw.Time))
	if s.Journal <= s.Raw.Time {
		says = fmt.Sprintf("the journal keeps bytes for %s, which the raw topic has for %s anyway; a longer one, or none, is worth more", Span(s.Journal), Span(s.Raw.Time))
	}
	return []Finding{{Severity: Fine, Says: says}}
}

// statusHasItsHistory: what consumers can read on the status topic can be explained.
func statusHasItsHistory(s Settings) []Finding {
	if s.Status == nil {
		return nil
	}
	f := Finding{Severity: Fine, Subject: s.Status.Name, Says: "every version on the status topic has its row in the database"}
	switch {
	case s.Transitions == 0 || s.Status.Time >= 0 && s.Transitions >= s.Status.Time:
	case s.DevBroker && s.Status.Time < 0:
		return nil
	default:
		f.Severity = Warn
		f.Says = fmt.Sprintf("transitions are dropped after %s (SLUICE_PROCESSOR_KEEP_TRANSITIONS), and topic %s keeps their messages %s: they can neither be explained nor published again",
			Span(s.Transitions), s.Status.Name, forSpan(s.Status.Time))
		f.Change = "raise SLUICE_PROCESSOR_KEEP_TRANSITIONS, or set it to 0 (for ever); SLUICE_PROCESSOR_ARCHIVE keeps them as files"
	}
	return []Finding{f}
}

// timeToConsume: consumers of the status topic that stand still miss no version.
func timeToConsume(s Settings) []Finding {
	if s.Status == nil || s.Status.Time < 0 {
		return nil
	}
	f := Finding{Severity: Fine, Subject: s.Status.Name, Says: fmt.Sprintf("a consumer of statuses may stand still for %s before it misses a version", Span(s.Status.Time))}
	if s.Status.Time < longestStop {
		f.Severity, f.Change = Warn, fmt.Sprintf("that is less than a long weekend; raise retention.ms of topic %s to %d or more", s.Status.Name, longestStop.Milliseconds())
	}
	return []Finding{f}
}

func forSpan(d time.Duration) string {
	if d < 0 {
		return Span(d)
	}
	return "for " + Span(d)
}

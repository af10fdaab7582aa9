package effects

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"sluice/pkg/postgres"
)

func waitsOf(c Config) waits {
	return waits{base: c.BackoffBase, longest: c.BackoffMax, retryAfter: c.RetryAfterMax}
}

func none(time.Duration) time.Duration       { return 0 }
func most(below time.Duration) time.Duration { return below - 1 }

func TestEveryClassHasAMeaningAndEveryStatusAClass(t *testing.T) {
	for status := range 1000 {
		if _, ok := outcomes[classOf(status)]; !ok {
			t.Errorf("status %d is of no class", status)
		}
		if done := outcomes[classOf(status)].effect == postgres.AttemptDone; done != (status >= 200 && status < 300) {
			t.Errorf("status %d is done: %v", status, done)
		}
	}
}

func TestAttemptsEndAfterTheirNumber(t *testing.T) {
	now := time.Now()
	w := waitsOf(config())
	for try := 1; try < 12; try++ {
		if v := w.decide(answer{class: timedOut}, try, 12, now, none); v.outcome != postgres.AttemptRetry {
			t.Errorf("try %d: %+v", try, v)
		}
	}
	if v := w.decide(answer{class: timedOut}, 12, 12, now, none); v.outcome != postgres.AttemptFailed {
		t.Errorf("the last: %+v", v)
	}
	// A person sent it again: tries count from there, numbers go on.
	if v := w.decide(answer{status: 200}, 13, 12, now, none); v.outcome != postgres.AttemptDone {
		t.Errorf("done after the last: %+v", v)
	}
	if v := w.decide(answer{class: stopped}, 12, 12, now, most); v.outcome != postgres.AttemptRetry || !v.retryAt.Equal(now) {
		t.Errorf("a stop is nobody's refusal: %+v", v)
	}
}

func TestRetriesWaitDoublyLongAtMostAndAnyPartOfIt(t *testing.T) { // O43
	w := waitsOf(config())
	for try, want := range map[int]time.Duration{1: 30 * time.Second, 2: time.Minute, 3: 2 * time.Minute, 10: 15360 * time.Second, 11: 6 * time.Hour, 12: 6 * time.Hour, 100: 6 * time.Hour} {
		if got := w.bound(try); got != want {
			t.Errorf("after try %d: at most %v, want %v", try, got, want)
		}
	}
	now := time.Now()
	var low, high bool
	for range 200 {
		wait := w.decide(answer{status: 503}, 3, 12, now, rand.N).retryAt.Sub(now)
		if wait < 0 || wait >= 2*time.Minute {
			t.Fatalf("a wait of %v", wait)
		}
		low, high = low || wait < 30*time.Second, high || wait > 90*time.Second
	}
	if !low || !high {
		t.Error("waits are not spread over all that they may be")
	}
}

func TestRetryAfterIsObeyedWithinItsBounds(t *testing.T) { // O43
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"":                           0,
		"0":                          0,
		"30":                         30 * time.Second,
		" 7 ":                        7 * time.Second,
		"-5":                         0,
		"1.5":                        0,
		"99999999999999999999999999": 24 * time.Hour,
		"172800":                     24 * time.Hour,
		now.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second,
		now.Add(-time.Hour).Format(http.TimeFormat):       0,
		"Fri, 31 Dec 9999 23:59:59 GMT":                   24 * time.Hour,
		"tomorrow":                                        0,
	} {
		v := waitsOf(config()).decide(answer{status: 503, retryAfter: text}, 1, 12, now, none)
		if got := v.retryAt.Sub(now); got != want || v.quiet != want {
			t.Errorf("Retry-After %q: a wait of %v, quiet for %v; want %v", text, got, v.quiet, want)
		}
	}
	// It is the least; jitter comes on top, and a longer backoff stands.
	v := waitsOf(config()).decide(answer{status: 429, retryAfter: "30"}, 1, 12, now, most)
	if wait := v.retryAt.Sub(now); wait <= 30*time.Second || wait > 63*time.Second {
		t.Errorf("a wait of %v", wait)
	}
	if v := waitsOf(config()).decide(answer{status: 503, retryAfter: "1"}, 9, 12, now, most); v.retryAt.Sub(now) < time.Hour {
		t.Errorf("a wait of %v", v.retryAt.Sub(now))
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("30")
	f.Add("Fri, 31 Dec 9999 23:59:59 GMT")
	f.Add("-99999999999999999999")
	now := time.Now()
	f.Fuzz(func(t *testing.T, text string) {
		v := waitsOf(config()).decide(answer{status: 503, retryAfter: text}, 1, 12, now, most)
		if wait := v.retryAt.Sub(now); wait < 0 || wait > 27*time.Hour {
			t.Errorf("Retry-After %q: a wait of %v", text, wait)
		}
	})
}

// FuzzAnswer: whatever a receiver answers, what is kept is short, printable, on one
// line and without what was sent to prove who calls.
func FuzzAnswer(f *testing.F) {
	d := one(f, "http://127.0.0.1/", `, headers: {Authorization: env:TOKEN}`)
	m := newMasker(d)
	f.Add("ok", 0)
	f.Add("\xff\x00\u2028<html>", 3)
	f.Add(strings.Repeat("ü", 600), 500)
	f.Fuzz(func(t *testing.T, text string, at int) {
		at = min(max(at, 0), len(text))
		got := beginning(m.clean(text[:at]+tokenText+secretText+text[at:]), keptAnswer)
		if len(got) > keptAnswer || !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("kept %q", got)
		}
		if strings.Contains(got, tokenText[7:]) || strings.Contains(got, secretText[6:]) {
			t.Errorf("kept %q with a secret", got)
		}
	})
}

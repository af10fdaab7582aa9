package webhook

import "time"

// LongestRetries is how long the most patient provider we know of repeats a
// delivery by itself (Adyen). It stands for whoever does not say.
const LongestRetries = 30 * 24 * time.Hour

// retrySpans are how long the built-in providers repeat a delivery by themselves
// (their documentation, 2026-11). What a person there sends again comes on top.
var retrySpans = map[string]time.Duration{
	"stripe":            3 * 24 * time.Hour,
	"standard_webhooks": 27*time.Hour + 35*time.Minute + 5*time.Second, // the schedule the specification suggests
	"svix":              27*time.Hour + 35*time.Minute + 5*time.Second, // 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 10 h
	"github":            0,                                             // only by hand
	"github_sha1":       0,
}

// RetrySpan is how long after the first delivery a provider may repeat it by
// itself: what is built in, or a declaration's retries, or LongestRetries.
func RetrySpan(p Provider) time.Duration {
	if span, ok := retrySpans[p.Name()]; ok {
		return span
	}
	if d, ok := p.(interface{ declaredRetries() time.Duration }); ok && d.declaredRetries() > 0 {
		return d.declaredRetries()
	}
	return LongestRetries
}

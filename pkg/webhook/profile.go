package webhook

import (
	"time"

	"sluice/pkg/event"
)

// Profile is what people should know of a provider: docs/providers.md and `sluice
// providers` are printed from it. Every text is one sentence or a part of one,
// without a full stop.
type Profile struct {
	// Title is how the provider writes its name.
	Title string
	// Docs is where it documents the scheme.
	Docs string
	// Secret says what the endpoint's secret is at the provider; empty: the scheme
	// has none, and the endpoint needs none.
	Secret string
	// Signature is the scheme in a line, Covers what it binds, and Leaves what it
	// does not; Instead is what Sluice does about that. Leaves is empty if nothing is left.
	Signature, Covers, Leaves, Instead string
	// ID is where the event's id comes from.
	ID string
	// Trust is Hint if no event that moves money is believed before the provider's API
	// was asked.
	Trust event.Trust
	// TwoWay: the provider asks before it pays, and its requests go to the merchant,
	// not to ingress.
	TwoWay bool
	// NeedsURL: the signature covers the public URL, which must be configured.
	NeedsURL bool
	// Retries is how long after the first delivery the provider may repeat it by
	// itself; RetriesUnknown if it does not say. What a person there sends again
	// comes on top.
	Retries time.Duration
}

// RetriesUnknown: the provider's documentation does not say.
const RetriesUnknown time.Duration = -1

// LongestRetries is how long the most patient provider we know of repeats a
// delivery by itself (T-Bank: hourly for a day, then daily for a month). It stands for
// whoever does not say.
const LongestRetries = 31 * 24 * time.Hour

// RetrySpan is how long after the first delivery a provider may repeat it by itself.
func RetrySpan(p Provider) time.Duration {
	if span := p.Profile().Retries; span != RetriesUnknown {
		return span
	}
	return LongestRetries
}

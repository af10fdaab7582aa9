package webhook

import (
	"math"
	"strconv"
	"time"
)

// Tolerance is how far a signed time may lie from the clock, both ends
// included: exactly Past old and exactly Future ahead still pass.
//
// A provider's own tolerance is what its SDKs do, because the conformance
// vectors come from them. Stripe's SDKs refuse only old requests: a signature
// dated ten minutes ahead passes (vector future_timestamp_accepted_by_official_sdks).
// A signature dated ahead is one that can be stored and used later, so an
// *endpoint* never leaves the future open: what its configuration does not say is
// TwoSided. Both hold: the vectors run against the provider, requests against
// the endpoint.
type Tolerance struct {
	Past, Future time.Duration
}

// Unlimited as a side of a Tolerance lets every time on that side pass.
const Unlimited = time.Duration(math.MaxInt64)

// TwoSided closes a side that the provider leaves open, at the other's distance.
func (t Tolerance) TwoSided() Tolerance {
	if t.Future == Unlimited {
		t.Future = t.Past
	}
	return t
}

// allows says whether signedAt lies within the tolerance around now.
func (t Tolerance) allows(signedAt, now time.Time) bool {
	return now.Sub(signedAt) <= t.Past && signedAt.Sub(now) <= t.Future
}

// judge is the verdict on a right signature.
func (t Tolerance) judge(secret string, signedAt, now time.Time) Verdict {
	if !t.allows(signedAt, now) {
		return Verdict{Outcome: Stale, Reason: ReasonStale, Secret: secret, SignedAt: signedAt}
	}
	return Verdict{Outcome: Valid, Secret: secret, SignedAt: signedAt}
}

// refuse is the verdict on anything else.
func refuse(reason Reason) Verdict { return Verdict{Outcome: Invalid, Reason: reason} }

// parseUnix reads a signed time in Unix seconds, in the one spelling that
// providers send: digits, no sign, no leading zero. At most 12 digits, so neither
// milliseconds nor an overflow is ever taken for a time.
func parseUnix(s string) (time.Time, bool) {
	if len(s) == 0 || len(s) > 12 || s[0] == '0' && len(s) > 1 {
		return time.Time{}, false
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return time.Time{}, false
	}
	return time.Unix(int64(n), 0), true
}

// parseMillis reads a signed time in Unix milliseconds: 13 digits, years 2001 to 2286.
func parseMillis(s string) (time.Time, bool) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || len(s) != 13 || s[0] == '0' {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(n)), true
}

// one is the value of a header that must come exactly once.
func one(values []string) (string, Reason) {
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return "", ReasonMissing
	case len(values) > 1:
		return "", ReasonMalformed
	}
	return values[0], ReasonNone
}

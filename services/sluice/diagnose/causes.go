package diagnose

import (
	"fmt"
	"slices"
	"time"

	"sluice/pkg/webhook"
)

// remedy undoes one mistake: the request or the endpoint as they would be without it.
type remedy struct {
	cause Cause
	apply func(*subject)
}

// maxPairs and maxPairBytes bound how often Verify is asked about two mistakes at
// once, and over how many bytes in all: an answer comes in seconds.
const (
	maxPairs     = 20_000
	maxPairBytes = 1 << 30
)

// causes finds out what is wrong with a request that does not verify.
func causes(c Case, s subject, v webhook.Verdict, asked []string, now time.Time) []Cause {
	if v.Outcome == webhook.Stale {
		return []Cause{stale(c, v, now)}
	}
	found := measured(c, s, v, asked)
	kinds := [][]remedy{headerRemedies(s, asked), secretRemedies(s), urlRemedies(c, s), bodyRemedies(c, s)}
	proven := try(c, s, kinds, now)
	found = append(proven, found...)
	if len(proven) == 0 {
		if cause, ok := elsewhere(c, s, now); ok {
			found = append([]Cause{cause}, found...)
		} else {
			found = append(found, likely(c, s, v, asked)...)
		}
	}
	slices.SortStableFunc(found, func(a, b Cause) int { return rank(a) - rank(b) })
	return distinct(found)
}

func rank(c Cause) int {
	if c.Proven {
		return 0
	}
	return 1
}

// distinct keeps the first cause of each mistake.
func distinct(all []Cause) (out []Cause) {
	for _, c := range all {
		if !slices.ContainsFunc(out, func(known Cause) bool { return known.Mistake == c.Mistake }) {
			out = append(out, c)
		}
	}
	return out
}

// try undoes each mistake alone, and if none was it, two of different kinds.
func try(c Case, s subject, kinds [][]remedy, now time.Time) []Cause {
	proof := func(undone ...remedy) []Cause {
		changed := s
		for _, r := range undone {
			r.apply(&changed)
		}
		v, ok := changed.right(now)
		if !ok {
			return nil
		}
		var proven []Cause
		for _, r := range undone {
			cause := r.cause
			cause.Proven = true
			proven = append(proven, cause)
		}
		if v.Outcome == webhook.Stale && !c.OwnTime {
			proven = append(proven, stale(c, v, now))
		}
		return proven
	}
	for _, kind := range kinds {
		for _, r := range kind {
			if proven := proof(r); proven != nil {
				return proven
			}
		}
	}
	pairs, most := 0, min(maxPairs, maxPairBytes/max(len(s.body), 1))
	for i, kind := range kinds {
		for _, other := range kinds[i+1:] {
			for _, a := range kind {
				for _, b := range other {
					if pairs++; pairs > most {
						return nil
					}
					if proven := proof(a, b); proven != nil {
						return proven
					}
				}
			}
		}
	}
	return nil
}

func stale(c Case, v webhook.Verdict, now time.Time) Cause {
	cause := Cause{Mistake: Clock, Proven: true,
		Text: fmt.Sprintf("the signature is right, but was made %s the clock (%s)%s", off(now.Sub(v.SignedAt)), c.Clock, allowed(c.Endpoint)),
		Do:   "a request that is old was held up or sent again: take the provider's next one; if all are as far off, set this machine's clock (NTP); to check it as of its receipt give --at TIME"}
	if v.SignedAt.After(now) {
		cause.Do = "it comes from the future, so a clock is wrong: set this machine's (NTP), or give --at TIME, when it was received"
	}
	return cause
}

// elsewhere tries the deployment's other endpoints.
func elsewhere(c Case, s subject, now time.Time) (Cause, bool) {
	for _, other := range c.Others {
		o := s
		o.endpoint, o.url = other, other.RequestURL(s.query)
		if o.remoteUnknown() {
			o.fromAnywhere()
		}
		if v, ok := o.right(now); ok && v.Secret != "" {
			return Cause{Mistake: WrongEndpoint, Proven: true,
				Text: fmt.Sprintf("it verifies at endpoint %s, with %s", other.Name, v.Secret),
				Do:   fmt.Sprintf("give the provider the address of endpoint %s, or this endpoint that one's secret", other.Name)}, true
		}
	}
	return Cause{}, false
}

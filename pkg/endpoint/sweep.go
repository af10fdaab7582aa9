package endpoint

import (
	"fmt"
	"time"

	"sluice/pkg/lookup"
)

// sweepEntry is an endpoint's `lookup.sweep` as the file has it: off, or when.
type sweepEntry struct {
	word  string         // off, or nothing
	Every *time.Duration `yaml:"every"`
	Back  *time.Duration `yaml:"back"`
}

// UnmarshalYAML takes the word off, or {every: …, back: …}.
func (s *sweepEntry) UnmarshalYAML(unmarshal func(any) error) error {
	if unmarshal(&s.word) == nil {
		if s.word != "off" {
			return fmt.Errorf("%q is neither off nor {every: 15m, back: 2h}", s.word)
		}
		return nil
	}
	type terms struct {
		Every *time.Duration `yaml:"every"`
		Back  *time.Duration `yaml:"back"`
	}
	var t terms
	err := unmarshal(&t)
	s.Every, s.Back = t.Every, t.Back
	return err
}

// Bounds of a sweep: a provider's lists are not for watching, and what lies further
// behind than a month few of them list.
const (
	minSweep = time.Minute
	maxEvery = 24 * time.Hour
	maxBack  = 31 * 24 * time.Hour
)

// sweep is how the provider's lists are gone through: as its entry says, else as is
// usual for the provider.
func (l *loader) sweep(e *sweepEntry, api lookup.API) *Sweep {
	listing, lists := api.Listing()
	switch {
	case e != nil && e.word == "off":
		return nil
	case !lists && e != nil:
		l.problem("lookup.sweep", "%s does not list what happened, or Sluice does not know how: remove it", api.Provider)
		return nil
	case !lists:
		return nil
	}
	out := &Sweep{Every: listing.Every, Back: listing.Back}
	if e == nil {
		return out
	}
	for _, f := range []struct {
		name  string
		given *time.Duration
		to    *time.Duration
		most  time.Duration
	}{{"every", e.Every, &out.Every, maxEvery}, {"back", e.Back, &out.Back, maxBack}} {
		if f.given == nil {
			continue
		}
		if *f.to = *f.given; *f.to < minSweep || *f.to > f.most {
			l.problem("lookup.sweep."+f.name, "is %s: use 1m to %dh", *f.to, int(f.most.Hours()))
		}
	}
	return out
}

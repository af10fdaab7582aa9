package endpoint

import (
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
)

func TestAProvidersListsAreGoneThroughAsUsualUnlessTheFileSaysOtherwise(t *testing.T) {
	load := func(provider, sweep string) (*Sweep, error) {
		w := world{env: map[string]string{"KEY": "k"}, files: map[string]string{"f": `endpoints:
  - name: a
    provider: ` + provider + `
` + map[string]string{"cloudpayments": "    secrets: [env:KEY]\n"}[provider] + `
    lookup:
      credentials: [env:KEY]
      settings: {` + map[string]string{"cloudpayments": "public_id: pk"}[provider] + `}
` + sweep}}
		set, err := LoadWithCredentials("f", event.Test, w.lookup, w.read)
		e, _ := set.Get("a")
		if err != nil {
			return nil, err
		}
		return e.Lookup.Sweep, nil
	}
	for name, c := range map[string]struct {
		provider, sweep string
		want            *Sweep
		says            string
	}{
		"usual":            {"mollie_classic", "", &Sweep{time.Hour, 24 * time.Hour}, ""},
		"off":              {"mollie_classic", "      sweep: off\n", nil, ""},
		"more often":       {"mollie_classic", "      sweep: {every: 10m}\n", &Sweep{10 * time.Minute, 24 * time.Hour}, ""},
		"further back":     {"mollie_classic", "      sweep: {back: 72h}\n", &Sweep{time.Hour, 72 * time.Hour}, ""},
		"all the time":     {"mollie_classic", "      sweep: {every: 1s}\n", nil, "lookup.sweep.every: is 1s: use 1m to 24h"},
		"no such word":     {"mollie_classic", "      sweep: never\n", nil, "neither off nor"},
		"no such key":      {"mollie_classic", "      sweep: {evry: 1h}\n", nil, "evry"},
		"nothing to sweep": {"cloudpayments", "", nil, ""},
		"and yet":          {"cloudpayments", "      sweep: {every: 1h}\n", nil, "cloudpayments does not list what happened"},
	} {
		got, err := load(c.provider, c.sweep)
		switch {
		case c.says != "":
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: says %v, and must say %q", name, err, c.says)
			}
		case err != nil, (got == nil) != (c.want == nil), got != nil && *got != *c.want:
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
}

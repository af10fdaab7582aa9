package endpoint

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/webhook"
)

// asked is what the loader makes of an entry's `lookup:` for a provider of that name.
type asked struct {
	fake
	name string
}

func (a asked) Name() string { return a.name }

func hinting(name string) webhook.Provider {
	return asked{fake{profile: webhook.Profile{Trust: event.Hint}}, name}
}

func look(e *lookupEntry, p webhook.Provider) (*Lookup, string) {
	env := world{env: map[string]string{"KEY": " live_abc\n", "BLANK": " ", "BROKEN": "a\nb"}, files: map[string]string{"/run/key": "live_file\n"}}
	l := loader{at: `f:1: endpoint "a"`, deployment: event.Live, resolve: resolvers{credential: func(ref string) (string, error) {
		return resolve(ref, env.lookup, env.read)
	}}}
	out := l.lookup(e, event.Live, p)
	return out, fmt.Sprint(errors.Join(l.problems...))
}

// O05: what cannot be believed by itself and cannot be asked about does not start.
func TestAProviderThatGivesOnlyHintsNeedsALookUp(t *testing.T) {
	for name, c := range map[string]struct {
		entry    *lookupEntry
		provider webhook.Provider
		want     string
	}{
		"hints and none": {nil, hinting("mollie_classic"),
			"lookup: missing: nothing that mollie_classic sends can be believed by itself, so its API must be asked: add `lookup:` with `credentials: [env:NAME]` (the API key"},
		"says every setting":       {nil, hinting("click"), "`settings: {service_id: …, merchant_user_id: …}` (the service's id at Click; the merchant user's id at Click)"},
		"hints and no API":         {nil, hinting("nobody"), "nothing that nobody sends can be believed by itself, and Sluice cannot ask its API"},
		"an API nobody knows":      {&lookupEntry{}, asked{fake{}, "nobody"}, "lookup: Sluice cannot ask the API of nobody: remove it"},
		"an API that there is not": {&lookupEntry{}, asked{fake{}, "adyen"}, "lookup: Adyen has no request that says how a payment stands"},
		"no credential":            {&lookupEntry{}, hinting("mollie_classic"), "lookup.credentials: missing: give env:NAME or file:/path of the API key"},
		"a value as a credential":  {&lookupEntry{Credentials: []reference{"live_abc"}}, hinting("mollie_classic"), "lookup.credentials[0]: is not a reference"},
		"an unset variable":        {&lookupEntry{Credentials: []reference{"env:NOPE"}}, hinting("mollie_classic"), "the environment variable NOPE is not set"},
		"a blank credential":       {&lookupEntry{Credentials: []reference{"env:BLANK"}}, hinting("mollie_classic"), "credential env:BLANK is empty"},
		"a broken credential":      {&lookupEntry{Credentials: []reference{"env:BROKEN"}}, hinting("mollie_classic"), "credential env:BROKEN holds what no credential has"},
		"no such file":             {&lookupEntry{Credentials: []reference{"file:/gone"}}, hinting("mollie_classic"), "read credential"},
		"a missing setting":        {&lookupEntry{Credentials: []reference{"env:KEY"}}, hinting("yookassa"), "lookup: settings.shop_id: missing: set it to the shop's id at YooKassa"},
		"an unknown setting":       {&lookupEntry{Credentials: []reference{"env:KEY"}, Settings: map[string]string{"shop": "1"}}, hinting("mollie_classic"), "lookup: settings.shop: mollie_classic has no such setting"},
		"a wrong order path":       {&lookupEntry{Credentials: []reference{"env:KEY"}, Settings: map[string]string{"order": "a..b"}}, hinting("mollie_classic"), "settings.order"},
		"a rate below zero":        {&lookupEntry{Credentials: []reference{"env:KEY"}, Rate: -1}, hinting("mollie_classic"), "lookup.rate: is -1"},
		"a rate beyond reason":     {&lookupEntry{Credentials: []reference{"env:KEY"}, Rate: 1001}, hinting("mollie_classic"), "lookup.rate: is 1001"},
		"a pending too short":      {&lookupEntry{Credentials: []reference{"env:KEY"}, Pending: new(time.Second)}, hinting("mollie_classic"), "lookup.pending: is 1s"},
		"a pending too long":       {&lookupEntry{Credentials: []reference{"env:KEY"}, Pending: new(9000 * time.Hour)}, hinting("mollie_classic"), "lookup.pending: is 9000h0m0s"},
		"http to the world":        {&lookupEntry{Credentials: []reference{"env:KEY"}, BaseURL: "http://api.mollie.com"}, hinting("mollie_classic"), "lookup.base_url: must be https"},
		"no address":               {&lookupEntry{Credentials: []reference{"env:KEY"}, BaseURL: "api.mollie.com"}, hinting("mollie_classic"), "lookup.base_url: is no address of an API"},
		"a password in it":         {&lookupEntry{Credentials: []reference{"env:KEY"}, BaseURL: "https://a:b@api.mollie.com"}, hinting("mollie_classic"), "lookup.base_url: is no address of an API"},
		"a query":                  {&lookupEntry{Credentials: []reference{"env:KEY"}, BaseURL: "https://api.mollie.com?x=1"}, hinting("mollie_classic"), "lookup.base_url: is no address of an API"},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := look(c.entry, c.provider)
			if !strings.Contains(problems, c.want) || strings.Contains(problems, "live_abc") {
				t.Errorf("says\n%s\nand must say\n%s", problems, c.want)
			}
		})
	}
}

func TestALookUpHasItsDefaultsAndItsCredentials(t *testing.T) {
	got, problems := look(&lookupEntry{Credentials: []reference{"env:KEY", "file:/run/key"}}, hinting("mollie_classic"))
	if problems != "<nil>" {
		t.Fatal(problems)
	}
	if got.BaseURL != "https://api.mollie.com" || got.Rate != 10 || got.Pending != 30*time.Minute || got.Settings["order"] != "metadata.order_id" ||
		len(got.Credentials) != 2 || got.Credentials[0].Reveal() != "live_abc" || got.Credentials[1].Reveal() != "live_file" {
		t.Errorf("%+v", got)
	}
	if text := fmt.Sprintf("%v %+v %#v", got, *got, got); strings.Contains(text, "live_abc") {
		t.Errorf("a text holds the credential: %s", text)
	}
	got, problems = look(&lookupEntry{Credentials: []reference{"env:KEY"}, BaseURL: "http://127.0.0.1:8099/click/", Rate: 0.5, Pending: new(time.Hour)}, hinting("mollie_classic"))
	if problems != "<nil>" || got.Pending != time.Hour || got.BaseURL != "http://127.0.0.1:8099/click" || got.Rate != 0.5 {
		t.Errorf("%+v, %s", got, problems)
	}
	if got, problems := look(nil, asked{fake{}, "stripe"}); got != nil || problems != "<nil>" {
		t.Errorf("a signed provider: %+v, %s", got, problems)
	}
}

// Who asks needs no signing secret, who verifies no credential.
func TestEachRoleNeedsItsOwnSecretsOnly(t *testing.T) {
	const text = `endpoints:
  - name: click
    provider: click
    secrets: [env:SIGNING]
    lookup:
      base_url: https://api.example
      settings: {service_id: "24001", merchant_user_id: "77"}
      credentials: [env:KEY]
      rate: 2.5
`
	w := world{files: map[string]string{"f": text}}
	load := func(env map[string]string, how func(string, event.Mode, func(string) (string, bool), func(string) ([]byte, error)) (Set, error)) (Endpoint, error) {
		w := world{files: w.files, env: env}
		set, err := how("f", event.Test, w.lookup, w.read)
		e, _ := set.Get("click")
		return e, err
	}
	e, err := load(map[string]string{"KEY": "k"}, LoadWithCredentials)
	if err != nil || len(e.Secrets) != 0 || e.Lookup.Credentials[0].Reveal() != "k" || e.Lookup.Rate != 2.5 || e.Lookup.BaseURL != "https://api.example" {
		t.Errorf("%+v, %v", e.Lookup, err)
	}
	e, err = load(map[string]string{"SIGNING": "click-demo-key"}, Load)
	if err != nil || len(e.Secrets) != 1 || len(e.Lookup.Credentials) != 1 || e.Lookup.Credentials[0].Reveal() != "" {
		t.Errorf("%+v, %v", e.Lookup, err)
	}
	if _, err := load(nil, LoadWithCredentials); err == nil || !strings.Contains(err.Error(), "lookup.credentials[0]: the environment variable KEY is not set") {
		t.Error(err)
	}
	w.files["f"] = strings.Replace(text, "      rate: 2.5\n", "      rates: 2.5\n", 1)
	if _, err := load(map[string]string{"KEY": "k"}, LoadWithCredentials); err == nil || !strings.Contains(err.Error(), "rates") {
		t.Errorf("an unknown key: %v", err)
	}
}

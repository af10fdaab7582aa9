package endpoint

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/webhook"
)

// fake is a provider of which only what a test needs is there.
type fake struct {
	webhook.Provider
	profile webhook.Profile
}

func (f fake) Name() string                   { return "fake" }
func (f fake) Profile() webhook.Profile       { return f.profile }
func (fake) CheckSecret(webhook.Secret) error { return nil }
func (fake) Verify(r webhook.Request, _ []webhook.Secret, _ time.Time) webhook.Verdict {
	return webhook.Verdict{Outcome: webhook.Valid}
}

type addressed struct {
	fake
	list []netip.Prefix
}

func (a addressed) Addresses() []netip.Prefix { return a.list }
func (a addressed) WithAddresses(list []netip.Prefix) webhook.Provider {
	a.list = list
	return a
}

type accounted struct {
	fake
	account string
}

func (accounted) Account() string { return "the topic's ARN" }
func (a accounted) WithAccount(account string) webhook.Provider {
	a.account = account
	return a
}

type ordered struct {
	fake
	paths webhook.Paths
}

type located struct {
	fake
	url string
}

func (l located) WithURL(url string) webhook.Provider {
	l.url = url
	return l
}

func (o ordered) WithOrder(paths webhook.Paths) (webhook.Provider, error) {
	if paths[0] == "a..b" {
		return nil, errors.Join(errors.New("path has an empty step"), errors.New("another fault"))
	}
	o.paths = paths
	return o, nil
}

func (o ordered) OrderPaths() webhook.Paths { return o.paths }

// sent is what the loader makes of an entry for a provider.
func sent(e entry, p webhook.Provider) (Endpoint, string) {
	l := loader{at: `f:1: endpoint "a"`, deployment: event.Live}
	out := Endpoint{Provider: p}
	l.sender(e, &out)
	out.Secrets = l.secrets(e.Secrets, p)
	return out, fmt.Sprint(errors.Join(l.problems...))
}

// O05, O09: who may send, and where to, is checked before anything starts.
func TestWhoSendsIsCheckedAndEveryMistakeNamed(t *testing.T) {
	plain := fake{}
	for name, c := range map[string]struct {
		entry    entry
		provider webhook.Provider
		says     string // "" if it is right
	}{
		"https":                        {entry{URL: "https://shop.example/webhooks/a?x=1"}, plain, ""},
		"http to this machine":         {entry{URL: "http://localhost:8080/webhooks/a"}, plain, ""},
		"http to this machine by IPv6": {entry{URL: "http://[::1]:8080/"}, plain, ""},
		"http to another":              {entry{URL: "http://shop.example/"}, plain, "url: is not https"},
		"http to a look-alike":         {entry{URL: "http://localhost.shop.example/"}, plain, "url: is not https"},
		"no host":                      {entry{URL: "https:///a"}, plain, "url: is no address"},
		"only a port":                  {entry{URL: "https://:443/a"}, plain, "url: is no address"},
		"no URL at all":                {entry{URL: "shop.example/webhooks/a"}, plain, "url: is no address"},
		"a password in the URL":        {entry{URL: "https://u:hunter2@shop.example/"}, plain, "url: holds a user or password"},
		"a broken URL with a password": {entry{URL: "https://u:hunter2@shop.example:port/"}, plain, "url: is no address"},
		"a fragment":                   {entry{URL: "https://shop.example/#a"}, plain, "url: has a fragment"},
		"a URL that is needed":         {entry{}, fake{profile: webhook.Profile{NeedsURL: true}}, "url: missing: fake signs the address"},

		"a range, an address, IPv6":    {entry{Addresses: []address{"192.0.2.0/24", "198.51.100.7", "2001:db8::/32", "::1"}}, plain, ""},
		"no address":                   {entry{Addresses: []address{"192.0.2.0/24", "shop.example"}}, plain, `addresses[1]: "shop.example" is no address`},
		"a zone":                       {entry{Addresses: []address{"fe80::1%eth0"}}, plain, "addresses[0]"},
		"bits beyond the length":       {entry{Addresses: []address{"192.0.2.1/24"}}, plain, "write 192.0.2.0/24"},
		"an IPv4 range as IPv6":        {entry{Addresses: []address{"::ffff:192.0.2.0/120"}}, plain, "write it as IPv4"},
		"everybody":                    {entry{Addresses: []address{"0.0.0.0/0"}}, plain, "nearly everybody"},
		"half of everybody":            {entry{Addresses: []address{"0.0.0.0/1"}}, addressed{}, "nearly everybody"},
		"everybody by IPv6":            {entry{Addresses: []address{"::/0"}}, addressed{}, "nearly everybody"},
		"an account":                   {entry{Account: "arn:aws:sns:eu-west-1:1:pay"}, accounted{}, ""},
		"an account that is missing":   {entry{}, accounted{}, "account: missing: anybody with an account at fake can sign; give the topic's ARN"},
		"an account that is of no use": {entry{Account: "a"}, plain, "account: provider fake needs none"},
		"an order's place":             {entry{Order: webhook.Paths{"metadata.order_id"}}, ordered{}, ""},
		"an order's place, broken":     {entry{Order: webhook.Paths{"a..b"}}, ordered{}, "order: another fault"},
		"an order's place of no use":   {entry{Order: webhook.Paths{"a"}}, plain, "order: provider fake has one place"},
	} {
		t.Run(name, func(t *testing.T) {
			_, said := sent(c.entry, c.provider)
			said = strings.TrimSuffix(said, "<nil>")
			if c.says == "" && said != "" || !strings.Contains(said, c.says) {
				t.Errorf("said %q, want %q", said, c.says)
			}
			if said != "" && !strings.HasPrefix(said, `f:1: endpoint "a": `) {
				t.Errorf("%q does not begin with where it is", said)
			}
			if strings.Contains(said, "hunter2") {
				t.Errorf("%q holds a secret", said)
			}
		})
	}
}

func TestASchemeWithoutASecretTakesNoneAndOneWithASecretNeedsIt(t *testing.T) {
	with := fake{profile: webhook.Profile{Secret: "the signing secret"}}
	l := loader{resolve: resolvers{secret: func(ref string) (webhook.Secret, error) { return webhook.NewSecret(ref, "s3cr3t-value") }}}
	if got := l.secrets([]reference{"env:A"}, with); len(got) != 1 || len(l.problems) != 0 {
		t.Errorf("a secret that is needed: %v, %v", got, l.problems)
	}
	if got := l.secrets(nil, fake{}); len(got) != 0 || len(l.problems) != 0 {
		t.Errorf("none that is not needed: %v, %v", got, l.problems)
	}
	if got := l.secrets([]reference{"env:A"}, fake{}); len(got) != 0 || len(l.problems) != 1 || !strings.Contains(l.problems[0].Error(), "has none") {
		t.Errorf("one that is of no use: %v, %v", got, l.problems)
	}
	l.problems = nil
	if l.secrets(nil, with); len(l.problems) != 1 || !strings.Contains(l.problems[0].Error(), "missing") {
		t.Errorf("none where it is needed: %v", l.problems)
	}
}

func TestASendersFieldsReachTheProvider(t *testing.T) {
	published := []netip.Prefix{netip.MustParsePrefix("185.71.76.0/27")}
	own := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	if e, said := sent(entry{}, addressed{list: published}); e.Addresses[0] != published[0] || e.Provider.(addressed).list[0] != published[0] {
		t.Errorf("the published list does not hold: %+v, %s", e, said)
	}
	if e, said := sent(entry{Addresses: []address{"10.0.0.0/8"}}, addressed{list: published}); e.Addresses[0] != own[0] || e.Provider.(addressed).list[0] != own[0] {
		t.Errorf("the configured list does not hold: %+v, %s", e, said)
	}
	if e, said := sent(entry{Account: "acct"}, accounted{}); e.Provider.(accounted).account != "acct" {
		t.Errorf("the account does not hold: %+v, %s", e, said)
	}
	if e, said := sent(entry{URL: "https://shop.example/"}, located{}); e.Provider.(located).url != e.URL || e.URL == "" {
		t.Errorf("the URL does not hold: %+v, %s", e, said)
	}
	if e, said := sent(entry{Order: webhook.Paths{"a", "b"}}, ordered{}); len(e.Provider.(ordered).paths) != 2 {
		t.Errorf("the order's places do not hold: %+v, %s", e, said)
	}
}

func TestOnlyTheEndpointsAddressesMaySend(t *testing.T) {
	e, _ := sent(entry{Addresses: []address{"192.0.2.0/24", "2001:db8::7"}}, fake{})
	for text, want := range map[string]webhook.Reason{
		"192.0.2.7": "", "::ffff:192.0.2.7": "", "2001:db8::7": "",
		"192.0.3.7": webhook.ReasonAddress, "2001:db8::8": webhook.ReasonAddress, "127.0.0.1": webhook.ReasonAddress, "": webhook.ReasonAddress,
	} {
		from, _ := netip.ParseAddr(text)
		if v := e.Verify(webhook.Request{Remote: from}, time.Time{}); v.Reason != want || (v.Outcome == webhook.Valid) != (want == "") {
			t.Errorf("from %q: %+v, want %q", text, v, want)
		}
	}
	if v := (Endpoint{Provider: fake{}}).Verify(webhook.Request{}, time.Time{}); v.Outcome != webhook.Valid {
		t.Errorf("with no addresses anybody may send: %+v", v)
	}
}

func TestTheRequestsURLIsTheConfiguredOneWithTheRequestsQuery(t *testing.T) {
	for _, c := range [][3]string{
		{"", "a=1", ""},
		{"https://shop.example/w", "", "https://shop.example/w"},
		{"https://shop.example/w", "a=1&b=%20", "https://shop.example/w?a=1&b=%20"},
		{"https://shop.example/w?a=1", "a=2", "https://shop.example/w?a=1"},
		{"https://shop.example/w?a=1", "", "https://shop.example/w?a=1"},
		{"https://shop.example/w?a=1", "a=1", "https://shop.example/w?a=1"},
		{"https://shop.example/w?a=1", "a=1&bodySHA256=0a", "https://shop.example/w?a=1&bodySHA256=0a"},
		{"https://shop.example/w?a=1", "a=12", "https://shop.example/w?a=1"},
	} {
		if got := (Endpoint{URL: c[0]}).RequestURL(c[1]); got != c[2] {
			t.Errorf("%q with %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

// O09: the file itself knows the fields, in every form that YAML gives them.
func TestTheFileHasWhoSends(t *testing.T) {
	set, err := good.load(`endpoints: [{name: a, provider: stripe, secrets: [env:S], url: https://shop.example/a, addresses: [2a02:5180::/32, 192.0.2.1, 2001:db8:0:1::/64, "::1"]}]`)
	if err != nil {
		t.Fatal(err)
	}
	e, _ := set.Get("a")
	if e.URL != "https://shop.example/a" || len(e.Addresses) != 4 || e.Addresses[2].String() != "2001:db8:0:1::/64" || e.Addresses[3].String() != "::1/128" || e.Addresses[0].String() != "2a02:5180::/32" || e.Addresses[1].String() != "192.0.2.1/32" {
		t.Errorf("%+v", e)
	}
	_, err = good.load("endpoints:\n  - name: a\n    provider: stripe\n    url: ftp://x\n    addresses: [x, 1.2.3.4/0]\n    account: a\n    order: a..b\n")
	for _, want := range []string{":2: endpoint \"a\": url", "addresses[0]", "addresses[1]", "account:", "order:", "secrets: missing"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

// O09: nothing in the file can be true or false, so nothing can be switched off there.
func TestNoFieldOfTheFileIsASwitch(t *testing.T) {
	var look func(reflect.Type, string)
	seen := map[reflect.Type]bool{}
	look = func(typ reflect.Type, at string) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			look(typ.Elem(), at)
		case reflect.Struct:
			if seen[typ] {
				return
			}
			seen[typ] = true
			for f := range typ.Fields() {
				if f.Tag.Get("yaml") != "-" {
					look(f.Type, at+"."+f.Name)
				}
			}
		case reflect.Bool:
			if !strings.HasSuffix(at, ".TimeRepeats") { // how an event is named
				t.Errorf("%s can be switched", at)
			}
		}
	}
	look(reflect.TypeFor[entry](), "endpoint")
	if !seen[reflect.TypeFor[webhook.Declaration]()] {
		t.Error("declarations were not looked at")
	}
}

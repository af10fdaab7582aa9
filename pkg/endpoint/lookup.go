package endpoint

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"sluice/pkg/declare"
	"sluice/pkg/event"
	"sluice/pkg/lookup"
	"sluice/pkg/webhook"
)

// lookupEntry is an endpoint's `lookup:` as the file has it.
type lookupEntry struct {
	BaseURL     string            `yaml:"base_url"`
	Settings    map[string]string `yaml:"settings"`
	Credentials []reference       `yaml:"credentials"`
	Rate        float64           `yaml:"rate"`
	Pending     *time.Duration    `yaml:"pending"`
	Sweep       *sweepEntry       `yaml:"sweep"`
	// Declared is how an API is asked that Sluice does not know.
	Declared *lookup.Declaration `yaml:"declared"`
}

// minPending and maxPending bound how old an order must be that is asked about: an
// order that is a minute old is being paid, and a year on nobody waits.
const (
	minPending = time.Minute
	maxPending = 366 * 24 * time.Hour
)

// maxRate is the most requests per second that an endpoint may be given.
const maxRate = 1000

// LoadWithCredentials is Load for the role that asks the providers' APIs: it resolves
// the credentials of `lookup:`, and no signing secret.
func LoadWithCredentials(path string, deployment event.Mode, lookupEnv func(string) (string, bool), readFile func(string) ([]byte, error)) (Set, error) {
	return load(path, deployment, readFile, resolvers{credential: func(ref string) (string, error) {
		return resolve(ref, lookupEnv, readFile)
	}})
}

// lookup is how the endpoint's provider is asked, or nil with the problems noted. A
// provider that gives only hints must be asked, or nothing of it ever counts.
func (l *loader) lookup(e *lookupEntry, mode event.Mode, p webhook.Provider) *Lookup {
	api, known := l.api(e, p)
	hints := p.Profile().Trust == event.Hint
	switch {
	case e == nil && hints && known:
		l.problem("lookup", "missing: nothing that %s sends can be believed by itself, so its API must be asked: %s", p.Name(), wanted(api))
	case e == nil && hints:
		l.problem("provider", "nothing that %s sends can be believed by itself, and Sluice cannot ask its API: declare how, under `lookup:` and there `declared:`", p.Name())
	case e != nil && e.Declared != nil: // what is wrong with it is told
	case e != nil && !known && lookup.Silent(p.Name()) != "":
		l.problem("lookup", "%s: remove it", lookup.Silent(p.Name()))
	case e != nil && !known:
		l.problem("lookup", "Sluice cannot ask the API of %s: remove it, or declare how, under `declared:`", p.Name())
	}
	if e == nil || !known {
		return nil
	}
	out := &Lookup{API: api, BaseURL: l.baseURL(e.BaseURL), Settings: e.Settings, Rate: e.Rate}
	if e.Rate < 0 || e.Rate > maxRate {
		l.problem("lookup.rate", "is %v: use requests per second, above 0 and up to %d", e.Rate, maxRate)
	}
	if e.Rate == 0 {
		out.Rate = api.Rate
	}
	out.Pending = api.Pending
	if e.Pending != nil {
		if out.Pending = *e.Pending; out.Pending != 0 && (out.Pending < minPending || out.Pending > maxPending) {
			l.problem("lookup.pending", "is %s: use 1m to 8784h, the age at which an order that nothing has decided is asked about, or 0s for never", out.Pending)
		}
	}
	account, err := api.Settled(lookup.Account{Mode: mode, BaseURL: out.BaseURL, Settings: e.Settings})
	for _, err := range declare.Each(err) {
		l.problem("lookup", "%w", err)
	}
	out.BaseURL, out.Settings = account.BaseURL, account.Settings
	out.Credentials = l.credentials(e.Credentials, api)
	out.Sweep = l.sweep(e.Sweep, api)
	return out
}

// api is how a provider is asked: Sluice knows it, or the entry declares it.
func (l *loader) api(e *lookupEntry, p webhook.Provider) (lookup.API, bool) {
	api, known := lookup.For(p.Name())
	if e == nil || e.Declared == nil {
		return api, known
	}
	if known {
		l.problem("lookup.declared", "Sluice knows how to ask %s: remove it", p.Name())
		return api, known
	}
	if e.BaseURL == "" {
		l.problem("lookup.base_url", "missing: a declared API is asked there")
	}
	api, err := lookup.NewDeclared(p.Name(), *e.Declared)
	for _, err := range declare.Each(err) {
		l.problem("lookup.declared", "%w", err)
	}
	return api, err == nil
}

// wanted says what to write for an API.
func wanted(api lookup.API) string {
	text := "add `lookup:` with `credentials: [env:NAME]` (" + api.Credential + ")"
	var keys, helps []string
	for _, s := range api.Settings {
		if s.Default == "" {
			keys, helps = append(keys, s.Name+": …"), append(helps, s.Help)
		}
	}
	if len(keys) > 0 {
		text += fmt.Sprintf(" and `settings: {%s}` (%s)", strings.Join(keys, ", "), strings.Join(helps, "; "))
	}
	return text
}

func (l *loader) credentials(refs []reference, api lookup.API) (out []Credential) {
	if len(refs) == 0 {
		l.problem("lookup.credentials", "missing: give env:NAME or file:/path of %s", api.Credential)
	}
	for i, ref := range refs {
		field := fmt.Sprintf("lookup.credentials[%d]", i)
		c := Credential{Name: string(ref)}
		switch {
		case !ref.Valid():
			l.problem(field, "is not a reference: write env:NAME or file:/path, and keep the value out of this file")
			continue
		case l.resolve.credential != nil:
			var err error
			if c.value, err = l.resolve.credential(string(ref)); err != nil {
				l.problem(field, "%w", err)
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

// baseURL is an address without its last slash. Credentials are sent there: so https,
// or this machine.
func (l *loader) baseURL(text string) string {
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		l.problem("lookup.base_url", "is no address of an API: write https://host, with a path if it needs one")
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		l.problem("lookup.base_url", "must be https: credentials are sent there (http only to this machine)")
	}
	return strings.TrimRight(text, "/")
}

// resolve fetches what a reference names.
func resolve(ref string, lookupEnv func(string) (string, bool), readFile func(string) ([]byte, error)) (string, error) {
	value, err := reference(ref).Value("the credential of the provider's API", lookupEnv, readFile)
	if err != nil {
		return "", unread("credential", ref, err)
	}
	value = strings.TrimSpace(value)
	switch {
	case value == "":
		return "", fmt.Errorf("credential %s is empty", ref)
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r >= 0x7f }):
		return "", fmt.Errorf("credential %s holds what no credential has: line breaks or other than ASCII", ref)
	}
	return value, nil
}

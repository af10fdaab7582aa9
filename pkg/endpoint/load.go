package endpoint

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"sluice/pkg/declare"
	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// entry is one endpoint as the file has it.
type entry struct {
	Name      string               `yaml:"name"`
	Provider  string               `yaml:"provider"`
	Declared  *webhook.Declaration `yaml:"declared"`
	Source    string               `yaml:"source"`
	Mode      event.Mode           `yaml:"mode"`
	Secrets   []reference          `yaml:"secrets"`
	Tolerance tolerance            `yaml:"tolerance"`
	URL       string               `yaml:"url"`
	Addresses []address            `yaml:"addresses"`
	Account   string               `yaml:"account"`
	Order     webhook.Paths        `yaml:"order"`
	Lookup    *lookupEntry         `yaml:"lookup"`
}

type tolerance struct {
	Past   *time.Duration `yaml:"past"`
	Future *time.Duration `yaml:"future"`
}

var (
	nameForm   = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	sourceForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~:/@-]{0,199}$`)
	// ownSources speak for Sluice itself.
	ownSources = map[string]bool{"merchant": true, "review": true}
)

// declaredProvider is the provider name that says: the declaration is in the entry.
const declaredProvider = "declared"

// maxTolerance bounds a tolerance; beyond it the signed time protects nothing.
const maxTolerance = 24 * time.Hour

// ErrNoMode: nobody said whether the deployment is live or test, and nothing else
// is wrong.
var ErrNoMode = errors.New("the deployment has no mode: set it to live or test")

// Load reads the endpoints file for a deployment of the given mode, and resolves
// the secrets. It reports every problem at once, each with its line, the endpoint,
// the field and what to do; never a secret's value. With any problem there is no
// Set: a deployment that cannot verify everything does not start (O05).
func Load(path string, deployment event.Mode, lookupEnv func(string) (string, bool), readFile func(string) ([]byte, error)) (Set, error) {
	return LoadFor(nil, path, deployment, lookupEnv, readFile)
}

// LoadFor is Load for roles that verify only some providers' requests: the others'
// endpoints have no secrets, as in LoadWithoutSecrets, so that a role is given none
// that it has no use for. A nil verified means all.
func LoadFor(verified func(webhook.Provider) bool, path string, deployment event.Mode, lookupEnv func(string) (string, bool), readFile func(string) ([]byte, error)) (Set, error) {
	return load(path, deployment, readFile, resolvers{verified: verified, secret: func(ref string) (webhook.Secret, error) {
		return secret(ref, lookupEnv, readFile)
	}})
}

// LoadWithoutSecrets is Load for roles that only read stored bodies. Their
// endpoints have no secrets, so Verify refuses everything.
func LoadWithoutSecrets(path string, deployment event.Mode, readFile func(string) ([]byte, error)) (Set, error) {
	return load(path, deployment, readFile, resolvers{})
}

// resolvers fetch what references name. With none only their form is checked.
type resolvers struct {
	verified   func(webhook.Provider) bool // whose secrets are fetched; nil: all
	secret     func(ref string) (webhook.Secret, error)
	credential func(ref string) (string, error)
}

func load(path string, deployment event.Mode, readFile func(string) ([]byte, error), resolve resolvers) (Set, error) {
	text, err := readFile(path)
	if err != nil {
		return Set{}, fmt.Errorf("read endpoints file: %w", err)
	}
	var file struct {
		Endpoints []entry `yaml:"endpoints"`
	}
	if err := declare.Read(path, text, &file, yaml.CustomUnmarshaler(kind)); err != nil {
		return Set{}, fmt.Errorf("endpoints file %s:\n%w", path, err)
	}
	l := loader{deployment: deployment, resolve: resolve, set: Set{byName: map[string]int{}},
		sources: map[string]Endpoint{}, declarations: map[string]webhook.Declaration{}}
	if deployment != "" && !known(deployment) {
		l.problem("", "the deployment's mode (SLUICE_MODE) is %q: set it to live or test", deployment)
	}
	if len(file.Endpoints) == 0 {
		l.problem("", "no endpoints: declare at least one under `endpoints:`; see endpoints.example.yaml")
	}
	line := declare.Lines(text, "endpoints")
	for i, e := range file.Endpoints {
		l.at = fmt.Sprintf("%s:%d: endpoint %q", path, line(i), e.Name)
		l.add(e)
	}
	if len(l.problems) > 0 {
		return Set{}, fmt.Errorf("endpoints file %s:\n%w", path, errors.Join(l.problems...))
	}
	if deployment == "" {
		return Set{}, ErrNoMode
	}
	return l.set, nil
}

// kind is a fact's; of an unknown word it is none, which the declaration reports with
// the fact's place and beside everything else that is wrong.
func kind(k *order.Kind, text []byte) error {
	var word string
	if err := yaml.Unmarshal(text, &word); err != nil {
		return err
	}
	if k.UnmarshalText([]byte(word)) != nil {
		*k = order.KindNone
	}
	return nil
}

func known(m event.Mode) bool { return m == event.Live || m == event.Test }

type loader struct {
	deployment event.Mode
	resolve    resolvers
	at         string
	problems   []error
	set        Set

	sources      map[string]Endpoint            // the first endpoint of each source
	declarations map[string]webhook.Declaration // by provider name
}

// problem notes what is wrong with the current endpoint, in which field.
func (l *loader) problem(field, format string, args ...any) {
	where := l.at
	if field != "" {
		where += ": " + field
	}
	if where != "" {
		where += ": "
	}
	l.problems = append(l.problems, fmt.Errorf("%s%w", where, fmt.Errorf(format, args...)))
}

func (l *loader) add(e entry) {
	if !nameForm.MatchString(e.Name) {
		l.problem("name", "use 1 to 63 of a-z, 0-9 and -, beginning with a letter or digit: it is part of the address")
	} else if _, taken := l.set.byName[e.Name]; taken {
		l.problem("name", "is taken by an endpoint above: every endpoint needs its own")
	}
	out := Endpoint{Name: e.Name, Source: e.Source, Mode: e.Mode, Declaration: e.Declared}
	if out.Source == "" {
		out.Source = e.Name
	}
	if out.Mode == "" {
		out.Mode = l.deployment
	}
	switch {
	case ownSources[out.Source]:
		l.problem("source", "%q is Sluice's own: set another source", out.Source)
	case out.Source != e.Name && !sourceForm.MatchString(out.Source):
		l.problem("source", "use 1 to 200 of letters, digits and ._~:/@-")
	}
	if e.Mode != "" && !known(e.Mode) {
		l.problem("mode", "is neither live nor test")
	} else if known(l.deployment) && out.Mode != l.deployment {
		l.problem("mode", "is %s, the deployment is %s: endpoints of the other mode belong to another deployment", out.Mode, l.deployment)
	}
	if out.Provider = l.provider(e); out.Provider != nil {
		out.Provider = l.tolerance(e.Tolerance, out.Provider)
		l.share(out)
		l.sender(e, &out)
		out.Secrets = l.secrets(e.Secrets, out.Provider)
		out.Lookup = l.lookup(e.Lookup, out.Mode, out.Provider)
	}
	l.set.byName[e.Name] = len(l.set.all)
	l.set.all = append(l.set.all, out)
}

// provider is the entry's provider, or nil with its problems noted.
func (l *loader) provider(e entry) webhook.Provider {
	if e.Provider != declaredProvider {
		if e.Declared != nil {
			l.problem("declared", "is only for `provider: declared`")
		}
		p, ok := webhook.Builtin(e.Provider)
		if !ok {
			l.problem("provider", "%q is unknown: use one of %s, or `declared`", e.Provider, strings.Join(webhook.BuiltinNames(), ", "))
		}
		return p
	}
	if e.Declared == nil {
		l.problem("declared", "missing: `provider: declared` needs the declaration here; see endpoints.example.yaml")
		return nil
	}
	d := *e.Declared
	if d.Name == "" {
		d.Name = e.Name
	}
	if _, taken := webhook.Builtin(d.Name); taken || d.Name == declaredProvider || !nameForm.MatchString(strings.ReplaceAll(d.Name, "_", "-")) {
		l.problem("declared.name", "%q is a built-in provider's, or not made of a-z, 0-9, - and _", d.Name)
	}
	if other, ok := l.declarations[d.Name]; ok && !reflect.DeepEqual(other, d) {
		l.problem("declared.name", "%q is declared differently above: one name is one provider", d.Name)
	}
	l.declarations[d.Name] = d
	p, err := webhook.NewDeclared(d)
	for _, err := range declare.Each(err) {
		l.problem("declared", "%w", err)
	}
	return p
}

// tolerance holds a provider to the entry's tolerance. What the entry leaves out
// is the provider's own, closed to the future (O07; see webhook.Tolerance).
func (l *loader) tolerance(t tolerance, p webhook.Provider) webhook.Provider {
	timed, ok := p.(webhook.Timed)
	if !ok {
		if t != (tolerance{}) {
			l.problem("tolerance", "provider %s signs no time: remove it", p.Name())
		}
		return p
	}
	own := timed.Tolerance()
	set := func(field string, to *time.Duration, from *time.Duration) {
		if from == nil {
			return
		}
		if *from < time.Second || *from > maxTolerance {
			l.problem("tolerance."+field, "is %s: use 1s to 24h; 5m suits clocks that are set by NTP", *from)
		}
		*to = *from
	}
	set("past", &own.Past, t.Past)
	own = own.TwoSided()
	set("future", &own.Future, t.Future)
	return timed.WithTolerance(own)
}

// share refuses two providers under one source: the same id from both would be
// one event.
func (l *loader) share(e Endpoint) {
	other, shared := l.sources[e.Source]
	if !shared {
		l.sources[e.Source] = e
		return
	}
	if other.Provider.Name() != e.Provider.Name() {
		l.problem("source", "%q is also the source of endpoint %q, of provider %s: two providers never share one", e.Source, other.Name, other.Provider.Name())
	}
}

// secrets resolves the references; of what is not verified only their form is checked.
func (l *loader) secrets(refs []reference, p webhook.Provider) (out []webhook.Secret) {
	switch needed := p.Profile().Secret != ""; {
	case needed && len(refs) == 0:
		l.problem("secrets", "missing: without a secret anybody could sign; give env:NAME or file:/path")
	case !needed && len(refs) > 0:
		l.problem("secrets", "provider %s has none: remove them", p.Name())
		return nil
	}
	for i, ref := range refs {
		field := fmt.Sprintf("secrets[%d]", i)
		if !ref.Valid() {
			l.problem(field, "is not a reference: write env:NAME or file:/path, and keep the value out of this file")
			continue
		}
		if l.resolve.secret == nil || l.resolve.verified != nil && !l.resolve.verified(p) {
			continue
		}
		s, err := l.resolve.secret(string(ref))
		if err == nil {
			err = p.CheckSecret(s)
		}
		if err == nil && l.deployment == event.Live && s.IsSample() {
			err = fmt.Errorf("secret %s is a sample from the provider's documentation, known to all: set the real one", ref)
		}
		if err != nil {
			l.problem(field, "%w", err)
			continue
		}
		out = append(out, s)
	}
	return out
}

package effect

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/declare"
	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// entry is one effect as the file has it.
type entry struct {
	Name     string            `yaml:"name"`
	On       rules             `yaml:"on"`
	URL      string            `yaml:"url"`
	Secret   references        `yaml:"secret"`
	Headers  map[string]header `yaml:"headers"`
	Timeout  *time.Duration    `yaml:"timeout"`
	Attempts *int              `yaml:"attempts"`
	Allow    []allowed         `yaml:"allow"`
	Delay    time.Duration     `yaml:"delay"`
}

type rule struct {
	From        string `yaml:"from"`
	To          string `yaml:"to"`
	Dispute     string `yaml:"dispute"`
	Corrections *bool  `yaml:"corrections"`
}

// rules and references are lists; one alone needs no brackets.
type rules []rule

// UnmarshalYAML takes one rule or several.
func (r *rules) UnmarshalYAML(unmarshal func(any) error) error {
	return oneOrMore((*[]rule)(r), unmarshal)
}

type references []declare.Reference

// UnmarshalYAML takes one reference or several.
func (r *references) UnmarshalYAML(unmarshal func(any) error) error {
	return oneOrMore((*[]declare.Reference)(r), unmarshal)
}

func oneOrMore[T any](to *[]T, unmarshal func(any) error) error {
	var any []any
	if unmarshal(&any) == nil {
		return unmarshal(to)
	}
	var one T
	if err := unmarshal(&one); err != nil {
		return err
	}
	*to = []T{one}
	return nil
}

// header is a value, or a reference to one.
type header string

// UnmarshalYAML takes `env: NAME` too.
func (h *header) UnmarshalYAML(unmarshal func(any) error) error {
	return declare.ColonText((*string)(h), unmarshal)
}

// allowed is an address, a range or a host's name.
type allowed string

// UnmarshalYAML takes IPv6 addresses in one-line maps too.
func (a *allowed) UnmarshalYAML(unmarshal func(any) error) error {
	return declare.ColonText((*string)(a), unmarshal)
}

// Bounds and defaults. An attempt is shorter than the patience of a stop; twelve
// attempts with capped exponential backoff take most of a day.
const (
	defaultTimeout  = 10 * time.Second
	minTimeout      = 100 * time.Millisecond
	maxTimeout      = 60 * time.Second
	defaultAttempts = 12
	maxAttempts     = 100
	maxDelay        = 24 * time.Hour
)

var (
	nameForm   = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	tokenForm  = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$") // RFC 9110, 5.6.2
	hostForm   = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9])?$`)
	secretForm = regexp.MustCompile(`(?i)auth|cookie|token|secret|password|signature|credential|key`)
)

// ownHeaders are set by Sluice or by HTTP itself.
var ownHeaders = []string{"content-type", "content-length", "content-encoding", "host", "connection", "transfer-encoding", "te", "trailer",
	"upgrade", "expect", "keep-alive", "proxy-connection", "idempotency-key", "webhook-id", "webhook-timestamp", "webhook-signature", "user-agent"}

// Load reads the effects file and resolves its secrets and headers, for the role
// that makes the calls. It reports every problem at once, each with its line, the
// effect, the field and what to do; never a secret's value.
func Load(path string, lookupEnv func(string) (string, bool), readFile func(string) ([]byte, error)) (Set, error) {
	return load(path, readFile, func(r declare.Reference, what string) (string, error) { return r.Value(what, lookupEnv, readFile) })
}

// LoadWithoutSecrets is Load for roles that only write down what must be done: they
// are given no secret that they have no use for.
func LoadWithoutSecrets(path string, readFile func(string) ([]byte, error)) (Set, error) {
	return load(path, readFile, nil)
}

func load(path string, readFile func(string) ([]byte, error), resolve func(declare.Reference, string) (string, error)) (Set, error) {
	text, err := readFile(path)
	if err != nil {
		return Set{}, fmt.Errorf("read effects file: %w", err)
	}
	var file struct {
		Effects []entry `yaml:"effects"`
	}
	if err := declare.Read(path, text, &file); err != nil {
		return Set{}, fmt.Errorf("effects file %s:\n%w", path, err)
	}
	l := loader{resolve: resolve, set: Set{byName: map[string]int{}}}
	if len(file.Effects) == 0 {
		l.problem("", "no effects: declare at least one under `effects:`, or unset SLUICE_EFFECTS; see effects.example.yaml")
	}
	line := declare.Lines(text, "effects")
	for i, e := range file.Effects {
		l.at = fmt.Sprintf("%s:%d: effect %q", path, line(i), e.Name)
		l.add(e)
	}
	if len(l.problems) > 0 {
		return Set{}, fmt.Errorf("effects file %s:\n%w", path, errors.Join(l.problems...))
	}
	return l.set, nil
}

type loader struct {
	resolve  func(r declare.Reference, what string) (string, error) // nil: only the form is checked
	at       string
	problems []error
	set      Set
}

// problem notes what is wrong with the current effect, in which field.
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
		l.problem("name", "use 1 to 63 of a-z, 0-9 and -, beginning with a letter or digit: it is part of every key")
	} else if _, taken := l.set.byName[e.Name]; taken {
		l.problem("name", "is taken by an effect above: every effect needs its own")
	}
	d := Declaration{Name: e.Name, Delay: e.Delay, Timeout: defaultTimeout, Attempts: defaultAttempts}
	d.On, d.Allow = l.rules(e.On), l.allow(e.Allow)
	d.URL = l.url(e.URL, d.Allow)
	d.Secrets, d.Headers = l.secrets(e.Secret), l.headers(e.Headers)
	if e.Timeout != nil {
		if d.Timeout = *e.Timeout; d.Timeout < minTimeout || d.Timeout > maxTimeout {
			l.problem("timeout", "is %s: use %s to %s", d.Timeout, minTimeout, maxTimeout)
		}
	}
	if e.Attempts != nil {
		if d.Attempts = *e.Attempts; d.Attempts < 1 || d.Attempts > maxAttempts {
			l.problem("attempts", "is %d: use 1 to %d", d.Attempts, maxAttempts)
		}
	}
	if d.Delay < 0 || d.Delay > maxDelay {
		l.problem("delay", "is %s: use 0s to %s", d.Delay, maxDelay)
	}
	l.set.byName[d.Name] = len(l.set.all)
	l.set.all = append(l.set.all, d)
}

func (l *loader) rules(rules []rule) (out []Rule) {
	if len(rules) == 0 {
		l.problem("on", "missing: say what causes it, such as {to: paid} or {dispute: open}")
	}
	for i, r := range rules {
		field := fmt.Sprintf("on[%d]", i)
		var rule Rule
		var errs [3]error
		if r.From != "" {
			rule.From, errs[0] = order.ParseStatus(r.From)
		}
		if r.To != "" {
			rule.To, errs[1] = order.ParseStatus(r.To)
		}
		if r.Dispute != "" {
			rule.Dispute, errs[2] = order.ParseDispute(r.Dispute)
		}
		switch {
		case errors.Join(errs[:]...) != nil, r.To == order.StatusNone.String(), r.From == order.StatusNone.String(), r.Dispute == order.NoDispute.String():
			l.problem(field, "statuses are pending, paid, failed, cancelled, partially_refunded and refunded; disputes are open, won and lost")
			continue
		case (r.To == "") == (r.Dispute == ""):
			l.problem(field, "needs either `to` or `dispute`")
			continue
		case r.From != "" && r.To == "":
			l.problem(field, "`from` goes with `to`")
			continue
		case r.From != "" && !reachable(rule.From, rule.To):
			l.problem(field, "nothing leads from %s to %s", r.From, r.To)
			continue
		}
		rule.NoCorrections = r.Corrections != nil && !*r.Corrections
		out = append(out, rule)
	}
	return out
}

// reachable: the table leads there, or a person's decision may.
func reachable(from, to order.Status) bool {
	return to == order.Failed || to == order.Cancelled || to == order.Paid ||
		slices.ContainsFunc(order.Transitions(), func(t order.Transition) bool { return t.From == from && t.To == to })
}

func (l *loader) url(text string, allow Allow) *url.URL {
	u, err := url.Parse(text)
	switch {
	case text == "":
		l.problem("url", "missing: say where to POST, such as https://fulfilment.example/orders")
		return nil
	case err != nil || u.Hostname() == "" || u.Fragment != "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https":
		l.problem("url", "is no address to call: write https://host/path; credentials go into `headers`")
		return nil
	case u.Port() != "" && !isPort(u.Port()):
		l.problem("url", "has the port %s: use 1 to 65535", u.Port())
	case u.Scheme == "http" && !allowsPlain(u.Hostname(), allow):
		l.problem("url", "must be https: orders and payments are sent there (http only to what `allow` names)")
	}
	return u
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

func allowsPlain(host string, allow Allow) bool {
	addr, err := netip.ParseAddr(host)
	return allow.Host(host) || err == nil && allow.Addr(addr)
}

func (l *loader) allow(texts []allowed) (out Allow) {
	for i, text := range texts {
		field := fmt.Sprintf("allow[%d]", i)
		t := strings.ToLower(string(text))
		if p, err := netip.ParsePrefix(t); err == nil {
			switch {
			case p.Bits() == 0:
				l.problem(field, "allows every address: name the ones that are meant")
			case p.Addr().Is4In6(): // addresses are compared as IPv4
				l.problem(field, "matches nothing: write the range as IPv4, such as 10.0.0.0/8")
			}
			out.Prefixes = append(out.Prefixes, p.Masked())
		} else if a, err := netip.ParseAddr(t); err == nil {
			out.Prefixes = append(out.Prefixes, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
		} else if hostForm.MatchString(t) {
			out.Hosts = append(out.Hosts, t)
		} else {
			l.problem(field, "is no address, range or host name")
		}
	}
	return out
}

// secrets resolves the references. A receiver must be able to tell whose call it is.
func (l *loader) secrets(refs []declare.Reference) (out []webhook.Secret) {
	if len(refs) == 0 {
		l.problem("secret", "missing: calls are signed; give env:NAME or file:/path of a whsec_ secret")
	}
	for i, ref := range refs {
		field := fmt.Sprintf("secret[%d]", i)
		if !ref.Valid() {
			l.problem(field, "is not a reference: write env:NAME or file:/path, and keep the value out of this file")
			continue
		}
		if l.resolve == nil {
			continue
		}
		value, err := l.resolve(ref, "the secret that the receiver verifies with (whsec_ and base64)")
		var s webhook.Secret
		if err == nil {
			s, err = webhook.NewSecret(string(ref), value)
		}
		if err == nil {
			signer, _ := webhook.Builtin("standard_webhooks")
			err = signer.CheckSecret(s)
		}
		if err != nil {
			l.problem(field, "%w", err)
			continue
		}
		out = append(out, s)
	}
	return out
}

func (l *loader) headers(headers map[string]header) (out []Header) {
	names := make([]string, 0, len(headers))
	for name := range headers {
		names = append(names, name)
	}
	slices.Sort(names)
	seen := map[string]bool{}
	for _, name := range names {
		lower := strings.ToLower(name)
		twice := seen[lower]
		seen[lower] = true
		field, value := "headers."+name, string(headers[name])
		ref := declare.Reference(value)
		switch {
		case !tokenForm.MatchString(name):
			l.problem("headers", "%q is no header's name", name)
			continue
		case twice:
			l.problem(field, "is there twice: upper and lower case are the same")
			continue
		case slices.Contains(ownHeaders, lower):
			l.problem(field, "is set by Sluice: remove it")
			continue
		case secretForm.MatchString(name) && !ref.Valid():
			l.problem(field, "looks like a credential: write env:NAME or file:/path, and keep the value out of this file")
			continue
		case ref.Valid() && l.resolve == nil:
			value = ""
		case ref.Valid():
			var err error
			if value, err = l.resolve(ref, "the value of the header "+name); err != nil {
				l.problem(field, "%w", err)
				continue
			}
			value = strings.TrimRight(value, "\r\n")
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r >= 0x7f }) || value == "" && (!ref.Valid() || l.resolve != nil) {
			l.problem(field, "is empty, or holds what no header has: line breaks or other than ASCII")
			continue
		}
		out = append(out, Header{Name: name, value: value})
	}
	return out
}

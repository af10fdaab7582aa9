package diagnose

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/webhook"
	"sluice/services/sluice/recorded"
)

// secretRemedies give each secret in its other forms.
func secretRemedies(s subject) (all []remedy) {
	for i, secret := range s.endpoint.Secrets {
		for _, m := range secret.Mistaken() {
			do := "set it exactly as the provider shows it"
			if m.Sender {
				do = "put it right where the webhooks are signed; it is right here"
			}
			all = append(all, remedy{
				Cause{Mistake: SecretForm, Text: fmt.Sprintf("secret %s %s", secret.Name, m.Mistake), Do: do},
				func(s *subject) {
					s.endpoint.Secrets = slices.Clone(s.endpoint.Secrets)
					s.endpoint.Secrets[i] = m.Secret
				}})
		}
	}
	return all
}

// headerRemedies undo what proxies and frameworks do to headers.
func headerRemedies(s subject, asked []string) (all []remedy) {
	s.asked = nil
	var absent, repeated []string
	for _, name := range asked {
		if name == webhook.QueryHeader {
			continue
		}
		switch n := len(s.header(name)); {
		case n == 0:
			absent = append(absent, name)
		case n > 1:
			repeated = append(repeated, name)
		}
	}
	all = append(all, renamed(s, absent)...)
	for _, name := range repeated {
		all = append(all, remedy{Cause{Mistake: HeaderRepeated, Text: "header " + name + " comes more than once", Do: "let no proxy add a copy of it"},
			func(s *subject) { s.headers = set(s.headers, name, s.header(name)[0]) }})
	}
	for _, name := range asked {
		if name == webhook.QueryHeader || len(s.header(name)) == 0 {
			continue
		}
		value := s.header(name)[0]
		for _, f := range headerForms(s, name, value) {
			all = append(all, remedy{Cause{Mistake: HeaderForm, Text: "the value of header " + name + " " + f.what, Do: "hand the header through as it came"},
				func(s *subject) { s.headers = set(s.headers, name, f.value) }})
		}
	}
	return all
}

// set puts one value in the place of all of a header.
func set(headers []recorded.Header, name, value string) []recorded.Header {
	out := slices.DeleteFunc(slices.Clone(headers), func(h recorded.Header) bool { return strings.EqualFold(h.Name, name) })
	return append(out, recorded.Header{Name: name, Value: value})
}

// bare is a header's name without what gateways put before it or write otherwise.
func bare(name string) string {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	for _, prefix := range []string{"http-", "x-original-", "x-forwarded-", "x-", "original-", "forwarded-"} {
		name = strings.TrimPrefix(name, prefix)
	}
	return name
}

// renamed finds absent headers under other names: first by what proxies make of a
// name, then under any name at all.
func renamed(s subject, absent []string) (all []remedy) {
	cause := func(from, to string) Cause {
		return Cause{Mistake: HeaderRenamed, Text: fmt.Sprintf("header %s arrived as %s", to, from), Do: "let the proxy keep its name"}
	}
	type move struct{ from, to, value string }
	var known []move
	for _, to := range absent {
		for _, h := range s.headers {
			if bare(h.Name) == bare(to) {
				known = append(known, move{h.Name, to, h.Value})
				break
			}
		}
	}
	if len(known) > 0 {
		all = append(all, remedy{cause(known[0].from, known[0].to), func(s *subject) {
			for _, m := range known {
				s.headers = set(s.headers, m.to, m.value)
			}
		}})
	}
	for _, to := range absent {
		for _, h := range s.headers[:min(len(s.headers), 64)] {
			all = append(all, remedy{cause(h.Name, to), func(s *subject) { s.headers = set(s.headers, to, h.Value) }})
		}
	}
	return all
}

// form is a header's value as it may have been.
type form struct{ what, value string }

// signed is a moment and a body to sign for an example of a header's form.
var signed = time.Unix(1_700_000_000, 0)

var valuePrefix = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,19}[=:,]`)

func headerForms(s subject, name, value string) (all []form) {
	add := func(what, text string) {
		if text != value {
			all = append(all, form{what, text})
		}
	}
	add("has quotation marks or spaces around it", strings.Trim(value, "\"' \t"))
	if first, _, ok := strings.Cut(value, ", "); ok {
		add("holds two values that were joined", first)
	}
	add("has spaces where + was", strings.ReplaceAll(value, " ", "+"))
	if plain, err := url.PathUnescape(value); err == nil {
		add("is percent-encoded", plain)
	}
	add("is in capital letters", strings.ToLower(value))
	for _, secret := range s.endpoint.Secrets {
		example, err := s.endpoint.Provider.Sign(secret, "id", signed, s.body)
		if err != nil {
			continue
		}
		for header, v := range example {
			prefix := valuePrefix.FindString(v)
			if !strings.EqualFold(header, name) || prefix == "" {
				continue
			}
			if rest, twice := strings.CutPrefix(value, prefix+prefix); twice {
				add("has its prefix "+prefix+" twice", prefix+rest)
			} else if !strings.HasPrefix(value, prefix) {
				add("lacks its prefix "+prefix, prefix+value)
			}
		}
		break
	}
	return all
}

// urlRemedies try the addresses that the sender may have been given.
func urlRemedies(c Case, s subject) (all []remedy) {
	if !c.Endpoint.Provider.Profile().NeedsURL {
		return nil
	}
	var bases []string
	add := func(u string) {
		if u != "" && !slices.Contains(bases, u) {
			bases = append(bases, u)
		}
	}
	hosts := append(c.Request.Values("Host"), c.Request.Values("X-Forwarded-Host")...)
	if u, err := url.Parse(c.Request.Target); err == nil && u.Host != "" {
		hosts = append(hosts, u.Host)
	}
	paths := []string{c.Request.Path()}
	if u, err := url.Parse(c.Endpoint.URL); err == nil && u.Host != "" {
		hosts, paths = append([]string{u.Host}, hosts...), append([]string{u.EscapedPath()}, paths...)
	}
	for _, host := range hosts {
		name, _, _ := strings.Cut(host, ":")
		for _, path := range paths {
			for _, p := range []string{path, strings.TrimSuffix(path, "/"), path + "/"} {
				for _, scheme := range []string{"https://", "http://"} {
					for _, h := range []string{host, name, name + ":443", name + ":80"} {
						add(scheme + h + p)
					}
				}
			}
		}
	}
	for _, base := range bases {
		for _, full := range []string{endpoint.Endpoint{URL: base}.RequestURL(s.query), base} {
			if full != s.url {
				all = append(all, remedy{Cause{Mistake: WrongURL, Text: fmt.Sprintf("the URL that was signed is %s%s", base, queryNote(full, s.query)), Do: "set the endpoint's url to it, exactly as the provider was given it"},
					func(s *subject) { s.url = full }})
			}
		}
	}
	return all
}

func queryNote(full, query string) string {
	if query != "" && !strings.Contains(full, "?") {
		return ", without the request's query"
	}
	return ""
}

package endpoint

import (
	"fmt"
	"net/netip"
	"net/url"

	"sluice/pkg/declare"
	"sluice/pkg/webhook"
)

// widest is the least length of a prefix: one that holds a large part of all addresses
// protects nothing, and would be some schemes' only protection (O09).
const widest = 8

// address is one of `addresses` as the file has it.
type address string

// UnmarshalYAML takes IPv6 addresses in one-line maps too.
func (a *address) UnmarshalYAML(unmarshal func(any) error) error {
	return declare.ColonText((*string)(a), unmarshal)
}

// sender checks and sets what the entry says about who sends, and where to: url,
// addresses, account and order. out.Provider is not nil.
func (l *loader) sender(e entry, out *Endpoint) {
	out.URL = l.url(e.URL, out.Provider)
	if p, ok := out.Provider.(webhook.Located); ok {
		out.Provider = p.WithURL(out.URL)
	}
	out.Addresses = l.addresses(e.Addresses)
	if p, ok := out.Provider.(webhook.Addressed); ok {
		if len(out.Addresses) > 0 {
			out.Provider = p.WithAddresses(out.Addresses)
		} else {
			out.Addresses = p.Addresses()
		}
	}
	out.Provider = l.account(e.Account, out.Provider)
	out.Provider = l.order(e.Order, out.Provider)
}

// url is the public address that the provider was given. Some schemes sign it, so it
// must be exactly the provider's own text.
func (l *loader) url(text string, p webhook.Provider) string {
	if text == "" {
		if p.Profile().NeedsURL {
			l.problem("url", "missing: %s signs the address it sends to; give the one that is entered there, to the letter", p.Name())
		}
		return ""
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		l.problem("url", "is no address: write https://HOST/PATH, as it is entered at the provider")
	case u.User != nil:
		l.problem("url", "holds a user or password: remove it, and keep secrets out of this file")
	case u.Fragment != "":
		l.problem("url", "has a fragment, which no request carries: remove # and what follows")
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		l.problem("url", "is not https: providers send over https; http is for this machine alone (localhost)")
	default:
		return text
	}
	return ""
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// addresses are who may send, each a range or a single address.
func (l *loader) addresses(texts []address) (out []netip.Prefix) {
	for i, text := range texts {
		p, err := parsePrefix(string(text))
		if err != nil {
			l.problem(fmt.Sprintf("addresses[%d]", i), "%w", err)
			continue
		}
		out = append(out, p)
	}
	return out
}

// parsePrefix reads a range of addresses in CIDR form, or a single address, for lists
// of those that are trusted: a range of nearly everybody is an error. IPv4 has one
// form: what is mapped into IPv6 becomes plain.
func parsePrefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is no address: write 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32", text)
	}
	if p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is an IPv4 range written as IPv6: write it as IPv4", text)
	}
	if p.Bits() < widest {
		return netip.Prefix{}, fmt.Errorf("%q is a range of nearly everybody: use /%d or longer", text, widest)
	}
	if p != p.Masked() {
		return netip.Prefix{}, fmt.Errorf("%q has bits beyond its length: write %s", text, p.Masked())
	}
	return p, nil
}

// account holds a provider to one account, where anybody with an account there could
// have made the signature.
func (l *loader) account(account string, p webhook.Provider) webhook.Provider {
	a, ok := p.(webhook.Accounted)
	switch {
	case !ok && account != "":
		l.problem("account", "provider %s needs none: its secret is yours alone; remove it", p.Name())
	case ok && account == "":
		l.problem("account", "missing: anybody with an account at %s can sign; give %s", p.Name(), a.Account())
	case ok:
		return a.WithAccount(account)
	}
	return p
}

// order says where the shop put its order id.
func (l *loader) order(paths webhook.Paths, p webhook.Provider) webhook.Provider {
	if len(paths) == 0 {
		return p
	}
	o, ok := p.(webhook.Ordered)
	if !ok {
		l.problem("order", "provider %s has one place for it: remove it (a declared provider's is declared.reading.order)", p.Name())
		return p
	}
	with, err := o.WithOrder(paths)
	if err != nil {
		for _, err := range declare.Each(err) {
			l.problem("order", "%w", err)
		}
		return p
	}
	return with
}

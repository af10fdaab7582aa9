package endpoint

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// forwardedFor is where proxies say whom they speak for, each adding at the end. The
// standard's Forwarded is not read beside it: a proxy that sets one of the two passes
// the other on as the sender wrote it.
const forwardedFor = "X-Forwarded-For"

// Proxies are those whose word on the sender's address is believed.
type Proxies []netip.Prefix

// ParseProxies reads them as a setting has them: addresses and ranges.
func ParseProxies(texts []string) (ps Proxies, err error) {
	for _, text := range texts {
		p, err := parsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		ps = append(ps, p)
	}
	return ps, nil
}

func (ps Proxies) trusted(a netip.Addr) bool {
	return slices.ContainsFunc(ps, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Sender is who sent a request: the peer or, if that is a trusted proxy, the last of
// the forwarded addresses that is none. Whatever stands before it, anybody may have
// written. The zero Addr if a trusted proxy says what is no address.
func (ps Proxies) Sender(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	sender := plain(at.Addr())
	if !ps.trusted(sender) {
		return sender
	}
	for _, line := range slices.Backward(r.Header[forwardedFor]) {
		for line != "" {
			before := strings.LastIndexByte(line, ',')
			var ok bool
			if sender, ok = host(strings.Trim(line[before+1:], " \t")); !ok || !ps.trusted(sender) {
				return sender
			}
			line = line[:max(before, 0)]
		}
	}
	return sender
}

// host is the address of "192.0.2.7", "192.0.2.7:80", "2001:db8::7", "[2001:db8::7]" or
// "[2001:db8::7]:80". IPv4 has one form, and zones are of no meaning elsewhere.
func host(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		if inner, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(inner, "]") {
			a, err = netip.ParseAddr(inner[:len(inner)-1])
		} else {
			var ap netip.AddrPort
			ap, err = netip.ParseAddrPort(text)
			a = ap.Addr()
		}
	}
	return plain(a), err == nil
}

func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

package webhook

import "net/netip"

// addresses are the networks that may send; none may if there are none.
type addresses []netip.Prefix

// allow says whether an address may send. One that is not known may not.
func (list addresses) allow(a netip.Addr) bool {
	a = a.Unmap()
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// networks are a provider's published addresses: single ones, or CIDRs.
func networks(texts ...string) (list addresses) {
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil {
			list = append(list, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

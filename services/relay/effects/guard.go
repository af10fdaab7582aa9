package effects

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"sluice/pkg/effect"
)

// errAddress: nothing may be sent to where the name led.
var errAddress = errors.New("the address may not be called")

// special are the addresses that are not the public's, the narrowest first; the
// registries are IANA's of special-purpose addresses (RFC 6890). Where named is true,
// a host that is allowed by its name may be there; the others need their range in
// `allow`, for no service lives there, and the clouds' credentials do.
var special = []struct {
	prefix netip.Prefix
	named  bool
	what   string
}{
	{netip.MustParsePrefix("100.100.100.200/32"), false, "cloud metadata"}, // Alibaba
	{netip.MustParsePrefix("168.63.129.16/32"), false, "cloud metadata"},   // Azure; by its looks public
	{netip.MustParsePrefix("192.0.0.192/32"), false, "cloud metadata"},     // Oracle
	{netip.MustParsePrefix("fd00:ec2::/32"), false, "cloud metadata"},      // AWS
	{netip.MustParsePrefix("fd20:ce::254/128"), false, "cloud metadata"},   // Google
	{netip.MustParsePrefix("0.0.0.0/8"), false, "this network"},
	{netip.MustParsePrefix("10.0.0.0/8"), true, "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), true, "carrier-grade NAT"},
	{netip.MustParsePrefix("127.0.0.0/8"), true, "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), false, "link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), true, "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), false, "special"},
	{netip.MustParsePrefix("192.0.2.0/24"), false, "documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), false, "special"},
	{netip.MustParsePrefix("192.168.0.0/16"), true, "private"},
	{netip.MustParsePrefix("198.18.0.0/15"), false, "benchmarking"},
	{netip.MustParsePrefix("198.51.100.0/24"), false, "documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), false, "documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), false, "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), false, "reserved"},
	{netip.MustParsePrefix("0.0.0.0/0"), true, ""},
	{netip.MustParsePrefix("::1/128"), true, "loopback"},
	{netip.MustParsePrefix("fc00::/7"), true, "private"},
	{netip.MustParsePrefix("fe80::/10"), false, "link-local"},
	{netip.MustParsePrefix("ff00::/8"), false, "multicast"},
	{netip.MustParsePrefix("2001::/23"), false, "special"}, // Teredo and others
	{netip.MustParsePrefix("2001:db8::/32"), false, "documentation"},
	{netip.MustParsePrefix("2002::/16"), false, "6to4"}, // carries any IPv4 address
	{netip.MustParsePrefix("3fff::/20"), false, "documentation"},
	{netip.MustParsePrefix("2000::/3"), true, ""},
	{netip.MustParsePrefix("::/0"), false, "reserved"},
}

// translated is IPv4 behind NAT64 (RFC 6052): on a network without IPv4 everything is.
var translated = netip.MustParsePrefix("64:ff9b::/96")

// guard says whom an effect may call. It is asked at each connect, about the very
// address that is connected to: no name can lead elsewhere afterwards.
type guard struct {
	allow effect.Allow
	host  string // the URL's
}

// check is nil if the address may be called, else an errAddress that says why not.
func (g guard) check(addr netip.Addr) error {
	if g.allow.Addr(addr) {
		return nil
	}
	addr = addr.Unmap().WithZone("")
	if translated.Contains(addr) {
		b := addr.As16()
		return g.check(netip.AddrFrom4([4]byte(b[12:])))
	}
	for _, s := range special {
		if !s.prefix.Contains(addr) {
			continue
		}
		if s.what == "" || s.named && g.allow.Host(g.host) {
			return nil
		}
		return fmt.Errorf("%w: %s is %s; `allow` does not name it", errAddress, addr, s.what)
	}
	return fmt.Errorf("%w: %s", errAddress, addr)
}

// control is a dialer's, called between the look-up of a name and the connect.
func (g guard) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: it cannot be read", errAddress)
	}
	return g.check(at.Addr())
}

// dialer connects to what the guard lets through. resolver is nil but in tests.
func (g guard) dialer(timeout time.Duration, resolver *net.Resolver) *net.Dialer {
	return &net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second, Resolver: resolver, ControlContext: g.control}
}

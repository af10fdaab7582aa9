package effects

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"sluice/pkg/effect"
)

func TestWhoMayBeCalled(t *testing.T) {
	named := effect.Allow{Hosts: []string{"crm.internal"}}
	ranged := func(p string) effect.Allow { return effect.Allow{Prefixes: []netip.Prefix{netip.MustParsePrefix(p)}} }
	for _, c := range []struct {
		addr  string
		allow effect.Allow
		ok    bool
	}{
		{"8.8.8.8", effect.Allow{}, true},
		{"2a00:1450:4001::1", effect.Allow{}, true},
		{"::ffff:8.8.8.8", effect.Allow{}, true},
		{"64:ff9b::808:808", effect.Allow{}, true}, // NAT64

		{"127.0.0.1", effect.Allow{}, false},
		{"127.9.9.9", effect.Allow{}, false},
		{"::1", effect.Allow{}, false},
		{"::ffff:127.0.0.1", effect.Allow{}, false},
		{"0.0.0.0", effect.Allow{}, false},
		{"::", effect.Allow{}, false},
		{"10.1.2.3", effect.Allow{}, false},
		{"172.16.0.1", effect.Allow{}, false},
		{"172.31.255.255", effect.Allow{}, false},
		{"172.32.0.1", effect.Allow{}, true},
		{"192.168.1.1", effect.Allow{}, false},
		{"::ffff:10.1.2.3", effect.Allow{}, false},
		{"169.254.169.254", effect.Allow{}, false},
		{"::ffff:169.254.169.254", effect.Allow{}, false},
		{"100.64.0.1", effect.Allow{}, false},
		{"100.100.100.200", effect.Allow{}, false},
		{"168.63.129.16", effect.Allow{}, false},
		{"192.0.0.192", effect.Allow{}, false},
		{"198.18.0.1", effect.Allow{}, false},
		{"224.0.0.1", effect.Allow{}, false},
		{"239.255.255.250", effect.Allow{}, false},
		{"255.255.255.255", effect.Allow{}, false},
		{"fe80::1%eth0", effect.Allow{}, false},
		{"fec0::1", effect.Allow{}, false},
		{"fc00::1", effect.Allow{}, false},
		{"fd00:ec2::254", effect.Allow{}, false},
		{"ff02::1", effect.Allow{}, false},
		{"2001::1", effect.Allow{}, false},
		{"2002:7f00:1::", effect.Allow{}, false}, // 6to4 of 127.0.0.1
		{"64:ff9b::7f00:1", effect.Allow{}, false},
		{"64:ff9b::a9fe:a9fe", effect.Allow{}, false},
		{"64:ff9b:1::a00:1", effect.Allow{}, false},
		{"::7f00:1", effect.Allow{}, false}, // IPv4-compatible
		{"2001:db8::1", effect.Allow{}, false},

		{"10.1.2.3", ranged("10.0.0.0/8"), true},
		{"::ffff:10.1.2.3", ranged("10.0.0.0/8"), true},
		{"11.1.2.3", ranged("10.0.0.0/8"), true},
		{"192.168.1.1", ranged("10.0.0.0/8"), false},
		{"10.1.2.3", named, true},
		{"127.0.0.1", named, true},
		{"fd12::1", named, true},
		{"169.254.169.254", named, false}, // a name never leads there
		{"fd00:ec2::254", named, false},
		{"100.100.100.200", named, false},
		{"224.0.0.1", named, false},
		{"0.0.0.0", named, false},
		{"169.254.169.254", ranged("169.254.0.0/16"), true},
	} {
		err := guard{allow: c.allow, host: "crm.internal"}.check(netip.MustParseAddr(c.addr))
		if (err == nil) != c.ok || err != nil && !errors.Is(err, errAddress) {
			t.Errorf("%s with %v: %v", c.addr, c.allow, err)
		}
	}
	if (guard{allow: named, host: "evil.example"}).check(netip.MustParseAddr("10.1.2.3")) == nil {
		t.Error("another host is allowed by the name of one")
	}
}

// A name whose address changes between look and call finds nothing to slip through:
// the address that is connected to is the one that is checked.
func TestANameThatChangesItsAddressIsCheckedAtEachConnect(t *testing.T) {
	s, got := server(t, func(http.ResponseWriter, *http.Request) {})
	_, port, _ := net.SplitHostPort(hostport(s.URL))
	var address atomic.Pointer[netip.Addr]
	point := func(a string) { addr := netip.MustParseAddr(a); address.Store(&addr) }
	resolver := nameserver(t, &address)

	d := one(t, "http://127.0.0.1:"+port+"/", "")
	d.URL.Host = "rebind.example:" + port
	d.Allow = effect.Allow{Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	c := callerOf(t, d, way{resolver: resolver})

	point("127.0.0.1")
	if a := c.call(t.Context(), anEffect, time.Now()); a.status != http.StatusOK {
		t.Fatalf("while it leads where it may: %+v", a)
	}
	c.close() // and so must connect again
	point("127.0.0.2")
	if a := c.call(t.Context(), anEffect, time.Now()); a.class != refusedAddress {
		t.Errorf("after it turned: %+v", a)
	}
	if n := len(got.list()); n != 1 {
		t.Errorf("%d requests came through, want 1", n)
	}
	point("169.254.169.254")
	if a := c.call(t.Context(), anEffect, time.Now()); a.class != refusedAddress {
		t.Errorf("to the metadata service: %+v", a)
	}
}

// nameserver answers every question for an IPv4 address with address.
func nameserver(t *testing.T, address *atomic.Pointer[netip.Addr]) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		b := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			q := b[:n]
			end := 12 // the question: labels, type, class (RFC 1035, 4.1.2)
			for end < n && q[end] != 0 {
				end += int(q[end]) + 1
			}
			end += 5
			a := append([]byte{}, q[:end]...)
			binary.BigEndian.PutUint16(a[2:], 0x8580)
			binary.BigEndian.PutUint16(a[10:], 0)
			if binary.BigEndian.Uint16(q[end-4:]) == 1 { // A
				binary.BigEndian.PutUint16(a[6:], 1)
				ip := address.Load().As4()
				a = append(a, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
				a = append(a, ip[:]...)
			}
			_, _ = conn.WriteTo(a, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

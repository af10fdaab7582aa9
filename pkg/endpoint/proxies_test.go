package endpoint

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func TestTheSendersAddressIsThePeersOrATrustedProxysWord(t *testing.T) {
	ps, err := ParseProxies([]string{"10.0.0.0/8", " 192.0.2.1", "2001:db8:1::/48"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		peer      string
		forwarded []string
		want      string
	}{
		"a peer":                                {"198.51.100.7:99", nil, "198.51.100.7"},
		"a peer in IPv6":                        {"[2001:db8:2::7]:99", nil, "2001:db8:2::7"},
		"an IPv4 peer on an IPv6 socket":        {"[::ffff:198.51.100.7]:99", nil, "198.51.100.7"},
		"a peer with a zone":                    {"[fe80::1%eth0]:99", nil, "fe80::1"},
		"a stranger who forges":                 {"198.51.100.7:99", []string{"203.0.113.9"}, "198.51.100.7"},
		"a proxy":                               {"10.1.2.3:99", []string{"203.0.113.9"}, "203.0.113.9"},
		"a proxy on an IPv6 socket":             {"[::ffff:10.1.2.3]:99", []string{"203.0.113.9"}, "203.0.113.9"},
		"a proxy by its one address":            {"192.0.2.1:99", []string{"203.0.113.9"}, "203.0.113.9"},
		"a proxy's neighbour":                   {"192.0.2.2:99", []string{"203.0.113.9"}, "192.0.2.2"},
		"a proxy in IPv6":                       {"[2001:db8:1::5]:99", []string{"2001:db8:3::9"}, "2001:db8:3::9"},
		"what the sender wrote before":          {"10.1.2.3:99", []string{"185.71.76.1, 203.0.113.9"}, "203.0.113.9"},
		"what the sender wrote in lines before": {"10.1.2.3:99", []string{"185.71.76.1", "203.0.113.9"}, "203.0.113.9"},
		"two proxies":                           {"10.1.2.3:99", []string{"185.71.76.1, 203.0.113.9, 10.9.9.9"}, "203.0.113.9"},
		"two proxies, a line each":              {"10.1.2.3:99", []string{"185.71.76.1, 203.0.113.9", "10.9.9.9"}, "203.0.113.9"},
		"a sender that claims to be a proxy":    {"10.1.2.3:99", []string{"185.71.76.1, 10.4.4.4, 203.0.113.9"}, "203.0.113.9"},
		"no spaces":                             {"10.1.2.3:99", []string{"185.71.76.1,203.0.113.9,10.9.9.9"}, "203.0.113.9"},
		"tabs":                                  {"10.1.2.3:99", []string{"\t203.0.113.9 \t,  10.9.9.9\t"}, "203.0.113.9"},
		"a port":                                {"10.1.2.3:99", []string{"203.0.113.9:4711"}, "203.0.113.9"},
		"IPv6 with a port":                      {"10.1.2.3:99", []string{"[2001:db8:3::9]:4711"}, "2001:db8:3::9"},
		"IPv6 in brackets":                      {"10.1.2.3:99", []string{"[2001:db8:3::9]"}, "2001:db8:3::9"},
		"IPv4 written as IPv6":                  {"10.1.2.3:99", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		"a proxy's IPv4 written as IPv6":        {"10.1.2.3:99", []string{"203.0.113.9, ::ffff:10.9.9.9"}, "203.0.113.9"},
		"nobody forwarded":                      {"10.1.2.3:99", nil, "10.1.2.3"},
		"an empty line":                         {"10.1.2.3:99", []string{""}, "10.1.2.3"},
		"only proxies":                          {"10.1.2.3:99", []string{"10.5.5.5, 10.6.6.6"}, "10.5.5.5"},
		"garbage from a proxy":                  {"10.1.2.3:99", []string{"203.0.113.9, unknown"}, "invalid IP"},
		"garbage before a proxy":                {"10.1.2.3:99", []string{"203.0.113.9, _hidden, 10.9.9.9"}, "invalid IP"},
		"garbage that the sender wrote":         {"10.1.2.3:99", []string{"a\x01b,,, 203.0.113.9"}, "203.0.113.9"},
		"a comma at the end":                    {"10.1.2.3:99", []string{"203.0.113.9,"}, "invalid IP"},
		"a number":                              {"10.1.2.3:99", []string{"3232235777"}, "invalid IP"},
		"leading zeros":                         {"10.1.2.3:99", []string{"203.000.113.009"}, "invalid IP"},
		"no peer":                               {"@", []string{"203.0.113.9"}, "invalid IP"},
		"no peer at all":                        {"", []string{"203.0.113.9"}, "invalid IP"},
	} {
		r := &http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.forwarded, "Forwarded": {"for=185.71.76.1"}, "X-Real-Ip": {"185.71.76.1"}}}
		if got := ps.Sender(r).String(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if got := Proxies(nil).Sender(r); len(c.forwarded) > 0 && c.want != "invalid IP" && strings.HasPrefix(c.peer, "10.") && got.String() != "10.1.2.3" {
			t.Errorf("%s: with no trusted proxies it is %s", name, got)
		}
	}
}

func FuzzSender(f *testing.F) {
	ps, err := ParseProxies([]string{"10.0.0.0/8"})
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"203.0.113.9", "1.1.1.1, 10.0.0.1", ",,", "[::1]:1", "[", "::ffff:10.0.0.1,x"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		r := &http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{"X-Forwarded-For": {one, two}}}
		// What stands last decides, whatever a sender wrote before it.
		r.Header["X-Forwarded-For"] = append(r.Header["X-Forwarded-For"], "203.0.113.9, 10.0.0.2")
		if got := ps.Sender(r); got != netip.MustParseAddr("203.0.113.9") {
			t.Errorf("%q, %q: %v", one, two, got)
		}
		r.Header["X-Forwarded-For"] = []string{one, two}
		if got := ps.Sender(r); got.Is4In6() || got.Zone() != "" {
			t.Errorf("%q, %q: %v has more than one form", one, two, got)
		}
	})
}

package diagnose

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/webhook"
	"sluice/services/sluice/recorded"
)

// subject is what Verify is given, as recorded or with a mistake undone.
type subject struct {
	endpoint endpoint.Endpoint
	method   string
	url      string
	query    string
	headers  []recorded.Header
	body     []byte
	remote   netip.Addr
	cert     webhook.Certificate
	asked    *[]string
}

func newSubject(c Case) subject {
	s := subject{endpoint: c.Endpoint, method: c.Request.Method, url: c.Endpoint.RequestURL(c.Request.Query()), query: c.Request.Query(),
		headers: c.Request.Headers, body: c.Request.Body, remote: c.Remote, cert: c.Certificate}
	if s.remoteUnknown() {
		s.fromAnywhere()
	}
	return s
}

// remoteUnknown: the recording does not say who sent it, and there is more to hold
// it to.
func (s subject) remoteUnknown() bool {
	return !s.remote.IsValid() && len(s.endpoint.Addresses) > 0 && len(s.endpoint.Secrets) > 0
}

// fromAnywhere leaves the sender's address out of it.
func (s *subject) fromAnywhere() {
	everybody := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	s.endpoint.Addresses, s.remote = nil, netip.IPv4Unspecified()
	if p, ok := s.endpoint.Provider.(webhook.Addressed); ok {
		s.endpoint.Provider = p.WithAddresses(everybody)
	}
}

// watch notes from now on which headers the provider asks for.
func (s *subject) watch() func() []string {
	var names []string
	s.asked = &names
	return func() []string { return names }
}

func (s subject) header(name string) (values []string) {
	if s.asked != nil && !slices.ContainsFunc(*s.asked, func(known string) bool { return strings.EqualFold(known, name) }) {
		*s.asked = append(*s.asked, name)
	}
	if name == webhook.QueryHeader {
		if s.query == "" {
			return nil
		}
		return []string{s.query}
	}
	for _, h := range s.headers {
		if strings.EqualFold(h.Name, name) {
			values = append(values, h.Value)
		}
	}
	return values
}

func (s subject) verify(now time.Time) webhook.Verdict {
	return s.endpoint.Verify(webhook.Request{Method: s.method, URL: s.url, Header: s.header, Body: s.body, Remote: s.remote, Certificate: s.cert}, now)
}

// right says whether the signature is right, whenever it was made.
func (s subject) right(now time.Time) (webhook.Verdict, bool) {
	s.asked = nil
	v := s.verify(now)
	return v, v.Outcome != webhook.Invalid
}

// Package endpoint reads the endpoints file: which webhooks a deployment
// receives, from which provider, and which secrets verify them.
package endpoint

import (
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/lookup"
	"sluice/pkg/webhook"
)

// Endpoint is one receiving address, checked and ready.
type Endpoint struct {
	// Name is the last part of its path: POST /webhooks/{Name}.
	Name string
	// Source names the sending account. With the event id it names an event, so it
	// never changes once events have come in.
	Source string
	// Mode is the deployment's.
	Mode event.Mode
	// Provider verifies and reads; it already holds to the endpoint's tolerance.
	Provider webhook.Provider
	// Declaration is how a declared provider was declared; nil for built-in ones.
	Declaration *webhook.Declaration
	// Secrets are all that may have signed: several during a rotation. Empty where the
	// scheme has none.
	Secrets []webhook.Secret
	// URL is the public address that the provider was given; empty if not configured.
	URL string
	// Addresses are who may send here: as configured, else those that the provider
	// publishes, if its scheme needs them. Empty: anybody.
	Addresses []netip.Prefix
	// Lookup is how the provider's API is asked; nil if it is not configured.
	Lookup *Lookup
}

// Lookup is the account at a provider's API.
type Lookup struct {
	// API is the provider's, or the one that the endpoint declares.
	API lookup.API
	// BaseURL is where the API is, without a last slash.
	BaseURL string
	// Settings are what the API wants to know beside the credentials, and is no
	// secret (Click: service_id, merchant_user_id); every default is filled in.
	Settings map[string]string
	// Credentials are in the file's order; the first is used, the rest are for a
	// rotation. Only LoadWithCredentials gives them values.
	Credentials []Credential
	// Rate is the most requests per second.
	Rate float64
	// Pending is after how long an order that nothing has decided is asked about; 0: never.
	Pending time.Duration
	// Sweep is how the provider's lists are gone through; nil if they are not, or if it
	// has none.
	Sweep *Sweep
}

// Sweep says how often a provider's lists are gone through, and how far behind what was
// gone through before each time.
type Sweep struct{ Every, Back time.Duration }

// Credential is a secret that is sent to the provider. It prints and logs as its name.
type Credential struct {
	// Name is the reference it came from.
	Name  string
	value string
}

// Reveal is the value, for the request's own headers and nothing else.
func (c Credential) Reveal() string { return c.value }

// String, GoString and LogValue keep the value out of every text.
func (c Credential) String() string       { return "credential " + c.Name }
func (c Credential) GoString() string     { return c.String() }
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Verify checks a request's address, and then its signature with the endpoint's
// secrets and tolerance. A stored request is checked again at the time of its receipt;
// its address is not stored and cannot be checked again: see Endpoint.Provider.
func (e Endpoint) Verify(req webhook.Request, now time.Time) webhook.Verdict {
	if len(e.Addresses) > 0 && !e.mayCome(req.Remote) {
		return webhook.Verdict{Outcome: webhook.Invalid, Reason: webhook.ReasonAddress}
	}
	return e.Provider.Verify(req, e.Secrets, now)
}

// mayCome says whether an address is one of the endpoint's. An Addressed provider
// holds to them itself.
func (e Endpoint) mayCome(from netip.Addr) bool {
	if _, ok := e.Provider.(webhook.Addressed); ok {
		return true
	}
	return slices.ContainsFunc(e.Addresses, func(p netip.Prefix) bool { return p.Contains(from.Unmap()) })
}

// RequestURL is the address that the provider sent to: the configured one with the
// request's query, where that goes on from the configured one's (Twilio adds to it);
// else the configured one alone. Empty if none is configured. The request's own host
// has no part in it.
func (e Endpoint) RequestURL(query string) string {
	base, own, has := strings.Cut(e.URL, "?")
	if e.URL == "" || query == "" || has && query != own && !strings.HasPrefix(query, own+"&") {
		return e.URL
	}
	return base + "?" + query
}

// Read reads a body. The reading always has a mode: the endpoint's where the
// provider states none (O10).
func (e Endpoint) Read(header webhook.Headers, body []byte) (webhook.Reading, error) {
	r, err := e.Provider.Read(header, body)
	if err == nil && r.Mode == "" {
		r.Mode = e.Mode
	}
	return r, err
}

// Tolerance is what a signed time is held to; false if the scheme has no time.
func (e Endpoint) Tolerance() (webhook.Tolerance, bool) {
	if p, ok := e.Provider.(webhook.Timed); ok {
		return p.Tolerance(), true
	}
	return webhook.Tolerance{}, false
}

// Set is a deployment's endpoints. It does not change; the zero value is empty.
type Set struct {
	all    []Endpoint
	byName map[string]int
}

// Get is the endpoint of that name.
func (s Set) Get(name string) (Endpoint, bool) {
	i, ok := s.byName[name]
	if !ok {
		return Endpoint{}, false
	}
	return s.all[i], true
}

// All lists the endpoints in the file's order.
func (s Set) All() []Endpoint { return s.all }

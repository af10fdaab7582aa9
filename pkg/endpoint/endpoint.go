// Package endpoint reads the endpoints file: which webhooks a deployment
// receives, from which provider, and which secrets verify them.
package endpoint

import (
	"time"

	"sluice/pkg/event"
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
	// Secrets are all that may have signed: several during a rotation.
	Secrets []webhook.Secret
}

// Verify checks a request with the endpoint's secrets and tolerance. A stored
// request is checked again at the time of its receipt.
func (e Endpoint) Verify(req webhook.Request, now time.Time) webhook.Verdict {
	return e.Provider.Verify(req, e.Secrets, now)
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

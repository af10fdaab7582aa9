package provider

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"
)

// PayPal is its REST API, as far as a payment goes: an OAuth token first, then
// documents by their paths (developer.paypal.com/api/rest).
type PayPal struct {
	ClientID, Secret string
	// TokenLife is expires_in, in seconds. Now is its clock, by which a token expires;
	// nil: none does.
	TokenLife int
	Now       func() time.Time

	mu        sync.Mutex
	token     string
	expires   time.Time
	tokens    int
	documents map[string]string
}

// Put sets the document at a path, for example /v2/payments/captures/ID.
func (p *PayPal) Put(path, document string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.documents == nil {
		p.documents = map[string]string{}
	}
	p.documents[path] = document
}

// Revoke makes the token given out last worth nothing.
func (p *PayPal) Revoke() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.token = ""
}

// Tokens is how many were given out.
func (p *PayPal) Tokens() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tokens
}

func (p *PayPal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.URL.Path == "/v1/oauth2/token" {
		id, secret, _ := r.BasicAuth()
		if r.Method != http.MethodPost || id != p.ClientID || secret != p.Secret || r.FormValue("grant_type") != "client_credentials" {
			answer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client", "error_description": "Client Authentication failed"})
			return
		}
		p.token, p.tokens = rand.Text(), p.tokens+1
		if p.Now != nil {
			p.expires = p.Now().Add(time.Duration(p.TokenLife) * time.Second)
		}
		answer(w, http.StatusOK, map[string]any{"access_token": p.token, "token_type": "Bearer", "expires_in": p.TokenLife})
		return
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); !ok || token == "" || token != p.token || p.Now != nil && !p.Now().Before(p.expires) {
		answer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_token", "error_description": "Token signature verification failed"})
		return
	}
	document, ok := p.documents[r.URL.Path]
	if !ok || r.Method != http.MethodGet {
		answer(w, http.StatusNotFound, map[string]any{"name": "RESOURCE_NOT_FOUND", "message": "The specified resource does not exist."})
		return
	}
	answer(w, http.StatusOK, json.RawMessage(document))
}

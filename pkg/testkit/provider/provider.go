// Package provider has stand-ins for the APIs of payment providers, for tests and for
// `sluice dev`: they answer as the documentation says, errors and authentication
// included. What they know is put there by their methods.
package provider

import (
	"encoding/json"
	"net/http"
	"sync"
)

// Fault is one way in which a provider gives no answer.
type Fault func(http.ResponseWriter, *http.Request)

// Faulty is an API in front of which faults can be put. It counts requests.
type Faulty struct {
	API http.Handler

	mu       sync.Mutex
	fault    Fault
	requests []string
}

// Fail makes every request end in a fault, until it is called with nil.
func (f *Faulty) Fail(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// Requests are the paths asked for so far.
func (f *Faulty) Requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.requests...)
}

func (f *Faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests = append(f.requests, r.URL.Path)
	fault := f.fault
	f.mu.Unlock()
	if fault != nil {
		fault(w, r)
		return
	}
	f.API.ServeHTTP(w, r)
}

// Status answers with a status and a body.
func Status(status int, body string) Fault {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// Busy answers 429 and asks to be left alone for some seconds.
func Busy(seconds string) Fault {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", seconds)
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// Silent answers nothing until the client goes away.
func Silent() Fault { return func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() } }

// Endless answers 200 and a body without an end.
func Endless() Fault {
	return func(w http.ResponseWriter, r *http.Request) {
		chunk := make([]byte, 1<<16)
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
}

// Elsewhere redirects to another address.
func Elsewhere(url string) Fault {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, url, http.StatusFound) }
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

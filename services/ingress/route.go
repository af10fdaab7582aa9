package ingress

import (
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/webhook"
)

// route is one endpoint, with what would else be made anew for each request.
type route struct {
	endpoint.Endpoint
	signatureHeaders []signatureHeader
	// What the provider has beside the usual; nil if it has not.
	batched     webhook.Batched
	certified   webhook.Certified
	answering   webhook.Answering
	challenging webhook.Challenging
}

type signatureHeader struct {
	canonical string // as net/http keeps it
	name      string // as the record keeps it
}

func routes(endpoints endpoint.Set) map[string]*route {
	all := make(map[string]*route, len(endpoints.All()))
	for _, e := range endpoints.All() {
		if !e.Provider.Profile().TwoWay { // those are the merchant's
			all[e.Name] = newRoute(e)
		}
	}
	return all
}

func newRoute(e endpoint.Endpoint) *route {
	rt := &route{Endpoint: e}
	names := e.Provider.SignatureHeaders()
	if e.Provider.Profile().NeedsURL && !slices.Contains(names, webhook.QueryHeader) {
		names = append(slices.Clone(names), webhook.QueryHeader) // the signed URL is the configured one with this
	}
	for _, name := range names {
		rt.signatureHeaders = append(rt.signatureHeaders, signatureHeader{textproto.CanonicalMIMEHeaderKey(name), strings.ToLower(name)})
	}
	rt.batched, _ = e.Provider.(webhook.Batched)
	rt.certified, _ = e.Provider.(webhook.Certified)
	rt.answering, _ = e.Provider.(webhook.Answering)
	rt.challenging, _ = e.Provider.(webhook.Challenging)
	return rt
}

// headers are a request's headers, with its query among them.
func headers(r *http.Request) webhook.Headers {
	return func(name string) []string {
		if name == webhook.QueryHeader {
			return query(r)
		}
		return r.Header.Values(name)
	}
}

func query(r *http.Request) []string {
	if r.URL.RawQuery == "" {
		return nil
	}
	return []string{r.URL.RawQuery}
}

// maxSignatureValues is how many signature header values one request may have.
const maxSignatureValues = 16

// signature takes the headers that are needed to verify the body again; false if
// they are more or longer than any scheme sends.
func (rt *route) signature(r *http.Request) ([]event.Header, bool) {
	out := make([]event.Header, 0, len(rt.signatureHeaders))
	for _, s := range rt.signatureHeaders {
		values := r.Header[s.canonical]
		if s.name == webhook.QueryHeader {
			values = query(r)
		}
		for _, v := range values {
			if len(v) > event.MaxSignature || len(out) == maxSignatureValues {
				return nil, false
			}
			out = append(out, event.Header{Name: s.name, Value: []byte(v)})
		}
	}
	return out, true
}

// checkEndpoint says whether an endpoint's own names fit into record headers, so
// that no webhook can fail on them.
func checkEndpoint(e endpoint.Endpoint) error {
	names := []string{""}
	for _, s := range e.Secrets {
		names = append(names, s.Name)
	}
	for _, name := range names {
		_, err := event.Event{Source: e.Source, ID: "x", Type: "x", Mode: e.Mode, Provider: e.Provider.Name(), Endpoint: e.Name,
			Trust: event.Signed, SecretName: name, ReceivedAt: time.Unix(1, 0)}.Headers()
		if err != nil {
			return fmt.Errorf("endpoint %s does not fit into records: %w", e.Name, err)
		}
	}
	return nil
}

// storable is an unsigned request header as a record keeps it: dropped if it is
// longer or stranger than it has reason to be.
func storable(v string) string {
	if len(v) > 255 || !utf8.ValidString(v) || strings.IndexByte(v, 0) >= 0 {
		return ""
	}
	return v
}

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/certificate"
	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/webhook"
	"sluice/services/sluice/dev"
	"sluice/services/sluice/diagnose"
	"sluice/services/sluice/recorded"
	"sluice/services/sluice/terminal"
)

// maxRecording bounds what is read of a recording.
const maxRecording = 256 << 20

var errNotVerified = errors.New("not verified")

// request diagnoses the recorded request, or each of a HAR file.
func (v *VerifyCmd) request(c *console) error {
	requests, err := v.recording()
	if err != nil {
		return usageError{fmt.Errorf("read recorded request %s: %w", v.Request, err)}
	}
	set, err := v.endpoints()
	if err != nil {
		return usageError{err}
	}
	p := terminal.New(c.out)
	tried, bad := 0, 0
	for i, r := range requests {
		_, nobodys := v.endpoint(r, set)
		if nobodys != nil && v.Endpoint == "" && len(requests) > 1 && (tried > 0 || i < len(requests)-1) {
			continue // a recorded session holds other requests, too
		}
		kase, err := v.diagnosed(r, set)
		if err != nil {
			return usageError{err}
		}
		tried++
		if len(requests) > 1 {
			p.Title(fmt.Sprintf("entry %d of %d", i+1, len(requests)))
		}
		d := diagnose.Diagnose(kase)
		printDiagnosis(p, d)
		if !d.Verified() {
			bad++
		}
	}
	if left := len(requests) - tried; left > 0 {
		p.Line("\nleft out: %d of %d entries, sent to no endpoint of %s", left, len(requests), v.Endpoints)
	}
	switch {
	case bad == 0:
		return nil
	case tried > 1:
		return fmt.Errorf("%w: %d of %d", errNotVerified, bad, tried)
	}
	return errNotVerified
}

// recording reads what was recorded.
func (v *VerifyCmd) recording() ([]recorded.Request, error) {
	text, err := readBounded(v.Request)
	if err != nil {
		return nil, err
	}
	requests, err := recorded.Parse(text, os.ReadFile)
	if err != nil {
		return nil, err
	}
	if v.Entry < 0 || v.Entry > len(requests) {
		return nil, fmt.Errorf("it has %d entries, and no entry %d", len(requests), v.Entry)
	}
	if v.Entry > 0 {
		requests = requests[v.Entry-1 : v.Entry]
	}
	if v.Body == "" {
		return requests, nil
	}
	if len(requests) > 1 {
		return nil, errors.New("--body is for one request: choose it with --entry")
	}
	requests[0].Body, err = os.ReadFile(v.Body)
	requests[0].Notes = append(requests[0].Notes, "the body is from "+v.Body)
	return requests, err
}

func readBounded(path string) ([]byte, error) {
	in := os.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxRecording+1))
	if err == nil && len(text) > maxRecording {
		err = fmt.Errorf("it is larger than %d MiB", maxRecording>>20)
	}
	return text, err
}

// endpoints reads the endpoints file for the given mode, else for either. Secrets of
// other providers than the named endpoint's may be missing where this is run.
func (v *VerifyCmd) endpoints() (endpoint.Set, error) {
	if v.Endpoints == "" {
		running, err := dev.ReadEnvironment(v.DataDir)
		if err != nil {
			return endpoint.Set{}, err
		}
		v.Endpoints = cmp.Or(running["SLUICE_ENDPOINTS"], "endpoints.yaml")
	}
	modes := []event.Mode{event.Mode(v.Mode)}
	if v.Mode == "" {
		modes = []event.Mode{event.Live, event.Test}
	}
	var problem error
	for _, mode := range modes {
		d := deployment{Endpoints: v.Endpoints, Mode: mode}
		set, err := d.load(processEnvironment())
		if err == nil {
			return set, nil
		}
		if problem == nil {
			problem = err
		}
		if readable, err := d.readings(); err == nil {
			if to, ok := readable.Get(v.Endpoint); ok {
				set, err := d.loadFor(processEnvironment(), func(p webhook.Provider) bool { return p.Name() == to.Provider.Name() })
				if err == nil {
					return set, nil
				}
				problem = err
			}
		}
	}
	return endpoint.Set{}, problem
}

// diagnosed is the case of one request.
func (v *VerifyCmd) diagnosed(r recorded.Request, set endpoint.Set) (kase diagnose.Case, err error) {
	kase = diagnose.Case{Request: r}
	if kase.Endpoint, err = v.endpoint(r, set); err != nil {
		return kase, err
	}
	for _, other := range set.All() {
		if other.Name != kase.Endpoint.Name && (len(other.Secrets) > 0 || other.Provider.Profile().Secret == "") {
			kase.Others = append(kase.Others, other)
		}
	}
	if v.From != "" {
		if kase.Remote, err = netip.ParseAddr(v.From); err != nil {
			return kase, fmt.Errorf("--from %q is no address, as 192.0.2.7 is", v.From)
		}
	}
	if kase.Certificate, err = v.certificate(&kase); err != nil {
		return kase, err
	}
	kase.Now, kase.Clock = time.Now(), "this machine's"
	date := r.Values("Date")
	switch {
	case v.At != "":
		kase.Clock = "--at"
		if kase.Now, err = parseTime(v.At); err != nil {
			return kase, err
		}
	case len(date) == 1:
		if at, err := http.ParseTime(date[0]); err == nil {
			kase.Now, kase.Clock = at, "the recorded Date header"
			break
		}
		kase.OwnTime = true
	case !r.At.IsZero():
		kase.Now, kase.Clock = r.At, "when the recording says it was sent"
	default:
		kase.OwnTime = true
	}
	return kase, nil
}

func parseTime(text string) (time.Time, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n < 1e12 {
		return time.Unix(n, 0), nil
	}
	for _, layout := range []string{time.RFC3339, time.RFC1123, time.RFC1123Z, "2006-01-02T15:04:05", "2006-01-02 15:04:05"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("--at %q is no time: write 2026-03-14T09:26:53Z, or Unix seconds", text)
}

// endpoint is the one that was named, else the one the request was sent to, else the
// only one.
func (v *VerifyCmd) endpoint(r recorded.Request, set endpoint.Set) (endpoint.Endpoint, error) {
	all := set.All()
	if v.Endpoint != "" {
		if e, ok := set.Get(v.Endpoint); ok {
			return e, nil
		}
		return endpoint.Endpoint{}, fmt.Errorf("no endpoint %q in %s; there are %s", v.Endpoint, v.Endpoints, endpointNames(all))
	}
	path := strings.TrimSuffix(r.Path(), "/")
	if e, ok := set.Get(path[strings.LastIndexByte(path, '/')+1:]); ok {
		return e, nil
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return endpoint.Endpoint{}, fmt.Errorf("the request's path names no endpoint of %s: choose one with --endpoint; there are %s", v.Endpoints, endpointNames(all))
}

func endpointNames(all []endpoint.Endpoint) string {
	names := make([]string, 0, len(all))
	for _, e := range all {
		names = append(names, e.Name)
	}
	return strings.Join(names, ", ")
}

// fetchPatience is how long a certificate may take to come.
const fetchPatience = 6 * time.Second

// certificate is what the request's certificate address serves: of the given file,
// else fetched as ingress does. Who is trusted is ingress's setting, else this
// machine's choice.
func (v *VerifyCmd) certificate(kase *diagnose.Case) (out webhook.Certificate, err error) {
	certified, ok := kase.Endpoint.Provider.(webhook.Certified)
	if v.Certificate == "" && !ok {
		return out, nil
	}
	roots, err := certificate.Roots(processEnvironment()["SLUICE_INGRESS_CERTIFICATE_ROOTS"], os.ReadFile)
	if err != nil {
		return out, err
	}
	if v.Certificate != "" {
		text, err := os.ReadFile(v.Certificate)
		if err != nil {
			return out, fmt.Errorf("read certificate: %w", err)
		}
		chain, err := certificate.Parse(text)
		if err != nil {
			return out, fmt.Errorf("read certificate: %s %w", v.Certificate, err)
		}
		return webhook.Certificate{Chain: chain, Roots: roots}, nil
	}
	r := kase.Request
	address, reason := certified.CertificateURL(webhook.Request{Method: r.Method, URL: kase.Endpoint.RequestURL(r.Query()), Header: r.Values, Body: r.Body})
	if v.Offline || reason != webhook.ReasonNone {
		return out, nil // the diagnosis says it
	}
	store := certificate.New(roots, slog.New(slog.DiscardHandler))
	defer store.Close()
	for began := time.Now(); ; {
		if out, err = store.Get(address); err == nil || time.Since(began) > fetchPatience {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		kase.Request.Notes = append(kase.Request.Notes, "the certificate that it names could not be fetched: "+err.Error())
		return webhook.Certificate{}, nil //nolint:nilerr // the diagnosis says it
	}
	return out, nil
}

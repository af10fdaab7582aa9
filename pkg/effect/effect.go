// Package effect says what must happen outside, once, when an order changes: the
// effects file, which of them an order's story implies, and the key and the body of
// each. It is pure: no I/O, no clock, no logger.
package effect

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// Declaration is one effect as a deployment declares it, checked and ready.
type Declaration struct {
	// Name is part of every key, so it never changes once it has caused anything.
	Name string
	// On are the steps of an order that cause it; any of them does.
	On []Rule
	// Delay is how long a step must stand before it is acted upon.
	Delay time.Duration

	// What follows is for whoever makes the call.

	// URL is where to POST: https, or http to an address that is allowed.
	URL *url.URL
	// Secrets sign the call (Standard Webhooks), each with a signature of its own:
	// several during a rotation. Empty unless Load resolved them.
	Secrets []webhook.Secret
	// Headers go with every call. Their values are there if Load resolved them.
	Headers []Header
	// Timeout is how long one attempt may take, the answer's body included.
	Timeout time.Duration
	// Attempts is how often it is tried before a person is asked.
	Attempts int
	// Allow are private destinations that may be called nevertheless.
	Allow Allow
}

// Header is one header of a call. It prints and logs without its value.
type Header struct {
	Name  string
	value string
}

// Reveal is the value, for the request's own headers and nothing else.
func (h Header) Reveal() string { return h.value }

// String and GoString keep the value out of every text.
func (h Header) String() string   { return "header " + h.Name }
func (h Header) GoString() string { return h.String() }

// Allow are destinations that are not public and may be called: by address, or by
// the name in the URL.
type Allow struct {
	Prefixes []netip.Prefix
	Hosts    []string // lower case
}

// Host says whether a host of a URL is allowed by its name, whatever its address.
func (a Allow) Host(name string) bool {
	return slices.Contains(a.Hosts, strings.ToLower(strings.TrimSuffix(name, ".")))
}

// Addr says whether an address is allowed.
func (a Allow) Addr(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(a.Prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// Set is a deployment's effects. It does not change; the zero value declares none.
type Set struct {
	all    []Declaration
	byName map[string]int
}

// Get is the effect of that name.
func (s Set) Get(name string) (Declaration, bool) {
	i, ok := s.byName[name]
	if !ok {
		return Declaration{}, false
	}
	return s.all[i], true
}

// All lists the effects in the file's order.
func (s Set) All() []Declaration { return s.all }

// Rule says which steps of an order cause an effect.
type Rule struct {
	// To is the status that the order comes to. With From, the step comes from there;
	// where both are the same, its money changed. Without From it is any step into To
	// from another status, but not one that leads back: a refund that bounced makes an
	// order paid again, and that is no second sale. StatusNone: not by status.
	From, To order.Status
	// Dispute, instead, is what a dispute comes to.
	Dispute order.Dispute
	// NoCorrections: what became true only by a correction does not cause it.
	NoCorrections bool
}

// Matches says whether a step caused by a fact of that kind is one of the rule's.
func (r Rule) Matches(s order.Step, kind order.Kind) bool {
	switch {
	case r.Dispute != order.NoDispute:
		return s.To.Dispute == r.Dispute && s.From.Dispute != r.Dispute
	case s.To.Status != r.To:
		return false
	case r.From == order.StatusNone:
		return s.From.Status != r.To && kind != order.KindRefundFailed
	case r.From == r.To:
		return s.From.Status == r.From && (s.From.Paid != s.To.Paid || s.From.Refunded != s.To.Refunded)
	}
	return s.From.Status == r.From
}

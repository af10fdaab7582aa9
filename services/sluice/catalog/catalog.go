// Package catalog is what people should know of each built-in provider: the table
// of `sluice providers`, docs/providers.md, and an entry of the endpoints file to
// begin with. All of it is read from the code that verifies and reads.
package catalog

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/lookup"
	"sluice/pkg/webhook"
)

// Provider is one provider in words.
type Provider struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Docs  string `json:"docs"`
	// Secret is what the endpoint's secret is; empty: it needs none.
	Secret    string `json:"secret,omitempty"`
	Signature string `json:"signature"`
	Covers    string `json:"covers"`
	Leaves    string `json:"leaves_unsigned,omitempty"`
	Instead   string `json:"instead,omitempty"`
	ID        string `json:"id"`
	// Trust is signed or hint.
	Trust string `json:"trust"`
	// Changed is what an id that comes again with another reading means.
	Changed string `json:"changed_body"`
	// Tolerance is how far a signed time may lie from the clock; empty: no time is signed.
	Tolerance string `json:"tolerance,omitempty"`
	Retries   string `json:"retries"`
	// Answer is what an accepted webhook gets.
	Answer string `json:"answer"`
	// Challenge: a GET is answered before the first delivery.
	Challenge bool `json:"challenge,omitempty"`
	Batch     bool `json:"batch,omitempty"`
	// TwoWay: it asks before it pays, at the merchant's public listener.
	TwoWay   bool `json:"two_way,omitempty"`
	NeedsURL bool `json:"needs_url,omitempty"`
	// Certificate: a signing certificate is fetched.
	Certificate bool `json:"certificate,omitempty"`
	// Account says whose signatures are to be believed, if anybody with an account
	// could have made one.
	Account   string   `json:"account,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	// Order: the endpoint may say where the shop put its order id; OrderPaths are where
	// it is looked for until then.
	Order      bool     `json:"order,omitempty"`
	OrderPaths []string `json:"order_paths,omitempty"`
	// Lookup is how its API is asked; nil if Sluice does not ask it.
	Lookup *Lookup `json:"look_up,omitempty"`
	// Silent says why it cannot be asked, where that was looked into.
	Silent string `json:"no_look_up,omitempty"`
}

// Lookup is how a provider's API is asked.
type Lookup struct {
	Docs       string    `json:"docs"`
	Live       string    `json:"live"`
	Test       string    `json:"test"`
	Credential string    `json:"credential"`
	Settings   []Setting `json:"settings,omitempty"`
	Rate       float64   `json:"rate"`
	// Pending is after how long an order that nothing has decided is asked about.
	Pending string `json:"pending"`
	// ByPayment and ByOrder say by which id it can be asked; Leaves is what it does not tell.
	ByPayment bool   `json:"by_payment"`
	ByOrder   bool   `json:"by_order"`
	Leaves    string `json:"leaves_untold,omitempty"`
	// Sweep is what it lists, by which what never arrived is found; nil if it does not.
	Sweep *Sweep `json:"sweep,omitempty"`
	// Required: without it an endpoint refuses to start.
	Required bool `json:"required"`
}

// Sweep is how a provider's lists are gone through.
type Sweep struct {
	Docs  string `json:"docs"`
	Says  string `json:"says"`
	Every string `json:"every"`
	Back  string `json:"back"`
	// Kept is how long the provider lists a thing; empty: it does not say.
	Kept string `json:"kept,omitempty"`
}

// Setting is one of the look-up's settings; Default stands for what is not set.
type Setting struct {
	Name    string `json:"name"`
	Help    string `json:"help"`
	Default string `json:"default,omitempty"`
}

// All are the built-in providers, by name.
func All() []Provider {
	names := webhook.BuiltinNames()
	all := make([]Provider, 0, len(names))
	for _, name := range names {
		p, _ := webhook.Builtin(name)
		all = append(all, describe(p))
	}
	return all
}

// Of is the provider of that name.
func Of(name string) (Provider, error) {
	p, ok := webhook.Builtin(name)
	if !ok {
		return Provider{}, fmt.Errorf("no provider %q is built in; there are %s (others are declared in the endpoints file)", name, strings.Join(webhook.BuiltinNames(), ", "))
	}
	return describe(p), nil
}

var changed = map[webhook.ChangedBody]string{
	webhook.Final:  "final: the first stands, and a person is told",
	webhook.Update: "update: the latest by its own time counts",
}

func describe(p webhook.Provider) Provider {
	f := p.Profile()
	out := Provider{
		Name: p.Name(), Title: f.Title, Docs: f.Docs, Secret: f.Secret, Signature: f.Signature, Covers: f.Covers, Leaves: f.Leaves, Instead: f.Instead,
		ID: f.ID, Trust: "signed", Changed: changed[p.ChangedBody()], Retries: retries(f.Retries), TwoWay: f.TwoWay, NeedsURL: f.NeedsURL, Answer: answer(p, f),
	}
	if f.Trust == event.Hint {
		out.Trust = "hint"
	}
	if t, ok := p.(webhook.Timed); ok {
		out.Tolerance = tolerance(t.Tolerance().TwoSided())
	}
	if a, ok := p.(webhook.Accounted); ok {
		out.Account = a.Account()
	}
	if a, ok := p.(webhook.Addressed); ok {
		for _, prefix := range a.Addresses() {
			out.Addresses = append(out.Addresses, short(prefix))
		}
	}
	_, out.Challenge = p.(webhook.Challenging)
	_, out.Batch = p.(webhook.Batched)
	_, out.Certificate = p.(webhook.Certified)
	if o, ok := p.(webhook.Ordered); ok {
		out.Order, out.OrderPaths = true, o.OrderPaths()
	}
	out.Silent = lookup.Silent(p.Name())
	if api, ok := lookup.For(p.Name()); ok {
		out.Lookup = &Lookup{Docs: api.Docs, Live: api.Live, Test: api.Test, Credential: api.Credential, Rate: api.Rate, Pending: span(api.Pending),
			ByPayment: api.ByPayment, ByOrder: api.ByOrder, Leaves: api.Leaves, Required: f.Trust == event.Hint}
		if l, ok := api.Listing(); ok {
			out.Lookup.Sweep = &Sweep{Docs: l.Docs, Says: l.Says, Every: span(l.Every), Back: span(l.Back)}
			if l.Kept > 0 {
				out.Lookup.Sweep.Kept = span(l.Kept)
			}
		}
		for _, s := range api.Settings {
			out.Lookup.Settings = append(out.Lookup.Settings, Setting{s.Name, s.Help, s.Default})
		}
	}
	return out
}

// short is a range, or the address it is.
func short(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

func answer(p webhook.Provider, f webhook.Profile) string {
	if f.TwoWay {
		return "its own protocol's, from the merchant role"
	}
	a, ok := p.(webhook.Answering)
	if !ok {
		return "200, no body"
	}
	got := a.Answer(func(string) []string { return nil }, []byte("{}"))
	if len(got.Body) == 0 {
		return "200, no body"
	}
	return fmt.Sprintf("200, `%s`", got.Body)
}

func retries(d time.Duration) string {
	switch d {
	case webhook.RetriesUnknown:
		return "not documented"
	case 0:
		return "none by itself"
	}
	return "for " + span(d)
}

// span is a duration in the largest units that fit.
func span(d time.Duration) string {
	var parts []string
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}} {
		if n := d / u.unit; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, u.name))
			d -= n * u.unit
		}
	}
	if len(parts) == 0 {
		return "0 s"
	}
	return strings.Join(parts, " ")
}

func tolerance(t webhook.Tolerance) string {
	if t.Past == t.Future {
		return span(t.Past) + " both ways"
	}
	return span(t.Past) + " old, " + span(t.Future) + " ahead"
}

// Needs is what an endpoint must have beside its secrets, in short.
func (p Provider) Needs() string {
	var all []string
	if p.Secret == "" {
		all = append(all, "no secret")
	}
	if p.NeedsURL {
		all = append(all, "url")
	}
	if p.Account != "" {
		all = append(all, "account")
	}
	switch {
	case p.Lookup != nil && p.Lookup.Required:
		all = append(all, "lookup")
	case p.Unusable():
		all = append(all, "a look-up that there is none of yet")
	}
	return strings.Join(all, ", ")
}

// Asked is by what its API can be asked, in short.
func (p Provider) Asked() string {
	if p.Lookup == nil {
		return "no"
	}
	var all []string
	for _, by := range []struct {
		name string
		can  bool
	}{{"payment", p.Lookup.ByPayment}, {"order", p.Lookup.ByOrder}, {"sweep", p.Lookup.Sweep != nil}} {
		if by.can {
			all = append(all, by.name)
		}
	}
	return "by " + strings.Join(all, ", ")
}

// Unusable says that it gives only hints and Sluice cannot ask its API: an endpoint
// of it refuses to start.
func (p Provider) Unusable() bool { return p.Trust == "hint" && p.Lookup == nil }

// Kind is whether events are believed, in short.
func (p Provider) Kind() string {
	kind := p.Trust
	if p.TwoWay {
		kind += ", two-way"
	}
	if p.Batch {
		kind += ", batches"
	}
	return kind
}

// Endpoint is an entry of the endpoints file to begin with. Each reference names
// what is to be set.
func (p Provider) Endpoint() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	variable := strings.ToUpper(p.Name)
	line("- name: %s", strings.ReplaceAll(p.Name, "_", "-"))
	line("  provider: %s", p.Name)
	if p.Secret != "" {
		line("  secrets: [env:%s_SECRET]  # %s", variable, p.Secret)
	}
	if p.NeedsURL {
		line("  url: https://shop.example/webhooks/%s  # as it is entered at the provider, to the letter", strings.ReplaceAll(p.Name, "_", "-"))
	}
	if p.Account != "" {
		line("  account: YOUR-ACCOUNT  # %s", p.Account)
	}
	if l := p.Lookup; l != nil && l.Required {
		line("  lookup:")
		line("    credentials: [env:%s_API_KEY]  # %s", variable, l.Credential)
		var must []Setting
		for _, s := range l.Settings {
			if s.Default == "" {
				must = append(must, s)
			}
		}
		if len(must) > 0 {
			line("    settings:")
		}
		for _, s := range must {
			line("      %s: \"…\"  # %s", s.Name, s.Help)
		}
	}
	return b.String()
}

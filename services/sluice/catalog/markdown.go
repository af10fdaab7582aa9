package catalog

import (
	"fmt"
	"strings"
)

// Markdown is docs/providers.md.
func Markdown(all []Provider) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Providers")
	line("")
	line("Printed from `pkg/webhook` and `pkg/lookup`; do not edit. `make generate` prints it anew, and a test fails while it is stale.")
	line("On a terminal: `sluice providers`, and `sluice providers NAME` for one. Any other HMAC scheme is declared in the endpoints file; see `endpoints.example.yaml`.")
	line("")
	line("- **Trust**: of a *signed* event every decisive field is bound by its signature, or held to what is stored. A *hint* is kept and never believed: what it is about is asked of the provider's API, and the answer counts.")
	line("- **Needs** is what an endpoint must have beside its secrets, or it refuses to start.")
	line("- **Repeats** is for how long the provider delivers again by itself; what a person sends again there comes on top.")
	line("- **Look-up** is by what its API can be asked, with a link to where the provider documents it: by the provider's payment id, by the shop's order id, and by a sweep over what it lists.")
	line("")
	line("| Provider | Signature | Covered | Event id | Trust | Repeats | Answer | Look-up | Needs |")
	line("|---|---|---|---|---|---|---|---|---|")
	for _, p := range all {
		line("| [%s](#%s) `%s` | %s | %s | %s | %s | %s | %s | %s | %s |", cell(p.Title), anchor(p.Name), p.Name, cell(p.Signature), cell(p.Covers), cell(p.ID), p.Kind(), p.Retries, cell(p.Answer), p.asked(), p.Needs())
	}
	for _, p := range all {
		line("")
		line("## <a id=\"%s\"></a>%s", anchor(p.Name), p.Title)
		line("")
		for _, f := range p.Facts() {
			line("- **%s**: %s", f[0], f[1])
		}
		line("")
		line("```yaml")
		fmt.Fprint(&b, p.Endpoint())
		line("```")
	}
	return b.String()
}

// Facts are all that is known of a provider, each a name and a text.
func (p Provider) Facts() (all [][2]string) {
	add := func(name, text string) {
		if text != "" {
			all = append(all, [2]string{name, text})
		}
	}
	add("Provider", "`"+p.Name+"`, "+p.Docs)
	add("Secret", p.Secret)
	if p.Secret == "" {
		add("Secret", "none: the scheme has none")
	}
	add("Signature", p.Signature)
	add("Covers", p.Covers)
	if p.Leaves != "" {
		add("Does not cover", p.Leaves)
		add("So", p.Instead)
	}
	add("Signed time", p.Tolerance)
	add("Event id", p.ID)
	add("The same id with another body", p.Changed)
	if p.Trust == "hint" {
		add("Trust", "hint: no event counts before the provider's API was asked")
	} else {
		add("Trust", "signed")
	}
	add("Repeats", p.Retries)
	add("Answer", p.Answer)
	if p.TwoWay {
		add("Two-way", "it asks before it pays; `POST /webhooks/{endpoint}` of the merchant role's public listener")
	}
	if p.Batch {
		add("Batches", "one request may hold many events; one bad item refuses all")
	}
	if p.Challenge {
		add("Challenge", "a GET of the provider is answered, by which it checks the address")
	}
	if p.Certificate {
		add("Certificate", "the request names it; it is fetched from the provider's own hosts over https, checked and kept for a time")
	}
	if p.NeedsURL {
		add("URL", "the endpoint's `url` is signed; it must be as the provider was given it, to the letter")
	}
	add("Account", p.Account)
	add("Addresses", strings.Join(p.Addresses, ", "))
	switch {
	case len(p.OrderPaths) > 0:
		add("Order id", "`"+strings.Join(p.OrderPaths, "`, `")+"`; the endpoint's `order` names other places")
	case p.Order:
		add("Order id", "nowhere by itself: the endpoint's `order` says where the shop put it")
	}
	if p.Unusable() {
		add("Look-up", "none: Sluice cannot ask its API yet, so an endpoint of it refuses to start")
	}
	if l := p.Lookup; l != nil {
		add("Look-up", fmt.Sprintf("%s, %s; at most %g requests a second; an order that nothing has decided is asked about after %s", p.Asked(), l.Docs, l.Rate, l.Pending))
		add("Its credential", l.Credential)
		settings := ""
		for _, s := range l.Settings {
			settings += fmt.Sprintf("; `%s`: %s", s.Name, s.Help)
			if s.Default != "" {
				settings += " (" + s.Default + ")"
			}
		}
		add("Its settings", strings.TrimPrefix(settings, "; "))
		add("It does not tell", l.Leaves)
		if s := l.Sweep; s != nil {
			kept := ""
			if s.Kept != "" {
				kept = ", which it keeps for " + s.Kept
			}
			add("Sweep", fmt.Sprintf("every %s over %s%s, reaching %s back; %s", s.Every, s.Says, kept, s.Back, s.Docs))
		}
	} else if p.Silent != "" {
		add("Look-up", "none: "+p.Silent)
	}
	return all
}

// asked is Asked, with a link to the documentation.
func (p Provider) asked() string {
	if p.Lookup == nil {
		return p.Asked()
	}
	return fmt.Sprintf("[%s](%s)", p.Asked(), p.Lookup.Docs)
}

func anchor(name string) string { return strings.ReplaceAll(name, "_", "-") }

// cell is a text in a table's cell.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

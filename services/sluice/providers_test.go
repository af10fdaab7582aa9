package main

import (
	"encoding/json"
	"net/url"
	"os"
	"strings"
	"testing"

	"sluice/pkg/webhook"
	"sluice/services/sluice/catalog"
)

func TestTheProvidersDocumentIsWhatTheCodeSays(t *testing.T) {
	const path = "../../docs/providers.md"
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out, err := sluice(t, "providers", "--format", "markdown")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != out {
		t.Errorf("%s is stale; run: make generate", path)
	}
}

func TestEveryProviderIsToldInEveryFormat(t *testing.T) {
	text, err := sluice(t, "providers")
	if err != nil {
		t.Fatal(err)
	}
	out, err := sluice(t, "providers", "--format", "json")
	if err != nil {
		t.Fatal(err)
	}
	var all []catalog.Provider
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != len(webhook.BuiltinNames()) {
		t.Errorf("%d providers, want %d", len(all), len(webhook.BuiltinNames()))
	}
	titles := map[string]string{}
	for _, p := range all {
		if !strings.Contains(text, "\n  "+p.Name+" ") {
			t.Errorf("%s is not in the table", p.Name)
		}
		if other, taken := titles[p.Title]; taken {
			t.Errorf("%s and %s are both called %s", p.Name, other, p.Title)
		}
		titles[p.Title] = p.Name
		for what, address := range map[string]string{"docs": p.Docs, "look-up": lookUpDocs(p)} {
			if u, err := url.Parse(address); address != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
				t.Errorf("%s: %s is no address: %q", p.Name, what, address)
			}
		}
		one, err := sluice(t, "providers", p.Name)
		if err != nil {
			t.Error(err)
		}
		for _, want := range []string{p.Title, p.Docs, plainText(p.Signature), plainText(p.Covers), plainText(p.Leaves), plainText(p.Instead), plainText(p.ID), p.Secret, "provider: " + p.Name} {
			if !strings.Contains(one, want) {
				t.Errorf("%s is told without %q", p.Name, want)
			}
		}
	}
}

// What is shown as an entry to begin with starts, once what it names is set.
func TestTheEndpointShownForEachProviderIsOneThatStarts(t *testing.T) {
	for _, p := range catalog.All() {
		text := "endpoints:\n"
		for line := range strings.Lines(p.Endpoint()) {
			text += "  " + line
		}
		e := environment{"SLUICE_MODE": "test", "SLUICE_ENDPOINTS": endpoints(t, text), "KAFKA_BROKERS": "a:9092", "DATABASE_URL": "postgres://x", "SLUICE_MERCHANT_PUBLIC_ADDRESS": "127.0.0.1:8082",
			strings.ToUpper(p.Name) + "_API_KEY": "api-key-of-this-very-test"}
		said := ""
		for _, s := range secretsOfEveryForm(t) {
			e[strings.ToUpper(p.Name)+"_SECRET"] = s
			if said = check(t, e, servedBy(p)); said == "" {
				break
			}
		}
		if refused := strings.Contains(said, "cannot ask its API"); refused != p.Unusable() || !refused && said != "" {
			t.Errorf("%s:\n%s\n%s", p.Name, text, said)
		}
	}
}

func TestAnUnknownProviderIsAskedWrongly(t *testing.T) {
	if _, err := sluice(t, "providers", "mock"); err == nil || exitCode(err) != 2 || !strings.Contains(err.Error(), "stripe") {
		t.Error(err)
	}
	if _, err := sluice(t, "providers", "--format", "xml"); err == nil {
		t.Error("printed XML")
	}
}

func lookUpDocs(p catalog.Provider) string {
	if p.Lookup == nil {
		return ""
	}
	return p.Lookup.Docs
}

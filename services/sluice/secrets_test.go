package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"sluice/pkg/webhook"
	"sluice/services/sluice/catalog"
)

// secretsOfEveryForm are secrets such that every provider's form is among them.
func secretsOfEveryForm(t *testing.T) []string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return []string{
		"whsec_YW5vdGhlci1zZWNyZXQtb2YtMzItYnl0ZXMtMTIzNA==",
		"0f3b9a77c1d24e58a6b0f3b9a77c1d24e58a6b0f3b9a77c1d24e58a6b0f3b9a7",
		"pdl_ntfset_01hsdn8d43dt7mezr1ef2jtbaw_hK7",
		"public-0f3b9a77:private-77c1d24e58a6",
		"An0ther-Secret-77c1d24e58a6",
		"96605875FF6516633",
		"sk_test_0f3b9a77c1d24e58",
		string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
	}
}

// rightSecret is a secret that a provider takes.
func rightSecret(t *testing.T, p webhook.Provider, all []string) string {
	t.Helper()
	for _, text := range all {
		if s, err := webhook.NewSecret("x", text); err == nil && p.CheckSecret(s) == nil {
			return text
		}
	}
	t.Fatalf("%s takes no secret of any form that is known here: add one of its form", p.Name())
	return ""
}

// entryOf is an endpoint of a provider with these references of secrets.
func entryOf(p catalog.Provider, references ...string) string {
	text, secrets := "endpoints:\n", false
	for line := range strings.Lines(p.Endpoint()) {
		if strings.Contains(line, "secrets:") {
			line, secrets = "  secrets: ["+strings.Join(references, ", ")+"]\n", true
		}
		text += "  " + line
	}
	if !secrets {
		return ""
	}
	return text
}

// servedBy is the role that verifies a provider's requests.
func servedBy(p catalog.Provider) string {
	if p.TwoWay {
		return "merchant"
	}
	return "ingress"
}

// O05: every provider, every form of no secret: it does not start, the message
// names the variable and not the value, and the exit is not a success.
func TestADeploymentWithoutARealSecretDoesNotStartWhateverTheProvider(t *testing.T) {
	all := secretsOfEveryForm(t)
	const unset = "\x00"
	forms := map[string]string{
		"unset": unset, "empty": "", "blank": "   ", "a line feed": "\n", "a CRLF": "\r\n", "a tab": "\t", "changeme": "changeme", "a template": "${WEBHOOK_SECRET}",
		"in angle brackets": "<your secret>", "points": "…", "xxx": "xxxxxxxx", "a placeholder": "whsec_changeme", "GitHub's sample": "It's a Secret to Everybody",
		"Svix's sample": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "in quotation marks and blank": " \" \" ",
	}
	for _, p := range catalog.All() {
		provider, _ := webhook.Builtin(p.Name)
		e := environment{"SLUICE_MODE": "live", "KAFKA_BROKERS": "a:9092", "DATABASE_URL": "postgres://x", "SLUICE_MERCHANT_PUBLIC_ADDRESS": "127.0.0.1:8082", strings.ToUpper(p.Name) + "_API_KEY": "api-key-of-this-very-test"}
		if entryOf(p) == "" || p.Unusable() {
			continue // it has no secret: it is held to addresses, or a certificate
		}
		e["REAL"] = rightSecret(t, provider, all)
		start := func(references ...string) string {
			e["SLUICE_ENDPOINTS"] = endpoints(t, entryOf(p, references...))
			return check(t, e, servedBy(p))
		}
		if said := start("env:REAL"); said != "" {
			t.Errorf("%s with a real secret: %s", p.Name, said)
			continue
		}
		for form, value := range forms {
			delete(e, "BAD_ONE")
			if value != unset {
				e["BAD_ONE"] = value
			}
			lists := [][]string{{"env:BAD_ONE"}}
			if value == unset || value == "" { // one real secret beside it does not help
				lists = append(lists, []string{"env:BAD_ONE", "env:REAL"}, []string{"env:REAL", "env:BAD_ONE"})
			}
			for _, references := range lists {
				said := start(references...)
				if !strings.Contains(said, "BAD_ONE") || !strings.Contains(said, "secrets["+fmt.Sprint(slices.Index(references, "env:BAD_ONE"))+"]") {
					t.Errorf("%s, %s among %v: %q", p.Name, form, references, said)
				}
				if strings.TrimSpace(value) != "" && value != unset && len(value) > 3 && strings.Contains(strings.ReplaceAll(said, e["SLUICE_ENDPOINTS"], ""), value) || strings.Contains(said, e["REAL"]) {
					t.Errorf("%s, %s: the value is in %q", p.Name, form, said)
				}
			}
		}
		// A mounted file ends in a line feed, which is no part of the secret.
		file := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(file, []byte(e["REAL"]+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if said := start("file:" + file); said != "" {
			t.Errorf("%s with a mounted file: %s", p.Name, said)
		}
		for _, none := range []string{"secrets: []", "secrets: ['']", "secrets: [' ']", "secrets: [null]", ""} {
			text := strings.Replace(entryOf(p, "env:REAL"), "secrets: [env:REAL]", none, 1)
			e["SLUICE_ENDPOINTS"] = endpoints(t, text)
			if said := check(t, e, servedBy(p)); said == "" {
				t.Errorf("%s starts with %q", p.Name, none)
			}
		}
	}
}

// O05: the process itself ends without success, and says which variable.
func TestTheRolesEndWithoutSuccessWhenASecretIsMissing(t *testing.T) {
	file := endpoints(t, "endpoints: [{name: one, provider: stripe, secrets: [env:MISSING_IN_THIS_TEST]}]\n")
	for name, value := range map[string]string{"SLUICE_ENDPOINTS": file, "SLUICE_MODE": "live", "KAFKA_BROKERS": "127.0.0.1:1", "DATABASE_URL": "postgres://127.0.0.1:1/x"} {
		t.Setenv(name, value)
	}
	for _, args := range [][]string{{"ingress"}, {"run", "ingress", "processor"}, {"config", "check"}} {
		out, err := sluice(t, args...)
		if err == nil || exitCode(err) == 0 || !strings.Contains(out+err.Error(), "MISSING_IN_THIS_TEST") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}

// O09: nothing but the built-in providers, by their exact names, and what is
// declared with a signature.
func TestNoProviderForTryingOutAndNoWayAroundVerification(t *testing.T) {
	e := environment{"SLUICE_MODE": "live", "KAFKA_BROKERS": "a:9092", "S": "whsec_of_this_very_test_only"}
	for _, mode := range []string{"live", "test"} {
		e["SLUICE_MODE"] = mode
		for _, name := range []string{"mock", "test", "fake", "dummy", "generic", "debug", "sandbox", "none", "unsigned", "demo", "custom", "STRIPE", "Stripe", "stripe%00", `"stripe\0"`, "stripe/", "../stripe", "%2e%2e/stripe", "' stripe'", "''", "null"} {
			e["SLUICE_ENDPOINTS"] = endpoints(t, "endpoints: [{name: one, provider: "+name+", secrets: [env:S]}]\n")
			if said := check(t, e, "ingress"); said == "" {
				t.Errorf("%s, provider %s: it starts", mode, name)
			}
		}
		for _, field := range []string{"skip_verification: true", "verify: false", "insecure: true", "allow_unsigned: true", "signature: none", "unsigned: true", "debug: true", "trust: signed"} {
			e["SLUICE_ENDPOINTS"] = endpoints(t, "endpoints: [{name: one, provider: stripe, secrets: [env:S], "+field+"}]\n")
			if said := check(t, e, "ingress"); said == "" {
				t.Errorf("%s, %s: it starts", mode, field)
			}
		}
		for _, signature := range []string{"{}", "{header: X, algorithm: none, encoding: hex}", "{header: X, encoding: hex}", "{algorithm: sha256, encoding: hex}", "{header: X, algorithm: sha256, encoding: hex, signed: ''}", "{header: X, algorithm: sha256, encoding: hex, signed: fixed}"} {
			e["SLUICE_ENDPOINTS"] = endpoints(t, "endpoints: [{name: one, provider: declared, secrets: [env:S], declared: {signature: "+signature+", reading: {id: id, type: type}}}]\n")
			said := check(t, e, "ingress")
			if defaulted := strings.Contains(signature, "signed: ''"); said == "" && !defaulted { // empty is the default: the body
				t.Errorf("%s, signature %s: it starts", mode, signature)
			}
		}
	}
	around := regexp.MustCompile(`(?i)skip|insecure|unsafe|unsigned|no_?verif|verif.*off|bypass|mock|fake`)
	parser, err := kong.New(&cli{}, kong.Bind(&console{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range parser.Model.Children {
		isRole := slices.ContainsFunc(roles, func(r role) bool { return r.name == command.Name })
		if help := command.Help + command.Detail; isRole && around.MatchString(help) {
			t.Errorf("%s has a way around: %s", command.Name, around.FindString(help))
		}
	}
	for _, flag := range []string{"--insecure", "--skip-verification", "--no-verify", "--allow-unsigned", "--mock", "--dev", "--debug"} {
		for _, r := range roles {
			if _, err := sluice(t, r.name, flag); err == nil || exitCode(err) != 2 {
				t.Errorf("%s %s: %v", r.name, flag, err)
			}
		}
	}
	for _, name := range webhook.BuiltinNames() {
		if around.MatchString(name) || regexp.MustCompile(`test|dummy|debug|sandbox|generic`).MatchString(name) {
			t.Errorf("provider %s sounds like one for trying out", name)
		}
	}
}

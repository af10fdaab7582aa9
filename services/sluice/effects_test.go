package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/pkg/effect"
	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// An effect fails, and a person has it sent again from a terminal.
func TestAPersonSeesAFailedEffectAndSendsItAgain(t *testing.T) {
	database := testkit.Database(t)
	file := filepath.Join(t.TempDir(), "effects.yaml")
	text := "effects:\n  - {name: fulfil, on: {to: paid}, url: \"https://a.example\", secret: env:S}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DATABASE_URL", database.URL)
	t.Setenv("USER", "anna")
	t.Setenv("SLUICE_EFFECTS", file)
	store, err := postgres.Open(t.Context(), database, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	set, err := effect.LoadWithoutSecrets(file, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.WithEffects(set).DeclareEffects(t.Context(), time.Now(), "processor"); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if _, err := store.Register(t.Context(), now, postgres.Registration{OrderID: "A-1", Amount: 1250, Currency: "EUR"}); err != nil {
		t.Fatal(err)
	}
	err = store.InTx(t.Context(), func(tx postgres.Tx) error {
		_, err := tx.Apply(t.Context(), now, []postgres.Fact{{
			Entry: order.Entry{Hash: event.Event{Source: "stripe", ID: "evt_1"}.Hash(), Source: "stripe", Kind: order.KindPaid, Time: now.UnixMilli(),
				Payment: "pi_1", Amount: 1250, Currency: "EUR"},
			OrderID: "A-1", EventID: "evt_1", EventType: "payment_intent.succeeded", Endpoint: "stripe-eu", AppendedAt: now,
		}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	has := func(out string, err error, all ...string) {
		t.Helper()
		if err != nil {
			out += err.Error()
		}
		for _, want := range all {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	}
	claimed, err := store.ClaimEffects(t.Context(), now.Add(time.Second), "test", postgres.Wanted{Name: "fulfil", N: 1, Lease: time.Minute})
	if err != nil || len(claimed) != 1 {
		t.Fatalf("claimed %+v, %v", claimed, err)
	}
	key := claimed[0].IdempotencyKey()
	out, err := sluice(t, "effects", "list")
	has(out, err, key+` +A-1 +paid pi_1 .* leased +1`)
	out, err = sluice(t, "effects", "send-again", key, "--reason", "mended")
	has(out, err, `did not fail`, `not sent again: 1`)
	_, err = store.FinishEffects(t.Context(), now, postgres.Attempt{Effect: claimed[0], Outcome: postgres.AttemptFailed, StartedAt: now, Latency: 12 * time.Millisecond,
		Status: 422, Class: "answer", Answer: "no such shop"})
	if err != nil {
		t.Fatal(err)
	}
	out, err = sluice(t, "effects", "list", "--state", "failed")
	has(out, err, key, `failed +1, the last: answer \(HTTP 422\)`)
	out, err = sluice(t, "effects", "show", key)
	has(out, err, `1 +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +12 ms +answer \(HTTP 422\) +no such shop`, `"effect":"fulfil"`, `send-again `+key)
	out, err = sluice(t, "review", "list")
	has(out, err, `effect failed: effect "fulfil" of order A-1`)
	out, err = sluice(t, "review", "show", "1")
	has(out, err, `sluice effects send-again `+key)
	out, err = sluice(t, "explain", "A-1")
	has(out, err, `What it causes outside`, key+` +paid pi_1 +failed, answer +1`)
	out, err = sluice(t, "effects", "send-again", "--failed", "fulfil", "--reason", "mended", "--json")
	has(out, err, `"sent_again": \[\n +"`+key)
	out, err = sluice(t, "effects", "send-again", key, "--reason", "mended", "--json")
	has(out, err, `"not_sent_again": \{\n +"`+key+`": "send effect `)
	out, err = sluice(t, "effects", "send-again", "--failed", "mails", "--reason", "mended")
	has(out, err, `none of the effect "mails" failed`)
	out, err = sluice(t, "effects", "list", "--order", "A-1")
	has(out, err, key, `pending, due`)
	out, err = sluice(t, "review", "list")
	has(out, err, `nothing waits`)
	for _, wrong := range [][]string{{"effects", "show", "fulfil"}, {"effects", "list", "--state", "lost"}, {"effects", "send-again", "--reason", "x"}} {
		if _, err := sluice(t, wrong...); exitCode(err) != 2 {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

func TestWhoDecidesWithOtherEffectsThanTheRolesIsRefused(t *testing.T) {
	database := testkit.Database(t)
	t.Setenv("DATABASE_URL", database.URL)
	t.Setenv("USER", "anna")
	t.Setenv("SLUICE_EFFECTS", "")
	store, err := postgres.Open(t.Context(), database, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	file := filepath.Join(t.TempDir(), "effects.yaml")
	text := "effects:\n  - {name: fulfil, on: {to: paid}, url: \"https://a.example\", secret: env:S}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := effect.LoadWithoutSecrets(file, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.WithEffects(set).DeclareEffects(t.Context(), time.Now(), "processor"); err != nil {
		t.Fatal(err)
	}
	if _, err := sluice(t, "review", "dismiss", "1", "--reason", "x"); !errors.Is(err, errOtherEffects) || !strings.Contains(err.Error(), "processor") {
		t.Errorf("decided without the effects of the processor: %v", err)
	}
	checked := func() (problem error) {
		sections, err := configCheckCmd{Roles: []string{"merchant"}, Connect: true}.check(t.Context(), processEnvironment())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sections {
			if s.name == "the running roles have these effects" {
				return s.err
			}
		}
		t.Fatalf("nothing was said about effects: %+v", sections)
		return nil
	}
	if err := checked(); !errors.Is(err, errOtherEffects) || !strings.Contains(err.Error(), "processor") {
		t.Errorf("config check without the effects of the processor: %v", err)
	}
	t.Setenv("SLUICE_EFFECTS", file)
	if err := checked(); err != nil {
		t.Errorf("config check with the effects of the processor: %v", err)
	}
	if _, err := sluice(t, "review", "dismiss", "1", "--reason", "x"); errors.Is(err, errOtherEffects) || !errors.Is(err, postgres.ErrNoReviewItem) {
		t.Errorf("the same effects: %v", err)
	}
}

func TestConfigCheckNamesWhatIsWrongInTheEffectsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "effects.yaml")
	if err := os.WriteFile(file, []byte("effects:\n  - {name: fulfil, on: {to: payed}, url: \"https://a.example\", secret: env:S}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLUICE_EFFECTS", file)
	for _, role := range []string{"processor", "merchant"} {
		sections, err := configCheckCmd{Roles: []string{role}}.check(t.Context(), processEnvironment())
		if err != nil || len(sections) != 2 || sections[1].err == nil || !strings.Contains(sections[1].err.Error(), `effects.yaml:2: effect "fulfil": on[0]`) {
			t.Errorf("%s: %+v, %v", role, sections, err)
		}
	}
}

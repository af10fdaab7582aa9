package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// An event is held, and a person decides on it from a terminal.
func TestAPersonSeesAHeldEventClaimsItAndDecides(t *testing.T) {
	database := testkit.Database(t)
	t.Setenv("DATABASE_URL", database.URL)
	t.Setenv("USER", "anna")
	store, err := postgres.Open(t.Context(), database, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if out, err := sluice(t, "review", "list"); err != nil || !strings.Contains(out, "nothing waits") {
		t.Fatalf("%v\n%s", err, out)
	}
	now := time.Now()
	if _, err := store.Register(t.Context(), now, postgres.Registration{OrderID: "A-1", Amount: 1250, Currency: "EUR"}); err != nil {
		t.Fatal(err)
	}
	err = store.InTx(t.Context(), func(tx postgres.Tx) error {
		_, err := tx.Apply(t.Context(), now, []postgres.Fact{{
			Entry: order.Entry{Hash: event.Event{Source: "stripe", ID: "evt_1"}.Hash(), Source: "stripe", Kind: order.KindPaid, Time: now.UnixMilli(),
				Payment: "pi_1", Amount: 1249, Currency: "EUR"},
			OrderID: "A-1", EventID: "evt_1", EventType: "payment_intent.succeeded", Endpoint: "stripe-eu", AppendedAt: now, Offset: 17,
			Body: []byte(`{"card":"4242424242424242"}`),
		}})
		if err == nil {
			_, err = tx.ReviewDueHeldEvents(t.Context(), now.Add(time.Hour), 10)
		}
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
		if strings.Contains(out, "4242") {
			t.Errorf("a body was printed:\n%s", out)
		}
	}
	out, err := sluice(t, "review", "list")
	has(out, err, `1 +\d{4}.* +A-1 +held: amount mismatch +open`)
	out, err = sluice(t, "review", "show", "1")
	has(out, err, `worth +12\.50 EUR`, `says +paid 12\.49 EUR`, `partition 0, offset 17; 27 bytes`, `pending → paid +paid 12\.49 EUR`)
	out, err = sluice(t, "review", "accept", "1", "--reason", "rounded")
	has(out, err, `not claimed`, `sluice review claim 1`)
	out, err = sluice(t, "review", "claim", "1", "--as", "bo")
	has(out, err, `claimed by bo`)
	out, err = sluice(t, "review", "claim", "1")
	has(out, err, `somebody else has claimed it: bo`)
	if _, err := sluice(t, "review", "accept", "1", "--as", "bo"); err == nil || !strings.Contains(err.Error(), "--reason") {
		t.Errorf("no reason was asked for: %v", err)
	}
	out, err = sluice(t, "review", "accept", "1", "--as", "bo", "--reason", "rounded", "--amount", "12.505")
	has(out, err, `more decimal places`)
	out, err = sluice(t, "review", "accept", "1", "--as", "bo", "--reason", "rounded", "--amount", "12.50")
	has(out, err, `item 1: accept`, `before: order A-1 is pending`, `now: +order A-1 is paid at version 2; the event is applied`)
	out, err = sluice(t, "review", "accept", "1", "--as", "bo", "--reason", "rounded", "--json")
	has(out, err, `"repeated": true`)
	var items []postgres.ReviewSummary
	out, err = sluice(t, "review", "list", "--all", "--json")
	if jsonErr := json.Unmarshal([]byte(out), &items); err != nil || jsonErr != nil || len(items) != 1 || items[0].SettledBy != "bo" || items[0].Decision != postgres.Accept {
		t.Errorf("%v, %v\n%s", err, jsonErr, out)
	}
	if out, err = sluice(t, "review", "show", "9"); err == nil {
		t.Errorf("item 9 is there:\n%s", out)
	}
}

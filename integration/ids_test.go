package integration

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/integration/harness"
	"sluice/pkg/kafka"
)

// Case O16: ids of every length, and two long ones that differ only at their ends.
// Up to 255 bytes an id is processed; what is longer, empty, blank or null is kept
// for people under an id made from its bytes, and never cut: nothing is a
// duplicate of anything else, and the next event flows.
func TestLongAndEmptyIdsAreNeverCutAndNeverTakenForEachOther(t *testing.T) {
	d := harness.New(t, 1)
	ingress, merchant := d.Start("ingress"), d.Start("merchant")
	d.Start("processor")
	d.Start("relay")
	d.Register(merchant, "I-1", 100)
	twin := strings.Repeat("t", 299)
	accepted := 0
	send := func(id any) {
		t.Helper()
		text, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		body := harness.Intent("evt_placeholder", "payment_failed", "I-1", "pi_i", 100, time.Now())
		body = []byte(strings.Replace(string(body), `"evt_placeholder"`, string(text), 1))
		switch got := d.Post(ingress, harness.Stripe(body)); got {
		case http.StatusOK:
			accepted++
		default:
			t.Errorf("an id of %d characters was answered %d, want 200", len(text)-2, got)
		}
	}
	readable := []string{"e", strings.Repeat("a", 64), strings.Repeat("b", 65), strings.Repeat("c", 255)}
	for _, id := range readable {
		send(id)
	}
	kept := []any{strings.Repeat("d", 256), strings.Repeat("f", 1024), strings.Repeat("g", 70_000), twin + "1", twin + "2", "", "   ", nil}
	for _, id := range kept {
		send(id)
	}
	d.Accept(ingress, harness.Stripe(harness.Intent("evt_after", "succeeded", "I-1", "pi_i2", 100, time.Now().Add(time.Minute))))

	d.Becomes("I-1", "paid")
	d.Sound([]string{"e", "evt_after"})
	if n := d.Count("SELECT count(*) FROM processed_events"); n != int64(len(readable))+1 {
		t.Errorf("%d events are processed, want %d", n, len(readable)+1)
	}
	if n := d.Count("SELECT count(*) FROM dead_letters"); n != int64(len(kept)) {
		t.Errorf("%d dead letters, want %d: each of its own", n, len(kept))
	}
	if n := len(d.Records(kafka.Raw)); n != accepted+1 {
		t.Errorf("%d records in the raw topic, want %d", n, accepted+1)
	}
}

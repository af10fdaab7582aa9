package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/integration/harness"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
)

const acme = `endpoints:
  - name: acme
    provider: declared
    secrets: [env:STRIPE_SECRET]
    declared:
      signature: {header: x-signature, algorithm: sha256, encoding: hex}
      reading: {id: id, type: status, time: updated, order: order, payment: payment, amount: %s, currency: currency, facts: [{type: paid, kind: paid}]}
`

// A reapply that is killed at any moment is finished by running it again, and nothing
// is done twice; what a killed shadow leaves, the next one takes away. (O44)
func TestAReapplyKilledHalfWayIsFinishedByRunningItAgain(t *testing.T) {
	const events, registered = 1600, 40
	d := harness.New(t, 2)
	endpoints := filepath.Join(t.TempDir(), "endpoints.yaml")
	layout := func(amount string) {
		t.Helper()
		if err := os.WriteFile(endpoints, fmt.Appendf(nil, acme, amount), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := append(d.Env(), "SLUICE_ENDPOINTS="+endpoints, "USER=ana")
	layout("fee") // the wrong field
	merchant := d.Start("merchant")
	for i := range registered {
		d.Register(merchant, fmt.Sprintf("R-%d", i), 1000)
	}
	processor := d.Start("processor", "SLUICE_ENDPOINTS="+endpoints)
	at := time.Now().Truncate(time.Second)
	var records []*kgo.Record
	for i := range events {
		id := fmt.Sprintf("acme_%d", i)
		e := event.Event{Source: "acme", ID: id, Type: "paid", Time: at, TimeRepeats: true, Mode: event.Live, Provider: "declared", Endpoint: "acme",
			Order: fmt.Sprintf("R-%d", i), Payment: "pay_" + id, Trust: event.Signed, ContentType: "application/json", ReceivedAt: time.Now(),
			Body: fmt.Appendf(nil, `{"id":%q,"status":"paid","updated":%d,"order":"R-%d","payment":"pay_%s","amount":1000,"fee":7,"currency":"USD"}`, id, at.Unix(), i, id)}
		headers, err := e.Headers()
		if err != nil {
			t.Fatal(err)
		}
		r := &kgo.Record{Topic: d.Kafka.Topic(kafka.Raw), Key: []byte(id), Value: e.Body}
		for _, h := range headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
		records = append(records, r)
	}
	if err := d.Client().ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "all events are held", 60*time.Second, func() error {
		if n := d.Count(`SELECT count(*) FROM held_events`); n != events {
			return fmt.Errorf("%d are held", n)
		}
		return nil
	})
	if code := processor.Stop(); code != 0 {
		t.Fatal(code)
	}
	layout("amount")
	d.Start("processor", "SLUICE_ENDPOINTS="+endpoints) // under the right rules

	shadow := harness.Start(t, env, "shadow", "--to-earliest")
	harness.Eventually(t, "the shadow works", 60*time.Second, func() error {
		if d.Count(`SELECT count(*) FROM pg_tables WHERE schemaname = 'sluice_shadow_1'`) == 0 {
			return fmt.Errorf("it does not yet")
		}
		return nil
	})
	shadow.Kill()
	command := []string{"replay", "--held", "--reapply"}
	plan := func() string {
		t.Helper()
		p := harness.Start(t, env, append(command, "--json")...)
		code := p.Wait(90 * time.Second)
		var said struct{ Digest string }
		if err := json.Unmarshal([]byte(p.Output()), &said); err != nil || code != 0 {
			t.Fatalf("plan: %d, %v\n%s", code, err, p.Output())
		}
		return said.Digest
	}
	mended := func() int64 {
		return d.Count(`SELECT count(*) FROM order_events WHERE event_type = 'paid' AND amount = 1000`)
	}
	half := false
	for round := range 4 {
		digest, before := plan(), mended()
		p := harness.Start(t, env, append(command, "--execute", "--plan", digest, "--reason", "the fee was read as the amount")...)
		if round < 3 {
			harness.Eventually(t, "some are read anew", 60*time.Second, func() error {
				if mended() == before {
					return fmt.Errorf("%d as before", before)
				}
				return nil
			})
			p.Kill()
			half = half || mended() < events
			if mended() == events {
				break
			}
			continue
		}
		if code := p.Wait(90 * time.Second); code != 0 {
			t.Fatalf("the last run ended with %d\n%s", code, p.Output())
		}
	}
	if !half {
		t.Log("every run was through before it was killed")
	}
	if code := harness.Start(t, env, append(command, "--execute", "--plan", plan(), "--reason", "to the end")...).Wait(90 * time.Second); code != 0 {
		t.Errorf("the run at the end: %d", code)
	}
	if n := mended(); n != events {
		t.Errorf("%d of %d events are read anew", n, events)
	}
	if n := d.Count(`SELECT count(*) FROM orders WHERE registered_at IS NOT NULL AND status = 2 AND version = 2`); n != registered {
		t.Errorf("%d of %d orders are paid at version 2", n, registered)
	}
	if n := d.Count(`SELECT count(*) FROM pg_namespace WHERE starts_with(nspname, 'sluice_shadow_')`); n != 0 {
		t.Errorf("%d scratch schemas are left", n)
	}
	if p := harness.Start(t, env, "shadow", "--to-earliest"); p.Wait(90*time.Second) != 0 || !strings.Contains(p.Output(), "differs") {
		t.Errorf("a shadow afterwards:\n%s", p.Output())
	}
	adds(d)
}

package endpoint

import (
	"bytes"
	"testing"
	"time"

	"sluice/pkg/event"
)

func TestATimeThatNoRecordCanStateIsNoTime(t *testing.T) {
	far := time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]time.Time{far: {}, far.Add(-time.Second): far.Add(-time.Second), {}: {}, time.Unix(1, 0): time.Unix(1, 0)} {
		if got := statable(at); !got.Equal(want) {
			t.Errorf("%v became %v", at, got)
		}
	}
}

func TestWhatWasKeptUnreadIsIdentifiedByThePresentRules(t *testing.T) {
	set, err := LoadWithoutSecrets("endpoints.yaml", event.Live, func(string) ([]byte, error) {
		return []byte("endpoints:\n  - {name: shop, provider: stripe, secrets: [env:S]}\n  - {name: debits, provider: gocardless, secrets: [env:S], lookup: {credentials: [env:T]}}\n"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	kept := func(name, body string) event.Event {
		return event.Event{Source: name, ID: "sha256:x", Type: event.Unreadable, Mode: event.Live, Trust: event.Signed, Provider: "p", Endpoint: name,
			ReceivedAt: time.Unix(1764500000, 0), Signature: []event.Header{{Name: "stripe-signature", Value: []byte("s")}}, Body: []byte(body)}
	}
	shop, _ := set.Get("shop")
	events, headers, err := shop.IdentifyAnew(kept("shop", `{"id":"evt_1","type":"customer.created","created":1764500000,"livemode":true,"data":{"object":{}}}`))
	if err != nil || len(events) != 1 || events[0].ID != "evt_1" || !events[0].TimeRepeats || events[0].Time.Unix() != 1764500000 || len(events[0].Signature) != 1 {
		t.Errorf("%+v, %v", events, err)
	}
	if again, err := event.Parse([]byte("evt_1"), events[0].Body, headers[0]); err != nil || again.Hash() != events[0].Hash() {
		t.Errorf("its record is %+v, %v", again, err)
	}
	debits, _ := set.Get("debits")
	batch := `{"events":[{"id":"EV1","created_at":"2026-01-01T00:00:00Z","resource_type":"customers","action":"created","links":{"customer":"C"}},` +
		`{"id":"EV2","created_at":"2026-01-01T00:00:00Z","resource_type":"customers","action":"created","links":{"customer":"C"}}]}`
	events, _, err = debits.IdentifyAnew(kept("debits", batch))
	if err != nil || len(events) != 2 || events[1].ID == events[0].ID || events[0].Signature != nil || bytes.Equal(events[0].Body, events[1].Body) {
		t.Errorf("%+v, %v", events, err)
	}
	for name, body := range map[string]string{"shop": "[", "debits": `{"events":[]}`} {
		ep, _ := set.Get(name)
		if events, _, err := ep.IdentifyAnew(kept(name, body)); err == nil {
			t.Errorf("%s was read as %+v", body, events)
		}
	}
}

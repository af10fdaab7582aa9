package processor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/webhook"
)

func TestOneFunctionDecidesTheFateOfRecords(t *testing.T) {
	for _, c := range []struct {
		err  error
		want fate
	}{
		{nil, done},
		{fmt.Errorf("partition 3: %w", postgres.ErrFenced), leave},
		{context.Canceled, retry},
		{context.DeadlineExceeded, retry},
		{errors.New("nobody has seen this before"), retry}, // the database refuses data: see TestARecordThatTheDatabaseRefusesIsFoundAndPutAside
	} {
		if got := fateOf(c.err); got != c.want {
			t.Errorf("%v: fate %d, want %d", c.err, got, c.want)
		}
	}
}

func TestNothingKeepsADeadLetterFromBeingKept(t *testing.T) {
	var r record
	r.die(deadBody, strings.Repeat("x", maxDetail-1)+"é and more\x00")
	if !utf8.ValidString(r.detail) || len(r.detail) > maxDetail || strings.Contains(r.detail, "\x00") {
		t.Errorf("detail cannot be stored: %q", r.detail)
	}
	for _, at := range []time.Time{{}, time.UnixMilli(-1), time.UnixMilli(1 << 62), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if y := appended(at).Year(); y != 1970 {
			t.Errorf("%v counts in the year %d", at, y)
		}
	}
	if now := time.Now(); !appended(now).Equal(now) {
		t.Error("an ordinary append time is changed")
	}
}

func TestTwoReadingsAreEqualIfTheySayTheSame(t *testing.T) {
	base := stated{id: "e", order: "o", payment: "p", kind: order.KindPaid, amount: 1000}
	hash := func(s stated) int64 {
		r := opened(t, s.event())
		if !r.stated {
			t.Fatalf("it states nothing: %q", r.detail)
		}
		return r.fact.ReadingHash
	}
	same := base
	same.extra = `,"pending_webhooks":0`
	if hash(base) != hash(same) {
		t.Error("a delivery counter makes another reading")
	}
	for name, change := range map[string]func(*stated){
		"amount":  func(s *stated) { s.amount = 999 },
		"order":   func(s *stated) { s.order = "o2" },
		"payment": func(s *stated) { s.payment = "p2" },
		"kind":    func(s *stated) { s.kind = order.KindFailed },
		"time":    func(s *stated) { s.at = now.Add(time.Second) },
	} {
		other := base
		change(&other)
		if hash(base) == hash(other) {
			t.Errorf("another %s is the same reading", name)
		}
	}
}

// reads is a reader of one endpoint's records.
func reads(t testing.TB) *reader {
	t.Helper()
	set, err := endpoint.LoadWithoutSecrets("endpoints.yaml", event.Live, func(string) ([]byte, error) {
		return []byte("endpoints:\n  - name: stripe-eu\n    provider: stripe\n    secrets: [env:S]\n"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return &reader{endpoints: set, window: postgres.Window{From: now.AddDate(0, -3, 0), Before: now.AddDate(0, 3, 0)}, mode: event.Live}
}

func opened(t testing.TB, e event.Event) *record {
	t.Helper()
	headers, err := e.Headers()
	if err != nil {
		t.Fatal(err)
	}
	rd := reads(t)
	r := rd.parse([]kafka.Record{{Key: []byte(e.ID), Value: e.Body, Headers: headers, Timestamp: now}})[0]
	rd.open(r)
	return r
}

// says is a provider whose every body says the same.
type says struct {
	webhook.Provider
	reading webhook.Reading
}

func (s says) Read(webhook.Headers, []byte) (webhook.Reading, error) { return s.reading, nil }

func TestWhatAHintIsAboutIsTextThatCanBeStoredAndFound(t *testing.T) {
	for name, c := range map[string]struct {
		reading webhook.Reading
		object  string
	}{
		"payment":  {webhook.Reading{ID: "i", Subject: "s", Object: "o", Payment: "p"}, "p"},
		"object":   {webhook.Reading{ID: "i", Subject: "s", Object: "o"}, "o"},
		"subject":  {webhook.Reading{ID: "i", Subject: "s"}, "s"},
		"id":       {webhook.Reading{}, "evt_1"},
		"too long": {webhook.Reading{Subject: strings.Repeat("s", maxName+1)}, ""},
		"long id":  {webhook.Reading{ID: strings.Repeat("s", maxName+1)}, ""},
		"NUL":      {webhook.Reading{Payment: "p", Subject: "\x00"}, ""},
	} {
		r := &record{Record: &kafka.Record{}, event: event.Event{ID: "evt_1", Trust: event.Hint}, hint: true}
		r.aim(endpoint.Endpoint{Provider: says{reading: c.reading}})
		if dead := c.object == ""; (r.dead == deadBody) != dead || r.target.Object != c.object {
			t.Errorf("%s: its provider is asked about %q, dead %q", name, r.target.Object, r.dead)
		}
	}
}

// Whatever a record holds, it ends as one of: skipped, dead with a reason that
// can be stored, nothing, or a fact that can be stored.
func FuzzARecordNeverHoldsWhatCannotBeStored(f *testing.F) {
	e := stated{id: "evt_1", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000}.event()
	f.Add([]byte("evt_1"), e.Body, "sluice_order", []byte("ord_1"), int64(0))
	f.Add([]byte("evt_1"), []byte(`{"id":"evt_1","type":"payment_intent.succeeded","created":1,"data":{"object":{"id":"a\u0000b","amount":1,"currency":"eur"}}}`), "ce_type", []byte("\xff"), int64(1)<<60)
	f.Add([]byte{}, []byte{}, "", []byte{}, int64(-1))
	f.Fuzz(func(t *testing.T, key, body []byte, name string, value []byte, stamp int64) {
		for _, trust := range []event.Trust{event.Signed, event.Hint, event.LookedUp} {
			e := e
			e.Trust = trust
			neverHolds(t, e, key, body, name, value, stamp)
		}
	})
}

func neverHolds(t *testing.T, e event.Event, key, body []byte, name string, value []byte, stamp int64) {
	e.ID, e.Body, e.BodySHA256 = string(key), body, [32]byte{}
	headers, err := e.Headers()
	if err != nil {
		headers = nil
	}
	headers = append(headers, event.Header{Name: name, Value: value})
	rd := reads(t)
	r := rd.parse([]kafka.Record{{Key: key, Value: body, Headers: headers, Timestamp: time.UnixMilli(stamp)}})[0]
	switch {
	case r.dead != "" || r.skip:
	case r.hint:
		r.aim(rd.endpoint(r))
	default:
		rd.open(r)
	}
	text := []string{r.dead, r.detail, r.target.Object, r.target.Type, r.target.Order, r.target.Payment, r.target.Subject, r.target.Currency}
	if r.hint && r.dead == "" && (r.target.Object == "" || len(r.target.Object) > maxName) {
		t.Errorf("its provider is asked about %q", r.target.Object)
	}
	if r.stated {
		text = append(text, r.fact.OrderID, r.fact.Payment, r.fact.Object, r.fact.Currency, r.fact.EventID, r.fact.EventType, r.fact.Source)
		if r.fact.OrderID == "" && r.fact.Payment == "" {
			t.Error("a fact leads nowhere")
		}
	}
	for _, s := range text {
		if !utf8.ValidString(s) || strings.Contains(s, "\x00") {
			t.Errorf("cannot be stored: %q", s)
		}
	}
	if y := r.Timestamp.Year(); y < 1970 || y > 2200 {
		t.Errorf("counts in the year %d", y)
	}
}

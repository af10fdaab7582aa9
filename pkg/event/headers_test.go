package event

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func sample() Event {
	return Event{
		Source: "stripe-eu", ID: "evt_1PqRs2", Type: "payment_intent.succeeded", Time: time.Date(2026, 11, 30, 12, 0, 1, 0, time.UTC),
		TimeRepeats: true, Mode: Live, Provider: "stripe", Endpoint: "stripe-eu", Order: "ord_77", Payment: "pi_3", Trust: Signed,
		ContentType: "application/json", ReceivedAt: time.Date(2026, 11, 30, 12, 0, 2, 123456789, time.UTC), SecretName: "env:STRIPE",
		Signature: []Header{{Name: "stripe-signature", Value: []byte("t=1,v1=ab")}}, Body: []byte(`{"id":"evt_1PqRs2"}`),
	}
}

// with returns sample's headers after name was set to value (nil removes it).
func with(t testing.TB, name string, value []byte) []Header {
	t.Helper()
	hs, err := sample().Headers()
	if err != nil {
		t.Fatal(err)
	}
	hs = slices.DeleteFunc(hs, func(h Header) bool { return h.Name == name })
	if value != nil {
		hs = append(hs, Header{Name: name, Value: value})
	}
	return hs
}

func parse(hs []Header) (Event, error) { return Parse([]byte(sample().ID), sample().Body, hs) }

func TestWhatIsEncodedIsReadBackWhole(t *testing.T) {
	text := func(maxLen int) *rapid.Generator[string] {
		return rapid.StringOfN(rapid.RuneFrom([]rune("aZ0 /:éñ☕\n\x01\u202e")), 1, 40, maxLen)
	}
	at := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(-62135596799, 253402300799).Draw(t, "s"), rapid.Int64Range(0, 999999999).Draw(t, "ns")).UTC()
	})
	opt := func(t *rapid.T, label string, maxLen int) string {
		if rapid.Bool().Draw(t, "has "+label) {
			return text(maxLen).Draw(t, label)
		}
		return ""
	}
	rapid.Check(t, func(t *rapid.T) {
		e := Event{
			Source: text(255).Draw(t, "source"), ID: text(1024).Draw(t, "id"), Type: text(1024).Draw(t, "type"),
			TimeRepeats: rapid.Bool().Draw(t, "repeats"), Mode: rapid.SampledFrom([]Mode{Live, Test}).Draw(t, "mode"),
			Provider: text(255).Draw(t, "provider"), Endpoint: text(255).Draw(t, "endpoint"),
			Order: opt(t, "order", 1024), Payment: opt(t, "payment", 1024), ContentType: opt(t, "content type", 255),
			Traceparent: opt(t, "traceparent", 255), SecretName: opt(t, "secret", 255),
			Trust: rapid.SampledFrom([]Trust{Signed, Hint, LookedUp}).Draw(t, "trust"), ReceivedAt: at.Draw(t, "received"),
			Body: rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
		}
		if rapid.Bool().Draw(t, "dated") {
			e.Time = at.Draw(t, "time")
		}
		for range rapid.IntRange(0, 3).Draw(t, "signatures") {
			e.Signature = append(e.Signature, Header{Name: rapid.SampledFrom([]string{"x-signature", ":query"}).Draw(t, "name"), Value: rapid.SliceOfN(rapid.Byte(), 1, 80).Draw(t, "signature")})
		}
		hs, err := e.Headers()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse([]byte(e.ID), e.Body, hs)
		if err != nil {
			t.Fatal(err)
		}
		e.BodySHA256 = sha256.Sum256(e.Body)
		if diff := cmp.Diff(e, got); diff != "" {
			t.Fatal(diff)
		}
		if e.Key() != got.Key() || e.Hash() != got.Hash() {
			t.Fatal("identity changed on the way")
		}
	})
}

func TestTheOrderOfHeadersAndUnknownOnesDoNotMatter(t *testing.T) {
	want, err := parse(with(t, "", nil))
	if err != nil {
		t.Fatal(err)
	}
	hs := append(with(t, "", nil), Header{Name: "ce_dataschema", Value: []byte("x")}, Header{Name: "mirror", Value: []byte{0, 0xff}})
	slices.Reverse(hs)
	got, err := parse(hs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

// O35: records nobody could have written are told apart, and why is said.
func TestARecordThatDedupeCannotTrustIsRefusedByTheHeadersName(t *testing.T) {
	sum := sha256.Sum256([]byte("x"))
	long := []byte(strings.Repeat("a", 20<<10))
	for _, c := range []struct {
		name  string
		value []byte
		want  error
	}{
		{"ce_specversion", nil, errMissing}, {"ce_specversion", []byte("0.3"), errForm}, {"ce_specversion", []byte("99"), errForm},
		{"ce_id", nil, errMissing}, {"ce_id", []byte("evt_other"), errNotKey}, {"ce_id", long, errTooLong},
		{"ce_source", nil, errMissing}, {"ce_source", []byte{}, errMissing}, {"ce_source", []byte("a\x00b"), errNotText},
		{"ce_type", []byte("a\xff"), errNotText}, {"ce_type", nil, errMissing},
		{"ce_time", []byte("yesterday"), errForm}, {"ce_time", []byte("1700000000"), errForm}, {"ce_time", []byte("0001-01-01T00:00:00+02:00"), errForm},
		{"sluice_endpoint", nil, errMissing}, {"sluice_provider", nil, errMissing},
		{"sluice_received_at", nil, errMissing}, {"sluice_received_at", []byte("0001-01-01T00:00:00Z"), errForm},
		{"sluice_body_sha256", nil, errMissing}, {"sluice_body_sha256", []byte("abc"), errForm},
		{"sluice_body_sha256", []byte(strings.ToUpper(hex.EncodeToString(sum[:]))), errForm}, {"sluice_body_sha256", []byte(strings.Repeat("z", 64)), errForm},
		{"sluice_body_sha256", []byte(strings.Repeat("0", 63)), errForm},
		{"sluice_mode", []byte("prod"), errForm}, {"sluice_trust", []byte("yes"), errForm}, {"sluice_trust", nil, errMissing},
		{"sluice_order", []byte("o\x00"), errNotText}, {"sluice_time_repeats", []byte("1"), errForm},
		{"sluice_signature_X-Sig", []byte("a"), errName}, {"sluice_signature_", []byte("a"), errName},
		{"sluice_signature_x", long[:MaxSignature+1], errTooLong},
	} {
		_, err := parse(with(t, c.name, c.value))
		if !errors.Is(err, c.want) {
			t.Errorf("%s=%.20q: got %v, want %v", c.name, c.value, err, c.want)
			continue
		}
		if !strings.Contains(err.Error(), c.name) && !strings.Contains(err.Error(), SignaturePrefix) {
			t.Errorf("%v does not name %s", err, c.name)
		}
		if len(c.value) > 1 && strings.Contains(strings.ReplaceAll(err.Error(), c.name, ""), string(c.value)) {
			t.Errorf("%v tells the value", err)
		}
	}
	for name, hs := range map[string][]Header{"no headers": nil, "too many": make([]Header, 200), "twice": append(with(t, "", nil), Header{Name: "ce_id", Value: []byte("evt_1PqRs2")}),
		"too large": append(with(t, "", nil), Header{Name: "x", Value: make([]byte, 200<<10)})} {
		if _, err := parse(hs); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := Parse([]byte("evt_1PqRs2"), nil, with(t, "", nil)); !errors.Is(err, ErrTombstone) {
		t.Errorf("tombstone: %v", err)
	}
}

func TestWhatCannotBeReadBackIsNotEncoded(t *testing.T) {
	for name, change := range map[string]func(*Event){
		"ce_id":              func(e *Event) { e.ID = "a\x00" },
		"ce_source":          func(e *Event) { e.Source = "" },
		"ce_type":            func(e *Event) { e.Type = strings.Repeat("a", 17<<10) },
		"ce_time":            func(e *Event) { e.Time = time.Unix(253402300800, 0) },
		"sluice_received_at": func(e *Event) { e.ReceivedAt = time.Time{} },
		"sluice_mode":        func(e *Event) { e.Mode = "" },
		"sluice_trust":       func(e *Event) { e.Trust = "x" },
		"sluice_order":       func(e *Event) { e.Order = "\xff" },
		"sluice_payment":     func(e *Event) { e.Payment = strings.Repeat("a", 1025) },
		"sluice_signature_x": func(e *Event) { e.Signature = []Header{{"x", make([]byte, MaxSignature+1)}} },
		"sluice_signature_*": func(e *Event) { e.Signature = make([]Header, 40) },
	} {
		e := sample()
		change(&e)
		if _, err := e.Headers(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	hs, err := sample().Headers()
	if err != nil {
		f.Fatal(err)
	}
	for i, h := range hs {
		f.Add([]byte("evt_1PqRs2"), []byte("{}"), uint8(i), h.Name, h.Value)
	}
	f.Add([]byte("evt_1PqRs2"), []byte("{}"), uint8(12), "sluice_trust", []byte("looked_up"))
	f.Add([]byte("evt_1PqRs2"), []byte("{}"), uint8(99), "sluice_signature_:query", []byte("data.id=1&type=payment"))
	f.Add([]byte("é"), []byte{}, uint8(1), "ce_id", []byte("é"))
	f.Add([]byte("evt_1PqRs2"), []byte{}, uint8(4), "ce_time", []byte("9999-12-31T23:59:59-23:59"))
	f.Fuzz(func(t *testing.T, key, value []byte, at uint8, name string, v []byte) {
		hs := slices.Clone(hs)
		if int(at) < len(hs) {
			hs[at] = Header{Name: name, Value: v}
		} else {
			hs = append(hs, Header{Name: name, Value: v})
		}
		e, err := Parse(key, value, hs)
		if err != nil {
			return
		}
		// What is accepted can be stored, and is the same after another round.
		if e.ID != string(key) || strings.ContainsRune(e.ID+e.Source+e.Type+e.Order+e.Payment, 0) {
			t.Fatalf("accepted %+v", e)
		}
		again, err := e.Headers()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(key, value, again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	hs, err := sample().Headers()
	if err != nil {
		b.Fatal(err)
	}
	key, body := []byte(sample().ID), sample().Body
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(key, body, hs); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHeaders(b *testing.B) {
	e := sample()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Headers(); err != nil {
			b.Fatal(err)
		}
	}
}

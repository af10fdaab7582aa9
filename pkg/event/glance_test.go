package event

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func FuzzGlanceSeesWhatParseReads(f *testing.F) {
	hs, err := sample().Headers()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint8(len(hs)-1), hs[len(hs)-1].Value, []byte("evt_1PqRs2"))
	for i, h := range hs {
		f.Add(uint8(i), h.Value, []byte("evt_1PqRs2"))
		f.Add(uint8(i), []byte{}, []byte("evt_1PqRs2"))
		f.Add(uint8(i), []byte("hint"), []byte("evt_1PqRs2"))
	}
	f.Fuzz(func(t *testing.T, i uint8, value, key []byte) {
		changed := append([]Header(nil), hs...)
		changed[int(i)%len(hs)].Value = value
		e, parsed := Parse(key, []byte("{}"), changed)
		g, glanced := Glance(key, []byte("{}"), changed)
		if parsed == nil && glanced == nil && (g.Key != e.Key() || g.Fingerprint != e.Fingerprint() || g.Hint != (e.Trust == Hint)) {
			t.Fatalf("%+v of an event whose key is %x", g, e.Key())
		}
		if parsed == nil && glanced != nil && e.Type != Unreadable && e.BodySHA256 != [32]byte{} {
			t.Fatalf("a record that can be read whole: %v", glanced)
		}
	})
}

func TestAGlanceOfAnyEventIsItsKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := sample()
		e.ID, e.Source = rapid.StringMatching(`[a-z0-9_]{1,40}`).Draw(t, "id"), rapid.StringMatching(`[a-z-]{1,20}`).Draw(t, "source")
		e.TimeRepeats = rapid.Bool().Draw(t, "repeats")
		e.Mode = rapid.SampledFrom([]Mode{Live, Test}).Draw(t, "mode")
		e.Trust = rapid.SampledFrom([]Trust{Signed, Hint, LookedUp}).Draw(t, "trust")
		hs, err := e.Headers()
		if err != nil {
			t.Fatal(err)
		}
		if g, err := Glance([]byte(e.ID), e.Body, hs); err != nil || g.Key != e.Key() || g.Fingerprint != e.Fingerprint() || g.Hint != (e.Trust == Hint) {
			t.Fatalf("%+v, %v", g, err)
		}
	})
}

func TestATombstoneAndWhatOnlyParseUnderstandsAreNoGlimpse(t *testing.T) {
	if _, err := Glance([]byte("evt_1PqRs2"), nil, with(t, "ce_id", nil)); !errors.Is(err, ErrTombstone) {
		t.Errorf("a tombstone: %v", err)
	}
	for _, hs := range [][]Header{
		with(t, "ce_source", nil), with(t, "ce_type", []byte(Unreadable)), with(t, "sluice_body_sha256", nil), with(t, "sluice_trust", []byte("x")),
		append(with(t, "ce_id", nil), Header{"ce_id", []byte("other")}), append(with(t, "x", []byte("y")), Header{"ce_source", []byte("twice")}),
	} {
		if g, err := Glance([]byte("evt_1PqRs2"), []byte("{}"), hs); err == nil {
			t.Errorf("a glimpse of %v: %+v", hs, g)
		}
	}
}

func BenchmarkGlance(b *testing.B) {
	hs, err := sample().Headers()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Glance([]byte("evt_1PqRs2"), sample().Body, hs); err != nil {
			b.Fatal(err)
		}
	}
}

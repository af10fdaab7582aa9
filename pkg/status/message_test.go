package status

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/pkg/order"
)

func sample() Message {
	return Message{
		Source: "sluice", OrderID: "ord_77.a", Version: 3, Previous: order.Paid, Status: order.PartiallyRefunded,
		Amount: 9007199254740993, Paid: 9007199254740993, Refunded: 1200, Currency: "EUR", Dispute: order.DisputeOpen,
		Cause:      Cause{Source: "stripe-eu", EventID: "evt_1PqRs2"},
		OccurredAt: time.UnixMilli(1_764_504_001_020), ChangedAt: time.UnixMicro(1_764_504_002_000_500),
	}
}

// These bytes may never change: what was published once is published again as it
// was. A new format gets a new number, schema and golden text.
func TestARowIsTheSameBytesForEver(t *testing.T) {
	first := sample()
	first.Version, first.Previous, first.Status, first.OccurredAt = 1, order.StatusNone, order.Pending, time.Time{}
	first.Paid, first.Refunded, first.Dispute = 0, 0, order.NoDispute
	first.OrderID, first.Correction = "заказ \"7\"\\\n\x01</b>\xff", true
	for _, c := range []struct {
		m    Message
		want string
	}{
		{sample(), `{"specversion":"1.0","id":"ord_77.a.3","source":"sluice","type":"order.status_changed","subject":"ord_77.a",` +
			`"time":"2025-11-30T12:00:02.000500Z","datacontenttype":"application/json","dataschema":"urn:sluice:schema:order.status_changed:v1",` +
			`"data":{"order_id":"ord_77.a","version":3,"status":"partially_refunded","previous_status":"paid",` +
			`"amount":{"value":9007199254740993,"currency":"EUR"},"paid":9007199254740993,"refunded":1200,"dispute":"open",` +
			`"cause":{"source":"stripe-eu","event_id":"evt_1PqRs2"},"occurred_at":"2025-11-30T12:00:01.020Z",` +
			`"changed_at":"2025-11-30T12:00:02.000500Z","correction":false}}`},
		{first, `{"specversion":"1.0","id":"заказ \"7\"\\\u000a\u0001</b>�.1","source":"sluice","type":"order.status_changed","subject":"заказ \"7\"\\\u000a\u0001</b>�",` +
			`"time":"2025-11-30T12:00:02.000500Z","datacontenttype":"application/json","dataschema":"urn:sluice:schema:order.status_changed:v1",` +
			`"data":{"order_id":"заказ \"7\"\\\u000a\u0001</b>�","version":1,"status":"pending","previous_status":null,` +
			`"amount":{"value":9007199254740993,"currency":"EUR"},"paid":0,"refunded":0,"dispute":"none",` +
			`"cause":{"source":"stripe-eu","event_id":"evt_1PqRs2"},"occurred_at":null,` +
			`"changed_at":"2025-11-30T12:00:02.000500Z","correction":true}}`},
	} {
		if got := string(c.m.Encode()); got != c.want {
			t.Errorf("%s\n", cmp.Diff(c.want, got))
		}
	}
}

func TestEveryMessageIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := message().Draw(t, "message")
		value := m.Encode()
		if !json.Valid(value) || bytes.ContainsRune(value, '\n') {
			t.Fatalf("no JSON line: %s", value)
		}
		got, err := Decode(value)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func message() *rapid.Generator[Message] {
	return rapid.Custom(func(t *rapid.T) Message {
		text := rapid.StringN(1, 30, 120)
		m := Message{
			Source: text.Draw(t, "source"), OrderID: text.Draw(t, "order"), Version: rapid.Int64Min(1).Draw(t, "version"),
			Status: order.Status(rapid.IntRange(1, int(order.Refunded)).Draw(t, "status")),
			Amount: rapid.Int64Min(0).Draw(t, "amount"), Paid: rapid.Int64Min(0).Draw(t, "paid"), Currency: "EUR",
			Dispute:    order.Dispute(rapid.IntRange(0, int(order.DisputeLost)).Draw(t, "dispute")),
			Cause:      Cause{text.Draw(t, "cause"), text.Draw(t, "event")},
			ChangedAt:  time.UnixMicro(rapid.Int64Range(1, 1<<52).Draw(t, "changed at")).UTC(),
			Correction: rapid.Bool().Draw(t, "correction"),
		}
		m.Refunded = rapid.Int64Range(0, m.Paid).Draw(t, "refunded")
		if m.Version > 1 {
			m.Previous = order.Status(rapid.IntRange(1, int(order.Refunded)).Draw(t, "previous"))
		}
		if at := rapid.Int64Range(0, 1<<42).Draw(t, "occurred at"); at > 0 {
			m.OccurredAt = time.UnixMilli(at).UTC()
		}
		return m
	})
}

func TestAMessageThatContradictsItselfIsRefused(t *testing.T) {
	good := string(sample().Encode())
	for _, c := range []struct{ name, was, is string }{
		{"another specversion", `"1.0"`, `"0.3"`},
		{"another type", Type, "order.created"},
		{"a schema it does not know", ":v1", ":v2"},
		{"an id of another version", "ord_77.a.3", "ord_77.a.2"},
		{"another subject", `"subject":"ord_77.a"`, `"subject":"ord_77"`},
		{"version nought", `"version":3`, `"version":0`},
		{"no status before version 3", `"paid","amount"`, `null,"amount"`},
		{"an unknown status", `"partially_refunded"`, `"Refunded"`},
		{"the status none", `"partially_refunded"`, `"none"`},
		{"an amount with a point", `"refunded":1200`, `"refunded":12.00`},
		{"an amount beyond int64", `"refunded":1200`, `"refunded":9223372036854775808`},
		{"more refunded than paid", `"refunded":1200`, `"refunded":9007199254740994`},
		{"no paid", `"paid":9007199254740993,`, ``},
		{"no correction flag", `,"correction":false`, ``},
		{"no cause", `"event_id":"evt_1PqRs2"`, `"event_id":""`},
		{"a time without a zone", `01.020Z`, `01.020`},
		{"half a message", `}}`, `}`},
	} {
		bad := strings.Replace(good, c.was, c.is, 1)
		if c.was == Type {
			bad = strings.Replace(good, `"type":"`+c.was, `"type":"`+c.is, 1)
		}
		if bad == good {
			t.Fatalf("%s: nothing replaced", c.name)
		}
		if m, err := Decode([]byte(bad)); err == nil {
			t.Errorf("%s was read as %+v", c.name, m)
		}
	}
}

func TestAFieldOfALaterReleaseIsIgnored(t *testing.T) {
	later := strings.Replace(string(sample().Encode()), `"paid":`, `"tax":{"value":7},"paid":`, 1)
	later = strings.Replace(later, `"status":"partially`, `"channel":"web","status":"partially`, 1)
	if _, err := Decode([]byte(later)); err != nil {
		t.Error(err)
	}
}

func TestTheVersionIsWhatFollowsTheLastDot(t *testing.T) {
	a, b := Message{OrderID: "a.1", Version: 2}, Message{OrderID: "a", Version: 12}
	if a.ID() != "a.1.2" || b.ID() != "a.12" {
		t.Error(a.ID(), b.ID())
	}
	for _, h := range sample().Headers() {
		if want := map[string]string{"content-type": ContentType, "sluice_version": "3"}[h.Name]; string(h.Value) != want {
			t.Errorf("header %s is %s", h.Name, h.Value)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(sample().Encode())
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		m, err := Decode(value)
		if err != nil {
			return
		}
		if m.Version < 1 || m.Status == order.StatusNone || m.OrderID == "" {
			t.Fatalf("%s is read as %+v", value, m)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	m := sample()
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = m.Append(buf[:0])
	}
}

// The baseline: the standard library on the same value.
func BenchmarkMarshal(b *testing.B) {
	var e envelope
	if err := json.Unmarshal(sample().Encode(), &e); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := json.Marshal(e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	value := sample().Encode()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(value); err != nil {
			b.Fatal(err)
		}
	}
}

package effect

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/status"
)

func TestOneFactHasOneKeyHoweverItIsTold(t *testing.T) {
	paid := order.Entry{Hash: [16]byte{1}, Source: "psp", Kind: order.KindPaid, Payment: "pi", Amount: 100, Currency: "EUR", Time: 5}
	other := paid
	other.Hash, other.Time, other.Object = [16]byte{2}, 9, "charge_1" // payment.captured and order.paid
	if FactOf(paid) != FactOf(other) {
		t.Errorf("%+v and %+v are one fact", FactOf(paid), FactOf(other))
	}
	registered, again := order.Entry{Source: "merchant", Kind: order.KindRegistered}, order.Entry{Source: "merchant", Kind: order.KindRegistered, Object: "a note", Amount: 5}
	if FactOf(registered) != FactOf(again) {
		t.Error("another note makes another registration")
	}
	different := []order.Entry{paid}
	for _, change := range []func(*order.Entry){
		func(e *order.Entry) { e.Source = "psp2" },
		func(e *order.Entry) { e.Payment = "pi2" },
		func(e *order.Entry) { e.Kind = order.KindFailed },
		func(e *order.Entry) { e.Kind, e.Object = order.KindRefund, "re_1" },
		func(e *order.Entry) { e.Kind, e.Object = order.KindRefund, "re_2" },
		func(e *order.Entry) { e.Kind, e.Object = order.KindRefundFailed, "re_1" },
		func(e *order.Entry) { e.Kind, e.Amount = order.KindRefundTotal, 30 },
		func(e *order.Entry) { e.Kind, e.Amount = order.KindRefundTotal, 70 },
		func(e *order.Entry) { e.Kind, e.Object = order.KindDisputeOpened, "dp_1" },
	} {
		e := paid
		change(&e)
		different = append(different, e)
	}
	seen := map[Key]order.Entry{}
	for _, e := range different {
		for _, place := range [][2]string{{"o", "fulfil"}, {"o", "mail"}, {"of", "ulfil"}} {
			k := KeyOf(place[0], place[1], FactOf(e))
			if other, ok := seen[k]; ok {
				t.Errorf("%+v has the key of %+v", e, other)
			}
			seen[k] = e
		}
	}
}

// Receivers hold these keys for ever.
func TestKeysNeverChange(t *testing.T) {
	k := KeyOf("A-1001", "fulfil", Fact{Source: "psp", Kind: order.KindPaid, Payment: "pi_1"})
	const want = "fulfil_a093f4149346f16eda5d9951f87f0542"
	if k.Text("fulfil") != want {
		t.Errorf("the key is %s, receivers hold %s", k.Text("fulfil"), want)
	}
	for _, text := range []string{want, want[len("fulfil_"):]} {
		if got, ok := ParseKey(text); !ok || got != k {
			t.Errorf("%s is read as %x", text, got)
		}
	}
	for _, text := range []string{"", "fulfil", "fulfil_", want[:20], want + "00", "fulfil_zz"} {
		if _, ok := ParseKey(text); ok {
			t.Errorf("%q is read as a key", text)
		}
	}
}

func TestRulesMatchTheStepsTheyName(t *testing.T) {
	at := func(s order.Status, paid, refunded int64, d order.Dispute) order.State {
		return order.State{Status: s, Amount: 100, Currency: "EUR", Paid: paid, Refunded: refunded, Dispute: d}
	}
	var (
		none     = order.State{}
		pending  = at(order.Pending, 0, 0, order.NoDispute)
		paid     = at(order.Paid, 100, 0, order.NoDispute)
		part     = at(order.PartiallyRefunded, 100, 30, order.NoDispute)
		more     = at(order.PartiallyRefunded, 100, 60, order.NoDispute)
		back     = at(order.Refunded, 100, 100, order.NoDispute)
		disputed = at(order.Paid, 100, 0, order.DisputeOpen)
		won      = at(order.Paid, 100, 0, order.DisputeWon)
	)
	toPaid, toPart, partPart := Rule{To: order.Paid}, Rule{To: order.PartiallyRefunded}, Rule{From: order.PartiallyRefunded, To: order.PartiallyRefunded}
	for _, c := range []struct {
		name     string
		rule     Rule
		from, to order.State
		kind     order.Kind
		want     bool
	}{
		{"paid", toPaid, pending, paid, order.KindPaid, true},
		{"a dispute is no payment", toPaid, paid, disputed, order.KindDisputeOpened, false},
		{"a bounce is no sale", toPaid, part, paid, order.KindRefundFailed, false},
		{"a bounce that is asked for", Rule{From: order.PartiallyRefunded, To: order.Paid}, part, paid, order.KindRefundFailed, true},
		{"from elsewhere", Rule{From: order.Refunded, To: order.Paid}, part, paid, order.KindRefundFailed, false},
		{"a first refund", toPart, paid, part, order.KindRefund, true},
		{"a second refund comes from the same status", toPart, part, more, order.KindRefund, false},
		{"a second refund that is asked for", partPart, part, more, order.KindRefund, true},
		{"no money moved", partPart, part, func() order.State { s := part; s.Dispute = order.DisputeOpen; return s }(), order.KindDisputeOpened, false},
		{"a first refund is no second", partPart, paid, part, order.KindRefund, false},
		{"all is back", toPart, part, back, order.KindRefund, false},
		{"registered", Rule{To: order.Pending}, none, pending, order.KindRegistered, true},
		{"a dispute", Rule{Dispute: order.DisputeOpen}, paid, disputed, order.KindDisputeOpened, true},
		{"it is open already", Rule{Dispute: order.DisputeOpen}, disputed, disputed, order.KindRefund, false},
		{"won", Rule{Dispute: order.DisputeWon}, disputed, won, order.KindDisputeWon, true},
		{"another outcome", Rule{Dispute: order.DisputeLost}, disputed, won, order.KindDisputeWon, false},
	} {
		if got := c.rule.Matches(order.Step{From: c.from, To: c.to}, c.kind); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestReconcile(t *testing.T) {
	imp := func(names ...string) (out []Implied) {
		for _, n := range names {
			out = append(out, Implied{Name: n[:1], Key: Key{n[0], n[1]}})
		}
		return out
	}
	row := func(n string, s State, attempted, outdated bool) Row {
		return Row{Name: n[:1], Key: Key{n[0], n[1]}, State: s, Attempted: attempted, Outdated: outdated}
	}
	for _, c := range []struct {
		name          string
		before, after []Implied
		rows          []Row
		want          Plan
	}{
		{"nothing", nil, nil, nil, Plan{}},
		{"implied now", nil, imp("a1"), nil, Plan{Insert: imp("a1")}},
		{"implied no more", imp("a1"), nil, []Row{row("a1", Pending, false, false)}, Plan{Withdraw: []int{0}}},
		{"done, and implied no more", imp("a1"), nil, []Row{row("a1", Done, true, false)}, Plan{Outdate: []int{0}}},
		{"under way, and implied no more", imp("a1"), nil, []Row{row("a1", Leased, true, false)}, Plan{Outdate: []int{0}}},
		{"failed, and implied no more", imp("a1"), nil, []Row{row("a1", Failed, true, false)}, Plan{Outdate: []int{0}}},
		{"told once", imp("a1"), nil, []Row{row("a1", Done, true, true)}, Plan{}},
		{"implied again", nil, imp("a1"), []Row{row("a1", Withdrawn, false, false)}, Plan{Revive: []int{0}}},
		{"done, and implied again", nil, imp("a1"), []Row{row("a1", Done, true, true)}, Plan{Revive: []int{0}}},
		{"declared after its step", imp("a1", "a2"), imp("a1"), nil, Plan{}},
		{"another fact, nothing sent", imp("a1"), imp("a2"), []Row{row("a1", Pending, false, false)}, Plan{Withdraw: []int{0}, Insert: imp("a2")}},
		{"another fact, sent already", imp("a1"), imp("a2"), []Row{row("a1", Done, true, false)}, Plan{}},
		{"another fact of another effect", imp("a1"), imp("b2"), []Row{row("a1", Done, true, false)}, Plan{Outdate: []int{0}, Insert: imp("b2")}},
		{"one stands for one", imp("a1"), imp("a2", "a3"), []Row{row("a1", Done, true, false)}, Plan{Insert: imp("a3")}},
		{"it stood for another already", imp("a2"), imp("a2", "a3"), []Row{row("a1", Done, true, false)}, Plan{Insert: imp("a3")}},
		{"what it stood for is gone", imp("a2"), nil, []Row{row("a1", Done, true, false)}, Plan{Outdate: []int{0}}},
		{"what it stood for gave way too", imp("a2"), imp("a3"), []Row{row("a1", Done, true, false)}, Plan{}},
		{"its own fact is back", imp("a2"), imp("a1"), []Row{row("a1", Done, true, false)}, Plan{}},
		{"what was outdated stands for nothing", nil, imp("a2"), []Row{row("a1", Done, true, true)}, Plan{Insert: imp("a2")}},
	} {
		got := Reconcile(c.before, c.after, c.rows)
		same := func(a, b Implied) bool { return a.Key == b.Key }
		if !slices.EqualFunc(got.Insert, c.want.Insert, same) || !slices.Equal(got.Withdraw, c.want.Withdraw) ||
			!slices.Equal(got.Outdate, c.want.Outdate) || !slices.Equal(got.Revive, c.want.Revive) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestABodyIsACloudEventThatCarriesItsKey(t *testing.T) {
	f := Fact{Source: "psp", Kind: order.KindRefund, Payment: "pi", Object: "re \"1\"\n"}
	key := KeyOf("o", "mail", f)
	m := status.Message{Source: status.Source, OrderID: "o", Version: 3, Previous: order.Paid, Status: order.PartiallyRefunded, Amount: 100, Paid: 100, Refunded: 30,
		Currency: "EUR", Cause: status.Cause{Source: "psp", EventID: "e"}, ChangedAt: time.Unix(1, 0)}
	var got struct {
		ID, Type, Subject, DataSchema string
		Data                          struct {
			Effect string
			Fact   struct{ Source, Kind, Payment, Object string }
			Change struct {
				Status  string
				Version int64
			}
		}
	}
	if err := json.Unmarshal(Body("mail", key, f, m), &got); err != nil {
		t.Fatal(err)
	}
	if got.ID != key.Text("mail") || got.Type != Type || got.Subject != "o" || got.DataSchema != Schema || got.Data.Effect != "mail" ||
		got.Data.Fact.Object != f.Object || got.Data.Change.Status != "partially_refunded" || got.Data.Change.Version != 3 {
		t.Errorf("the body says %+v", got)
	}
}

package order

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

type path struct {
	name string
	set  []Entry
}

// paths lead an order of 100 EUR to each state that the matrix asks about.
var paths = []path{
	{"pending", nil},
	{"failed", []Entry{{Kind: KindFailed, Payment: "A"}}},
	{"cancelled", []Entry{{Kind: KindCancelled, Payment: "A"}}},
	{"paid", []Entry{paidA}},
	{"partially_refunded", []Entry{paidA, {Kind: KindRefund, Payment: "A", Object: "r0", Amount: 40, Currency: "EUR"}}},
	{"refunded", []Entry{paidA, {Kind: KindRefund, Payment: "A", Object: "r0", Amount: 100, Currency: "EUR"}}},
	{"paid, dispute open", []Entry{paidA, {Kind: KindDisputeOpened, Payment: "A", Object: "d0"}}},
	{"paid, dispute won", []Entry{paidA, {Kind: KindDisputeOpened, Payment: "A", Object: "d0"}, {Kind: KindDisputeWon, Payment: "A", Object: "d0"}}},
}

var paidA = Entry{Kind: KindPaid, Payment: "A", Amount: 100, Currency: "EUR"}

func TestTheWholeTransitionMatrixIsAsReviewed(t *testing.T) {
	var b strings.Builder
	for _, path := range paths {
		for kind := range KindAccept {
			for _, variant := range variants(kind) {
				set := dated(append(append([]Entry{}, path.set...), variant.Entry))
				o := Fold(registered, set)
				if len(path.set) > 0 && o.Judgements[len(path.set)-1].Verdict != Applied {
					t.Fatalf("the path to %s is not applied: %v", path.name, o.Judgements)
				}
				j := o.Judgements[len(set)-1]
				answer := j.Verdict.String()
				if j.Verdict == Held {
					answer += " " + j.Reason.String()
				}
				fmt.Fprintf(&b, "%-20s %-15s %-22s %-26s -> %s\n", path.name, kind, variant.name, answer, show(o.State))
			}
		}
		b.WriteByte('\n')
	}
	golden(t, "testdata/matrix.golden", b.String())
}

// What is held is accepted, without and with an amount; what is applied is
// dismissed.
func TestTheWholeMatrixOfDecisionsIsAsReviewed(t *testing.T) {
	var b strings.Builder
	for _, path := range append(paths, decidedPaths()...) {
		for kind := range KindAccept {
			for _, variant := range variants(kind) {
				set := append(append([]Entry{}, path.set...), variant.Entry)
				place := len(set) - 1
				plain := Fold(registered, dated(set))
				decisions := []Entry{{Kind: KindAccept}, {Kind: KindAccept, Amount: 70, Currency: "EUR"}}
				switch plain.Judgements[place].Verdict {
				case Applied:
					decisions = []Entry{{Kind: KindDismiss}}
				case NoChange:
					continue
				}
				for _, d := range decisions {
					d.Target = set[place].Hash
					decided := dated(append(append([]Entry{}, set...), d))
					o := Fold(registered, decided)
					checkOutcome(t, decided, &o)
					how := ""
					for _, c := range Changes(plain, o) {
						if c.Correction {
							how = " corrected"
						}
					}
					word := d.Kind.String()
					if d.Currency != "" {
						word += " 70"
					}
					fmt.Fprintf(&b, "%-22s %-14s %-22s %-10s %-28s -> %s%s\n", path.name, kind, variant.name, word,
						o.reason(place)+", "+o.Judgements[place+1].Verdict.String(), show(o.State), how)
				}
			}
		}
		b.WriteByte('\n')
	}
	golden(t, "testdata/decisions.golden", b.String())
}

// decidedPaths lead to states that only a decision reaches.
func decidedPaths() []path {
	paidB := paidA
	paidB.Payment = "B"
	accept := func(place int) Entry { return Entry{Kind: KindAccept, Target: hash(10 + place)} }
	return []path{
		{"cancelled after paid", []Entry{paidA, {Kind: KindCancelled, Payment: "A"}, accept(1)}},
		{"failed after paid", []Entry{paidA, {Kind: KindFailed, Payment: "A"}, accept(1)}},
		{"paid after cancelled", []Entry{{Kind: KindCancelled, Payment: "A"}, paidA, accept(1)}},
		{"paid twice", []Entry{paidA, paidB, accept(1)}},
	}
}

type variant struct {
	name string
	Entry
}

func variants(k Kind) []variant {
	at := func(payment, object string, amount int64, currency string) Entry {
		return Entry{Kind: k, Payment: payment, Object: object, Amount: amount, Currency: currency}
	}
	switch k {
	case KindPaid:
		return []variant{{"same payment", at("A", "", 100, "EUR")}, {"other payment", at("B", "", 100, "EUR")},
			{"other payment, 99", at("B", "", 99, "EUR")}, {"other payment, -100", at("B", "", -100, "EUR")}, {"other payment, USD", at("B", "", 100, "USD")}}
	case KindRefund, KindRefundTotal:
		return []variant{{"40", at("A", "r1", 40, "EUR")}, {"60", at("A", "r1", 60, "EUR")}, {"100", at("A", "r1", 100, "EUR")},
			{"101", at("A", "r1", 101, "EUR")}, {"0", at("A", "r1", 0, "EUR")}, {"-1", at("A", "r1", -1, "EUR")}, {"40 USD", at("A", "r1", 40, "USD")},
			{"40, known object", at("A", "r0", 40, "EUR")}, {"40, other payment", at("B", "r1", 40, "EUR")}}
	case KindRefundFailed:
		return []variant{{"known object", at("A", "r0", 40, "EUR")}, {"known object, no money", at("A", "r0", 0, "")},
			{"known object, USD", at("A", "r0", 40, "USD")}, {"unknown object", at("A", "r1", 40, "EUR")}, {"other payment", at("B", "r0", 40, "EUR")}}
	case KindDisputeOpened, KindDisputeWon, KindDisputeLost:
		return []variant{{"known object", at("A", "d0", 100, "EUR")}, {"unknown object", at("A", "d1", 100, "EUR")}, {"other payment", at("B", "d0", 100, "EUR")}}
	default:
		return []variant{{"same payment", at("A", "", 0, "")}, {"other payment", at("B", "", 0, "")}}
	}
}

// dated gives each entry the second of its place, a hash and a source.
func dated(set []Entry) []Entry {
	for i := range set {
		set[i].Hash, set[i].Source = hash(10+i), "shop"
		if set[i].Time == 0 {
			set[i].Time = int64(i+1) * 1000
		}
	}
	return set
}

func show(s State) string {
	text := fmt.Sprintf("%v paid %d refunded %d", s.Status, s.Paid, s.Refunded)
	if s.Dispute != NoDispute {
		text += fmt.Sprintf(" dispute %v", s.Dispute)
	}
	return text
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	was, is := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	for i := range max(len(was), len(is)) {
		if i >= len(was) || i >= len(is) || was[i] != is[i] {
			t.Fatalf("%s differs from line %d on; if that is meant, run with -update\nwas %q\nis  %q", path, i+1, was[min(i, len(was)-1)], is[min(i, len(is)-1)])
		}
	}
}

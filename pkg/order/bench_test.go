package order

import (
	"fmt"
	"testing"
)

// four is a usual order: a failed attempt, then paid, then two refunds.
func four() (*Registration, []Entry) {
	reg := &Registration{Hash: hash(1), Amount: 1000, Currency: "EUR", Time: 1_000}
	return reg, []Entry{
		{Hash: hash(2), Source: "shop", Kind: KindFailed, Time: 2_000, Payment: "pi_1"},
		{Hash: hash(3), Source: "shop", Kind: KindPaid, Time: 3_000, Payment: "pi_2", Amount: 1000, Currency: "EUR"},
		{Hash: hash(4), Source: "shop", Kind: KindRefund, Time: 4_000, Payment: "pi_2", Object: "re_1", Amount: 300, Currency: "EUR"},
		{Hash: hash(5), Source: "shop", Kind: KindRefund, Time: 5_000, Payment: "pi_2", Object: "re_2", Amount: 700, Currency: "EUR"},
	}
}

func BenchmarkFoldOfFourEntries(b *testing.B) {
	reg, set := four()
	b.ReportAllocs()
	for b.Loop() {
		Fold(reg, set)
	}
}

func BenchmarkFoldOfFourEntriesInPlace(b *testing.B) {
	reg, set := four()
	var o Outcome
	b.ReportAllocs()
	for b.Loop() {
		o.Fold(reg, set)
	}
}

func BenchmarkFoldOfOneEntryInPlace(b *testing.B) {
	reg, set := four()
	var o Outcome
	b.ReportAllocs()
	for b.Loop() {
		o.Fold(reg, set[1:2])
	}
}

func BenchmarkChangesOfOneStep(b *testing.B) {
	reg, set := four()
	before, after := Fold(reg, set[:3]), Fold(reg, set)
	b.ReportAllocs()
	for b.Loop() {
		Changes(before, after)
	}
}

// A thousand refunds that came before their payment: the largest amount of
// waiting and trying again.
func BenchmarkFoldOfAThousandHeldRefunds(b *testing.B) {
	reg := &Registration{Hash: hash(1), Amount: 1000, Currency: "EUR"}
	var set []Entry
	for i := range 1000 {
		set = append(set, Entry{Hash: hash(i + 2), Source: "shop", Kind: KindRefund, Time: int64(i+1) * 1000,
			Payment: "pi", Object: fmt.Sprint(i), Amount: 1, Currency: "EUR"})
	}
	set = append(set, Entry{Hash: hash(5000), Source: "shop", Kind: KindPaid, Payment: "pi", Amount: 1000, Currency: "EUR"})
	var o Outcome
	for b.Loop() {
		o.Fold(reg, set)
	}
}

func hash(n int) (h [16]byte) {
	h[14], h[15] = byte(n>>8), byte(n)
	return h
}

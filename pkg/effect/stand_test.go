package effect

import (
	"math/rand/v2"
	"testing"
)

// However facts come and go between attempts, as many rows stand as the story implies
// effects: none is lost, and none is done in vain without a person being asked.
func TestAsManyRowsStandAsAreImplied(t *testing.T) {
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 14))
		var rows []Row
		var before []Implied
		for range 12 {
			if n := len(rows); n > 0 && r.IntN(3) == 0 { // an attempt
				if row := &rows[r.IntN(n)]; row.State == Pending {
					row.Attempted = true
					if r.IntN(2) == 0 {
						row.State = Done
					}
				}
				continue
			}
			var after []Implied
			for k := range byte(3) {
				if r.IntN(2) == 0 {
					after = append(after, Implied{Name: "fulfil", Key: Key{k}})
				}
			}
			p := Reconcile(before, after, rows)
			for _, i := range p.Withdraw {
				rows[i].State = Withdrawn
			}
			for _, i := range p.Outdate {
				if rows[i].Outdated = true; rows[i].State == Pending {
					rows[i].State = Withdrawn
				}
			}
			for _, i := range p.Revive {
				if rows[i].Outdated = false; rows[i].State == Withdrawn {
					rows[i].State = Pending
				}
			}
			for _, i := range p.Insert {
				rows = append(rows, Row{Name: i.Name, Key: i.Key})
			}
			stand := 0
			for _, row := range rows {
				if row.State != Withdrawn && !row.Outdated {
					stand++
				}
			}
			if stand != len(after) {
				t.Fatalf("seed %d: %d rows stand for %d effects\nbefore %v\nafter  %v\nrows   %+v", seed, stand, len(after), before, after, rows)
			}
			before = after
		}
	}
}

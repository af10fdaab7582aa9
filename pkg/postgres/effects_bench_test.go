package postgres_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/pkg/effect"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// BenchmarkEffects is what writing effects down costs the transaction that pays a
// thousand orders: without any, with one for each order, with three. They take turns,
// so that a machine which does other things does them to all alike. Run it with
// -benchtime=30x.
func BenchmarkEffects(b *testing.B) {
	const orders = 1000
	s := testkit.Store(b)
	kinds := []struct {
		name string
		set  effect.Set
		took []time.Duration
	}{{name: "none"}, {name: "one", set: declared(b, fulfil)}, {name: "three", set: declared(b, fulfil+`
  - {name: mail, on: {to: paid}, url: "https://b.example", secret: env:S}
  - {name: crm, on: {to: paid}, url: "https://c.example", secret: env:S}
`)}}
	for n := range b.N {
		for turn := range kinds {
			k := &kinds[(n+turn)%len(kinds)]
			var register, pay []postgres.Fact
			for i := range orders {
				id := fmt.Sprintf("%s_%d_%d", k.name, n, i)
				register = append(register, registered(id, 1000))
				pay = append(pay, fact("evt_"+id, id, "pi_"+id, order.KindPaid, 1000, 1))
			}
			write := func(facts []postgres.Fact) time.Duration {
				began := time.Now()
				err := s.InTx(b.Context(), func(tx postgres.Tx) error {
					_, err := tx.Apply(b.Context(), at, facts)
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
				return time.Since(began)
			}
			s.WithEffects(effect.Set{})
			write(register)
			s.WithEffects(k.set)
			k.took = append(k.took, write(pay))
		}
	}
	median := func(took []time.Duration) float64 {
		slices.Sort(took)
		return float64(took[len(took)/2].Microseconds()) / orders
	}
	for _, k := range kinds {
		b.ReportMetric(median(k.took), "µs/order-"+k.name)
		b.ReportMetric(median(k.took)/median(kinds[0].took), "times-"+k.name)
	}
}

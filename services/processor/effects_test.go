package processor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"sluice/pkg/effect"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

const declaredEffects = `effects:
  - {name: fulfil, on: {to: paid}, url: "https://fulfilment.example/orders", secret: env:S}
  - {name: mail, on: [{to: paid}, {to: refunded}], url: "https://mail.example", secret: env:S}
`

func effects(t testing.TB, text string) effect.Set {
	t.Helper()
	set, err := effect.LoadWithoutSecrets("effects.yaml", func(string) ([]byte, error) { return []byte(text), nil })
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// resetTo has the stopped consumer group begin anew at an offset of one partition.
func (w *world) resetTo(partition int32, offset int64) {
	w.Helper()
	var offsets kadm.Offsets
	offsets.AddOffset(w.kafka.Topic(kafka.Raw), partition, offset, -1)
	w.until("the group is empty", func() bool {
		return w.admin.CommitAllOffsets(w.Context(), w.kafka.Topic(kafka.Group), offsets) == nil
	})
}

// O44: an offset reset, with processed_events whole, half or empty, and under rules
// that differ, writes down no effect anew; what was done stays done.
func TestAReplayCausesNoEffectAgain(t *testing.T) {
	const orders = 100
	w := newWorld(t, 2)
	w.store.WithEffects(effects(t, declaredEffects))
	_, stop := w.start(small(), w.deps())
	var ids []string
	for i := range orders {
		ids = append(ids, fmt.Sprintf("ord_%d", i))
	}
	w.register(1000, ids...)
	for i, id := range ids {
		w.produce(w.record(stated{id: "evt_" + id, order: id, payment: "pi_" + id, kind: order.KindPaid, amount: 1000}.event(), int32(i%2)))
	}
	w.caughtUp()
	claimed, err := w.store.ClaimEffects(t.Context(), time.Now(), "test", postgres.Wanted{Name: "fulfil", N: 1000, Lease: time.Minute},
		postgres.Wanted{Name: "mail", N: 1000, Lease: time.Minute})
	if err != nil || len(claimed) != 2*orders {
		t.Fatalf("%d effects were caused, %v; want %d", len(claimed), err, 2*orders)
	}
	for i, e := range claimed {
		outcome := postgres.AttemptDone
		if i%10 == 0 {
			outcome = postgres.AttemptFailed
		}
		if _, err := w.store.FinishEffects(t.Context(), time.Now(), postgres.Attempt{Effect: e, Outcome: outcome, StartedAt: time.Now(), Class: strings.Repeat("status", i%10/9)}); err != nil {
			t.Fatal(err)
		}
	}
	rows := func() string {
		return fmt.Sprint(w.number(`SELECT count(*) FROM effects`), w.number(`SELECT count(*) FROM effects WHERE state = 2`), w.number(`SELECT count(*) FROM effects WHERE state = 4`),
			w.number(`SELECT sum(hashtext(key::text || attempt || due_at || encode(body, 'hex'))) FROM effects`), w.number(`SELECT count(*) FROM order_transitions`))
	}
	want := rows()
	for _, replay := range []struct{ name, empty string }{
		{"the filter is whole", ``},
		{"half of the filter is gone", `DELETE FROM processed_events WHERE key::text < (SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY key::text) FROM processed_events)`},
		{"the filter is empty", `DELETE FROM processed_events`},
	} {
		stop()
		if replay.empty != "" {
			w.exec(replay.empty)
		}
		if replay.empty == "" {
			w.resetTo(1, 0) // one partition
		} else {
			w.rewind()
		}
		_, stop = w.start(small(), w.deps())
		w.caughtUp()
		if got := rows(); got != want {
			t.Errorf("%s: effects, done, failed, a sum of all and transitions are %s after a replay, %s before", replay.name, got, want)
		}
	}
	// A release whose rules differ causes nothing for what lies behind.
	stop()
	w.store.WithEffects(effects(t, declaredEffects+`
  - {name: crm, on: {to: paid}, url: "https://crm.example", secret: env:S}
`))
	w.exec(`DELETE FROM processed_events`)
	w.rewind()
	w.start(small(), w.deps())
	w.caughtUp()
	if got := rows(); got != want {
		t.Errorf("under other rules: %s after a replay, %s before", got, want)
	}
	w.send(stated{id: "evt_new", order: "ord_0", payment: "pi_ord_0", kind: order.KindPaid, amount: 1000}) // another event, the same fact
	w.caughtUp()
	if got := rows(); got != want {
		t.Errorf("the same fact under another id: %s, %s before", got, want)
	}
}

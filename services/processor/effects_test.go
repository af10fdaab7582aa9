package processor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
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

func TestWhatIsDueOutsideAndWhatFailedIsCounted(t *testing.T) {
	w := newWorld(t, 1)
	w.store.WithEffects(effects(t, declaredEffects))
	w.register(1000, "ord_1", "ord_2")
	w.send(stated{id: "evt_1", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000},
		stated{id: "evt_2", order: "ord_2", payment: "pi_2", kind: order.KindPaid, amount: 1000})
	deps := w.deps()
	fulfil, _, _ := strings.Cut(declaredEffects, "  - {name: mail")
	deps.Effects = effects(t, fulfil)
	p, _ := w.start(small(), deps)
	w.caughtUp()
	claimed, err := w.store.ClaimEffects(t.Context(), time.Now(), "test", postgres.Wanted{Name: "fulfil", N: 1, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.FinishEffects(t.Context(), time.Now(), postgres.Attempt{Effect: claimed[0], Outcome: postgres.AttemptFailed, StartedAt: time.Now(), Class: "refused"}); err != nil {
		t.Fatal(err)
	}
	p.countEffects(t.Context())
	notes := strings.Join(p.Notes(), "\n")
	for _, want := range []string{"effect fulfil: 1 due, the oldest for ", "; 1 failed\n", "effect mail: 2 due, the oldest for ", "; 0 failed; it is not declared here"} {
		if !strings.Contains(notes+"\n", want) {
			t.Errorf("no %q in\n%s", want, notes)
		}
	}
	if due, failed := testutil.ToFloat64(p.metrics.effectsDue.WithLabelValues("mail")), testutil.ToFloat64(p.metrics.effectsFail.WithLabelValues("fulfil")); due != 2 || failed != 1 {
		t.Errorf("%v of mail are due and %v of fulfil failed, want 2 and 1", due, failed)
	}
}

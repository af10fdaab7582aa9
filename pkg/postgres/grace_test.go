package postgres

import (
	"strings"
	"testing"
	"time"

	"sluice/pkg/order"
)

func TestEveryReasonToHoldHasItsGrace(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	cfg := Config{HeldGrace: 10 * time.Minute, HeldGraces: map[string]time.Duration{"awaiting_order": time.Hour, "second_payment": 5 * time.Minute, "over_refund": 0}}
	g, err := cfg.graces()
	if err != nil {
		t.Fatal(err)
	}
	set := map[order.Reason]time.Duration{order.AwaitingOrder: time.Hour, order.SecondPayment: 5 * time.Minute, order.OverRefund: 0}
	notHeld := map[order.Reason]bool{order.NoReason: true, order.OtherMode: true, order.Dismissed: true}
	for r := order.NoReason; !strings.Contains(r.String(), "("); r++ {
		helps, listed := patience[r]
		if listed == notHeld[r] {
			t.Errorf("%v: is it a reason to hold an event? It is %t in the table", r, listed)
		}
		want, own := set[r]
		if helps && !own {
			want = 10 * time.Minute
		}
		if got := g.due(r, now).Sub(now); got != want {
			t.Errorf("%v is due after %v, want %v", r, got, want)
		}
	}
	if g, err := (Config{}).graces(); err != nil || g[order.AwaitingOrder] != defaultHeldGrace || g[order.OutsideWindow] != 0 {
		t.Errorf("without settings: %v, %v", g, err)
	}
}

func TestAGraceThatMeansNothingIsRefusedByName(t *testing.T) {
	for word, grace := range map[string]time.Duration{"awaiting_orders": time.Hour, "dismissed": time.Hour, "awaiting_order": -time.Hour} {
		err := Config{HeldGraces: map[string]time.Duration{word: grace}}.Check()
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s:%v: %v", word, grace, err)
		}
	}
}

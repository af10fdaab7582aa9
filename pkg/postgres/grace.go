package postgres

import (
	"errors"
	"fmt"
	"time"

	"sluice/pkg/order"
)

// defaultHeldGrace: a shop that registers its order late does so within minutes;
// a provider's predecessor event arrives within seconds, at worst with a retry.
const defaultHeldGrace = 15 * time.Minute

// patience says of each reason whether waiting can help. What can is given the
// general grace; what only a person can settle is due at once.
var patience = map[order.Reason]bool{
	order.AwaitingOrder:       true, // the shop registers it
	order.AwaitingPayment:     true, // the event that links the payment comes
	order.AwaitingPredecessor: true, // the event that must come first comes
	order.AwaitingProvider:    true, // the look-up answers
	order.IllegalTransition:   true, // an earlier fact comes late, and the fold tries again
	order.AmountMismatch:      true, // the shop corrects its registration
	order.CurrencyMismatch:    true, // likewise
	order.OverRefund:          true, // an earlier refund turns out to have bounced
	order.SecondPayment:       false,
	order.OutsideWindow:       false,
}

// graces is how long an event may be held for each reason before a person is asked.
type graces map[order.Reason]time.Duration

// graces is the table of patience with the deployment's settings.
func (c Config) graces() (graces, error) {
	general := c.HeldGrace
	if general == 0 {
		general = defaultHeldGrace
	}
	var problems []error
	if general < 0 {
		problems = append(problems, errors.New("SLUICE_HELD_GRACE is negative"))
	}
	g := graces{}
	for reason, helps := range patience {
		if helps {
			g[reason] = general
		}
	}
	for word, grace := range c.HeldGraces {
		reason, err := order.ParseReason(word)
		if _, held := patience[reason]; err != nil || !held || grace < 0 {
			problems = append(problems, fmt.Errorf("SLUICE_HELD_GRACE_BY_REASON: %q with %v is not a reason to hold an event and a duration of 0 or more", word, grace))
			continue
		}
		g[reason] = grace
	}
	return g, errors.Join(problems...)
}

// LongestGrace is the longest that a held event waits before a person is asked.
func (c Config) LongestGrace() time.Duration {
	graces, _ := c.graces() // what is wrong with it, Check says
	return graces.longest()
}

func (g graces) longest() (longest time.Duration) {
	for _, grace := range g {
		longest = max(longest, grace)
	}
	return longest
}

// due is when a person should look at an event held for a reason.
func (g graces) due(r order.Reason, now time.Time) time.Time { return now.Add(g[r]) }

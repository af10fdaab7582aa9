package lookup

import (
	"sluice/pkg/event"
	"sluice/pkg/webhook"
)

// one is the run of most APIs: one document, mostly the payment's, that tells of all
// the rest.
func one(path string) func(*asking) result {
	return func(a *asking) result { return a.document("payment", path, a.target.Payment) }
}

// testing gives facts the mode of a provider that says whether a payment is a test's;
// a layout reads the opposite, whether it is live.
func (r result) testing(is *bool) result {
	if is == nil {
		return r
	}
	for i := range r.facts {
		r.facts[i].Mode = event.Live
		if *is {
			r.facts[i].Mode = event.Test
		}
	}
	return r
}

// orderPath is where the account says that the shop's order id is.
func orderPath(a Account, prefix string) webhook.Paths {
	return webhook.Paths{prefix + a.Settings["order"]}
}

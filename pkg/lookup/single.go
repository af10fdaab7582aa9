package lookup

import (
	"sluice/pkg/event"
	"sluice/pkg/webhook"
)

// one is the order of requests of most APIs: one document, mostly the payment's, that
// tells of all the rest.
func one(document, path string, id func(Target) string) func(readers, call) (*Request, result) {
	return func(r readers, c call) (*Request, result) {
		asked := id(c.target)
		switch {
		case !askable(asked):
			return nil, unaskable(asked)
		case len(c.got) == 0:
			return c.get(path, asked), result{}
		}
		return nil, r.read(document, asked, c.got[0])
	}
}

// payment and subjectOf are what is asked for by its id: the payment, or what the hint is
// about beside one.
func payment(t Target) string   { return t.Payment }
func subjectOf(t Target) string { return t.Subject }

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

package lookup

import "sluice/pkg/webhook"

// one is the order of requests of most APIs: the payment, in one document that tells
// of its refunds too.
func one(path string, id func(Target) string) func(readers, call) (*Request, result) {
	return func(r readers, c call) (*Request, result) {
		asked := id(c.target)
		switch {
		case !askable(asked):
			return nil, unaskable(asked)
		case len(c.got) == 0:
			return c.get(path, asked), result{}
		}
		return nil, r.read("payment", asked, c.got[0])
	}
}

func payment(t Target) string { return t.Payment }

// orderPath is where the account says that the shop's order id is.
func orderPath(a Account, prefix string) webhook.Paths {
	return webhook.Paths{prefix + a.Settings["order"]}
}

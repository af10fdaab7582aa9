package merchant

import (
	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// currency is the only one that Payme and Click know.
const currency = "UZS"

// stands is where an order stands for somebody who wants to pay it.
type stands uint8

const (
	standsOpen stands = iota
	standsPaid
	standsCalledOff
)

// standing: a failed or called-off attempt leaves an order open for another; a
// called-off order is closed.
func standing(o postgres.Checkout) stands {
	switch {
	case o.Status == order.Paid, o.Status == order.PartiallyRefunded, o.Status == order.Refunded:
		return standsPaid
	case o.CalledOff:
		return standsCalledOff
	}
	return standsOpen
}

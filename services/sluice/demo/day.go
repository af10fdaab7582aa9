package demo

import (
	"fmt"
	"time"

	"sluice/pkg/order"
	"sluice/services/sluice/dev"
	"sluice/services/sluice/sample"
)

// story is one order of the day: what happens to it, and how it must end.
type story struct {
	id       string
	title    string
	amount   int64 // minor units of currency
	currency string
	endpoint string
	// forgedClick: Click's API says that the payment, which was stated as paid, failed.
	forgedClick bool
	// late: the shop registers the order after its webhooks have come.
	late   bool
	events []happening
	want   want
}

// happening is one event of an order.
type happening struct {
	at   time.Duration // since the beginning of the day, by the provider's clock
	fact sample.Fact
	// copies is how often it is delivered, beside what chance adds.
	copies int
	// first: it arrives before everything else of its order.
	first bool
	// last: it arrives when everything else has been settled and published.
	last bool
	// forged: the body is changed after it was signed.
	forged bool
	// other: it belongs to the other mode.
	other bool
}

// want is how an order must end.
type want struct {
	status   order.Status
	refunded int64
	dispute  order.Dispute
	held     []order.Reason
}

// day is what happens. run tells the orders of one run from those of others in
// the same data directory.
func day(run string) []story {
	var orders []story
	add := func(title string, amount int64, currency, endpoint string, w want, events ...happening) *story {
		n := len(orders) + 1
		s := story{id: fmt.Sprintf("D%02d-%s", n, run), title: title, amount: amount, currency: currency, endpoint: endpoint, want: w, events: events}
		for i := range s.events {
			f := &s.events[i].fact
			f.ID = fmt.Sprintf("evt_%s_%02d_%d", run, n, i+1)
			f.Order, f.Currency, f.Total = s.id, currency, amount
			if f.Payment == "" {
				f.Payment = fmt.Sprintf("pi_%s_%02d", run, n)
			} else {
				f.Payment = fmt.Sprintf("pi_%s_%02d_%s", run, n, f.Payment)
			}
			if f.Object != "" {
				f.Object = fmt.Sprintf("%s_%s_%02d", f.Object, run, n)
			}
			if f.Amount == 0 {
				f.Amount = amount
			}
		}
		orders = append(orders, s)
		return &orders[n-1]
	}
	at := func(minute int, k order.Kind) happening {
		return happening{at: time.Duration(minute) * time.Minute, fact: sample.Fact{Kind: k}}
	}
	of := func(h happening, object string, amount int64) happening {
		h.fact.Object, h.fact.Amount = object, amount
		return h
	}

	add("paid at the first try", 24900, "EUR", dev.Stripe, want{status: order.Paid},
		at(2, order.KindPending), at(3, order.KindPaid))

	add("the first card fails, the second pays", 8950, "EUR", dev.Stripe, want{status: order.Paid},
		at(10, order.KindFailed), at(12, order.KindPaid))

	add("refunded in part, then whole", 12900, "EUR", dev.Stripe, want{status: order.Refunded, refunded: 12900},
		at(20, order.KindPaid), of(at(200, order.KindRefundTotal), "", 4900), of(at(260, order.KindRefundTotal), "", 12900))

	refundFirst := of(at(95, order.KindRefund), "re", 1500)
	refundFirst.first = true
	add("a refund arrives before its payment", 4990, "EUR", dev.Shop, want{status: order.PartiallyRefunded, refunded: 1500},
		at(30, order.KindPaid), refundFirst)

	add("webhooks come before the shop registers the order", 1999, "USD", dev.Shop, want{status: order.Paid},
		at(41, order.KindFailed), at(43, order.KindPaid)).late = true

	add("disputed, and won", 89900, "EUR", dev.Stripe, want{status: order.Paid, dispute: order.DisputeWon},
		at(50, order.KindPaid), of(at(300, order.KindDisputeOpened), "dp", 89900), of(at(420, order.KindDisputeWon), "dp", 89900))

	lateFailure := at(61, order.KindFailed)
	lateFailure.last = true
	add("an old failure arrives last: paid stays paid", 3500, "EUR", dev.Stripe, want{status: order.Paid},
		at(62, order.KindPaid), lateFailure)

	forged := at(70, order.KindPaid)
	forged.forged = true
	add("a forged payment is refused", 199900, "EUR", dev.Stripe, want{status: order.Pending}, forged)

	five := at(80, order.KindPaid)
	five.copies = 5
	add("one event five times, counted once", 7700, "EUR", dev.Declared, want{status: order.Paid}, five)

	other := at(90, order.KindPaid)
	other.other = true
	add("an event of the other mode changes nothing", 2500, "EUR", dev.Stripe, want{status: order.Pending}, other)

	second := at(104, order.KindPaid)
	second.fact.Payment = "again"
	add("paid twice: the second payment waits for a person", 5600, "EUR", dev.Shop,
		want{status: order.Paid, held: []order.Reason{order.SecondPayment}}, at(100, order.KindPaid), second)

	add("one euro for a thousand: held, not paid", 100000, "EUR", dev.Declared,
		want{status: order.Pending, held: []order.Reason{order.AmountMismatch}}, of(at(110, order.KindPaid), "", 100))

	add("yen have no cents", 5800, "JPY", dev.Shop, want{status: order.Refunded, refunded: 5800},
		at(120, order.KindPaid), of(at(380, order.KindRefund), "re", 5800))

	add("Payme asks, creates, performs", 14900000, "UZS", dev.Payme, want{status: order.Paid}, at(140, order.KindPaid))

	add("paid at Payme, and given back", 5990000, "UZS", dev.Payme, want{status: order.Refunded, refunded: 5990000},
		at(150, order.KindPaid), at(400, order.KindRefund))

	add("Click prepares and completes; its API confirms", 8700000, "UZS", dev.Click, want{status: order.Paid}, at(160, order.KindPaid))

	add("a failed Click payment stated as paid: its API is believed", 25000000, "UZS", dev.Click, want{status: order.Failed},
		at(170, order.KindPaid)).forgedClick = true

	add("called off", 1200, "EUR", dev.Declared, want{status: order.Cancelled}, at(130, order.KindCancelled))
	return orders
}

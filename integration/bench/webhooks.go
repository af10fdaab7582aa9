package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"

	"sluice/integration/harness"
)

// bodySize is what a Stripe event weighs in these measures, in bytes.
const bodySize = 1 << 10

// The life of every order here, in four events.
const (
	failed = iota
	paid
	partlyRefunded
	refunded
	lifetime // events an order
)

const price = 5000 // of every order, US cents

// body is one event of an order's life.
func body(d delivery, created time.Time) []byte {
	id, order, payment := d.eventID(), orderID(int(d.order)), fmt.Sprintf("pi_%08d", d.order)
	at := created.Add(d.after())
	switch d.step {
	case failed:
		return padded(harness.Intent(id, "payment_failed", order, payment, price, at))
	case paid:
		return padded(harness.Intent(id, "succeeded", order, payment, price, at))
	case partlyRefunded:
		return padded(harness.RefundTotal(id, order, payment, price, price/4, at))
	default:
		return padded(harness.RefundTotal(id, order, payment, price, price, at))
	}
}

func orderID(o int) string { return fmt.Sprintf("order-%08d", o) }

// delivery is one arrival of an event.
type delivery struct{ order, step int32 }

func (d delivery) eventID() string { return fmt.Sprintf("evt_%08d_%d", d.order, d.step) }

// after is when the event happens, from the first one on: 1,000 events a second,
// about as far apart as day lets them arrive. A provider's times run with its
// events, and the dedupe table's keys begin with them.
func (d delivery) after() time.Duration {
	return time.Duration(int(d.order)*lifetime+int(d.step)*spread/2) * time.Millisecond
}

// spread is how many places lie between two events of an order at most.
const spread = 4_000

// padded brings a body to bodySize with a field that nobody reads.
func padded(b []byte) []byte {
	const field = `,"request":{"idempotency_key":""}}`
	room := bodySize - len(b) + 1 - len(field)
	if room < 0 {
		return b
	}
	key := bytes.Repeat([]byte("7f3a-9c51e8b2d604"), room/16+1)[:room]
	return fmt.Appendf(b[:len(b)-1:len(b)-1], `,"request":{"idempotency_key":"%s"}}`, key)
}

// requests signs webhooks and renders them for the ingress at address. Their
// signatures are good for five minutes.
func requests(address string, ds []delivery) [][]byte {
	created := time.Now().Add(-time.Hour)
	out := make([][]byte, len(ds))
	for i, d := range ds {
		w := harness.Stripe(body(d, created))
		out[i] = rendered(address, "/webhooks/"+w.Endpoint, w.Header, w.Body)
	}
	return out
}

// stepByStep is every event of every order once: all orders' first events, then
// their second ones, and so on.
func stepByStep(orders int) (ds []delivery) {
	for step := range lifetime {
		for o := range orders {
			ds = append(ds, delivery{int32(o), int32(step)})
		}
	}
	return ds
}

// day is how events arrive: each order's in their order and some thousand places
// apart, and of all arrivals, that many in ten are repeats, up to 20,000 places
// after the first.
func day(orders, repeatsInTen int) []delivery {
	const delay = 20_000
	random := rand.New(rand.NewPCG(1, 2))
	n := orders * lifetime
	places := make([][]delivery, n+lifetime*spread+delay)
	for o := range orders {
		at := o * lifetime
		for step := range lifetime {
			d := delivery{int32(o), int32(step)}
			places[at] = append(places[at], d)
			if random.IntN(10-repeatsInTen) < repeatsInTen {
				again := at + 1 + random.IntN(delay)
				places[again] = append(places[again], d)
			}
			at += 1 + random.IntN(spread)
		}
	}
	var out []delivery
	for _, here := range places {
		out = append(out, here...)
	}
	return out
}

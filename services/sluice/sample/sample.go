// Package sample makes the webhooks that providers would send: real-looking
// bodies, for trying a deployment out. It signs nothing.
package sample

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"sluice/pkg/order"
)

// Fact is what a webhook shall state.
type Fact struct {
	Kind order.Kind
	// ID is the event's id, or the delivery's where the scheme has it in a header.
	ID      string
	Order   string
	Payment string
	// Object is the refund's or dispute's id.
	Object string
	// Amount is in minor units of Currency (ISO 4217). For KindRefundTotal it is
	// the sum of all refunds so far.
	Amount   int64
	Currency string
	// Total is the whole payment's amount, where a refund states it.
	Total int64
	Time  time.Time
	// Live: not a provider's test data.
	Live bool
}

// Webhook is a body, and the id that the provider's scheme signs beside it.
type Webhook struct {
	ID          string
	ContentType string
	// Headers are what the provider sends beside the signature.
	Headers map[string]string
	Body    []byte
}

type object = map[string]any

// Make makes the webhook of a built-in provider. Which kinds it knows differs.
func Make(provider string, f Fact) (Webhook, error) {
	maker, ok := makers[provider]
	if !ok {
		return Webhook{}, fmt.Errorf("no sample events of provider %s; known are %s; for others send a recorded file (--file)",
			provider, strings.Join(slices.Sorted(maps.Keys(makers)), ", "))
	}
	body := maker(f)
	if body == nil {
		return Webhook{}, fmt.Errorf("no sample of a %s event of provider %s; it has %s", f.Kind, provider, kinds(func(k order.Kind) bool { return maker(Fact{Kind: k}) != nil }))
	}
	w, err := wrap(f, body)
	if headers, ok := headers[provider]; ok && err == nil {
		w.Headers = headers(f)
	}
	return w, err
}

var makers = map[string]func(Fact) object{
	"adyen":             adyen,
	"paddle":            paddle,
	"razorpay":          razorpay,
	"shopify":           shopify,
	"square":            square,
	"standard_webhooks": standard,
	"stripe":            stripe,
	"svix":              standard,
}

var headers = map[string]func(Fact) map[string]string{"shopify": shopifyHeaders, "razorpay": razorpayHeaders}

// number makes a number of digits of a text, the same for the same text, as
// providers have for ids.
func number(text string, digits int) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	low := int64(math.Pow10(digits - 1))
	return low + int64(h.Sum64()%uint64(9*low))
}

func wrap(f Fact, body object) (Webhook, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return Webhook{}, fmt.Errorf("write sample: %w", err)
	}
	return Webhook{ID: f.ID, ContentType: "application/json", Body: text}, nil
}

func kinds(known func(order.Kind) bool) string {
	var names []string
	for k := order.KindPending; k <= order.KindCancelled; k++ {
		if known(k) {
			names = append(names, k.String())
		}
	}
	return strings.Join(names, ", ")
}

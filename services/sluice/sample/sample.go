// Package sample makes the webhooks that providers would send: real-looking
// bodies, for trying a deployment out. It signs nothing.
package sample

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
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
	Body        []byte
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
	return wrap(f, body)
}

var makers = map[string]func(Fact) object{
	"stripe":            stripe,
	"standard_webhooks": standard,
	"svix":              standard,
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

// Declared makes a webhook of a declared provider by setting what its layout
// reads.
func Declared(l webhook.Layout, f Fact) (Webhook, error) {
	i := slices.IndexFunc(l.Facts, func(r webhook.Fact) bool { return r.Kind == f.Kind })
	if i < 0 {
		return Webhook{}, fmt.Errorf("the declared provider states no %s; it has %s", f.Kind,
			kinds(func(k order.Kind) bool {
				return slices.ContainsFunc(l.Facts, func(r webhook.Fact) bool { return r.Kind == k })
			}))
	}
	rule, body := l.Facts[i], object{}
	or := func(own, common webhook.Paths) webhook.Paths {
		if len(own) > 0 {
			return own
		}
		return common
	}
	set(body, l.ID, f.ID)
	set(body, l.Type, rule.Type)
	unit := f.Time.Unix()
	if l.TimeUnit == "ms" {
		unit = f.Time.UnixMilli()
	}
	set(body, l.Time, unit)
	set(body, l.Mode, f.Live)
	set(body, or(rule.Order, l.Order), f.Order)
	set(body, or(rule.Payment, l.Payment), f.Payment)
	set(body, or(rule.Object, l.Object), f.Object)
	set(body, l.Currency, f.Currency)
	set(body, or(rule.PaymentAmount, l.PaymentAmount), money(l, f.Total, f.Currency))
	set(body, or(rule.Amount, l.Amount), money(l, f.Amount, f.Currency))
	for path, value := range rule.When {
		set(body, webhook.Paths{path}, value)
	}
	return wrap(f, body)
}

// set puts v at the first of paths that lies in the body; empty values say nothing.
func set(body object, paths webhook.Paths, v any) {
	if v == "" || v == int64(0) {
		return
	}
	for _, path := range paths {
		if strings.HasPrefix(path, "header:") {
			continue
		}
		at, keys := body, strings.Split(path, ".")
		for _, key := range keys[:len(keys)-1] {
			below, ok := at[key].(object)
			if !ok {
				below = object{}
				at[key] = below
			}
			at = below
		}
		at[keys[len(keys)-1]] = v
		return
	}
}

func money(l webhook.Layout, minor int64, currency string) any {
	if l.AmountUnit == "decimal" {
		if text, err := order.FormatDecimal(minor, currency); err == nil {
			return text
		}
	}
	return minor
}

package sample

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

var at = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

func fact(k order.Kind) Fact {
	return Fact{Kind: k, ID: "evt_1", Order: "order-1", Payment: "pi_1", Object: "re_1", Amount: 1250, Currency: "EUR", Total: 5000, Time: at, Live: true}
}

// whole are the providers that every kind of fact can be made of.
var whole = map[string]bool{"stripe": true, "standard_webhooks": true, "svix": true}

// derivesID are the providers whose ids the sample cannot choose.
var derivesID = map[string]bool{"adyen": true, "shopify": true}

func check(t *testing.T, p webhook.Provider, w Webhook, f Fact) {
	t.Helper()
	secret, err := webhook.NewSecret("s", "whsec_"+"c2FtcGxlLXNlY3JldC1zYW1wbGUtc2VjcmV0LTAx")
	if err == nil && p.CheckSecret(secret) != nil {
		secret, err = webhook.NewSecret("s", strings.Repeat("0f3b9a77", 8)) // a key in hex
	}
	if err != nil {
		t.Fatal(err)
	}
	const url = "https://shop.example/webhooks/square"
	if l, ok := p.(webhook.Located); ok {
		p = l.WithURL(url)
	}
	if s, ok := p.(webhook.Sealing); ok {
		if w.Body, err = s.Seal(secret, w.Body); err != nil {
			t.Fatal(err)
		}
	}
	signed, err := p.Sign(secret, w.ID, at, w.Body)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	for k, v := range signed {
		h.Set(k, v)
	}
	for k, v := range w.Headers {
		h.Set(k, v)
	}
	if v := p.Verify(webhook.Request{Method: "POST", URL: url, Header: h.Values, Body: w.Body}, []webhook.Secret{secret}, at); v.Outcome != webhook.Valid {
		t.Errorf("%s: the signature does not verify: %s", f.Kind, v.Reason)
	}
	r, err := p.Read(h.Values, w.Body)
	if err != nil {
		t.Fatalf("%s: %v", f.Kind, err)
	}
	if r.Mode == "" { // the provider states none: it is the endpoint's
		r.Mode = event.Live
	}
	if derivesID[p.Name()] {
		if r.ID == "" || f.Kind != order.KindCancelled && r.Payment == "" {
			t.Errorf("%s has no id or payment: %+v", f.Kind, r)
		}
		f.ID, f.Payment, f.Object = r.ID, r.Payment, r.Object
	}
	if r.Fact != f.Kind || r.ID != f.ID || r.Payment != f.Payment || !r.Time.Equal(at) || r.Mode != event.Live {
		t.Errorf("%s reads as %+v", f.Kind, r)
	}
	if r.Amount != f.Amount || r.Currency != f.Currency {
		t.Errorf("%s: amount reads as %d %s", f.Kind, r.Amount, r.Currency)
	}
	switch f.Kind {
	case order.KindRefund, order.KindRefundFailed, order.KindDisputeOpened, order.KindDisputeWon, order.KindDisputeLost:
		if r.Object != f.Object {
			t.Errorf("%s: object reads as %q", f.Kind, r.Object)
		}
	case order.KindFailed:
		if p.Name() == "shopify" { // its transactions name Shopify's order alone
			break
		}
		fallthrough
	default:
		if r.Order != f.Order {
			t.Errorf("%s: order reads as %q", f.Kind, r.Order)
		}
	}
}

func TestEverySampleSignsVerifiesAndReadsAsTheFactItStates(t *testing.T) {
	for name := range makers {
		p, ok := webhook.Builtin(name)
		if !ok {
			t.Fatalf("%s is not built in", name)
		}
		made := 0
		for k := order.KindPending; k <= order.KindCancelled; k++ {
			f := fact(k)
			w, err := Make(name, f)
			if err != nil {
				continue
			}
			made++
			check(t, p, w, f)
		}
		if fewest := map[bool]int{true: 9, false: 4}[whole[name]]; made < fewest {
			t.Errorf("%s: only %d kinds, not %d", name, made, fewest)
		}
	}
}

func TestADeclaredProvidersSampleFollowsItsDeclaration(t *testing.T) {
	d := webhook.Declaration{Name: "acme",
		Signature: webhook.Signature{Header: "X-Signature", Part: "v1", Algorithm: "sha256", Encoding: "hex", Signed: "{timestamp}.{body}", Timestamp: webhook.Timestamp{Part: "t"}},
		Reading: webhook.Layout{ID: webhook.Paths{"header:X-Event-Id"}, Type: webhook.Paths{"event.name"}, Time: webhook.Paths{"event.at"}, TimeUnit: "ms",
			Mode: webhook.Paths{"live"}, Order: webhook.Paths{"charge.reference"}, Payment: webhook.Paths{"charge.id"}, Amount: webhook.Paths{"charge.amount"}, Currency: webhook.Paths{"charge.currency"},
			Facts: []webhook.Fact{{Type: "charge", Kind: order.KindPaid, When: map[string]string{"charge.state": "ok"}}, {Type: "refund", Kind: order.KindRefund, Object: webhook.Paths{"refund.id"}}}},
	}
	p, err := webhook.NewDeclared(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []order.Kind{order.KindPaid, order.KindRefund} {
		w, err := Declared(d.Reading, fact(k))
		if err != nil {
			t.Fatal(err)
		}
		check(t, p, w, fact(k))
	}
	if _, err := Declared(d.Reading, fact(order.KindCancelled)); err == nil {
		t.Error("made a kind that the declaration does not have")
	}
}

func TestASampleFollowsEveryKindOfPath(t *testing.T) {
	signature := webhook.Signature{Header: "X-Signature", Part: "v1", Algorithm: "sha256", Encoding: "hex", Signed: "{timestamp}.{body}", Timestamp: webhook.Timestamp{Part: "t"}}
	paths := func(p ...string) webhook.Paths { return p }
	json := webhook.Layout{ID: paths("header:X-Id", "event.id"), Type: paths("event.0.type"), Time: paths("at"), TimeFormat: time.DateTime, TimeZone: "+05:00", Mode: paths("live"),
		Order: paths("attrs[name=order_ref].value"), Payment: paths("last:links[rel=up,kind=a].href"), Currency: paths("money.currency"),
		Amount: paths("sum:parts[ok=true].amount"), AmountUnit: "decimal",
		Facts: []webhook.Fact{{Type: "paid", Kind: order.KindPaid, When: map[string]string{"parts[ok=true].amount": "*", "gone": ""}},
			{Type: "back", Kind: order.KindRefund, Object: paths("refunds.1.id")}}}
	form := webhook.Layout{Body: "form", ID: paths("id"), Type: paths("type"), Time: paths("at"), TimeUnit: "rfc3339", Mode: paths("live"), Order: paths("order[id]"), Payment: paths("pay.id"),
		Amount: paths("amount"), Currency: paths("currency"), Facts: []webhook.Fact{{Type: "1", Kind: order.KindPaid}}}
	for _, l := range []webhook.Layout{json, form} {
		p, err := webhook.NewDeclared(webhook.Declaration{Name: "acme", Signature: signature, Reading: l})
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range l.Facts {
			w, err := Declared(l, fact(rule.Kind))
			if err != nil {
				t.Fatal(err)
			}
			check(t, p, w, fact(rule.Kind))
		}
	}
	joined := form
	joined.ID = paths("type + id")
	p, err := webhook.NewDeclared(webhook.Declaration{Name: "acme", Signature: signature, Reading: joined})
	if err != nil {
		t.Fatal(err)
	}
	f := fact(order.KindPaid)
	w, err := Declared(joined, f)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := p.Read(func(string) []string { return nil }, w.Body); err != nil || r.ID != "1:"+f.ID {
		t.Errorf("%q, %v", r.ID, err)
	}
	headers := form
	headers.Type = paths("header:X-Type")
	if _, err := Declared(headers, f); err == nil {
		t.Error("made a sample whose type no body states")
	}
}

func TestDecimalAmountsAreExact(t *testing.T) {
	decimal := webhook.Layout{AmountUnit: "decimal"}
	for _, c := range []struct {
		minor    int64
		currency string
		want     string
	}{{1250, "EUR", "12.50"}, {5, "EUR", "0.05"}, {500, "JPY", "500"}, {1234, "KWD", "1.234"}} {
		if got := money(decimal, c.minor, c.currency); got != c.want {
			t.Errorf("%d %s = %v, want %s", c.minor, c.currency, got, c.want)
		}
	}
}

package lookup_test

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"sluice/pkg/lookup"
	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

func declared(t *testing.T, text string) (lookup.API, error) {
	t.Helper()
	var d lookup.Declaration
	if err := yaml.UnmarshalWithOptions([]byte(text), &d, yaml.Strict(), yaml.CustomUnmarshaler(func(k *order.Kind, text []byte) error {
		return k.UnmarshalText([]byte(strings.TrimSpace(string(text))))
	})); err != nil {
		t.Fatal(err)
	}
	return lookup.NewDeclared("acme", d)
}

const reading = `{id: id, type: status, payment: id, amount: amount, currency: currency, facts: [{type: ok, kind: paid}]}`

func TestEverythingThatIsWrongWithADeclaredAPIIsToldAtOnce(t *testing.T) {
	_, err := declared(t, `
auth: {scheme: digest, user: a}
headers: {Authorization: x, "a b": y}
unknown: [200, 429]
payment:
  - {path: payments, readings: []}
  - {path: "/payments/{order}", readings: [{type: status, order: "header:X", facts: [{type: ok, kind: paid}], time_repeats: true}]}
object:
  - {path: "/x/{object}/../y", pages: {cursor: a, page: b}, readings: [`+reading+`]}
order:
  - {path: "/o/{order}", pages: {list: data, cursor: a}, readings: [`+reading+`]}
`)
	if err == nil {
		t.Fatal("it is taken")
	}
	for _, want := range []string{
		`auth.scheme: "digest" is none of bearer, basic, header`, "headers.Authorization:", "headers.a b:", "unknown: 200", "unknown: 429",
		`payment[0].path: "payments" does not begin with one /`, "payment[0].readings: missing",
		`payment[1].path: "/payments/{order}" does not hold {payment}`, "payment[1].readings[0].id: no path", "payment[1].readings[0].facts[0] (ok): no path of an amount",
		"payment[1].readings[0]: body, trust, changed_body and time_repeats are of webhooks",
		`object[0].path: "/x/{object}/../y" holds what is no path`, "object[0].pages.list: missing", "object[0].pages: give one of cursor, page, skip and link", "object[0].pages.parameter:",
		"order[0].pages.parameter: is for the cursor",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing of %q in\n%v", want, err)
		}
	}
	for text, want := range map[string]string{
		"auth: {scheme: bearer}":                             "payment: no request",
		"auth: {scheme: header}\npayment: []":                "auth.name: names the header",
		"auth: {scheme: header, name: \"X Y\"}\npayment: []": "auth.name: \"X Y\" cannot be a header's",
		"auth: {scheme: bearer, user: me}\npayment: []":      "auth.user: is only for scheme basic",
		`{auth: {scheme: bearer}, payment: [{path: "/p/{payment}", readings: [{id: id, type: status}]}]}`:            "no reading states a fact that decides anything",
		`{auth: {scheme: bearer}, payment: [{path: "/p/{payment}", readings: [{id: "header:X-Id", type: status}]}]}`: "x-id: a document has no headers",
	} {
		if _, err := declared(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func declaredAt(t *testing.T, text string) *lookup.Lookup {
	t.Helper()
	api, err := declared(t, text)
	if err != nil {
		t.Fatal(err)
	}
	l, err := api.New(lookup.Account{BaseURL: "https://api.test/v1", Secret: "hidden"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestADeclaredCredentialIsSentAsItSays(t *testing.T) {
	for auth, want := range map[string][2]string{
		"{scheme: bearer}":                {"Authorization", "Bearer hidden"},
		"{scheme: basic}":                 {"Authorization", "Basic aGlkZGVuOg=="},
		"{scheme: basic, user: shop}":     {"Authorization", "Basic c2hvcDpoaWRkZW4="},
		"{scheme: header, name: X-Token}": {"X-Token", "hidden"},
	} {
		l := declaredAt(t, `{auth: `+auth+`, headers: {X-Version: "2"}, payment: [{path: "/p/{payment}?a={payment}", readings: [`+reading+`]}]}`)
		r := l.Next(lookup.Target{Object: "o", Payment: "a+b&c"}, nil, "", now).Request
		if r == nil || r.Header[want[0]] != want[1] || r.Header["X-Version"] != "2" || r.URL != "https://api.test/v1/p/a+b&c?a=a%2Bb%26c" {
			t.Errorf("%s: %v", auth, r)
		}
	}
}

// Credentials go along with every request.
func TestADeclaredListIsFollowedOnItsOwnHostOnly(t *testing.T) {
	l := declaredAt(t, `{auth: {scheme: bearer}, payment: [{path: "/refunds?payment={payment}", pages: {list: data, link: next},
		readings: [{each: [data], id: item.id, type: item.status, payment: item.payment, object: item.id, amount: item.amount, currency: item.currency, facts: [{type: ok, kind: refund}]}]}]}`)
	target := lookup.Target{Object: "o", Payment: "p"}
	next := func(link string) lookup.Step {
		return l.Next(target, []lookup.Response{answer(`{"data":[{"id":"r","status":"ok","payment":"p","amount":1,"currency":"EUR"}],"next":"` + link + `"}`)}, "", now)
	}
	for _, good := range []string{"https://api.test/v1/refunds?payment=p&page=2", "/v1/refunds?payment=p&page=2", "?payment=p&page=2"} {
		if step := next(good); step.Request == nil || step.Request.URL != "https://api.test/v1/refunds?payment=p&page=2" {
			t.Errorf("%s leads to %v: %s", good, step.Request, step.Why)
		}
	}
	for _, bad := range []string{"https://evil.test/v1/refunds?page=2", "//evil.test/v1/refunds?page=2", "http://api.test/v1/refunds?page=2", "https://api.test/v1/payouts?page=2",
		"https://a:b@api.test/v1/refunds?page=2", "https://api.test:8443/v1/refunds?page=2", "::", "?payment=p"} {
		if step := next(bad); step.Request != nil || step.Outcome != lookup.Unreadable || len(step.Facts) > 0 {
			t.Errorf("%s leads to %v, %s", bad, step.Request, step.Outcome)
		}
	}
	if step := next(""); step.Outcome != lookup.Answered || len(step.Facts) != 1 {
		t.Errorf("%s: %s", step.Outcome, step.Why)
	}
}

// A hint may name a refund alone.
func TestADeclaredObjectLeadsToItsPayment(t *testing.T) {
	l := declaredAt(t, `{auth: {scheme: bearer}, payment: [{path: "/p/{payment}", readings: [`+reading+`]}],
		object: [{path: "/r/{object}", readings: [{id: id, type: status, payment: payment}]}]}`)
	target := lookup.TargetOf(webhook.Reading{ID: "e", Object: "r1"})
	answers := []lookup.Response{answer(`{"id":"r1","status":"ok","payment":"p1"}`), answer(`{"id":"p1","status":"ok","amount":5,"currency":"EUR"}`)}
	if step := l.Next(target, answers[:1], "", now); step.Request == nil || step.Request.URL != "https://api.test/v1/p/p1" {
		t.Fatalf("%v: %s", step.Request, step.Why)
	}
	if step := l.Next(target, answers, "", now); len(step.Facts) != 1 || step.Facts[0].Payment != "p1" || step.Facts[0].Fact != order.KindPaid {
		t.Errorf("%+v: %s", step.Facts, step.Why)
	}
	if step := l.Next(lookup.Target{Object: "o", Order: "ORD-1"}, nil, "", now); step.Outcome != lookup.Pointless {
		t.Errorf("%s: %s", step.Outcome, step.Why)
	}
}

package lookup_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/lookup"
	"sluice/pkg/webhook"
)

// Every API is held to this table, at every request of every exchange: there is no
// way to add one that is not.

// O45: what is no answer decides nothing, on whichever page of whichever list.
func TestWhatIsNoAnswerDecidesNothing(t *testing.T) {
	type bad struct {
		lookup.Response
		want  lookup.Outcome
		after time.Duration
	}
	table := map[string]bad{
		"timeout":           {lookup.Response{}, lookup.Unavailable, 0},
		"408":               {lookup.Response{Status: 408}, lookup.Unavailable, 0},
		"500":               {lookup.Response{Status: 500}, lookup.Unavailable, 0},
		"502 with a page":   {lookup.Response{Status: 502, Body: []byte("<html>")}, lookup.Unavailable, 0},
		"429":               {lookup.Response{Status: 429, RetryAfter: "7"}, lookup.Unavailable, 7 * time.Second},
		"429 for a minute":  {lookup.Response{Status: 429, RetryAfter: "60"}, lookup.Unavailable, time.Minute},
		"429 for ever":      {lookup.Response{Status: 429, RetryAfter: "99999999999"}, lookup.Unavailable, time.Hour},
		"429 until then":    {lookup.Response{Status: 429, RetryAfter: "Fri, 02 Jan 2026 03:05:05 GMT"}, lookup.Unavailable, time.Minute},
		"429 by its clock":  {lookup.Response{Status: 429, RetryAfter: "Fri, 02 Jan 2026 03:05:05 GMT", Date: "Fri, 02 Jan 2026 03:05:00 GMT"}, lookup.Unavailable, 5 * time.Second},
		"429 and nonsense":  {lookup.Response{Status: 429, RetryAfter: "soon"}, lookup.Unavailable, 0},
		"503 for a year":    {lookup.Response{Status: 503, RetryAfter: "31536000"}, lookup.Unavailable, time.Hour},
		"503 until gone by": {lookup.Response{Status: 503, RetryAfter: "Fri, 02 Jan 2026 03:00:00 GMT"}, lookup.Unavailable, 0},
		"401":               {lookup.Response{Status: 401}, lookup.Refused, 0},
		"403":               {lookup.Response{Status: 403}, lookup.Refused, 0},
		"404":               {lookup.Response{Status: 404}, lookup.Unknown, 0},
		"404 that says it":  {lookup.Response{Status: 404, Body: []byte(`{"status":"failed"}`)}, lookup.Unknown, 0},
		"410":               {lookup.Response{Status: 410}, lookup.Unknown, 0},
		"redirect":          {lookup.Response{Status: 302}, lookup.Unreadable, 0},
		"moved for good":    {lookup.Response{Status: 301}, lookup.Unreadable, 0},
		"no content":        {lookup.Response{Status: 204}, lookup.Unreadable, 0},
		"empty":             {lookup.Response{Status: 200}, lookup.Unreadable, 0},
		"garbage":           {answer("paid"), lookup.Unreadable, 0},
		"null":              {answer("null"), lookup.Unreadable, 0},
		"half a document":   {answer(`{"id":"`), lookup.Unreadable, 0},
		"an empty object":   {answer("{}"), lookup.Unreadable, 0},
		"too large":         {lookup.Response{Status: 200, Oversized: true}, lookup.Unreadable, 0},
		"of another object": {answer(`{"id":"other","status":"x","payments":{"id":"other","status":"x"},"payment":{"id":"other","status":"x"},
			"refund":{"id":"other","status":"x"},"refunds":{"id":"other"},"dispute":{"id":"other","state":"x"},"dispute_id":"other","data":{"id":"other","status":"x"},
			"payment_status":"x","transaction_id":"other","order_id":"other","error_code":0,"payment_id":1,"merchant_trans_id":"other",
			"Success":true,"Model":{"TransactionId":1,"Status":"x"}}`), lookup.Unreadable, 0},
	}
	every(t, func(t *testing.T, e exchange) {
		for at := range e.Exchange {
			for name, b := range table {
				step := spoilt(t, e, at, b.Response)
				if step.Request != nil || step.Outcome != b.want || len(step.Facts) > 0 || step.Why == "" || step.RetryAfter != b.after {
					t.Errorf("request %d, %s: %v %s, %d facts, after %v: %s", at+1, name, step.Request, step.Outcome, len(step.Facts), step.RetryAfter, step.Why)
				}
			}
		}
	})
}

// spoilt is what a look-up makes of an exchange whose answer at a place is another.
func spoilt(t *testing.T, e exchange, at int, r lookup.Response) lookup.Step {
	t.Helper()
	answers := e.answers()[:at+1]
	answers[at] = r
	return account(t, e.provider).Next(e.Target, answers, "token", now)
}

// The words by which documents say that money is not real.
var modes = strings.NewReplacer(`"livemode": false`, `"livemode": true`, `"live_mode": false`, `"live_mode": true`, `"mode": "test"`, `"mode": "live"`,
	`"test": true`, `"test": false`, `"TestMode": true`, `"TestMode": false`)

func TestAnAnswerOfTheOtherModeDecidesNothing(t *testing.T) {
	every(t, func(t *testing.T, e exchange) {
		changed := false
		answers := e.answers()
		for i := range answers {
			text := modes.Replace(string(answers[i].Body))
			changed = changed || text != string(answers[i].Body)
			answers[i].Body = []byte(text)
		}
		if step, _ := ask(t, e.provider, e.Target, answers); changed && len(e.Facts) > 0 && (step.Outcome != lookup.Unreadable || len(step.Facts) > 0 || !strings.Contains(step.Why, "mode")) {
			t.Errorf("%s, %d facts: %s", step.Outcome, len(step.Facts), step.Why)
		}
	})
}

// An answer, or one page of a list, that is about another payment than what was asked
// for makes the whole unreadable.
func TestAnAnswerAboutAnotherPaymentDecidesNothing(t *testing.T) {
	tried := map[string]int{}
	every(t, func(t *testing.T, e exchange) {
		// Two ask by the order, and a dispute by its own id: its payment is what the answer says.
		if e.Target.Payment == "" || e.Target.Subject != "" || e.provider == "midtrans" || e.provider == "click" {
			return
		}
		for at, step := range e.Exchange {
			for _, quote := range []string{`"`, ``} {
				text := strings.ReplaceAll(string(step.Answer), quote+e.Target.Payment+quote, quote+strings.Repeat("7", len(e.Target.Payment))+quote)
				if text == string(step.Answer) || strings.HasPrefix(e.Target.Payment, "ch_3") && at > 0 {
					continue
				}
				got := spoilt(t, e, at, answer(text))
				if got.Request == nil && (got.Outcome != lookup.Unreadable || len(got.Facts) > 0) {
					t.Errorf("request %d: %s, %d facts", at+1, got.Outcome, len(got.Facts))
				}
				tried[e.provider]++
				break
			}
		}
	})
	for _, api := range apis(t) {
		if tried[api.Provider] == 0 && api.Provider != "midtrans" && api.Provider != "click" {
			t.Errorf("%s was not tried", api.Provider)
		}
	}
}

// O45: all pages are read, and none of them for ever.
func TestAListWithoutAnEndIsNoAnswer(t *testing.T) {
	paged := map[string]int{}
	every(t, func(t *testing.T, e exchange) {
		if e.Pages == 0 {
			return
		}
		paged[e.provider]++
		var got []lookup.Response
		l := account(t, e.provider)
		for {
			step := l.Next(e.Target, got, "token", now)
			if step.Request == nil {
				if len(got) > lookup.MaxRequests {
					t.Errorf("made %d requests", len(got))
				}
				return
			}
			got = append(got, answer(string(e.Exchange[min(len(got), e.Pages)].Answer))) // the second page, again and again
		}
	})
	for _, provider := range []string{"stripe", "paddle", "checkout", "razorpay", "yookassa", "gocardless", "mercadopago", "flutterwave", "acme-pay"} {
		if paged[provider] == 0 {
			t.Errorf("%s lists, and no exchange has three pages", provider)
		}
	}
	var got []lookup.Response
	l := account(t, "razorpay")
	for {
		step := l.Next(lookup.Target{Object: "o", Order: "ORD-1"}, got, "", now)
		if step.Request == nil {
			if step.Outcome != lookup.Unreadable || len(got) != lookup.MaxRequests || !strings.Contains(step.Why, "beyond 20 requests") {
				t.Errorf("%s after %d requests: %s", step.Outcome, len(got), step.Why)
			}
			return
		}
		got = append(got, answer(`{"items":[{"id":"order_1","receipt":"other"}]}`))
	}
}

func TestEveryAPIIsAskedForWhatItSays(t *testing.T) {
	for _, api := range apis(t) {
		if api.Docs == "" || api.Credential == "" || api.Rate <= 0 || api.Pending <= 0 {
			t.Errorf("%s leaves out what people must know: %+v", api.Provider, api)
		}
		byOrder := func(outcome string) bool {
			return slices.ContainsFunc(exchanges(t, api.Provider), func(e exchange) bool {
				return e.Target.Payment == "" && e.Target.Subject == "" && e.Outcome == outcome && (outcome != "" || strings.Contains(strings.Join(e.Facts, "\n"), "paid "))
			})
		}
		target, _ := first(t, api.Provider)
		if step := account(t, api.Provider).Next(lookup.Target{Object: "o", Payment: target.Payment}, nil, "token", now); (step.Request != nil) != api.ByPayment {
			t.Errorf("%s: by payment %v, and asks %v", api.Provider, api.ByPayment, step.Request)
		}
		bare := lookup.Target{Object: "o", Order: "ORD-1", Time: now}
		step := account(t, api.Provider).Next(bare, nil, "token", now)
		switch {
		case api.ByOrder && (!byOrder("") || !byOrder("unknown")):
			t.Errorf("%s can be asked by the order, and no exchange does so, with a payment and without", api.Provider)
		case api.ByOrder != (step.Request != nil):
			t.Errorf("%s: by order %v, and asks %v", api.Provider, api.ByOrder, step.Request)
		case api.Provider == "acme-pay": // its address is the endpoint's
		case api.Live == "" || api.Test == "":
			t.Errorf("%s has no address", api.Provider)
		case !api.ByOrder && (step.Outcome != lookup.Pointless || !strings.Contains(api.Leaves, "by order")):
			t.Errorf("%s: %s, and says of it: %q", api.Provider, step.Outcome, api.Leaves)
		}
	}
}

func TestAProviderThatCannotBeAskedSaysWhy(t *testing.T) {
	for _, name := range webhook.BuiltinNames() {
		if _, ok := lookup.For(name); ok && lookup.Silent(name) != "" {
			t.Errorf("%s can be asked and cannot", name)
		}
	}
	if !strings.Contains(lookup.Silent("adyen"), "webhooks") || lookup.Silent("stripe") != "" {
		t.Error("Adyen is the one that has nothing to ask")
	}
}

// The shop's order id can only be searched for where the provider can.
func TestAnOrderIsNotSearchedWhereTheProviderCannot(t *testing.T) {
	for _, provider := range []string{"stripe", "checkout", "mercadopago", "flutterwave"} {
		api, _ := lookup.For(provider)
		l, err := api.New(lookup.Account{Mode: event.Test, Settings: map[string]string{"order": "description"}, Secret: "hidden"})
		if err != nil {
			t.Fatal(err)
		}
		if step := l.Next(lookup.Target{Object: "o", Order: "ORD-1"}, nil, "", now); step.Request != nil || step.Outcome != lookup.Pointless || !strings.Contains(step.Why, "description") {
			t.Errorf("%s: %v %s: %s", provider, step.Request, step.Outcome, step.Why)
		}
	}
}

// Answers come over the network: whatever they hold, a look-up ends, and what it
// states can be written.
func FuzzAnswer(f *testing.F) {
	type aim struct {
		provider string
		target   lookup.Target
	}
	var aims []aim
	for _, api := range apis(f) {
		for _, e := range exchanges(f, api.Provider) {
			seed := [3][]byte{}
			for i, a := range e.answers() {
				seed[min(i, 2)] = a.Body
			}
			f.Add(uint8(len(aims)), seed[0], seed[1], seed[2])
			aims = append(aims, aim{api.Provider, e.Target})
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, first, second, third []byte) {
		a := aims[int(which)%len(aims)]
		l, bodies := account(t, a.provider), [3][]byte{first, second, third}
		for got := []lookup.Response(nil); ; {
			step := l.Next(a.target, got, "", now)
			if step.Request == nil {
				for _, r := range step.Facts {
					if body, err := lookup.Encode(r); err == nil {
						if _, err := lookup.Decode(body); err != nil {
							t.Errorf("%s: %v", body, err)
						}
					}
				}
				return
			}
			if len(got) == lookup.MaxRequests {
				t.Fatal("asks for ever")
			}
			got = append(got, lookup.Response{Status: 200, Body: bodies[min(len(got), 2)]})
		}
	})
}

package lookup_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/lookup"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// settings are what each API must be told.
var settings = map[string]map[string]string{
	"razorpay":      {"key_id": "rzp_test_1"},
	"click":         {"service_id": "24001", "merchant_user_id": "77"},
	"yookassa":      {"shop_id": "100500"},
	"paypal":        {"client_id": "app"},
	"cloudpayments": {"public_id": "pk_1"},
}

// apis are all that Sluice knows, and the one that endpoints.example.yaml declares.
func apis(t testing.TB) []lookup.API {
	t.Helper()
	set, err := example()
	if err != nil {
		t.Fatal(err)
	}
	acme, _ := set.Get("acme-pay")
	return append(lookup.All(), acme.Lookup.API)
}

var example = sync.OnceValues(func() (endpoint.Set, error) {
	value := func(string) (string, bool) { return "hidden", true }
	return endpoint.LoadWithCredentials("../../endpoints.example.yaml", event.Live, value, os.ReadFile)
})

func account(t testing.TB, provider string) *lookup.Lookup {
	t.Helper()
	i := slices.IndexFunc(apis(t), func(a lookup.API) bool { return a.Provider == provider })
	if i < 0 {
		t.Fatalf("no API of %s", provider)
	}
	api := apis(t)[i]
	l, err := api.New(lookup.Account{Mode: event.Test, BaseURL: "https://api.test", Settings: settings[provider], Secret: "hidden"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// What a hint names may be anybody's text.
func TestAnIDThatIsMoreThanANameIsNotAskedFor(t *testing.T) {
	for _, api := range apis(t) {
		for _, id := range []string{"", ".", "..", "a/b", `a\b`, "a?b", "a#b", "a%2fb", "a;b", "a b", "a\nb", "a\x00", strings.Repeat("a", 256)} {
			target, _ := first(t, api.Provider)
			target.Order, target.Payment, target.Subject = id, id, id
			step := account(t, api.Provider).Next(target, nil, "token", now)
			want := lookup.Unknown
			if id == "" {
				want = lookup.Pointless
			}
			if step.Request != nil || step.Outcome != want {
				t.Errorf("%s asks %v for %q, %s", api.Provider, step.Request, id, step.Outcome)
			}
		}
	}
}

func TestNoTextHoldsTheSecret(t *testing.T) {
	for _, api := range apis(t) {
		a := lookup.Account{Mode: event.Live, BaseURL: "https://api.test", Settings: settings[api.Provider], Secret: "hidden"}
		l, err := api.New(a)
		if err != nil {
			t.Fatal(err)
		}
		target, _ := first(t, api.Provider)
		step := l.Next(target, nil, "hidden", now)
		if text := fmt.Sprintf("%v %+v %#v %v %+v %#v", a, a, a, *step.Request, *step.Request, *step.Request); strings.Contains(text, "hidden") || strings.Contains(text, "aGlkZGVu") {
			t.Errorf("%s: %s", api.Provider, text)
		}
	}
}

// The header is Click's: merchant_user_id, SHA-1 of time and secret, time.
func TestClickSignsTheTime(t *testing.T) {
	step := account(t, "click").Next(lookup.Target{Order: "ORD-1", Time: now}, nil, "", time.Unix(1519051543, 0))
	if got := step.Request.Header["Auth"]; got != "77:c3706afdde62346ae4773bbf4d68dcc0427b4467:1519051543" {
		t.Error(got)
	}
}

// A replayed Complete may carry the payment document of another order that was paid:
// the number is not signed. It is not asked for.
func TestClicksPaymentIsFoundByTheSignedOrderAlone(t *testing.T) {
	target := lookup.Target{Order: "ORD-1", Payment: "999", Subject: "999", Time: now}
	step, asked := ask(t, "click", target, []lookup.Response{answer(`{"error_code":-1}`), answer(`{"error_code":-1}`)})
	if step.Outcome != lookup.Unknown || len(step.Facts) > 0 || strings.Contains(strings.Join(asked, " "), "999") {
		t.Errorf("%s, %d facts, asked %v", step.Outcome, len(step.Facts), asked)
	}
}

func TestATokenIsReadWithItsLifeOrNotAtAll(t *testing.T) {
	l := account(t, "paypal")
	request, needed := l.Token()
	if !needed || request.Method != http.MethodPost || request.URL != "https://api.test/v1/oauth2/token" || request.Header["Authorization"] != "Basic YXBwOmhpZGRlbg==" || string(request.Body) != "grant_type=client_credentials" {
		t.Errorf("%v %v %s", needed, request, request.Body)
	}
	token, use, end := l.ReadToken(lookup.Response{Status: 200, Body: []byte(`{"access_token":"T","token_type":"Bearer","expires_in":31668}`)})
	if token != "T" || use != 31608*time.Second || end.Outcome != lookup.Answered {
		t.Errorf("%q for %v, %s", token, use, end.Outcome)
	}
	for body, status := range map[string]int{`{}`: 200, `no`: 200, `{"access_token":1}`: 200, `{"error":"invalid_client"}`: 401, ``: 0} {
		if token, _, end := l.ReadToken(lookup.Response{Status: status, Body: []byte(body)}); token != "" || end.Outcome == lookup.Answered || end.Why == "" {
			t.Errorf("%d %s: %q, %s", status, body, token, end.Outcome)
		}
	}
}

func TestEverySettingThatIsWrongIsToldAtOnce(t *testing.T) {
	api, _ := lookup.For("click")
	_, err := api.New(lookup.Account{Settings: map[string]string{"service": "1"}})
	for _, part := range []string{"settings.service_id: missing", "settings.merchant_user_id: missing", "settings.service: click has no such setting"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v says nothing of %q", err, part)
		}
	}
	api, _ = lookup.For("mollie_classic")
	if _, err := api.New(lookup.Account{Settings: map[string]string{"order": "metadata..id"}}); err == nil || !strings.Contains(err.Error(), "settings.order") {
		t.Error(err)
	}
}

func TestTheShopSaysWhereItsOrderIDIs(t *testing.T) {
	api, _ := lookup.For("mollie_classic")
	l, err := api.New(lookup.Account{BaseURL: "https://api.test", Settings: map[string]string{"order": "description"}, Secret: "hidden"})
	if err != nil {
		t.Fatal(err)
	}
	step := l.Next(lookup.Target{Object: "tr_1", Payment: "tr_1"}, []lookup.Response{{Status: 200, Body: []byte(`{"id":"tr_1","status":"paid","amount":{"value":"1.00","currency":"EUR"},"description":"SHOP-9","paidAt":"2026-01-01T10:05:00+00:00"}`)}}, "", now)
	if len(step.Facts) != 1 || step.Facts[0].Order != "SHOP-9" {
		t.Errorf("%s: %+v", step.Why, step.Facts)
	}
}

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

func FuzzToken(f *testing.F) {
	f.Add(200, []byte(`{"access_token":"T","token_type":"Bearer","expires_in":31668}`))
	l := account(f, "paypal")
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		token, use, end := l.ReadToken(lookup.Response{Status: status, Body: body})
		if (token != "") != (end.Outcome == lookup.Answered) || use < 0 || use > 24*365*time.Hour {
			t.Errorf("%q for %v, %s", token, use, end.Outcome)
		}
	})
}

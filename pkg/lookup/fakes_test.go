package lookup_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"sluice/pkg/lookup"
	"sluice/pkg/testkit/provider"
)

// fake is a provider that holds what an exchange speaks of.
func fake(t *testing.T, e exchange) *provider.Objects {
	t.Helper()
	name := strings.TrimSuffix(e.provider, "_classic")
	o := &provider.Objects{Provider: name, Secret: "hidden", Size: 1}
	for _, setting := range []string{"key_id", "shop_id"} {
		o.User += settings[e.provider][setting]
	}
	if e.Outcome == "unknown" {
		return o
	}
	for _, step := range e.Exchange {
		path, _, _ := strings.Cut(step.Ask, "?")
		path = strings.TrimSuffix(strings.TrimSuffix(path, "/search"), "/verify")
		var object map[string]json.RawMessage
		var items []json.RawMessage
		if json.Unmarshal(step.Answer, &object) == nil {
			for _, key := range []string{"data", "items", "refunds", "results"} {
				if _, embedded := object["id"]; !embedded && json.Unmarshal(object[key], &items) == nil && items != nil {
					break
				}
			}
		} else if err := json.Unmarshal(step.Answer, &items); err != nil {
			t.Fatal(err)
		}
		if items == nil {
			for _, key := range []string{"data", "payment", "refund", "dispute", "payments", "refunds"} {
				if inner := object[key]; name != "stripe" && len(inner) > 0 && inner[0] == '{' {
					o.Put(path, string(inner))
					object = nil
					break
				}
			}
			if object != nil {
				o.Put(path, string(step.Answer))
			}
			continue
		}
		of := ""
		switch part := strings.Split(path, "/"); {
		case strings.HasSuffix(path, "/actions"):
			of, path = part[2], "/actions"
		case name == "razorpay" && len(part) == 5: // /v1/payments/ID/refunds, /v1/orders/ID/payments
			path = "/v1/" + part[4]
		}
		for _, item := range items {
			var fields map[string]any
			if err := json.Unmarshal(item, &fields); err != nil {
				t.Fatal(err)
			}
			text := string(item)
			if of != "" { // an action does not say of which payment it is
				text = `{"payment_id":"` + of + `",` + text[1:]
			}
			id := strings.Trim(strings.TrimSpace(string(member(t, item, "id"))), `"`)
			o.Put(path+"/"+id, text)
		}
	}
	return o
}

func member(t *testing.T, object json.RawMessage, name string) json.RawMessage {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		t.Fatal(err)
	}
	return fields[name]
}

// over plays a look-up over HTTP.
func over(t *testing.T, provider string, target lookup.Target, api http.Handler) (lookup.Step, int) {
	t.Helper()
	server := httptest.NewServer(api)
	defer server.Close()
	l := account(t, provider)
	var got []lookup.Response
	for {
		step := l.Next(target, got, "", time.Now())
		if step.Request == nil {
			return step, len(got)
		}
		r, err := http.NewRequestWithContext(t.Context(), step.Request.Method, server.URL+strings.TrimPrefix(step.Request.URL, "https://api.test"), nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range step.Request.Header {
			r.Header.Set(name, value)
		}
		response, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, lookup.Response{Status: response.StatusCode, RetryAfter: response.Header.Get("Retry-After"), Date: response.Header.Get("Date"), Body: body})
	}
}

// faked are the providers that pkg/testkit/provider has as Objects.
var faked = []string{"stripe", "paddle", "checkout", "razorpay", "square", "mollie", "mollie_classic", "yookassa", "gocardless", "mercadopago", "flutterwave", "midtrans"}

// O45: a provider that gives one object a page is read to its last page.
func TestAFakeThatPagesAsDocumentedGivesTheSameFacts(t *testing.T) {
	for _, name := range faked {
		for _, e := range exchanges(t, name) {
			t.Run(name+": "+e.Name, func(t *testing.T) {
				step, requests := over(t, name, e.Target, fake(t, e))
				if want := e.Outcome; want != "" && step.Outcome.String() != want || want == "" && step.Outcome != lookup.Answered {
					t.Fatalf("%s: %s", step.Outcome, step.Why)
				}
				got := []string{}
				for _, f := range step.Facts {
					got = append(got, said(f))
				}
				slices.Sort(got)
				slices.Sort(e.Facts)
				if diff := gocmp.Diff(e.Facts, got); diff != "" {
					t.Error(diff)
				}
				if e.Pages > 0 && requests < 2 {
					t.Errorf("%d requests for a list", requests)
				}
			})
		}
	}
}

func TestAFakeRefusesAndFailsInItsOwnForm(t *testing.T) {
	for _, name := range faked {
		e := exchanges(t, name)[0]
		wrong := fake(t, e)
		wrong.Secret = "another"
		if step, requests := over(t, name, e.Target, wrong); step.Outcome != lookup.Refused || requests != 1 || wrong.Refused() != 1 {
			t.Errorf("%s: with another key: %s after %d requests: %s", name, step.Outcome, requests, step.Why)
		}
		empty := fake(t, exchange{provider: name})
		if step, _ := over(t, name, e.Target, empty); step.Outcome != lookup.Unknown || len(step.Facts) > 0 {
			t.Errorf("%s: of nothing: %s: %s", name, step.Outcome, step.Why)
		}
		busy := fake(t, e)
		busy.Quiet("60")
		if step, _ := over(t, name, e.Target, busy); step.Outcome != lookup.Unavailable || step.RetryAfter != time.Minute {
			t.Errorf("%s: busy: %s for %v", name, step.Outcome, step.RetryAfter)
		}
		busy.Quiet(time.Now().Add(30 * time.Second).UTC().Format(http.TimeFormat))
		if step, _ := over(t, name, e.Target, busy); step.Outcome != lookup.Unavailable || step.RetryAfter < 20*time.Second || step.RetryAfter > 31*time.Second {
			t.Errorf("%s: busy until then: %s for %v", name, step.Outcome, step.RetryAfter)
		}
		busy.Quiet("")
		if step, _ := over(t, name, e.Target, busy); step.Outcome != lookup.Answered {
			t.Errorf("%s: again: %s: %s", name, step.Outcome, step.Why)
		}
	}
}

func TestATokenThatIsOverIsRefused(t *testing.T) {
	clock := now
	api := &provider.PayPal{ClientID: "app", Secret: "hidden", TokenLife: 60, Now: func() time.Time { return clock }}
	api.Put("/v2/payments/captures/C", `{"id":"C","status":"COMPLETED","amount":{"currency_code":"USD","value":"1.00"},"custom_id":"O","create_time":"2026-01-01T00:00:05Z"}`)
	l := account(t, "paypal")
	send := func(r lookup.Request) lookup.Response {
		request := httptest.NewRequest(r.Method, strings.TrimPrefix(r.URL, "https://api.test"), strings.NewReader(string(r.Body)))
		for name, value := range r.Header {
			request.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, request)
		return lookup.Response{Status: w.Code, Body: w.Body.Bytes()}
	}
	grant, _ := l.Token()
	token, _, end := l.ReadToken(send(grant))
	if end.Outcome != lookup.Answered {
		t.Fatal(end.Why)
	}
	target := lookup.Target{Object: "C", Payment: "C"}
	for after, want := range map[time.Duration]lookup.Outcome{59 * time.Second: lookup.Answered, 60 * time.Second: lookup.Refused} {
		clock = now.Add(after)
		if step := l.Next(target, []lookup.Response{send(*l.Next(target, nil, token, clock).Request)}, token, clock); step.Outcome != want {
			t.Errorf("after %v: %s", after, step.Outcome)
		}
	}
}

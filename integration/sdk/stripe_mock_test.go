package sdk

import (
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-mock/embedded"
	"github.com/stripe/stripe-mock/server"

	"sluice/pkg/event"
	"sluice/pkg/lookup"
)

// Stripe publishes a server that holds requests to its own OpenAPI document, and answers
// with objects of the form that the document describes.
func stripeMock(t *testing.T) *server.StubServer {
	t.Helper()
	log.SetOutput(io.Discard) // it speaks of every request
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	spec, err := server.LoadSpec(embedded.OpenAPISpec, "")
	if err != nil {
		t.Fatal(err)
	}
	fixtures, err := server.LoadFixtures(embedded.OpenAPIFixtures, "")
	if err != nil {
		t.Fatal(err)
	}
	mock, err := server.NewStubServer(fixtures, spec, false, false)
	if err != nil {
		t.Fatal(err)
	}
	return mock
}

// Every request that the exchanges with Stripe hold is one that Stripe's own document
// allows, parameters included.
func TestStripesOwnDocumentAllowsWhatIsAsked(t *testing.T) {
	mock, api := stripeMock(t), stripeWithKey(t)
	asked := map[string]bool{}
	text, err := os.ReadFile("../../pkg/lookup/testdata/exchanges/stripe.json")
	if err != nil {
		t.Fatal(err)
	}
	var exchanges []struct {
		Target   lookup.Target
		Exchange []struct{ Answer json.RawMessage }
	}
	if err := json.Unmarshal(text, &exchanges); err != nil || len(exchanges) == 0 {
		t.Fatalf("%d exchanges, %v", len(exchanges), err)
	}
	for _, e := range exchanges {
		var answers []lookup.Response
		for _, step := range e.Exchange {
			r := api.Next(e.Target, answers, "", time.Now()).Request
			answers = append(answers, lookup.Response{Status: 200, Body: step.Answer})
			w := sendToStripe(mock, r)
			if w.Code != 200 {
				t.Errorf("%s: %d %s", r.URL, w.Code, w.Body)
			}
			u, err := url.Parse(r.URL)
			if err != nil {
				t.Fatal(err)
			}
			for name := range u.Query() {
				asked[name] = true
			}
		}
	}
	for _, parameter := range []string{"expand[]", "limit", "payment_intent", "charge", "starting_after", "query", "page"} {
		if !asked[parameter] {
			t.Errorf("%s was not tried", parameter)
		}
	}
	// It does hold requests to the document.
	for _, wrong := range []string{"/v1/refunds?payment=pi_1", "/v1/payment_intents/search?limit=1", "/v1/refunds?limit=many", "/v1/refund"} {
		if w := sendToStripe(mock, &lookup.Request{Method: "GET", URL: wrong, Header: map[string]string{"Authorization": "Bearer sk_test_123"}}); w.Code == 200 {
			t.Errorf("%s is taken", wrong)
		}
	}
	if w := sendToStripe(mock, &lookup.Request{Method: "GET", URL: "/v1/refunds"}); w.Code != 401 {
		t.Errorf("without a key: %d", w.Code)
	}
}

// What Stripe's document says of an answer's form is what is read.
func TestAnAnswerOfTheFormOfStripesOwnDocumentIsRead(t *testing.T) {
	mock, api := stripeMock(t), stripeWithKey(t)
	for _, target := range []lookup.Target{{Payment: "pi_1"}, {Payment: "ch_1"}, {Payment: "cs_1"}} {
		var got []lookup.Response
		for range lookup.MaxRequests {
			step := api.Next(target, got, "", time.Now())
			if step.Request == nil {
				if step.Outcome != lookup.Answered || len(step.Facts) == 0 {
					t.Errorf("%s: %s: %s", target.Payment, step.Outcome, step.Why)
				}
				break
			}
			w := sendToStripe(mock, step.Request)
			var page map[string]json.RawMessage
			if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
				t.Fatal(err)
			}
			if _, list := page["data"]; list {
				page["data"] = json.RawMessage("[]") // its refunds are of any charge
				w.Body.Reset()
				_ = json.NewEncoder(w.Body).Encode(page)
			}
			got = append(got, lookup.Response{Status: w.Code, Body: w.Body.Bytes()})
		}
	}
}

func stripeWithKey(t *testing.T) *lookup.Lookup {
	t.Helper()
	api, _ := lookup.For("stripe")
	l, err := api.New(lookup.Account{Mode: event.Test, Secret: "sk_test_123"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func sendToStripe(mock *server.StubServer, r *lookup.Request) *httptest.ResponseRecorder {
	request := httptest.NewRequest(r.Method, strings.TrimPrefix(r.URL, "https://api.stripe.com"), nil)
	for name, value := range r.Header {
		request.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	mock.HandleRequest(w, request)
	return w
}

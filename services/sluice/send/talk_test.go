package send

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/order"
	"sluice/pkg/webhook"
	"sluice/services/sluice/devclick"
	"sluice/services/sluice/sample"
)

// merchant answers as one does, notes what it is asked, and whether that verified.
func merchant(t *testing.T, provider string, lookup *endpoint.Lookup, answer func(call string) string) (Target, endpoint.Endpoint, *[]string) {
	t.Helper()
	p, _ := webhook.Builtin(provider)
	if a, ok := p.(webhook.Addressed); ok {
		p = a.WithAddresses([]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")})
	}
	secret, err := webhook.NewSecret("test", "of-the-talking-tests")
	if err != nil {
		t.Fatal(err)
	}
	e := endpoint.Endpoint{Name: provider, Provider: p, Secrets: []webhook.Secret{secret}, Lookup: lookup}
	var asked []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var call struct{ Method string }
		name := ""
		if json.Unmarshal(body, &call) == nil {
			name = call.Method
		} else if form, err := url.ParseQuery(string(body)); err == nil {
			name = map[string]string{"0": "prepare", "1": "complete " + form.Get("merchant_prepare_id") + " " + form.Get("error")}[form.Get("action")]
		}
		v := e.Verify(webhook.Request{Method: r.Method, Header: r.Header.Values, Body: body, Remote: netip.MustParseAddr("127.0.0.1")}, time.Now())
		if v.Outcome != webhook.Valid {
			name += " forged"
		}
		asked = append(asked, name)
		_, _ = io.WriteString(w, answer(name))
	}))
	t.Cleanup(srv.Close)
	return To(srv.URL, e, srv.Client()), e, &asked
}

func soum(k order.Kind) sample.Fact {
	return sample.Fact{Kind: k, ID: "evt_1", Order: "A-1", Payment: "pi_1", Amount: 125050, Currency: "UZS", Time: time.Now()}
}

func TestPaymeAsksCreatesAndPerforms(t *testing.T) {
	for k, want := range map[order.Kind][]string{
		order.KindPending:   {"CheckPerformTransaction", "CreateTransaction"},
		order.KindPaid:      {"CheckPerformTransaction", "CreateTransaction", "PerformTransaction"},
		order.KindCancelled: {"CheckPerformTransaction", "CreateTransaction", "CancelTransaction"},
		order.KindRefund:    {"CancelTransaction"},
	} {
		target, e, asked := merchant(t, "payme", nil, func(string) string { return `{"result": {"allow": true}, "id": 1}` })
		calls, err := target.Talk(t.Context(), e, soum(k), 0, false)
		if err != nil || !slices.Equal(*asked, want) || len(calls) != len(want) || calls[0].Text != `{"allow":true}` {
			t.Errorf("%s: asked %v, %+v, %v", k, *asked, calls, err)
		}
	}
}

func TestATalkEndsAtTheFirstRefusalAndRepeatsWhatWasLost(t *testing.T) {
	target, e, asked := merchant(t, "payme", nil, func(call string) string {
		if call == "CreateTransaction" {
			return `{"error": {"code": -31008, "message": {"en": "reserved"}}, "id": 1}`
		}
		return `{"result": {}, "id": 1}`
	})
	calls, err := target.Talk(t.Context(), e, soum(order.KindPaid), 1, false)
	if err != nil || fmt.Sprint(*asked) != "[CheckPerformTransaction CheckPerformTransaction CreateTransaction CreateTransaction]" || calls[3].Code != -31008 || calls[3].Text != "error -31008 reserved" {
		t.Errorf("%v %+v %v", *asked, calls, err)
	}
	target, e, asked = merchant(t, "payme", nil, func(string) string { return `{"error": {"code": -32504}}` })
	if _, err := target.Talk(t.Context(), e, soum(order.KindPaid), 0, true); err != nil || !slices.Equal(*asked, []string{"CheckPerformTransaction forged"}) {
		t.Errorf("forged: %v %v", *asked, err)
	}
}

func TestClickPreparesAndCompletesAndItsStandInIsTold(t *testing.T) {
	for k, want := range map[order.Kind]string{
		order.KindPaid: "[prepare complete 77 0]", order.KindFailed: "[prepare complete 77 -1]", order.KindCancelled: "[prepare complete 77 -5017]", order.KindPending: "[prepare]",
	} {
		api := httptest.NewServer(devclick.New("key").Handler())
		t.Cleanup(api.Close)
		lookup := &endpoint.Lookup{BaseURL: api.URL, Settings: map[string]string{"service_id": "24001"}}
		target, e, asked := merchant(t, "click", lookup, func(string) string { return `{"error": 0, "error_note": "Success", "merchant_prepare_id": 77}` })
		if calls, err := target.Talk(t.Context(), e, soum(k), 0, false); err != nil || fmt.Sprint(*asked) != want {
			t.Errorf("%s: asked %v, %+v, %v", k, *asked, calls, err)
		}
	}
	target, e, asked := merchant(t, "click", nil, func(string) string { return `{"error": -1}` })
	if _, err := target.Talk(t.Context(), e, soum(order.KindPaid), 0, true); err != nil || !slices.Equal(*asked, []string{"prepare forged"}) {
		t.Errorf("forged: %v %v", *asked, err)
	}
}

func TestTwoWayProvidersPayInUZSAndStateOnlyWhatTheyCan(t *testing.T) {
	target, e, _ := merchant(t, "payme", nil, func(string) string { return "{}" })
	f := soum(order.KindPaid)
	f.Currency = "EUR"
	if _, err := target.Talk(t.Context(), e, f, 0, false); err == nil || !strings.Contains(err.Error(), "UZS") {
		t.Error(err)
	}
	if _, err := target.Talk(t.Context(), e, soum(order.KindDisputeWon), 0, false); err == nil || !strings.Contains(err.Error(), "states no dispute_won") {
		t.Error(err)
	}
}

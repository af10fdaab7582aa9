package webhook

import (
	"fmt"
	"strings"
	"testing"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

func goCardlessEvent(id, resource, action, rest string) string {
	return fmt.Sprintf(`{"id":%q,"created_at":"2026-01-01T00:00:05.123Z","resource_type":%q,"action":%q,%s"metadata":{"order_id":"ORD-1"}}`, id, resource, action, rest)
}

// An event states no amount, so what moves money is asked for.
func TestGoCardlessOnlyHintsAtMoney(t *testing.T) {
	p := builtinOf(t, "gocardless")
	const payment, refund = `"links":{"payment":"PM1"},`, `"links":{"refund":"RF1"},`
	for _, c := range []struct {
		resource, action, rest string
		kind                   order.Kind
		trust                  event.Trust
	}{
		{"payments", "created", payment, order.KindNone, event.Signed},
		{"payments", "confirmed", payment, order.KindPaid, event.Hint},
		{"payments", "paid_out", payment, order.KindPaid, event.Hint},
		{"payments", "failed", payment + `"details":{"will_attempt_retry":true},`, order.KindPending, event.Signed},
		{"payments", "failed", payment + `"details":{"will_attempt_retry":false},`, order.KindFailed, event.Signed},
		{"payments", "failed", payment, order.KindFailed, event.Signed},
		{"payments", "cancelled", payment, order.KindCancelled, event.Signed},
		{"payments", "charged_back", payment, order.KindDisputeOpened, event.Signed},
		{"payments", "chargeback_cancelled", payment, order.KindDisputeWon, event.Signed},
		{"refunds", "paid", refund, order.KindRefund, event.Hint},
		{"refunds", "failed", refund, order.KindRefundFailed, event.Hint},
		{"mandates", "failed", `"links":{"mandate":"MD1"},`, order.KindNone, event.Signed},
	} {
		r, err := p.Read(headersOf(), []byte(`{"events":[`+goCardlessEvent("EV1", c.resource, c.action, c.rest)+`]}`))
		if err != nil || r.Type != c.resource+":"+c.action || r.Fact != c.kind || r.Trust != c.trust || r.Amount != 0 || r.Order != "ORD-1" {
			t.Errorf("%s %s: %+v, %v", c.resource, c.action, r, err)
		}
		if c.resource == "refunds" && (r.Object != "RF1" || r.Payment != "") {
			t.Errorf("%s %s: %+v", c.resource, c.action, r)
		}
	}
	if f := p.Profile(); f.Trust != event.Hint {
		t.Error("an endpoint without a look-up would never see an order paid")
	}
}

func TestGoCardlessSplitsARequestOf250Events(t *testing.T) {
	p, s := builtinOf(t, "gocardless"), secretOf(t, "gc-0f3b9a")
	var events []string
	for i := range 250 {
		events = append(events, goCardlessEvent(fmt.Sprintf("EV%d", i), "payments", "confirmed", `"links":{"payment":"PM1"},`))
	}
	whole := []byte(`{"events":[` + strings.Join(events, " , ") + `],"meta":{"webhook_id":"WB1"}}`)
	if v := p.Verify(signed(t, p, s, "", noon, whole), []Secret{s}, noon); v.Outcome != Valid {
		t.Fatalf("%+v", v)
	}
	bodies, err := p.(Batched).Split(whole)
	if err != nil || len(bodies) != 250 {
		t.Fatalf("%d, %v", len(bodies), err)
	}
	for i, body := range bodies {
		if want := `{"events":[` + events[i] + `],"meta":{"webhook_id":"WB1"}}`; string(body) != want {
			t.Fatalf("%s\nwant %s", body, want)
		}
		if r, err := p.Read(headersOf(), body); err != nil || r.ID != fmt.Sprintf("EV%d", i) {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if _, err := p.Read(headersOf(), whole); err == nil {
		t.Error("a batch was read as one event")
	}
}

func TestGoCardlessRefusesAnAuthenticRequestOfNothing(t *testing.T) {
	p, s := builtinOf(t, "gocardless"), secretOf(t, "gc-0f3b9a")
	for body, want := range map[string]Verdict{
		`{"events":[]}`:   {Reason: ReasonEmpty},
		`{"events":{}}`:   {Outcome: Valid, Secret: "test"}, // authentic, and no batch: kept whole
		`{"events":null}`: {Outcome: Valid, Secret: "test"},
		`not JSON`:        {Outcome: Valid, Secret: "test"},
	} {
		if v := p.Verify(signed(t, p, s, "", noon, []byte(body)), []Secret{s}, noon); v != want {
			t.Errorf("%s: %+v", body, v)
		}
		if bodies, err := p.(Batched).Split([]byte(body)); want.Outcome == Valid && err == nil {
			t.Errorf("%s: %d bodies, %v", body, len(bodies), err)
		}
	}
}

package webhook

import (
	"errors"
	"fmt"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// goCardless signs the whole request (gocardless-pro-python webhooks.py), which
// carries up to 250 events. An event states no amount: one that moves money is a
// hint, and the payment is looked up.
type goCardless struct{ declared }

func newGoCardless() Provider {
	return goCardless{mustDeclare(Declaration{
		Name:      "gocardless",
		Signature: Signature{Header: "Webhook-Signature", Algorithm: "sha256", Encoding: "hex"},
		Reading:   goCardlessLayout,
		Profile: Profile{
			Title:     "GoCardless",
			Docs:      "https://developer.gocardless.com/api-reference/#webhooks",
			Secret:    "the webhook endpoint's secret",
			Signature: "HMAC-SHA256 in hex over the body, in Webhook-Signature",
			Covers:    "the whole body",
			Leaves:    "the amount, which no event states",
			Instead:   "an event that moves money is a hint: the payment is asked for",
			ID:        "`id` of the event",
			Trust:     event.Hint,
			Retries:   RetriesUnknown,
		},
	}).(declared)}
}

var goCardlessBatch = wanted("events", "meta")

func goCardlessEvents(body []byte) (events [][]byte, meta value, err error) {
	values, err := goCardlessBatch.scan(body)
	if err != nil {
		return nil, value{}, err
	}
	if events, err = elements(values[0].raw); err != nil {
		return nil, value{}, errors.New("events is not an array")
	}
	return events, values[1], nil
}

// Verify finds an authentic request of no events empty.
func (p goCardless) Verify(req Request, secrets []Secret, now time.Time) Verdict {
	v := p.declared.Verify(req, secrets, now)
	if v.Outcome != Valid {
		return v
	}
	if events, _, err := goCardlessEvents(req.Body); err == nil && len(events) == 0 {
		return refuse(ReasonEmpty)
	}
	return v
}

// Split gives each event a request of its own. It does not verify again: the whole
// was signed.
func (goCardless) Split(body []byte) ([][]byte, error) {
	events, meta, err := goCardlessEvents(body)
	if err != nil {
		return nil, err
	}
	bodies := make([][]byte, 0, len(events))
	for _, e := range events {
		b := append(append([]byte(`{"events":[`), e...), ']')
		if meta.kind != absent {
			b = append(append(b, `,"meta":`...), meta.raw...)
		}
		bodies = append(bodies, append(b, '}'))
	}
	return bodies, nil
}

// Read reads a request of one event.
func (p goCardless) Read(h Headers, body []byte) (Reading, error) {
	events, _, err := goCardlessEvents(body)
	if err != nil {
		return Reading{}, err
	}
	if len(events) != 1 {
		return Reading{}, fmt.Errorf("the body holds %d events; one is read at a time", len(events))
	}
	return p.declared.Read(h, body)
}

func (p goCardless) WithOrder(at Paths) (_ Provider, err error) {
	p.layout, err = p.withOrder(at)
	return p, err
}

// goCardlessLayout reads a request of one event. The metadata of an event are those
// of its payment.
var goCardlessLayout = Layout{
	ID:      Paths{"events.0.id"},
	Type:    Paths{"events.0.resource_type + events.0.action"},
	Time:    Paths{"events.0.created_at"},
	Order:   Paths{"events.0.metadata.order_id", "events.0.resource_metadata.order_id"},
	Payment: Paths{"events.0.links.payment"},
	Object:  Paths{"events.0.links.refund"},
	Subject: Paths{"events.0.links.refund", "events.0.links.payment", "events.0.links.mandate", "events.0.links.subscription", "events.0.links.payout"},
	Facts: []Fact{
		{Type: "payments:confirmed", Kind: order.KindPaid, Trust: event.Hint},
		{Type: "payments:paid_out", Kind: order.KindPaid, Trust: event.Hint},
		// The bank is asked once more: nothing is decided.
		{Type: "payments:failed", Kind: order.KindPending, When: map[string]string{"events.0.details.will_attempt_retry": "true"}},
		// A failure after it was confirmed is held, and a person decides.
		{Type: "payments:failed", Kind: order.KindFailed},
		{Type: "payments:customer_approval_denied", Kind: order.KindFailed},
		{Type: "payments:late_failure_settled", Kind: order.KindFailed},
		{Type: "payments:cancelled", Kind: order.KindCancelled},
		{Type: "payments:charged_back", Kind: order.KindDisputeOpened, Object: Paths{"events.0.links.payment"}},
		{Type: "payments:chargeback_cancelled", Kind: order.KindDisputeWon, Object: Paths{"events.0.links.payment"}},
		{Type: "payments:chargeback_settled", Kind: order.KindDisputeLost, Object: Paths{"events.0.links.payment"}},
		{Type: "refunds:paid", Kind: order.KindRefund, Trust: event.Hint},
		{Type: "refunds:refund_settled", Kind: order.KindRefund, Trust: event.Hint},
		{Type: "refunds:failed", Kind: order.KindRefundFailed, Trust: event.Hint},
		{Type: "refunds:bounced", Kind: order.KindRefundFailed, Trust: event.Hint},
		{Type: "refunds:funds_returned", Kind: order.KindRefundFailed, Trust: event.Hint},
	},
}

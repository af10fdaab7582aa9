package webhook

import (
	"net/netip"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// yookassa signs nothing: a notification comes from the published addresses, and is a
// hint to ask for its payment or refund.
type yookassa struct {
	*layout
	addresses addresses
}

func newYooKassa() Provider {
	// yoomoney/yookassa-sdk-php SecurityHelper.php.
	return yookassa{yookassaLayout, networks("185.71.76.0/27", "185.71.77.0/27", "77.75.153.0/25", "77.75.154.128/25", "77.75.156.11", "77.75.156.35", "2a02:5180::/32")}
}

func (yookassa) Name() string                { return "yookassa" }
func (yookassa) SignatureHeaders() []string  { return nil }
func (yookassa) CheckSecret(Secret) error    { return nil }
func (p yookassa) Addresses() []netip.Prefix { return p.addresses }

// WithAddresses is YooKassa from other addresses, such as a test's.
func (p yookassa) WithAddresses(list []netip.Prefix) Provider {
	p.addresses = list
	return p
}

func (yookassa) Profile() Profile {
	return Profile{
		Title:     "YooKassa",
		Docs:      "https://yookassa.ru/developers/using-api/webhooks",
		Signature: "none, only the published addresses",
		Covers:    "nothing of the body",
		Leaves:    "everything: there is no signature",
		Instead:   "only the published addresses may send, and every event is a hint until YooKassa's API was asked",
		ID:        "`event`, `object.id` and `object.status`, joined by colons",
		Trust:     event.Hint,
		Retries:   24 * time.Hour,
	}
}

func (p yookassa) Verify(req Request, _ []Secret, _ time.Time) Verdict {
	if !p.addresses.allow(req.Remote) {
		return refuse(ReasonAddress)
	}
	return Verdict{Outcome: Valid}
}

// Sign makes no header: there is no signature.
func (yookassa) Sign(Secret, string, time.Time, []byte) (map[string]string, error) { return nil, nil }

// yookassaLayout: a payment that did not come about is canceled, whoever called it
// off; the reason tells a cancellation from a failure
// (yookassa.ru/developers/payments/declined-payments). `test` is not read: nobody
// signed it, and the API says it again.
var yookassaLayout = Layout{
	ID:         Paths{"event + object.id + object.status", "event + object.id"},
	Type:       Paths{"event"},
	Time:       Paths{"object.captured_at", "object.created_at"},
	Trust:      event.Hint,
	Order:      Paths{"object.metadata.order_id"},
	Payment:    Paths{"object.id"},
	Subject:    Paths{"object.id"},
	Amount:     Paths{"object.amount.value"},
	AmountUnit: "decimal",
	Currency:   Paths{"object.amount.currency"},
	Facts: []Fact{
		{Type: "payment.succeeded", Kind: order.KindPaid},
		{Type: "payment.waiting_for_capture", Kind: order.KindPending},
		yookassaCancelled("canceled_by_merchant"),
		yookassaCancelled("expired_on_confirmation"),
		yookassaCancelled("expired_on_capture"),
		yookassaCancelled(""),
		{Type: "payment.canceled", Kind: order.KindFailed},
		{Type: "refund.succeeded", Kind: order.KindRefund, Payment: Paths{"object.payment_id"}, Object: Paths{"object.id"}},
	},
}.mustCompile()

func yookassaCancelled(reason string) Fact {
	return Fact{Type: "payment.canceled", Kind: order.KindCancelled, When: map[string]string{"object.cancellation_details.reason": reason}}
}

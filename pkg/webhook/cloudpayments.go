package webhook

import (
	"errors"
	"strings"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// cloudPayments signs the body, a form or JSON as the account has it; of a GET its
// query (cloudpayments npm 6.0.1). What the body does not say is which of the
// notifications it is: each has an address of its own, and the Check before a payment
// has the fields of the Pay after it. So they are hints, but for a refund, which alone
// names the payment that it belongs to.
type cloudPayments struct {
	declared
	json *layout // declared's is of forms
}

func newCloudPayments() Provider {
	p := cloudPayments{json: cloudPaymentsLayout("json").mustCompile()}
	p.declared = mustDeclare(Declaration{
		Name:      "cloudpayments",
		Signature: Signature{Header: "Content-HMAC", Algorithm: "sha256", Encoding: "base64"},
		Reading:   cloudPaymentsLayout("form"),
		Profile: Profile{
			Title:     "CloudPayments",
			Docs:      "https://developers.cloudpayments.ru/#uvedomleniya",
			Secret:    "the site's API secret",
			Signature: "HMAC-SHA256 in base64 over the body, in Content-HMAC",
			Covers:    "the whole body",
			Leaves:    "which notification it is: that is told by the address (`?type=pay`), so a Check could be sent again as a Pay",
			Instead:   "what is said of a payment is a hint, and the payment is asked for; a refund names its payment, and is believed; a Check is answered with 0, which lets the payment go on",
			ID:        "TransactionId and the type, joined by a colon",
			Trust:     event.Hint,
			Retries:   RetriesUnknown,
		},
	}).(declared)
	return p
}

func (p cloudPayments) Verify(req Request, secrets []Secret, now time.Time) Verdict {
	if strings.EqualFold(req.Method, "get") {
		query, reason := one(req.Header(QueryHeader))
		if reason != ReasonNone {
			return refuse(reason)
		}
		req.Body = []byte(query)
	}
	return p.declared.Verify(req, secrets, now)
}

func (p cloudPayments) Read(h Headers, body []byte) (Reading, error) {
	read, scan := p.json.Read, cloudPaymentsMarks.scan
	if isForm(body) {
		read, scan = p.declared.Read, cloudPaymentsMarks.scanForm
	}
	r, err := read(h, body)
	if err != nil {
		return Reading{}, err
	}
	values, err := scan(body)
	if err != nil {
		return Reading{}, err
	}
	if r.Fact == order.KindRefund && !values[1].given() {
		return Reading{}, errors.New("the refund states no PaymentTransactionId")
	}
	test, _ := values[0].scalar()
	r.Mode = cloudPaymentsModes[test]
	return r, nil
}

// cloudPaymentsModes by TestMode, which a form and JSON write differently.
var cloudPaymentsModes = map[string]event.Mode{"1": event.Test, "true": event.Test, "0": event.Live, "false": event.Live}

var cloudPaymentsMarks = wanted("TestMode", "PaymentTransactionId")

func (p cloudPayments) WithOrder(at Paths) (_ Provider, err error) {
	if p.layout, err = p.withOrder(at); err == nil {
		p.json, err = p.json.withOrder(at)
	}
	return p, err
}

// Answer: without it the notification is repeated. Code 0 also answers a Check.
func (cloudPayments) Answer(Headers, []byte) Answer {
	return Answer{ContentType: "application/json", Body: []byte(`{"code":0}`)}
}

// cloudPaymentsLayout reads a form, or the same fields in JSON. Without a type in the
// address the operation stands for it.
func cloudPaymentsLayout(body string) Layout {
	return Layout{
		Body:       body,
		ID:         Paths{"TransactionId + query:type", "TransactionId + OperationType", "TransactionId"},
		Type:       Paths{"query:type", "OperationType", "=notification"},
		Time:       Paths{"DateTime"},
		TimeFormat: time.DateTime, // UTC
		Trust:      event.Hint,
		Order:      Paths{"InvoiceId"},
		Payment:    Paths{"PaymentTransactionId", "TransactionId"},
		Subject:    Paths{"TransactionId"},
		AmountUnit: "decimal",
		Amount:     Paths{"Amount"},
		// A refund states none. Of a payment in another currency it is then held.
		Currency: Paths{"Currency", "=RUB"},
		Facts: []Fact{
			{Type: "pay", Kind: order.KindPaid, When: map[string]string{"Status": "Completed"}},
			{Type: "pay", Kind: order.KindPending},
			{Type: "Payment", Kind: order.KindPaid, When: map[string]string{"Status": "Completed"}},
			{Type: "confirm", Kind: order.KindPaid},
			{Type: "fail", Kind: order.KindFailed},
			{Type: "cancel", Kind: order.KindCancelled},
			{Type: "refund", Kind: order.KindRefund, Trust: event.Signed, Object: Paths{"TransactionId"}},
			{Type: "Refund", Kind: order.KindRefund, Trust: event.Signed, Object: Paths{"TransactionId"}},
		},
	}
}

package lookup_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/pkg/event"
	"sluice/pkg/lookup"
	"sluice/pkg/order"
	"sluice/pkg/webhook"
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

func account(t *testing.T, provider string) *lookup.Lookup {
	t.Helper()
	api, ok := lookup.For(provider)
	if !ok {
		t.Fatalf("no API of %s", provider)
	}
	l, err := api.New(lookup.Account{Mode: event.Test, BaseURL: "https://api.test", Settings: settings[provider], Secret: "hidden"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ask plays a look-up against answers by the path they are asked for with.
func ask(t *testing.T, provider string, target lookup.Target, answers map[string]string) (lookup.Step, []string) {
	t.Helper()
	l := account(t, provider)
	var got []lookup.Response
	var asked []string
	for range 8 {
		step := l.Next(target, got, "token", now)
		if step.Request == nil {
			return step, asked
		}
		path := strings.TrimPrefix(step.Request.URL, "https://api.test")
		if step.Request.Method == http.MethodPost {
			path += " " + string(step.Request.Body)
		}
		asked = append(asked, path)
		if body, ok := answers[path]; ok {
			got = append(got, lookup.Response{Status: 200, Body: []byte(body)})
		} else {
			got = append(got, lookup.Response{Status: 404, Body: []byte(`{}`)})
		}
	}
	t.Fatalf("asks for ever: %v", asked)
	return lookup.Step{}, nil
}

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

const (
	molliePayment = `{"resource":"payment","id":"tr_1","mode":"test","status":"paid","amount":{"value":"10.00","currency":"EUR"},
		"metadata":{"order_id":"ORD-1"},"createdAt":"2026-01-01T10:00:00+00:00","paidAt":"2026-01-01T10:05:00+00:00",
		"_embedded":{"refunds":[
			{"resource":"refund","id":"re_1","amount":{"value":"2.00","currency":"EUR"},"status":"refunded","createdAt":"2026-01-02T10:00:00+00:00"},
			{"resource":"refund","id":"re_2","amount":{"value":"3.00","currency":"EUR"},"status":"queued","createdAt":"2026-01-02T11:00:00+00:00"}],
		"chargebacks":[{"resource":"chargeback","id":"chb_1","amount":{"value":"10.00","currency":"EUR"},"createdAt":"2026-01-03T10:00:00+00:00","reversedAt":"2026-01-04T10:00:00+00:00"}]}}`
	mercadopagoPayment = `{"id":20359978,"status":"%s","status_detail":"accredited","date_created":"2026-01-01T10:00:00.000-04:00",
		"date_approved":"2026-01-01T10:05:00.717-04:00","date_last_updated":"2026-01-03T10:00:00.000-04:00","currency_id":"BRL",
		"transaction_amount":24.5,"transaction_amount_refunded":%s,"external_reference":"ORD-1","live_mode":false,"refunds":[]}`
	yookassaPayment = `{"id":"22e12f66","status":"%s","paid":true,"amount":{"value":"2.00","currency":"RUB"},"captured_at":"2026-01-01T10:05:00.100Z",
		"created_at":"2026-01-01T10:00:00.000Z","metadata":{"order_id":"ORD-1"},"refunded_amount":{"value":"%s","currency":"RUB"},"test":true%s}`
	gocardlessPayment    = `{"payments":{"id":"PM1","created_at":"2026-01-01T10:00:00.000Z","amount":1000,"currency":"GBP","status":"%s","amount_refunded":%d,"metadata":{"order_id":"ORD-1"},"links":{"mandate":"MD1"}}}`
	flutterwavePayment   = `{"status":"success","message":"Transaction fetched successfully","data":{"id":288200108,"tx_ref":"ORD-1","flw_ref":"FLW","amount":%s,"currency":"NGN","charged_amount":100,"status":"%s","created_at":"2026-01-01T10:00:00.000Z"}}`
	midtransPayment      = `{"status_code":"200","transaction_id":"9aed5972","order_id":"ORD-1","gross_amount":"125050.00","currency":"IDR","transaction_status":"%s","fraud_status":"%s","transaction_time":"2026-01-01 10:00:00","settlement_time":"2026-01-01 10:05:00"%s}`
	cloudpaymentsPayment = `{"Model":{"TransactionId":504,"Amount":1250.50,"Currency":"RUB","CurrencyCode":0,"InvoiceId":"ORD-1","CreatedDateIso":"2026-01-01T10:00:00","AuthDateIso":"2026-01-01T10:01:00","ConfirmDateIso":"2026-01-01T10:05:00","TestMode":true,"Status":"%[2]s","StatusCode":3},"Success":%[1]t,"Message":null}`
	paypalCapture        = `{"id":"CAP1","status":"%s","amount":{"currency_code":"USD","value":"10.00"},"custom_id":"ORD-1","create_time":"2026-01-01T10:05:00Z","update_time":"2026-01-02T10:05:00Z","supplementary_data":{"related_ids":{"order_id":"PPO1"}}}`
	razorpayPayment      = `{"id":"pay_1","entity":"payment","amount":50000,"currency":"INR","status":"%s","order_id":"order_1","amount_refunded":%d,"refund_status":null,"captured":true,"notes":{"order_id":"ORD-1"},"created_at":1767261900}`
	squarePayment        = `{"payment":{"id":"SQ1","created_at":"2026-01-01T10:05:00.000Z","updated_at":"2026-01-02T10:05:00.000Z","amount_money":{"amount":1000,"currency":"USD"},"status":"%s","reference_id":"ORD-1"%s}}`
	paypalRefund         = `{"id":"REF1","status":"COMPLETED","amount":{"currency_code":"USD","value":"2.50"},"custom_id":"ORD-1","create_time":"2026-01-02T10:05:00Z","links":[{"rel":"self","href":"https://api.test/v2/payments/refunds/REF1"},{"rel":"up","href":"https://api.test/v2/payments/captures/CAP1"}]}`
	paypalOrder          = `{"id":"PPO1","status":"COMPLETED","purchase_units":[{"reference_id":"default","payments":{"captures":[` + paypalCapture + `],"refunds":[` + paypalRefund + `,
		{"id":"REF2","status":"PENDING","amount":{"currency_code":"USD","value":"1.00"},"create_time":"2026-01-02T10:05:00Z","links":[{"rel":"up","href":"https://api.test/v2/payments/captures/CAP1"}]},
		{"id":"REF3","status":"COMPLETED","amount":{"currency_code":"USD","value":"1.00"},"create_time":"2026-01-02T10:05:00Z","links":[{"rel":"up","href":"https://api.test/v2/payments/captures/OTHER"}]}]}}]}`
)

func TestAnAnswerIsSplitIntoTheFactsThatWebhooksWouldHaveStated(t *testing.T) {
	fact := func(kind order.Kind, payment string, amount int64, currency string, when string, object string) webhook.Reading {
		r := webhook.Reading{Fact: kind, Order: "ORD-1", Payment: payment, Amount: amount, Currency: currency, Object: object, Mode: event.Test}
		if when != "" {
			r.Time = at(when)
		}
		return r
	}
	tests := map[string]struct {
		provider string
		target   lookup.Target
		answers  map[string]string
		asked    []string
		want     []webhook.Reading
	}{
		"Mollie: paid, refunded in part, charged back and won": {
			"mollie_classic", lookup.Target{Payment: "tr_1"}, map[string]string{"/v2/payments/tr_1?embed=refunds,chargebacks": molliePayment},
			[]string{"/v2/payments/tr_1?embed=refunds,chargebacks"},
			[]webhook.Reading{
				fact(order.KindPaid, "tr_1", 1000, "EUR", "2026-01-01T10:05:00Z", ""),
				fact(order.KindRefund, "tr_1", 200, "EUR", "2026-01-02T10:00:00Z", "re_1"),
				fact(order.KindDisputeOpened, "tr_1", 1000, "EUR", "2026-01-03T10:00:00Z", "chb_1"),
				fact(order.KindDisputeWon, "tr_1", 1000, "EUR", "2026-01-04T10:00:00Z", "chb_1"),
			}},
		"Mercado Pago: approved": {
			"mercadopago", lookup.Target{Payment: "20359978"}, map[string]string{"/v1/payments/20359978": fmt.Sprintf(mercadopagoPayment, "approved", "0")},
			[]string{"/v1/payments/20359978"},
			[]webhook.Reading{fact(order.KindPaid, "20359978", 2450, "BRL", "2026-01-01T14:05:00.717Z", "")}},
		"Mercado Pago: approved and refunded in part": {
			"mercadopago", lookup.Target{Payment: "20359978"}, map[string]string{"/v1/payments/20359978": fmt.Sprintf(mercadopagoPayment, "approved", "4.50")},
			[]string{"/v1/payments/20359978"},
			[]webhook.Reading{fact(order.KindPaid, "20359978", 2450, "BRL", "2026-01-01T14:05:00.717Z", ""), fact(order.KindRefundTotal, "20359978", 450, "BRL", "", "")}},
		"Mercado Pago: rejected": {
			"mercadopago", lookup.Target{Payment: "20359978"}, map[string]string{"/v1/payments/20359978": fmt.Sprintf(mercadopagoPayment, "rejected", "0")},
			[]string{"/v1/payments/20359978"},
			[]webhook.Reading{fact(order.KindFailed, "20359978", 2450, "BRL", "2026-01-03T14:00:00Z", "")}},
		"YooKassa: succeeded and refunded": {
			"yookassa", lookup.Target{Payment: "22e12f66"}, map[string]string{"/v3/payments/22e12f66": fmt.Sprintf(yookassaPayment, "succeeded", "2.00", "")},
			[]string{"/v3/payments/22e12f66"},
			[]webhook.Reading{fact(order.KindPaid, "22e12f66", 200, "RUB", "2026-01-01T10:05:00.1Z", ""), fact(order.KindRefundTotal, "22e12f66", 200, "RUB", "", "")}},
		"YooKassa: cancelled by the shop": {
			"yookassa", lookup.Target{Payment: "22e12f66"}, map[string]string{"/v3/payments/22e12f66": fmt.Sprintf(yookassaPayment, "canceled", "0.00", `,"cancellation_details":{"party":"merchant","reason":"canceled_by_merchant"}`)},
			[]string{"/v3/payments/22e12f66"},
			[]webhook.Reading{fact(order.KindCancelled, "22e12f66", 200, "RUB", "2026-01-01T10:00:00Z", "")}},
		"YooKassa: declined": {
			"yookassa", lookup.Target{Payment: "22e12f66"}, map[string]string{"/v3/payments/22e12f66": fmt.Sprintf(yookassaPayment, "canceled", "0.00", `,"cancellation_details":{"party":"payment_network","reason":"insufficient_funds"}`)},
			[]string{"/v3/payments/22e12f66"},
			[]webhook.Reading{fact(order.KindFailed, "22e12f66", 200, "RUB", "2026-01-01T10:00:00Z", "")}},
		"GoCardless: paid out, refunded in part": {
			"gocardless", lookup.Target{Payment: "PM1"}, map[string]string{"/payments/PM1": fmt.Sprintf(gocardlessPayment, "paid_out", 300)},
			[]string{"/payments/PM1"},
			[]webhook.Reading{fact(order.KindPaid, "PM1", 1000, "GBP", "", ""), fact(order.KindRefundTotal, "PM1", 300, "GBP", "", "")}},
		"GoCardless: a refund leads to its payment": {
			"gocardless", lookup.Target{Subject: "RF1"},
			map[string]string{"/refunds/RF1": `{"refunds":{"id":"RF1","amount":200,"currency":"GBP","links":{"payment":"PM1"}}}`, "/payments/PM1": fmt.Sprintf(gocardlessPayment, "paid_out", 200)},
			[]string{"/refunds/RF1", "/payments/PM1"},
			[]webhook.Reading{
				fact(order.KindPaid, "PM1", 1000, "GBP", "", ""),
				fact(order.KindRefundTotal, "PM1", 200, "GBP", "", ""),
			}},
		"GoCardless: charged back": {
			"gocardless", lookup.Target{Payment: "PM1"}, map[string]string{"/payments/PM1": fmt.Sprintf(gocardlessPayment, "charged_back", 0)},
			[]string{"/payments/PM1"},
			[]webhook.Reading{fact(order.KindPaid, "PM1", 1000, "GBP", "", ""), fact(order.KindDisputeOpened, "PM1", 1000, "GBP", "", "PM1")}},
		"Razorpay: captured, refunded in part": {
			"razorpay", lookup.Target{Payment: "pay_1"}, map[string]string{"/v1/payments/pay_1": fmt.Sprintf(razorpayPayment, "captured", 20000)},
			[]string{"/v1/payments/pay_1"},
			[]webhook.Reading{fact(order.KindPaid, "pay_1", 50000, "INR", "2026-01-01T10:05:00Z", ""), fact(order.KindRefundTotal, "pay_1", 20000, "INR", "", "")}},
		"Razorpay: failed": {
			"razorpay", lookup.Target{Payment: "pay_1"}, map[string]string{"/v1/payments/pay_1": fmt.Sprintf(razorpayPayment, "failed", 0)},
			[]string{"/v1/payments/pay_1"}, []webhook.Reading{fact(order.KindFailed, "pay_1", 50000, "INR", "2026-01-01T10:05:00Z", "")}},
		"Square: completed, refunded": {
			"square", lookup.Target{Payment: "SQ1"}, map[string]string{"/v2/payments/SQ1": fmt.Sprintf(squarePayment, "COMPLETED", `,"refunded_money":{"amount":1000,"currency":"USD"}`)},
			[]string{"/v2/payments/SQ1"},
			[]webhook.Reading{fact(order.KindPaid, "SQ1", 1000, "USD", "2026-01-01T10:05:00Z", ""), fact(order.KindRefundTotal, "SQ1", 1000, "USD", "", "")}},
		"Square: called off": {
			"square", lookup.Target{Payment: "SQ1"}, map[string]string{"/v2/payments/SQ1": fmt.Sprintf(squarePayment, "CANCELED", "")},
			[]string{"/v2/payments/SQ1"}, []webhook.Reading{fact(order.KindCancelled, "SQ1", 1000, "USD", "2026-01-01T10:05:00Z", "")}},
		"Flutterwave: successful": {
			"flutterwave", lookup.Target{Payment: "288200108"}, map[string]string{"/v3/transactions/288200108/verify": fmt.Sprintf(flutterwavePayment, "100.5", "successful")},
			[]string{"/v3/transactions/288200108/verify"},
			[]webhook.Reading{fact(order.KindPaid, "288200108", 10050, "NGN", "2026-01-01T10:00:00Z", "")}},
		"Flutterwave: failed": {
			"flutterwave", lookup.Target{Payment: "288200108"}, map[string]string{"/v3/transactions/288200108/verify": fmt.Sprintf(flutterwavePayment, "100", "failed")},
			[]string{"/v3/transactions/288200108/verify"},
			[]webhook.Reading{fact(order.KindFailed, "288200108", 10000, "NGN", "2026-01-01T10:00:00Z", "")}},
		"Midtrans: settled": {
			"midtrans", lookup.Target{Order: "ORD-1"}, map[string]string{"/v2/ORD-1/status": fmt.Sprintf(midtransPayment, "settlement", "accept", "")},
			[]string{"/v2/ORD-1/status"},
			[]webhook.Reading{fact(order.KindPaid, "9aed5972", 12505000, "IDR", "2026-01-01T03:05:00Z", "")}},
		"Midtrans: captured, but challenged": {
			"midtrans", lookup.Target{Order: "ORD-1"}, map[string]string{"/v2/ORD-1/status": fmt.Sprintf(midtransPayment, "capture", "challenge", "")},
			[]string{"/v2/ORD-1/status"},
			[]webhook.Reading{fact(order.KindPending, "9aed5972", 12505000, "IDR", "2026-01-01T03:05:00Z", "")}},
		"Midtrans: refunded in part": {
			"midtrans", lookup.Target{Order: "ORD-1"}, map[string]string{"/v2/ORD-1/status": fmt.Sprintf(midtransPayment, "partial_refund", "accept", `,"refund_amount":"25000.00"`)},
			[]string{"/v2/ORD-1/status"},
			[]webhook.Reading{fact(order.KindPaid, "9aed5972", 12505000, "IDR", "2026-01-01T03:05:00Z", ""), fact(order.KindRefundTotal, "9aed5972", 2500000, "IDR", "", "")}},
		"PayPal: captured": {
			"paypal", lookup.Target{Payment: "CAP1"}, map[string]string{"/v2/payments/captures/CAP1": fmt.Sprintf(paypalCapture, "COMPLETED")},
			[]string{"/v2/payments/captures/CAP1"},
			[]webhook.Reading{fact(order.KindPaid, "CAP1", 1000, "USD", "2026-01-01T10:05:00Z", "")}},
		"PayPal: from a refund to its capture and order": {
			"paypal", lookup.Target{Type: "PAYMENT.CAPTURE.REFUNDED", Subject: "REF1"}, map[string]string{
				"/v2/payments/refunds/REF1": paypalRefund, "/v2/payments/captures/CAP1": fmt.Sprintf(paypalCapture, "PARTIALLY_REFUNDED"), "/v2/checkout/orders/PPO1": fmt.Sprintf(paypalOrder, "PARTIALLY_REFUNDED")},
			[]string{"/v2/payments/refunds/REF1", "/v2/payments/captures/CAP1", "/v2/checkout/orders/PPO1"},
			[]webhook.Reading{fact(order.KindPaid, "CAP1", 1000, "USD", "2026-01-01T10:05:00Z", ""), fact(order.KindRefund, "CAP1", 250, "USD", "2026-01-02T10:05:00Z", "REF1")}},
		"PayPal: an approved order that was captured": {
			"paypal", lookup.Target{Type: "CHECKOUT.ORDER.APPROVED", Subject: "PPO1"}, map[string]string{"/v2/checkout/orders/PPO1": fmt.Sprintf(paypalOrder, "COMPLETED")},
			[]string{"/v2/checkout/orders/PPO1"},
			[]webhook.Reading{fact(order.KindPaid, "CAP1", 1000, "USD", "2026-01-01T10:05:00Z", ""), fact(order.KindRefund, "CAP1", 250, "USD", "2026-01-02T10:05:00Z", "REF1"),
				{Fact: order.KindRefund, Payment: "OTHER", Amount: 100, Currency: "USD", Object: "REF3", Time: at("2026-01-02T10:05:00Z"), Mode: event.Test}}},
		"CloudPayments: completed": {
			"cloudpayments", lookup.Target{Payment: "504"}, map[string]string{`/payments/get {"TransactionId":504}`: fmt.Sprintf(cloudpaymentsPayment, true, "Completed")},
			[]string{`/payments/get {"TransactionId":504}`}, []webhook.Reading{fact(order.KindPaid, "504", 125050, "RUB", "2026-01-01T10:05:00Z", "")}},
		"CloudPayments: declined": {
			"cloudpayments", lookup.Target{Payment: "504"}, map[string]string{`/payments/get {"TransactionId":504}`: fmt.Sprintf(cloudpaymentsPayment, false, "Declined")},
			[]string{`/payments/get {"TransactionId":504}`}, []webhook.Reading{fact(order.KindFailed, "504", 125050, "RUB", "2026-01-01T10:00:00Z", "")}},
		"PayPal: a dispute that the buyer won": {
			"paypal", lookup.Target{Type: "CUSTOMER.DISPUTE.RESOLVED", Payment: "CAP1", Subject: "PP-D-1"}, map[string]string{"/v1/customer/disputes/PP-D-1": `{"dispute_id":"PP-D-1","create_time":"2026-01-03T10:00:00.000Z","update_time":"2026-01-04T10:00:00.000Z",
				"status":"RESOLVED","dispute_outcome":{"outcome_code":"RESOLVED_BUYER_FAVOUR"},"dispute_amount":{"currency_code":"USD","value":"10.00"},
				"disputed_transactions":[{"seller_transaction_id":"CAP1","custom":"ORD-1"}]}`},
			[]string{"/v1/customer/disputes/PP-D-1"},
			[]webhook.Reading{fact(order.KindDisputeOpened, "CAP1", 1000, "USD", "2026-01-03T10:00:00Z", "PP-D-1"), fact(order.KindDisputeLost, "CAP1", 1000, "USD", "2026-01-04T10:00:00Z", "PP-D-1")}},
		"Click: paid": {
			"click", clickTarget(), map[string]string{
				"/payment/status_by_mti/24001/ORD-1/2026-01-02": `{"error_code":0,"error_note":"Success","payment_id":3298765432,"merchant_trans_id":"ORD-1"}`,
				"/payment/status/24001/3298765432":              `{"error_code":0,"error_note":"Success","payment_id":3298765432,"payment_status":2}`},
			[]string{"/payment/status_by_mti/24001/ORD-1/2026-01-02", "/payment/status/24001/3298765432"},
			[]webhook.Reading{fact(order.KindPaid, "3298765432", 12505000, "UZS", "2026-01-01T20:00:09Z", "")}},
		"Click: begun before midnight, failed": {
			"click", clickTarget(), map[string]string{
				"/payment/status_by_mti/24001/ORD-1/2026-01-02": `{"error_code":-5,"error_note":"not found"}`,
				"/payment/status_by_mti/24001/ORD-1/2026-01-01": `{"error_code":0,"payment_id":3298765432}`,
				"/payment/status/24001/3298765432":              `{"error_code":0,"payment_id":3298765432,"payment_status":-99}`},
			[]string{"/payment/status_by_mti/24001/ORD-1/2026-01-02", "/payment/status_by_mti/24001/ORD-1/2026-01-01", "/payment/status/24001/3298765432"},
			[]webhook.Reading{fact(order.KindFailed, "3298765432", 12505000, "UZS", "2026-01-01T20:00:09Z", "")}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.target.Object = "object"
			step, asked := ask(t, tt.provider, tt.target, tt.answers)
			if step.Outcome != lookup.Answered {
				t.Fatalf("%s: %s", step.Outcome, step.Why)
			}
			for i := range tt.want {
				tt.want[i].Subject = "object"
			}
			if diff := cmp.Diff(tt.want, step.Facts); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.asked, asked); diff != "" {
				t.Error(diff)
			}
			for _, f := range step.Facts {
				if _, err := lookup.Encode(f); err != nil {
					t.Errorf("%+v: %v", f, err)
				}
			}
		})
	}
}

// clickTarget is of a Complete at one o'clock at night, by Click's clock.
func clickTarget() lookup.Target {
	return lookup.Target{Order: "ORD-1", Payment: "1111", Amount: 12505000, Currency: "UZS", Time: at("2026-01-02T01:00:09+05:00")}
}

// good are one target and answer a provider that state a fact.
func good(provider string) (lookup.Target, map[string]string) {
	switch provider {
	case "mollie", "mollie_classic":
		return lookup.Target{Payment: "tr_1"}, map[string]string{"/v2/payments/tr_1?embed=refunds,chargebacks": molliePayment}
	case "mercadopago":
		return lookup.Target{Payment: "20359978"}, map[string]string{"/v1/payments/20359978": fmt.Sprintf(mercadopagoPayment, "approved", "0")}
	case "yookassa":
		return lookup.Target{Payment: "22e12f66"}, map[string]string{"/v3/payments/22e12f66": fmt.Sprintf(yookassaPayment, "succeeded", "0.00", "")}
	case "gocardless":
		return lookup.Target{Payment: "PM1"}, map[string]string{"/payments/PM1": fmt.Sprintf(gocardlessPayment, "confirmed", 0)}
	case "flutterwave":
		return lookup.Target{Payment: "288200108"}, map[string]string{"/v3/transactions/288200108/verify": fmt.Sprintf(flutterwavePayment, "100", "successful")}
	case "midtrans":
		return lookup.Target{Order: "ORD-1"}, map[string]string{"/v2/ORD-1/status": fmt.Sprintf(midtransPayment, "settlement", "accept", "")}
	case "razorpay":
		return lookup.Target{Payment: "pay_1"}, map[string]string{"/v1/payments/pay_1": fmt.Sprintf(razorpayPayment, "captured", 0)}
	case "square":
		return lookup.Target{Payment: "SQ1"}, map[string]string{"/v2/payments/SQ1": fmt.Sprintf(squarePayment, "COMPLETED", "")}
	case "paypal":
		return lookup.Target{Payment: "CAP1"}, map[string]string{"/v2/payments/captures/CAP1": fmt.Sprintf(paypalCapture, "COMPLETED")}
	case "cloudpayments":
		return lookup.Target{Payment: "504"}, map[string]string{`/payments/get {"TransactionId":504}`: fmt.Sprintf(cloudpaymentsPayment, true, "Completed")}
	case "click":
		return clickTarget(), map[string]string{
			"/payment/status_by_mti/24001/ORD-1/2026-01-02": `{"error_code":0,"payment_id":3298765432,"merchant_trans_id":"ORD-1"}`,
			"/payment/status/24001/3298765432":              `{"error_code":0,"payment_id":3298765432,"payment_status":2}`}
	}
	panic("no good answer of " + provider)
}

func TestAnAnswerThatIsNotOneDecidesNothing(t *testing.T) {
	for _, api := range lookup.All() {
		target, answers := good(api.Provider)
		if step, _ := ask(t, api.Provider, target, answers); step.Outcome != lookup.Answered || len(step.Facts) == 0 {
			t.Fatalf("%s: %s %s", api.Provider, step.Outcome, step.Why)
		}
		for name, c := range map[string]struct {
			response lookup.Response
			want     lookup.Outcome
			after    time.Duration
		}{
			"timeout":           {lookup.Response{}, lookup.Unavailable, 0},
			"500":               {lookup.Response{Status: 500}, lookup.Unavailable, 0},
			"502 with a page":   {lookup.Response{Status: 502, Body: []byte("<html>")}, lookup.Unavailable, 0},
			"429":               {lookup.Response{Status: 429, RetryAfter: "7"}, lookup.Unavailable, 7 * time.Second},
			"429 for ever":      {lookup.Response{Status: 429, RetryAfter: "99999999999"}, lookup.Unavailable, time.Hour},
			"503 for a year":    {lookup.Response{Status: 503, RetryAfter: "31536000"}, lookup.Unavailable, time.Hour},
			"429 until then":    {lookup.Response{Status: 429, RetryAfter: "Fri, 02 Jan 2026 03:05:05 GMT"}, lookup.Unavailable, time.Minute},
			"429 by its clock":  {lookup.Response{Status: 429, RetryAfter: "Fri, 02 Jan 2026 03:05:05 GMT", Date: "Fri, 02 Jan 2026 03:05:00 GMT"}, lookup.Unavailable, 5 * time.Second},
			"503 until gone by": {lookup.Response{Status: 503, RetryAfter: "Fri, 02 Jan 2026 03:00:00 GMT"}, lookup.Unavailable, 0},
			"429 and nonsense":  {lookup.Response{Status: 429, RetryAfter: "soon"}, lookup.Unavailable, 0},
			"410":               {lookup.Response{Status: 410}, lookup.Unknown, 0},
			"401":               {lookup.Response{Status: 401}, lookup.Refused, 0},
			"403":               {lookup.Response{Status: 403}, lookup.Refused, 0},
			"404":               {lookup.Response{Status: 404}, lookup.Unknown, 0},
			"redirect":          {lookup.Response{Status: 302}, lookup.Unreadable, 0},
			"no content":        {lookup.Response{Status: 204}, lookup.Unreadable, 0},
			"empty":             {lookup.Response{Status: 200}, lookup.Unreadable, 0},
			"garbage":           {lookup.Response{Status: 200, Body: []byte("paid")}, lookup.Unreadable, 0},
			"an array":          {lookup.Response{Status: 200, Body: []byte("[]")}, lookup.Unreadable, 0},
			"an empty object":   {lookup.Response{Status: 200, Body: []byte("{}")}, lookup.Unreadable, 0},
			"too large":         {lookup.Response{Status: 200, Oversized: true}, lookup.Unreadable, 0},
			"of another object": {lookup.Response{Status: 200, Body: []byte(`{"id":"other","status":"x","payments":{"id":"other","status":"x"},"payment":{"id":"other","status":"x"},"data":{"id":"other","status":"x"},"transaction_id":"other","order_id":"other","error_code":0,"payment_id":1,"merchant_trans_id":"other","Success":true,"Model":{"TransactionId":1,"Status":"x"}}`)}, lookup.Unreadable, 0},
		} {
			t.Run(api.Provider+" "+name, func(t *testing.T) {
				l := account(t, api.Provider)
				if step := l.Next(target, nil, "token", now); step.Request == nil {
					t.Fatalf("asks nothing: %s", step.Why)
				}
				step := l.Next(target, []lookup.Response{c.response}, "token", now)
				if step.Request != nil || step.Outcome != c.want || len(step.Facts) > 0 || step.Why == "" || step.RetryAfter != c.after {
					t.Errorf("%+v %v, %d facts, after %v: %s", step.Request, step.Outcome, len(step.Facts), step.RetryAfter, step.Why)
				}
			})
		}
	}
}

// What a hint names may be anybody's text.
func TestAnIDThatIsMoreThanANameIsNotAskedFor(t *testing.T) {
	for _, api := range lookup.All() {
		for _, id := range []string{"", ".", "..", "a/b", `a\b`, "a?b", "a#b", "a%2fb", "a;b", "a b", "a\nb", "a\x00", strings.Repeat("a", 256)} {
			target, _ := good(api.Provider)
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
	for _, api := range lookup.All() {
		a := lookup.Account{Mode: event.Live, BaseURL: "https://api.test", Settings: settings[api.Provider], Secret: "hidden"}
		l, err := api.New(a)
		if err != nil {
			t.Fatal(err)
		}
		target, _ := good(api.Provider)
		step := l.Next(target, nil, "hidden", now)
		if text := fmt.Sprintf("%v %+v %#v %v %+v %#v", a, a, a, *step.Request, *step.Request, *step.Request); strings.Contains(text, "hidden") || strings.Contains(text, "aGlkZGVu") {
			t.Errorf("%s: %s", api.Provider, text)
		}
	}
}

// The header is Click's: merchant_user_id, SHA-1 of time and secret, time.
func TestClickSignsTheTime(t *testing.T) {
	step := account(t, "click").Next(clickTarget(), nil, "", time.Unix(1519051543, 0))
	if got := step.Request.Header["Auth"]; got != "77:c3706afdde62346ae4773bbf4d68dcc0427b4467:1519051543" {
		t.Error(got)
	}
}

// A replayed Complete may carry the payment document of another order that was paid:
// the number is not signed. It is not asked for.
func TestClicksPaymentIsFoundByTheSignedOrderAlone(t *testing.T) {
	target := clickTarget()
	target.Payment, target.Subject = "999", "999"
	step, asked := ask(t, "click", target, map[string]string{"/payment/status/24001/999": `{"error_code":0,"payment_id":999,"payment_status":2}`,
		"/payment/status_by_mti/24001/ORD-1/2026-01-02": `{"error_code":-1}`, "/payment/status_by_mti/24001/ORD-1/2026-01-01": `{"error_code":-1}`})
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

// Answers come over the network: whatever they hold, a look-up ends, and what it
// states can be written.
func FuzzAnswer(f *testing.F) {
	apis := lookup.All()
	for i, api := range apis {
		_, answers := good(api.Provider)
		for _, body := range answers {
			f.Add(uint8(i), []byte(body), []byte(paypalOrder))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, first, second []byte) {
		api := apis[int(which)%len(apis)]
		l, err := api.New(lookup.Account{BaseURL: "https://api.test", Settings: settings[api.Provider]})
		if err != nil {
			t.Fatal(err)
		}
		target, _ := good(api.Provider)
		target.Object = "object"
		var got []lookup.Response
		for range 8 {
			step := l.Next(target, got, "", now)
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
			body := first
			if len(got)%2 == 1 {
				body = second
			}
			got = append(got, lookup.Response{Status: 200, Body: body})
		}
		t.Error("asks for ever")
	})
}

// It answers a transaction that it does not know with 200.
func TestCloudPaymentsSaysUnknownInTheBody(t *testing.T) {
	step, _ := ask(t, "cloudpayments", lookup.Target{Payment: "504"}, map[string]string{`/payments/get {"TransactionId":504}`: `{"Model":null,"Success":false,"Message":"Not found"}`})
	if step.Outcome != lookup.Unknown {
		t.Errorf("%s: %s", step.Outcome, step.Why)
	}
	first := account(t, "cloudpayments").Next(lookup.Target{Payment: "504"}, nil, "", now)
	if string(first.Request.Body) != `{"TransactionId":504}` || first.Request.Method != http.MethodPost {
		t.Errorf("%s %s", first.Request.Method, first.Request.Body)
	}
}

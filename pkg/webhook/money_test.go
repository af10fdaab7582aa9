package webhook

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sluice/pkg/order"
)

// told is a webhook as a provider would send it.
type told struct {
	provider, typ, id, body string
}

// entry is what the order's set gets of it.
func (w told) entry(t *testing.T) order.Entry {
	t.Helper()
	header := headersOf("X-Razorpay-Event-Id", w.id, "X-Shopify-Webhook-Id", w.id, "X-Shopify-Topic", w.typ)
	r, err := builtinOf(t, w.provider).Read(header, []byte(w.body))
	if err != nil {
		t.Fatalf("%s: %v", w.id, err)
	}
	if r.ID != w.id {
		t.Fatalf("%s is read as %s", w.id, r.ID)
	}
	e := order.Entry{Hash: [16]byte(sum16(w.id)), Source: w.provider, Kind: r.Fact, Payment: r.Payment, Object: r.Object, Amount: r.Amount, Currency: r.Currency}
	if !r.Time.IsZero() {
		e.Time = r.Time.UnixMilli()
	}
	return e
}

func sum16(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:16]
}

// refunded is what an order of 1000 that was paid in full has given back.
func refunded(t *testing.T, of ...told) int64 {
	t.Helper()
	var set []order.Entry
	currency := ""
	for _, w := range of {
		e := w.entry(t)
		currency = e.Currency
		set = append(set, e)
	}
	out := order.Fold(&order.Registration{Amount: 1000, Currency: currency, Time: 1}, set)
	if out.State.Paid != 1000 {
		t.Fatalf("paid %d: %+v", out.State.Paid, out.Judgements)
	}
	return out.State.Refunded
}

// What each provider sends of one payment of 1000 and of refunds of it.
func stripePaid() told {
	return told{"stripe", "", "evt_paid", `{"id":"evt_paid","type":"payment_intent.succeeded","created":10,"data":{"object":{"id":"pi","amount_received":1000,"currency":"eur"}}}`}
}

func stripeRefund(id, typ, refund string, amount int) told {
	return told{"stripe", "", id, fmt.Sprintf(`{"id":%q,"type":%q,"created":20,"data":{"object":{"id":%q,"payment_intent":"pi","status":"succeeded","amount":%d,"currency":"eur"}}}`, id, typ, refund, amount)}
}

func stripeTotal(id string, amount int) told {
	return told{"stripe", "", id, fmt.Sprintf(`{"id":%q,"type":"charge.refunded","created":21,"data":{"object":{"id":"ch","payment_intent":"pi","amount":1000,"amount_refunded":%d,"currency":"eur"}}}`, id, amount)}
}

func razorpayPaid() told {
	return told{"razorpay", "", "rz_paid", `{"event":"payment.captured","created_at":10,"payload":{"payment":{"entity":{"id":"pay","amount":1000,"currency":"INR"}}}}`}
}

// orderPaid is the same money told again.
func orderPaid() told {
	return told{"razorpay", "", "rz_order", `{"event":"order.paid","created_at":11,"payload":{"payment":{"entity":{"id":"pay","amount":1000,"currency":"INR"}},"order":{"entity":{"id":"o","amount":1000,"receipt":"r"}}}}`}
}

func razorpayRefunded(id, refund string, amount, soFar int) told {
	return told{"razorpay", "", id, fmt.Sprintf(`{"event":"refund.processed","created_at":20,"payload":{"refund":{"entity":{"id":%q,"payment_id":"pay","amount":%d,"currency":"INR"}},`+
		`"payment":{"entity":{"id":"pay","amount":1000,"currency":"INR","amount_refunded":%d,"refund_status":"partial"}}}}`, refund, amount, soFar)}
}

func shopifyOrderTold(id, topic, status string) told {
	return told{"shopify", topic, id, fmt.Sprintf(`{"id":55,"name":"#1","currency":"USD","total_price":"10.00","current_total_price":"5.00","financial_status":%q,"updated_at":"2026-01-01T00:00:10Z"}`, status)}
}

func shopifyRefundTold(id string, refund int, amount string) told {
	return told{"shopify", "refunds/create", id, fmt.Sprintf(`{"id":%d,"order_id":55,"created_at":"2026-01-01T00:00:20Z","transactions":[{"kind":"refund","status":"success","amount":%q,"currency":"USD"}]}`, refund, amount)}
}

func paddleTold(id, typ, data string) told {
	return told{"paddle", "", id, fmt.Sprintf(`{"event_id":%q,"event_type":%q,"occurred_at":"2026-01-01T00:00:10Z","data":{%s,"currency_code":"USD"}}`, id, typ, data)}
}

func paddleRefundTold(id, typ, status, adjustment string, amount int) told {
	return paddleTold(id, typ, fmt.Sprintf(`"id":%q,"transaction_id":"txn","action":"refund","status":%q,"type":"partial","totals":{"total":"%d"}`, adjustment, status, amount))
}

// O20: a single refund is added, a running total replaces, in any order of delivery.
func TestSingleRefundsAddUpAndRunningTotalsDoNot(t *testing.T) {
	r1, r2 := razorpayRefunded("r1", "rfnd_1", 200, 200), razorpayRefunded("r2", "rfnd_2", 300, 500)
	late, all := stripeTotal("t1", 200), stripeTotal("t2", 500)
	for name, of := range map[string][]told{
		"singles":          {razorpayPaid(), r1, r2},
		"the other way":    {r2, r1, razorpayPaid()},
		"one twice":        {razorpayPaid(), r1, razorpayRefunded("r1 again", "rfnd_1", 200, 200), r2},
		"told of twice":    {razorpayPaid(), orderPaid(), r1, r2},
		"totals":           {stripePaid(), late, all},
		"a late total":     {stripePaid(), all, late},
		"both":             {stripePaid(), stripeRefund("s1", "refund.created", "re_1", 200), late, stripeRefund("s2", "refund.created", "re_2", 300), all},
		"Shopify":          {shopifyOrderTold("p", "orders/paid", "paid"), shopifyRefundTold("a", 1, "2.00"), shopifyOrderTold("u", "orders/updated", "partially_refunded"), shopifyRefundTold("b", 2, "3.00")},
		"Paddle":           {paddleTold("p", "transaction.completed", `"id":"txn","details":{"totals":{"total":"1000"}}`), paddleRefundTold("a", "adjustment.updated", "approved", "adj_1", 200), paddleRefundTold("b", "adjustment.created", "approved", "adj_2", 300)},
		"Paddle, asked of": {paddleTold("p", "transaction.paid", `"id":"txn","details":{"totals":{"total":"1000"}}`), paddleTold("p2", "transaction.completed", `"id":"txn","details":{"totals":{"total":"1000"}}`), paddleRefundTold("x", "adjustment.created", "pending_approval", "adj_1", 500), paddleRefundTold("z", "adjustment.created", "pending_approval", "adj_2", 100), paddleRefundTold("y", "adjustment.updated", "approved", "adj_1", 500)},
	} {
		if got := refunded(t, of...); got != 500 {
			t.Errorf("%s: %d, want 500", name, got)
		}
	}
}

// O22: a refund is one by its own id, whoever tells of it and under whatever event id;
// a second real one counts.
func TestARefundThatIsToldOfInManyEventsIsBookedOnce(t *testing.T) {
	for name, c := range map[string]struct{ once, second []told }{
		"stripe": {
			[]told{stripePaid(), stripeRefund("a", "refund.created", "re_1", 300), stripeTotal("b", 300), stripeRefund("c", "refund.updated", "re_1", 300)},
			[]told{stripeRefund("d", "refund.created", "re_2", 300), stripeTotal("e", 600)},
		},
		"razorpay": {
			[]told{razorpayPaid(), razorpayRefunded("a", "rfnd_1", 300, 300), razorpayRefunded("b", "rfnd_1", 300, 300)},
			[]told{razorpayRefunded("c", "rfnd_2", 300, 600)},
		},
		"shopify": {
			[]told{shopifyOrderTold("p", "orders/paid", "paid"), shopifyRefundTold("a", 1, "3.00"), shopifyRefundTold("b", 1, "3.00"), shopifyOrderTold("u", "orders/updated", "partially_refunded")},
			[]told{shopifyRefundTold("c", 2, "3.00")},
		},
		"paddle": {
			[]told{paddleTold("p", "transaction.completed", `"id":"txn","details":{"totals":{"total":"1000"}}`), paddleRefundTold("a", "adjustment.created", "approved", "adj_1", 300), paddleRefundTold("b", "adjustment.updated", "approved", "adj_1", 300)},
			[]told{paddleRefundTold("c", "adjustment.created", "approved", "adj_2", 300)},
		},
	} {
		if got := refunded(t, c.once...); got != 300 {
			t.Errorf("%s: %d, want 300", name, got)
		}
		if got := refunded(t, append(c.once, c.second...)...); got != 600 {
			t.Errorf("%s: with a second refund %d, want 600", name, got)
		}
	}
}

// O26: white space, the order of keys and counters of deliveries say nothing new; an
// amount does.
func TestOneEventInAnotherSpellingIsTheSameReading(t *testing.T) {
	files, _ := filepath.Glob("testdata/fixtures/*.json")
	compared := 0
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var cases []struct {
			Provider string
			Name     string
			Headers  map[string]string
			Body     json.RawMessage
		}
		if err := json.Unmarshal(data, &cases); err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			p := builtinOf(t, c.Provider)
			if _, batch := p.(Batched); batch || c.Body == nil {
				continue
			}
			var pairs []string
			for k, v := range c.Headers {
				pairs = append(pairs, k, v)
			}
			want, errWant := p.Read(headersOf(pairs...), c.Body)
			// Keys sorted, no white space; numbers keep their digits.
			d := json.NewDecoder(bytes.NewReader(c.Body))
			d.UseNumber()
			var value map[string]any
			if err := d.Decode(&value); err != nil {
				t.Fatal(err)
			}
			for counter, n := range map[string]int{"pending_webhooks": 7, "attempt_number": 9} {
				if value[counter] != nil {
					value[counter] = n
				}
			}
			other, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Read(headersOf(pairs...), other)
			if got != want || (err == nil) != (errWant == nil) {
				t.Errorf("%s/%s: %+v, %v; in another spelling %+v, %v", c.Provider, c.Name, want, errWant, got, err)
			}
			compared++
		}
	}
	if compared < 50 {
		t.Errorf("only %d were compared", compared)
	}
	a, b := stripeRefund("evt_d", "refund.created", "re", 100), stripeRefund("evt_d", "refund.created", "re", 999)
	if a.entry(t) == b.entry(t) {
		t.Error("another amount is the same reading")
	}
}

package webhook

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// payment is a readable body of the acme provider with parts replaced.
func payment(replace ...string) []byte {
	const body = `{"id":"evt_1","type":"payment.succeeded","created":1700000000,"livemode":true,` +
		`"data":{"id":"pay_1","order_id":"ord_1","amount":1200,"currency":"EUR","note":"x"}}`
	return []byte(strings.NewReplacer(replace...).Replace(body))
}

// acmeHeaders has no id, so that the body's counts.
var acmeHeaders = headersOf()

func TestAPaymentIsRead(t *testing.T) {
	got, err := acme(t, nil).Read(acmeHeaders, payment())
	want := Reading{ID: "evt_1", Type: "payment.succeeded", Time: time.Unix(1700000000, 0).UTC(), Mode: event.Live, Trust: event.Signed,
		Order: "ord_1", Payment: "pay_1", Fact: order.KindPaid, Amount: 1200, Currency: "EUR"}
	if err != nil || got != want {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
}

// O01: broken text beside what is read does no harm; in what is read it is never
// replaced. O17: the same for U+0000 and half surrogate pairs.
func TestBrokenTextCostsOnlyTheEventThatNeedsIt(t *testing.T) {
	p := acme(t, nil)
	for _, broken := range []string{"a\xffb", `a\u0000b`, `\ud800`, `\udc00`, `\ud800x`, `\ud800\u0041`, `\udc00\ud800`, "\xed\xa0\x80", "\xc0\x80"} {
		for name, body := range map[string][]byte{
			"a note":     payment(`"x"`, `"`+broken+`"`),
			"a key":      payment(`"note"`, `"`+broken+`"`),
			"a deep key": payment(`"x"`, `{"k":[{"`+broken+`":"`+broken+`"}]}`),
		} {
			if r, err := p.Read(acmeHeaders, body); err != nil || r.Order != "ord_1" || r.ID != "evt_1" {
				t.Errorf("%q in %s: %+v, %v", broken, name, r, err)
			}
		}
		for name, body := range map[string][]byte{
			"the id":       payment("evt_1", broken),
			"the type":     payment("payment.succeeded", broken),
			"the order":    payment("ord_1", broken),
			"the payment":  payment("pay_1", broken),
			"the currency": payment("EUR", broken),
			"a condition":  payment("payment.succeeded", "payment.updated", `"note":"x"`, `"final":true,"status":"`+broken+`"`),
		} {
			_, err := p.Read(acmeHeaders, body)
			if err == nil {
				t.Errorf("%q in %s is read", broken, name)
			} else if strings.Contains(err.Error(), broken) {
				t.Errorf("the error repeats the body: %v", err)
			}
		}
	}
}

// O17: text that only looks like an escape survives.
func TestAnEscapedBackslashIsText(t *testing.T) {
	r, err := acme(t, nil).Read(acmeHeaders, payment("ord_1", `a\\u0000b`))
	if err != nil || r.Order != `a\u0000b` {
		t.Errorf("%q, %v", r.Order, err)
	}
}

// O02: spelling of the JSON does not matter; a BOM is not JSON.
func TestOneMeaningHasManySpellings(t *testing.T) {
	p := acme(t, nil)
	want, err := p.Read(acmeHeaders, payment())
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{
		`{"data":{"currency":"eur","amount":1200,"order_id":"ord_1","id":"pay_1"},"type":"payment.succeeded","livemode":true,"created":1700000000,"id":"evt_1"}`,
		"{\r\n  \"id\" : \"evt_1\" ,\r\n\t\"type\": \"payment.succeeded\", \"created\":1700000000, \"livemode\":true,\"data\":{\"id\":\"pay_1\",\"order_id\":\"ord_1\",\"amount\":1200,\"currency\":\"Eur\"}}\r\n",
		`{"\u0069d":"evt_1","type":"payment\u002esucceeded","created":"2023-11-14T22:13:20Z","livemode":"live","data":{"id":"pay\u005F1","ord\u0065r_id":"ord_1","amount":"1200","currency":"EUR"}}` + "\n",
	} {
		if got, err := p.Read(acmeHeaders, []byte(body)); err != nil || got != want {
			t.Errorf("%s\ngot  %+v, %v\nwant %+v", body, got, err, want)
		}
	}
	for _, body := range []string{"\xef\xbb\xbf" + string(payment()), "", "null", "[]", `"x"`, "7", "payload=%7B%7D", "{", "{}{}", `{"id":1,}`} {
		if _, err := p.Read(acmeHeaders, []byte(body)); err == nil {
			t.Errorf("%q is read", body)
		}
	}
}

// O10
func TestModeIsTheProvidersWordOrNothing(t *testing.T) {
	p := acme(t, nil)
	for value, want := range map[string]event.Mode{"true": event.Live, "false": event.Test, `"live"`: event.Live, `"test"`: event.Test, "null": "", `""`: ""} {
		r, err := p.Read(acmeHeaders, payment(`"livemode":true`, `"livemode":`+value))
		if err != nil || r.Mode != want {
			t.Errorf("%s: %q, %v", value, r.Mode, err)
		}
	}
	if r, err := p.Read(acmeHeaders, payment(`"livemode":true,`, "")); err != nil || r.Mode != "" {
		t.Errorf("none: %q, %v", r.Mode, err)
	}
	for _, value := range []string{`"LIVE"`, `"production"`, "1", "{}", `"yes"`} {
		if r, err := p.Read(acmeHeaders, payment(`"livemode":true`, `"livemode":`+value)); err == nil {
			t.Errorf("%s is read as %q", value, r.Mode)
		}
	}
}

// O11
func TestAnUnknownTypeMeansNothingAndIsReadable(t *testing.T) {
	p := acme(t, nil)
	for _, typ := range []string{"customer.created", "totally.new.event.v9", "PAYMENT.SUCCEEDED", "payment.succeeded ", "платёж", strings.Repeat("t", 255)} {
		// What only a fact needs cannot make it unreadable.
		body := payment("payment.succeeded", typ, "1200", "1e3", "true", "[]", "1700000000", `"now"`, `"ord_1"`, `{}`, "EUR", "???")
		r, err := p.Read(acmeHeaders, body)
		if err != nil || r.Fact != order.KindNone || r.Type != typ || r.ID != "evt_1" {
			t.Errorf("%s: %+v, %v", typ, r, err)
		}
	}
	if r, err := p.Read(acmeHeaders, payment("payment.succeeded", "customer.created")); err != nil || r.Order != "ord_1" || r.Payment != "pay_1" {
		t.Errorf("the order of an unused type: %+v, %v", r, err)
	}
	for _, typ := range []string{`""`, "null", "7", "true", "{}", "[]", `"  "`, `"` + strings.Repeat("t", 256) + `"`, `"` + strings.Repeat("t", 10_000) + `"`} {
		if _, err := p.Read(acmeHeaders, payment(`"payment.succeeded"`, typ)); err == nil {
			t.Errorf("type %.20s is read", typ)
		}
	}
	if _, err := p.Read(acmeHeaders, payment(`"type":"payment.succeeded",`, "")); err == nil {
		t.Error("a body without a type is read")
	}
}

func TestAConditionDecidesWhatATypeMeans(t *testing.T) {
	p := acme(t, nil)
	for fields, want := range map[string]order.Kind{
		`"status":"COMPLETED","final":true`: order.KindPaid, `"status":"COMPLETED","final":"true"`: order.KindPaid,
		`"status":"COMPLETED"`: order.KindNone, `"status":"PENDING","final":true`: order.KindNone, `"status":"completed","final":true`: order.KindNone,
		`"status":null,"final":true`: order.KindNone, `"status":"COMPLETED","final":false`: order.KindNone,
	} {
		r, err := p.Read(acmeHeaders, payment("payment.succeeded", "payment.updated", `"note":"x"`, fields))
		if err != nil || r.Fact != want {
			t.Errorf("%s: %v, %v", fields, r.Fact, err)
		}
	}
}

// O14: keys match to the letter, and none that is read may come twice.
func TestOneBodyCannotBeReadAsTwoEvents(t *testing.T) {
	p := acme(t, nil)
	r, err := p.Read(acmeHeaders, []byte(`{"id":"evt_case_1","ID":"evt_case_2","type":"payment.failed","Type":"payment.succeeded",`+
		`"data":{"order_id":"ord_A","Order_ID":"ord_B","amount":100,"AMOUNT":1,"currency":"EUR"},"Data":{"order_id":"ord_B"}}`))
	if err != nil || r.ID != "evt_case_1" || r.Fact != order.KindFailed || r.Order != "ord_A" || r.Amount != 100 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := p.Read(acmeHeaders, []byte(`{"ID":"evt_case_3","TYPE":"payment.succeeded"}`)); err == nil {
		t.Error("keys of another case are read")
	}
	for _, twice := range []string{
		`{"id":"evt_a","id":"evt_b","type":"x"}`, `{"id":"evt_a","type":"x","id":"evt_a"}`, `{"id":"evt_a","\u0069d":"evt_b","type":"x"}`,
		`{"id":"evt_a","type":"x","type":null}`, `{"id":"evt_a","type":"x","data":{},"data":{"order_id":"o"}}`,
		`{"id":"evt_a","type":"x","data":{"order_id":"o","order_id":"p"}}`, `{"id":"evt_a","type":"x","data":7,"d\u0061ta":{}}`,
	} {
		if _, err := p.Read(acmeHeaders, []byte(twice)); err == nil || !strings.Contains(err.Error(), "twice") {
			t.Errorf("%s: %v", twice, err)
		}
	}
	for _, once := range []string{
		`{"id":"evt_a","type":"x","note":1,"note":2}`, `{"id":"evt_a","type":"x","data":{"note":{"id":1,"id":2}}}`, `{"id":"evt_a","type":"x","list":[{"id":1,"id":2}]}`,
	} {
		if _, err := p.Read(acmeHeaders, []byte(once)); err != nil {
			t.Errorf("%s: %v", once, err)
		}
	}
}

// O15: 42 and "42" are one id; nothing is rounded.
func TestNumbersKeepTheirDigits(t *testing.T) {
	p := acme(t, nil)
	for value, want := range map[string]string{
		"9007199254740992": "9007199254740992", "9007199254740993": "9007199254740993", "1152921506151679042": "1152921506151679042",
		"9223372036854775807": "9223372036854775807", "42": "42", `"42"`: "42", "0": "0", `"007"`: "007",
	} {
		r, err := p.Read(acmeHeaders, payment(`"evt_1"`, value, `"ord_1"`, value))
		if err != nil || r.ID != want || r.Order != want {
			t.Errorf("%s: id %q, order %q, %v", value, r.ID, r.Order, err)
		}
	}
	for _, value := range []string{"9223372036854775808", "99999999999999999999", "1e3", "1.0", "true", "false", `{"a":1}`, "[1]", "null", `""`, `"   "`, "-0",
		`"` + strings.Repeat("i", 256) + `"`, `"` + strings.Repeat("i", 70_000) + `"`} {
		if r, err := p.Read(acmeHeaders, payment(`"evt_1"`, value)); err == nil {
			t.Errorf("id %.30s is read as %.30q", value, r.ID)
		}
	}
	if r, err := p.Read(acmeHeaders, payment("evt_1", strings.Repeat("i", 255))); err != nil || len(r.ID) != 255 {
		t.Errorf("an id of 255 bytes: %v", err)
	}
	if r, err := p.Read(acmeHeaders, payment("1200", "9007199254740993")); err != nil || r.Amount != 9007199254740993 {
		t.Errorf("amount %d, %v", r.Amount, err)
	}
}

func TestAmountsAreExactOrRefused(t *testing.T) {
	p := acme(t, nil)
	for _, value := range []string{"12.00", "1.2e3", "1e3", "-1", "-0", "9223372036854775808", `"12.00"`, `" 1200"`, `"+1200"`, `"01200"`, "true", "null", `""`, "{}", "[1200]"} {
		if r, err := p.Read(acmeHeaders, payment("1200", value)); err == nil {
			t.Errorf("%s is read as %d", value, r.Amount)
		}
	}
	decimal := acme(t, func(d *Declaration) { d.Reading.AmountUnit = "decimal" })
	for value, want := range map[string]int64{`"8.20"`: 820, "8.20": 820, "8.2": 820, `"599.80"`: 59980, `"0.07"`: 7, `"1234567890.12"`: 123456789012, "12": 1200} {
		if r, err := decimal.Read(acmeHeaders, payment("1200", value)); err != nil || r.Amount != want {
			t.Errorf("%s: %d, %v", value, r.Amount, err)
		}
	}
	for _, value := range []string{`"8.205"`, `"8,20"`, `" 8.20"`, `"8.20 EUR"`, `"0x10"`, `"NaN"`, `"1e400"`, "1e400", `"1e2"`, `"-0"`, "-1", `"٨.٢٠"`, "true"} {
		if r, err := decimal.Read(acmeHeaders, payment("1200", value)); err == nil {
			t.Errorf("decimal %s is read as %d", value, r.Amount)
		}
	}
}

// O18, the reading's part.
func TestACurrencyIsOneOfTheStandardsOrTheMoneyIsUnreadable(t *testing.T) {
	p := acme(t, nil)
	for _, value := range []string{"JPY", "jpy", "Jpy"} {
		if r, err := p.Read(acmeHeaders, payment("EUR", value, "1200", "5800")); err != nil || r.Currency != "JPY" || r.Amount != 5800 {
			t.Errorf("%s: %+v, %v", value, r, err)
		}
	}
	for _, value := range []string{`"XXX"`, `"ABC"`, `""`, "null", "978", `"EU"`, `"EURO"`, `"€"`} {
		if _, err := p.Read(acmeHeaders, payment(`"EUR"`, value)); err == nil {
			t.Errorf("%s is read", value)
		}
	}
	if r, err := p.Read(acmeHeaders, payment("payment.succeeded", "payment.failed", `"currency":"EUR",`, "")); err != nil || r.Amount != 0 || r.Fact != order.KindFailed {
		t.Errorf("a failure needs no money: %+v, %v", r, err)
	}
}

func TestTimesAreReadOrRefused(t *testing.T) {
	seconds := acme(t, nil)
	millis := acme(t, func(d *Declaration) { d.Reading.TimeUnit = "ms" })
	at := time.Unix(1700000000, 0).UTC()
	for _, c := range []struct {
		p     Provider
		value string
		want  time.Time
	}{
		{seconds, "1700000000", at}, {seconds, `"1700000000"`, at}, {seconds, `"2023-11-15T01:13:20+03:00"`, at}, {seconds, `"2023-11-14T22:13:20.5Z"`, at.Add(500 * time.Millisecond)},
		{millis, "1700000000123", at.Add(123 * time.Millisecond)}, {seconds, "0", time.Unix(0, 0).UTC()}, {seconds, "null", time.Time{}},
	} {
		r, err := c.p.Read(acmeHeaders, payment("1700000000", c.value))
		if err != nil || !r.Time.Equal(c.want) {
			t.Errorf("%s: %s, %v", c.value, r.Time, err)
		}
	}
	for _, value := range []string{"1.7e9", "1700000000.5", "-1", "253402300800", "99999999999999999999", `"yesterday"`, `"2023-11-14"`, "true", "{}"} {
		if r, err := seconds.Read(acmeHeaders, payment("1700000000", value)); err == nil {
			t.Errorf("%s is read as %s", value, r.Time)
		}
	}
}

func TestAFactThatBelongsToNothingIsUnreadable(t *testing.T) {
	body := payment(`"id":"pay_1","order_id":"ord_1",`, "")
	if _, err := acme(t, nil).Read(acmeHeaders, body); err == nil {
		t.Error("it is read")
	}
}

func TestARefundWithoutAnIDIsToldApartByItsEvent(t *testing.T) {
	p := acme(t, nil)
	if r, err := p.Read(acmeHeaders, payment("payment.succeeded", "refund.succeeded")); err != nil || r.Object != "evt_1" {
		t.Errorf("%q, %v", r.Object, err)
	}
	if r, err := p.Read(acmeHeaders, payment("payment.succeeded", "refund.succeeded", `"note":"x"`, `"refund_id":9`)); err != nil || r.Object != "9" {
		t.Errorf("%q, %v", r.Object, err)
	}
}

// What the fixtures do not show of Stripe.
func TestStripesEventsMeanWhatTheProviderSays(t *testing.T) {
	p := builtinOf(t, "stripe")
	for _, c := range []struct {
		typ, object string
		want        Reading
	}{
		{"checkout.session.completed", `"id":"cs","payment_status":"paid","amount_total":500,"client_reference_id":"o"`,
			Reading{Fact: order.KindPaid, Order: "o", Payment: "cs", Subject: "cs", Amount: 500}},
		{"checkout.session.completed", `"id":"cs","payment_status":"no_payment_required","amount_total":0,"payment_intent":"pi"`,
			Reading{Payment: "pi", Subject: "cs"}},
		{"checkout.session.async_payment_failed", `"id":"cs","payment_intent":"pi","amount_total":500`,
			Reading{Fact: order.KindFailed, Payment: "pi", Subject: "cs", Amount: 500}},
		{"checkout.session.expired", `"id":"cs","payment_intent":null,"amount_total":500,"metadata":{"order_id":"m"},"client_reference_id":"o"`,
			Reading{Fact: order.KindCancelled, Order: "m", Payment: "cs", Subject: "cs", Amount: 500}},
		{"payment_intent.canceled", `"id":"pi","amount":500`, Reading{Fact: order.KindCancelled, Payment: "pi", Subject: "pi", Amount: 500}},
		{"payment_intent.created", `"id":"pi","amount":500`, Reading{Subject: "pi", Amount: 500}},
		{"charge.refunded", `"id":"ch","amount":500,"amount_refunded":500,"refunded":true`,
			Reading{Fact: order.KindRefundTotal, Payment: "ch", Subject: "ch", Amount: 500, PaymentAmount: 500, Extent: Full}},
		{"refund.updated", `"id":"re","charge":"ch","status":"succeeded","amount":200`,
			Reading{Fact: order.KindRefund, Payment: "ch", Object: "re", Subject: "re", Amount: 200}},
		{"refund.updated", `"id":"re","payment_intent":"pi","charge":"ch","status":"failed","amount":200`,
			Reading{Fact: order.KindRefundFailed, Payment: "pi", Object: "re", Subject: "re", Amount: 200}},
		{"charge.refund.updated", `"id":"re","payment_intent":"pi","status":"failed","amount":200`,
			Reading{Fact: order.KindRefundFailed, Payment: "pi", Object: "re", Subject: "re", Amount: 200}},
		{"payment_intent.processing", `"id":"pi","amount":500`, Reading{Fact: order.KindPending, Payment: "pi", Subject: "pi", Amount: 500}},
		{"refund.updated", `"id":"re","payment_intent":"pi","status":"pending","amount":200`,
			Reading{Fact: order.KindPending, Payment: "pi", Object: "re", Subject: "re", Amount: 200}},
		{"refund.created", `"id":"re","payment_intent":"pi","status":"requires_action","amount":200`,
			Reading{Fact: order.KindPending, Payment: "pi", Object: "re", Subject: "re", Amount: 200}},
		{"charge.dispute.closed", `"id":"dp","payment_intent":"pi","status":"lost","amount":500`,
			Reading{Fact: order.KindDisputeLost, Payment: "pi", Object: "dp", Subject: "dp", Amount: 500}},
	} {
		body := `{"id":"evt_1","type":"` + c.typ + `","livemode":true,"data":{"object":{"currency":"usd",` + c.object + `}}}`
		c.want.ID, c.want.Type, c.want.Mode, c.want.Trust, c.want.Currency = "evt_1", c.typ, event.Live, event.Signed, "USD"
		if got, err := p.Read(acmeHeaders, []byte(body)); err != nil || got != c.want {
			t.Errorf("%s %s\ngot  %+v, %v\nwant %+v", c.typ, c.object, got, err, c.want)
		}
	}
	odd := `{"id":"evt_1","type":"customer.updated","data":{"object":{"id":"cus","currency":"usd","amount":"5,00"}}}`
	if r, err := p.Read(acmeHeaders, []byte(odd)); err != nil || r != (Reading{ID: "evt_1", Type: "customer.updated", Trust: event.Signed, Subject: "cus"}) {
		t.Errorf("an unused event with an amount that cannot be read: %+v, %v", r, err)
	}
	thin := `{"id":"evt_2","object":"v2.core.event","type":"v1.billing.meter.error_report_triggered","created":"2026-01-01T00:00:05.000Z","livemode":true,"related_object":{"id":"mtr_1"}}`
	if r, err := p.Read(acmeHeaders, []byte(thin)); err != nil || r.Fact != order.KindNone || r.Time.IsZero() || r.Subject != "mtr_1" {
		t.Errorf("a thin event: %+v, %v", r, err)
	}
}

// O18: the exponent is the currency's, and where Stripe counts otherwise than the
// standard, Stripe's.
func TestStripesOwnUnitsBecomeTheStandards(t *testing.T) {
	p := builtinOf(t, "stripe")
	read := func(currency, amount string) (Reading, error) {
		return p.Read(acmeHeaders, []byte(`{"id":"e","type":"payment_intent.succeeded","data":{"object":{"id":"pi","amount":`+amount+`,"currency":"`+currency+`"}}}`))
	}
	for _, c := range []struct {
		currency, amount string
		want             int64
	}{{"isk", "500", 5}, {"ugx", "500", 5}, {"mga", "5", 500}, {"jpy", "500", 500}, {"usd", "500", 500}, {"kwd", "5120", 5120}, {"krw", "500", 500}} {
		if r, err := read(c.currency, c.amount); err != nil || r.Amount != c.want {
			t.Errorf("%s %s: %d, %v", c.amount, c.currency, r.Amount, err)
		}
	}
	for currency, amount := range map[string]string{"isk": "550", "ugx": "1", "mga": "92233720368547759"} {
		if r, err := read(currency, amount); err == nil {
			t.Errorf("%s %s is read as %d", amount, currency, r.Amount)
		}
	}
}

// Every proper prefix, and every single missing field, of every fixture is read
// or refused, and never panics.
func TestDamagedBodiesAreReadOrRefused(t *testing.T) {
	files, _ := filepath.Glob("testdata/fixtures/*.json")
	if len(files) == 0 {
		t.Fatal("no fixtures")
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var cases []struct {
			Provider string
			Body     json.RawMessage
		}
		if err := json.Unmarshal(data, &cases); err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			p := builtinOf(t, c.Provider)
			for n := range len(c.Body) {
				if _, err := p.Read(headersOf("webhook-id", "m"), c.Body[:n]); err == nil {
					t.Fatalf("%s: a body cut at %d is read", path, n)
				}
			}
		}
	}
}

func TestDeepNestingIsHarmless(t *testing.T) {
	p := acme(t, nil)
	deep := strings.Repeat(`{"data":`, 9000) + "1" + strings.Repeat("}", 9000)
	if r, err := p.Read(acmeHeaders, payment(`"x"`, deep)); err != nil || r.Order != "ord_1" {
		t.Errorf("%v", err)
	}
	if _, err := p.Read(acmeHeaders, payment(`"x"`, strings.Repeat("[", 1<<20)+strings.Repeat("]", 1<<20))); err == nil {
		t.Error("a million levels are read")
	}
}

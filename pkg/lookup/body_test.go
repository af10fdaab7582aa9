package lookup_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/pkg/event"
	"sluice/pkg/lookup"
	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

func paid() webhook.Reading {
	return webhook.Reading{Subject: "pay_1", Time: time.Date(2026, 1, 1, 5, 0, 9, 120e6, time.UTC), Mode: event.Test,
		Order: "ORD-1", Payment: "pay_1", Fact: order.KindPaid, Amount: 12505000, Currency: "UZS"}
}

func TestAFactComesBackAsItWasWritten(t *testing.T) {
	refund := paid()
	refund.Fact, refund.Object, refund.PaymentAmount, refund.Extent = order.KindRefund, "re_<1>", 99, webhook.Partial
	bare := webhook.Reading{Subject: "x", Payment: "p", Fact: order.KindFailed}
	for _, r := range []webhook.Reading{paid(), refund, bare} {
		body, err := lookup.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := lookup.Decode(body)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		r.Trust, r.Type, r.ID = event.LookedUp, "looked_up."+r.Fact.String(), got.ID
		if diff := cmp.Diff(r, got); diff != "" {
			t.Error(diff)
		}
		if !strings.HasPrefix(got.ID, r.Subject+":") || len(got.ID) != len(r.Subject)+1+32 {
			t.Errorf("id %q", got.ID)
		}
	}
}

// The form is written down: bodies of it lie in topics, and an id of it in ledgers.
func TestTheFormAndItsIDStayTheSame(t *testing.T) {
	const want = `{"v":1,"subject":"pay_1","fact":"paid","time":"2026-01-01T05:00:09.12Z","mode":"test","order":"ORD-1","payment":"pay_1","amount":12505000,"currency":"UZS"}`
	body, err := lookup.Encode(paid())
	if err != nil || string(body) != want {
		t.Fatalf("%s, %v", body, err)
	}
	got, err := lookup.Decode(body)
	if err != nil || got.ID != "pay_1:066f018d27f96a11afaf7d6355aaffdf" {
		t.Errorf("id %q, %v", got.ID, err)
	}
}

func TestWhatAnAnswerSaysDifferentlyIsAnotherEvent(t *testing.T) {
	ids := map[string]bool{}
	for _, change := range []func(*webhook.Reading){
		func(*webhook.Reading) {},
		func(r *webhook.Reading) { r.Amount++ },
		func(r *webhook.Reading) { r.Currency = "EUR" },
		func(r *webhook.Reading) { r.Fact = order.KindFailed },
		func(r *webhook.Reading) { r.Time = r.Time.Add(time.Nanosecond) },
		func(r *webhook.Reading) { r.Order = "ORD-2" },
		func(r *webhook.Reading) { r.Payment = "pay_2" },
		func(r *webhook.Reading) { r.Object = "re_1" },
		func(r *webhook.Reading) { r.Mode = event.Live },
		func(r *webhook.Reading) { r.PaymentAmount = 1 },
		func(r *webhook.Reading) { r.Extent = webhook.Full },
	} {
		r := paid()
		change(&r)
		body, err := lookup.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := lookup.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		if ids[got.ID] {
			t.Errorf("%s has the id of another", body)
		}
		ids[got.ID] = true
	}
}

func TestWhatNoOrderCouldUseIsNotWritten(t *testing.T) {
	for name, change := range map[string]func(*webhook.Reading){
		"no fact":        func(r *webhook.Reading) { r.Fact = order.KindNone },
		"a decision":     func(r *webhook.Reading) { r.Fact = order.KindAccept },
		"registration":   func(r *webhook.Reading) { r.Fact = order.KindRegistered },
		"no subject":     func(r *webhook.Reading) { r.Subject = "" },
		"long subject":   func(r *webhook.Reading) { r.Subject = strings.Repeat("s", 223) },
		"no currency":    func(r *webhook.Reading) { r.Currency = "" },
		"unknown money":  func(r *webhook.Reading) { r.Currency = "XXQ" },
		"negative":       func(r *webhook.Reading) { r.Amount = -1 },
		"nowhere":        func(r *webhook.Reading) { r.Order, r.Payment = "", "" },
		"a bare refund":  func(r *webhook.Reading) { r.Fact = order.KindRefund },
		"broken text":    func(r *webhook.Reading) { r.Order = "\xff" },
		"NUL":            func(r *webhook.Reading) { r.Order = "a\x00" },
		"an odd mode":    func(r *webhook.Reading) { r.Mode = "prod" },
		"an order's cut": func(r *webhook.Reading) { r.Order = strings.Repeat("o", 256) },
	} {
		t.Run(name, func(t *testing.T) {
			r := paid()
			change(&r)
			if body, err := lookup.Encode(r); err == nil {
				t.Errorf("wrote %s", body)
			}
		})
	}
}

func TestOnlyTheBytesThatEncodeWritesAreRead(t *testing.T) {
	const good = `{"v":1,"subject":"p","fact":"paid","payment":"p","amount":1,"currency":"EUR"}`
	if _, err := lookup.Decode([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty":         ``,
		"not JSON":      `paid`,
		"trailing":      good + ` `,
		"white space":   strings.Replace(good, ":", ": ", 1),
		"another order": `{"subject":"p","v":1,"fact":"paid","payment":"p","amount":1,"currency":"EUR"}`,
		"key twice":     strings.Replace(good, `"amount":1`, `"amount":2,"amount":1`, 1),
		"key's case":    strings.Replace(good, `"amount"`, `"Amount"`, 1),
		"unknown key":   strings.Replace(good, `"v":1`, `"v":1,"x":1`, 1),
		"other version": strings.Replace(good, `"v":1`, `"v":2`, 1),
		"unknown fact":  strings.Replace(good, `"paid"`, `"payed"`, 1),
		"float":         strings.Replace(good, `"amount":1`, `"amount":1.0`, 1),
		"null":          `null`,
		"lower case":    strings.Replace(good, "EUR", "eur", 1),
		"no zone":       strings.Replace(good, `"payment"`, `"time":"2026-01-01T00:00:00","payment"`, 1),
		"other zone":    strings.Replace(good, `"payment"`, `"time":"2026-01-01T00:00:00+05:00","payment"`, 1),
		"odd extent":    strings.Replace(good, `"EUR"`, `"EUR","extent":"some"`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			if r, err := lookup.Decode([]byte(text)); err == nil {
				t.Errorf("read %+v", r)
			} else if strings.Contains(err.Error(), `"p"`) {
				t.Errorf("the error repeats the body: %v", err)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	body, _ := lookup.Encode(paid())
	f.Add(body)
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := lookup.Decode(text)
		if err != nil {
			return
		}
		if again, err := lookup.Encode(r); err != nil || string(again) != string(text) {
			t.Errorf("%q became %q, %v", text, again, err)
		}
	})
}

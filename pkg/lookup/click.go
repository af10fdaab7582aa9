package lookup

import (
	"crypto/sha1" //nolint:gosec // Click's scheme
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// click asks which payment the shop's order has, and how it stands
// (docs.click.uz/en/merchant-api-request). Of a Complete only the order and the amount
// are signed, so the payment document's id in it is not believed: it might be that of
// another payment, which was paid. The order's id leads to the payment.
//
// The API wants the day of the payment, by its own clock, and states no amount: the
// hint's stands, which is signed, and which the order's own amount judges.
var click = API{
	Provider:   "click",
	Docs:       "https://docs.click.uz/en/merchant-api-request/",
	Live:       "https://api.click.uz/v2/merchant",
	Test:       "https://api.click.uz/v2/merchant",
	Credential: "the service's SECRET_KEY",
	Settings: []Setting{
		{Name: "service_id", Help: "the service's id at Click"},
		{Name: "merchant_user_id", Help: "the merchant user's id at Click"},
	},
	Rate:    5,
	Pending: longPending,
	ByOrder: true,
	Leaves:  "amounts, and reversals",
	auth: func(a Account, now time.Time) map[string]string {
		at := strconv.FormatInt(now.Unix(), 10)
		sum := sha1.Sum([]byte(at + a.Secret))
		return map[string]string{"Auth": a.Settings["merchant_user_id"] + ":" + hex.EncodeToString(sum[:]) + ":" + at}
	},
	readers: func(Account) (readers, error) { return nil, nil },
	run: func(a *asking) result {
		if !askable(a.target.Order) || a.target.Time.IsZero() {
			return unaskable(a.target.Order)
		}
		service := a.account.Settings["service_id"]
		// A payment begun before midnight is confirmed after it: two days are asked for.
		for i := range 2 {
			day := a.target.Time.In(webhook.ClickZone).AddDate(0, 0, -i).Format(time.DateOnly)
			body, ok := a.ask(a.get("/payment/status_by_mti/%s/%s/%s", service, a.target.Order, day))
			if !ok {
				return result{}
			}
			var payment clickAnswer
			if err := json.Unmarshal(body, &payment); err != nil || payment.Error == nil {
				return result{outcome: Unreadable, why: "the answer states no error_code"}
			}
			if *payment.Error != 0 || payment.Payment == 0 {
				continue
			}
			if payment.Order != "" && payment.Order != a.target.Order {
				return another
			}
			body, ok = a.ask(a.get("/payment/status/%s/%s", service, strconv.FormatInt(payment.Payment, 10)))
			if !ok {
				return result{}
			}
			return clickPayment(a.target, payment.Payment, body)
		}
		return result{outcome: Unknown, why: "the provider knows no payment of this order on that day"}
	},
}

// clickAnswer is what both requests give.
type clickAnswer struct {
	Error   *int   `json:"error_code"`
	Payment int64  `json:"payment_id"`
	Order   string `json:"merchant_trans_id"`
	// Status is below 0 for an error, 0 for made, 1 for under way, 2 for paid.
	Status *int `json:"payment_status"`
}

func clickPayment(t Target, payment int64, body []byte) result {
	var a clickAnswer
	switch err := json.Unmarshal(body, &a); {
	case err != nil || a.Error == nil:
		return result{outcome: Unreadable, why: "the answer states no error_code"}
	case *a.Error != 0:
		return result{outcome: Unknown, why: "error_code " + strconv.Itoa(*a.Error)}
	case a.Payment != payment:
		return another
	case a.Status == nil:
		return result{outcome: Unreadable, why: "the answer states no payment_status"}
	}
	f := webhook.Reading{Order: t.Order, Payment: strconv.FormatInt(payment, 10), Time: t.Time,
		Amount: t.Amount, Currency: t.Currency}
	switch s := *a.Status; {
	case s == 2:
		f.Fact = order.KindPaid
	case s < 0:
		f.Fact = order.KindFailed
	case s <= 1:
		f.Fact = order.KindPending
	}
	if f.Fact == order.KindPaid && (f.Amount == 0 || f.Currency == "") {
		return result{outcome: Unreadable, why: "the provider says paid, and the hint states no amount"}
	}
	return result{facts: []webhook.Reading{f}}
}

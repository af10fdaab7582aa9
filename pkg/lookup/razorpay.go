package lookup

import (
	"net/url"
	"strings"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// razorpay: a payment and its refunds (razorpay.com/docs/api/payments/fetch-with-id,
// …/refunds/fetch-multiple-refund-payment), or a dispute by its id. A payment that was
// refunded in part stays captured. It states when it was made, and no later time. A
// failure is not final: a late authorisation may follow. The shop's order id is the
// receipt of Razorpay's order, whose payments are then listed. An id that it does not
// know is a 400.
var razorpay = API{
	Provider:   "razorpay",
	Docs:       "https://razorpay.com/docs/api/payments/fetch-with-id/",
	Live:       "https://api.razorpay.com",
	Test:       "https://api.razorpay.com",
	ByPayment:  true,
	Credential: "the key's secret",
	Settings:   []Setting{{Name: "key_id", Help: "the key's id, rzp_live_… or rzp_test_…"}, orderSetting("notes.order_id")},
	Rate:       10,
	// razorpay.com/docs/payments/payments/capture-settings: a payment is authorised or
	// failed within 12 minutes; a late authorisation may take days.
	Pending: 15 * time.Minute,
	ByOrder: true,
	Leaves:  "disputes, which cannot be listed by payment; by order: payments whose Razorpay order has another receipt than the shop's order id",
	unknown: []int{400},
	auth: func(a Account, _ time.Time) map[string]string {
		return basic(a.Settings["key_id"], a.Secret)
	},
	run: razorpayRun,
	readers: func(a Account) (readers, error) {
		says := func(at string, facts ...webhook.Fact) webhook.Layout {
			l := webhook.Layout{ID: webhook.Paths{"id"}, Type: webhook.Paths{"status"}, Payment: webhook.Paths{"payment_id"}, Object: webhook.Paths{"id"},
				Amount: webhook.Paths{"amount"}, Currency: webhook.Paths{"currency"}, Facts: facts}
			if at != "" {
				l.Time = webhook.Paths{at}
			}
			return l
		}
		made := says("created_at",
			webhook.Fact{Type: "captured", Kind: order.KindPaid}, webhook.Fact{Type: "refunded", Kind: order.KindPaid},
			webhook.Fact{Type: "failed", Kind: order.KindFailed},
			webhook.Fact{Type: "created", Kind: order.KindPending}, webhook.Fact{Type: "authorized", Kind: order.KindPending})
		made.Order, made.Payment, made.Object = orderPath(a, ""), webhook.Paths{"id"}, nil
		opened, closed := []webhook.Fact{}, map[string]string{"amount_deducted": "0"}
		for _, status := range []string{"open", "under_review", "won", "lost", "closed"} {
			opened = append(opened, webhook.Fact{Type: status, Kind: order.KindDisputeOpened})
		}
		return compile(map[string][]statement{
			"payment": {{layout: made}},
			"refund": {{layout: says("created_at", webhook.Fact{Type: "processed", Kind: order.KindRefund}, webhook.Fact{Type: "failed", Kind: order.KindRefundFailed},
				webhook.Fact{Type: "pending", Kind: order.KindPending})}},
			"dispute": {{layout: says("created_at", opened...)},
				{layout: says("", webhook.Fact{Type: "won", Kind: order.KindDisputeWon}, webhook.Fact{Type: "lost", Kind: order.KindDisputeLost},
					webhook.Fact{Type: "closed", Kind: order.KindDisputeWon, When: closed})}},
		})
	},
}

func razorpayRun(a *asking) result {
	switch {
	case strings.HasPrefix(a.target.Subject, "disp_"):
		return a.document("dispute", "/v1/disputes/%s", a.target.Subject)
	case a.target.Payment != "":
		body, out := a.open("payment", "/v1/payments/%s", a.target.Payment)
		if body == nil {
			return out
		}
		return razorpayWithRefunds(a, out)
	case !askable(a.target.Order):
		return unaskable(a.target.Order)
	}
	first := "/v1/orders?count=100&receipt=" + url.QueryEscape(a.target.Order)
	orders, end, ok := a.list(first, "items", skipping(first, "skip"))
	if !ok {
		return end
	}
	var out result
	for _, item := range orders {
		var of struct {
			ID, Receipt string
		}
		if !decoded(item, &of) || !askable(of.ID) {
			return unreadable(errNotJSON)
		}
		if of.Receipt != a.target.Order {
			continue
		}
		payments, end, ok := a.list("/v1/orders/"+url.PathEscape(of.ID)+"/payments", "items", onePage)
		if !ok {
			return end
		}
		for _, payment := range payments {
			one := razorpayWithRefunds(a, a.read("payment", "", payment).of(a.target.Order))
			if out = out.and(one); out.outcome != 0 || a.next != nil {
				return out
			}
		}
	}
	if len(out.facts) == 0 {
		return noPayment
	}
	return out
}

// razorpayWithRefunds adds the refunds of a payment that was paid.
func razorpayWithRefunds(a *asking, payment result) result {
	if payment.outcome != 0 || !payment.paid() {
		return payment
	}
	id := payment.facts[0].Payment
	first := "/v1/payments/" + url.PathEscape(id) + "/refunds?count=100"
	refunds, end, ok := a.list(first, "items", skipping(first, "skip"))
	if !ok {
		return end
	}
	return payment.and(a.each("refund", id, refunds))
}

package lookup

import (
	"strings"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// square: a payment, and each refund that it names
// (developer.squareup.com/reference/square/payments-api/get-payment,
// …/docs/refunds-api/retrieve-refunds), or a dispute by its id. A payment stays
// COMPLETED whatever was refunded, and its refunded_money holds what is not decided yet.
var square = API{
	Provider:   "square",
	Docs:       "https://developer.squareup.com/reference/square/payments-api/get-payment",
	Live:       "https://connect.squareup.com",
	Test:       "https://connect.squareupsandbox.com",
	ByPayment:  true,
	Credential: "an access token with PAYMENTS_READ, and DISPUTES_READ for disputes",
	Settings:   []Setting{orderSetting("reference_id")},
	Rate:       10,
	Pending:    longPending,
	Leaves:     "by order: neither payments nor orders can be searched by reference_id; disputes, which cannot be listed by payment",
	auth:       bearer,
	run: func(a *asking) result {
		if id := a.target.Subject; strings.HasPrefix(a.target.Type, "dispute.") && id != "" {
			return a.document("dispute", "/v2/disputes/%s", id)
		}
		body, out := a.open("payment", "/v2/payments/%s", a.target.Payment)
		if body == nil {
			return out
		}
		var answer struct {
			Payment struct {
				ID      string   `json:"id"`
				Refunds []string `json:"refund_ids"`
			} `json:"payment"`
		}
		if !decoded(body, &answer) {
			return unreadable(errNoList)
		}
		for _, id := range answer.Payment.Refunds {
			refund := a.document("refund", "/v2/refunds/%s", id)
			if refund.outcome != 0 || a.next != nil {
				return refund
			}
			if refund.facts[0].Payment != answer.Payment.ID {
				return another
			}
			out = out.and(refund)
		}
		return out
	},
	readers: func(a Account) (readers, error) {
		says := func(object, typ, at string, facts ...webhook.Fact) webhook.Layout {
			l := webhook.Layout{ID: webhook.Paths{object + ".id"}, Type: webhook.Paths{object + "." + typ},
				Payment: webhook.Paths{object + ".payment_id"}, Object: webhook.Paths{object + ".id"},
				Amount: webhook.Paths{object + ".amount_money.amount"}, Currency: webhook.Paths{object + ".amount_money.currency"}, Facts: facts}
			if at != "" {
				l.Time = webhook.Paths{object + "." + at}
			}
			return l
		}
		payment := says("payment", "status", "created_at",
			webhook.Fact{Type: "COMPLETED", Kind: order.KindPaid},
			webhook.Fact{Type: "FAILED", Kind: order.KindFailed},
			webhook.Fact{Type: "CANCELED", Kind: order.KindCancelled},
			webhook.Fact{Type: "APPROVED", Kind: order.KindPending},
			webhook.Fact{Type: "PENDING", Kind: order.KindPending})
		payment.Order, payment.Payment, payment.Object = orderPath(a, "payment."), webhook.Paths{"payment.id"}, nil
		dispute := func(at string, facts ...webhook.Fact) statement {
			l := says("dispute", "state", at, facts...)
			l.Payment = webhook.Paths{"dispute.disputed_payment.payment_id"}
			return statement{layout: l}
		}
		var opened []webhook.Fact
		for _, state := range []string{"INQUIRY_EVIDENCE_REQUIRED", "INQUIRY_PROCESSING", "INQUIRY_CLOSED", "EVIDENCE_REQUIRED", "PROCESSING", "WON", "LOST", "ACCEPTED"} {
			opened = append(opened, webhook.Fact{Type: state, Kind: order.KindDisputeOpened})
		}
		return compile(map[string][]statement{
			"payment": {{layout: payment}},
			"refund": {{layout: says("refund", "status", "created_at", webhook.Fact{Type: "COMPLETED", Kind: order.KindRefund},
				webhook.Fact{Type: "FAILED", Kind: order.KindRefundFailed}, webhook.Fact{Type: "REJECTED", Kind: order.KindRefundFailed},
				webhook.Fact{Type: "PENDING", Kind: order.KindPending})}},
			"dispute": {dispute("created_at", opened...), dispute("updated_at", webhook.Fact{Type: "WON", Kind: order.KindDisputeWon},
				webhook.Fact{Type: "LOST", Kind: order.KindDisputeLost}, webhook.Fact{Type: "ACCEPTED", Kind: order.KindDisputeLost})},
		})
	},
}

package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// stripe signs `t.body` with HMAC-SHA256, the key being the whole secret with its
// whsec_ (stripe-go v82 webhook/client.go, stripe-python _webhook.py). Everything
// in the body is signed.
type stripe struct {
	*layout
	tolerance Tolerance
}

const stripeSignature = "Stripe-Signature"

func newStripe() Provider {
	// All official SDKs: 300 s, old only. See Tolerance.
	return stripe{stripeLayout, Tolerance{Past: 300 * time.Second, Future: Unlimited}}
}

func (stripe) Name() string                 { return "stripe" }
func (p stripe) SignatureHeaders() []string { return p.headers(stripeSignature) }
func (p stripe) Tolerance() Tolerance       { return p.tolerance }

func (p stripe) WithTolerance(t Tolerance) Provider {
	p.tolerance = t
	return p
}

func (p stripe) WithOrder(at Paths) (_ Provider, err error) {
	p.layout, err = p.withOrder(at)
	return p, err
}

func (stripe) Profile() Profile {
	return Profile{
		Title:     "Stripe",
		Docs:      "https://docs.stripe.com/webhooks",
		Secret:    "the endpoint's signing secret, with its whsec_",
		Signature: "HMAC-SHA256 in hex over `t.body`, in Stripe-Signature",
		Covers:    "the time and the whole body",
		ID:        "`id` of the body",
		Trust:     event.Signed,
		Retries:   3 * 24 * time.Hour,
	}
}

// CheckSecret refuses what is often pasted in its place: an API key.
func (stripe) CheckSecret(s Secret) error {
	return refuseBeginning(s, "a Stripe API key", "the endpoint's signing secret begins with whsec_", "sk_", "rk_", "pk_")
}

func (p stripe) Verify(req Request, secrets []Secret, now time.Time) Verdict {
	header, reason := one(req.Header(stripeSignature))
	if reason != ReasonNone {
		return refuse(reason)
	}
	t, signatures, ok := parseStripe(header)
	if !ok {
		return refuse(ReasonMalformed)
	}
	signedAt, ok := parseUnix(t)
	if !ok {
		return refuse(ReasonMalformed)
	}
	name, ok := matchHMAC(sha256.New, secrets, asShown, signatures, []byte(t), dot, req.Body)
	if !ok {
		return refuse(ReasonMismatch)
	}
	return p.tolerance.judge(name, signedAt, now)
}

var dot = []byte(".")

// parseStripe takes `t=…,v1=…[,v1=…][,v0=…]` apart. Other schemes and v1 values
// that are no SHA-256 in hex are passed over, as the SDKs do. The SDKs disagree on
// a second t (Go takes the last, Python the first), so it is refused.
func parseStripe(header string) (t string, signatures [][]byte, ok bool) {
	for part := range strings.SplitSeq(header, ",") {
		k, v, found := strings.Cut(part, "=")
		if !found {
			return "", nil, false
		}
		switch k {
		case "t":
			if t != "" {
				return "", nil, false
			}
			t = v
		case "v1":
			if sum, ok := fromHex(v, sha256.Size); ok {
				signatures = append(signatures, sum)
			}
		}
	}
	return t, signatures, t != "" && len(signatures) > 0 && len(signatures) <= maxSignatures
}

func (stripe) Sign(s Secret, _ string, at time.Time, body []byte) (map[string]string, error) {
	if len(s.value) == 0 {
		return nil, errEmptySecret
	}
	t := strconv.FormatInt(at.Unix(), 10)
	sum := appendHMAC(nil, sha256.New, s.value, []byte(t), dot, body)
	return map[string]string{stripeSignature: "t=" + t + ",v1=" + hex.EncodeToString(sum)}, nil
}

// stripeLayout reads snapshot events. Thin events of API v2 carry no data.object
// and types of their own: they mean nothing yet.
//
// One payment is a PaymentIntent; a session or charge made without one stands for
// itself. Refunds are stated twice, as a charge's cumulative total and as single
// refunds; the fold takes the greater (DESIGN 9.3), so neither is counted twice.
var stripeLayout = Layout{
	ID:          Paths{"id"},
	Type:        Paths{"type"},
	Time:        Paths{"created"},
	TimeRepeats: true,
	Mode:        Paths{"livemode"},
	Order:       Paths{"data.object.metadata.order_id"},
	Payment:     Paths{"data.object.payment_intent"},
	Subject:     Paths{"data.object.id", "related_object.id"},
	Amount:      Paths{"data.object.amount"},
	Currency:    Paths{"data.object.currency"},
	// docs.stripe.com/currencies, read November 2026: ISK and UGX have lost their
	// decimals but are still counted in two; MGA is counted whole.
	Places: map[string]int{"ISK": 2, "UGX": 2, "MGA": 0},
	Full:   Paths{"data.object.refunded"},
	Facts: []Fact{
		stripeIntent("payment_intent.succeeded", order.KindPaid, "data.object.amount_received", "data.object.amount"),
		stripeIntent("payment_intent.processing", order.KindPending, "data.object.amount"),
		stripeIntent("payment_intent.payment_failed", order.KindFailed, "data.object.amount"),
		stripeIntent("payment_intent.canceled", order.KindCancelled, "data.object.amount"),

		// Completed is not paid: delayed methods follow with async_payment_*.
		stripeSession("checkout.session.completed", order.KindPaid, map[string]string{"data.object.payment_status": "paid"}),
		stripeSession("checkout.session.completed", order.KindPending, map[string]string{"data.object.payment_status": "unpaid"}),
		stripeSession("checkout.session.async_payment_succeeded", order.KindPaid, nil),
		stripeSession("checkout.session.async_payment_failed", order.KindFailed, nil),
		stripeSession("checkout.session.expired", order.KindCancelled, nil),

		{Type: "charge.refunded", Kind: order.KindRefundTotal,
			Payment: Paths{"data.object.payment_intent", "data.object.id"},
			Amount:  Paths{"data.object.amount_refunded"}, PaymentAmount: Paths{"data.object.amount"}},

		// A refund made pending was counted by charge.refunded already: canceled
		// takes it back as failed does.
		stripePart("refund.created", order.KindRefund, "succeeded"),
		stripePart("refund.updated", order.KindRefund, "succeeded"),
		stripePart("refund.updated", order.KindRefundFailed, "failed"),
		stripePart("refund.updated", order.KindRefundFailed, "canceled"),
		stripePart("refund.failed", order.KindRefundFailed, ""),
		// What is under way is asked about by itself, if its end is never told.
		stripePart("refund.created", order.KindPending, "pending"),
		stripePart("refund.created", order.KindPending, "requires_action"),
		stripePart("refund.updated", order.KindPending, "pending"),
		stripePart("refund.updated", order.KindPending, "requires_action"),
		// The older name of refund.updated, which is still sent beside it.
		stripePart("charge.refund.updated", order.KindRefund, "succeeded"),
		stripePart("charge.refund.updated", order.KindRefundFailed, "failed"),
		stripePart("charge.refund.updated", order.KindRefundFailed, "canceled"),

		stripePart("charge.dispute.created", order.KindDisputeOpened, ""),
		stripePart("charge.dispute.closed", order.KindDisputeWon, "won"),
		stripePart("charge.dispute.closed", order.KindDisputeWon, "warning_closed"),
		stripePart("charge.dispute.closed", order.KindDisputeLost, "lost"),
	},
}.mustCompile()

func stripeIntent(typ string, kind order.Kind, amount ...string) Fact {
	return Fact{Type: typ, Kind: kind, Payment: Paths{"data.object.id"}, Amount: amount}
}

func stripeSession(typ string, kind order.Kind, when map[string]string) Fact {
	return Fact{Type: typ, Kind: kind, When: when,
		Order:   Paths{"data.object.metadata.order_id", "data.object.client_reference_id"},
		Payment: Paths{"data.object.payment_intent", "data.object.id"},
		Amount:  Paths{"data.object.amount_total"}}
}

// stripePart is a fact about a refund or dispute, an object that belongs to a payment.
func stripePart(typ string, kind order.Kind, status string) Fact {
	f := Fact{Type: typ, Kind: kind,
		Payment: Paths{"data.object.payment_intent", "data.object.charge"},
		Object:  Paths{"data.object.id"}}
	if status != "" {
		f.When = map[string]string{"data.object.status": status}
	}
	return f
}

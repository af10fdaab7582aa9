package webhook

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strings"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// payU signs hash(body + second key) (openpayu_php OpenPayU_Util). Its header names
// the algorithm, which the account has: each is a provider of its own here, so that
// no request chooses the weaker one.
type payU struct {
	*layout
	name, algorithm string
	hash            func() hash.Hash
}

const payUSignature = "OpenPayu-Signature"

func newPayU() Provider    { return payU{payULayout, "payu", "SHA-256", sha256.New} }
func newPayUMD5() Provider { return payU{payULayout, "payu_md5", "MD5", md5.New} }

func (p payU) Name() string               { return p.name }
func (payU) CheckSecret(Secret) error     { return nil }
func (p payU) SignatureHeaders() []string { return p.headers(payUSignature) }

func (p payU) Profile() Profile {
	f := Profile{
		Title:     "PayU (EMEA)",
		Docs:      "https://developers.payu.com/europe/docs/webhooks",
		Secret:    "the shop's second key",
		Signature: "SHA-256 in hex over the body and the key, in OpenPayu-Signature",
		Covers:    "the whole body",
		ID:        "the order's or refund's id and its status, joined by a colon",
		Trust:     event.Signed,
		Retries:   RetriesUnknown,
	}
	if p.name != "payu" {
		f.Title = "PayU (EMEA, MD5)"
		f.Signature = strings.Replace(f.Signature, "SHA-256", "MD5", 1)
		f.Leaves = "against one who can choose how a body begins, MD5 no longer binds the rest"
		f.Instead = "the amount is held to the registered order; let PayU sign with SHA-256 where it can"
	}
	return f
}

func (p payU) WithOrder(at Paths) (_ Provider, err error) {
	p.layout, err = p.withOrder(at)
	return p, err
}

func (p payU) Verify(req Request, secrets []Secret, _ time.Time) Verdict {
	header, reason := one(req.Header(payUSignature))
	if reason != ReasonNone {
		return refuse(reason)
	}
	given, ok := p.parse(header)
	if !ok {
		return refuse(ReasonMalformed)
	}
	return matched(matchDigest(secrets, func(s Secret) []byte { return p.sum(s, req.Body) }, given))
}

// parse takes `sender=…;signature=…;algorithm=…;content=…` apart. Another algorithm
// than the account's is refused, and so is a part that comes twice.
func (p payU) parse(header string) (signature []byte, ok bool) {
	parts := map[string]string{}
	for part := range strings.SplitSeq(header, ";") {
		k, v, _ := strings.Cut(strings.TrimSpace(part), "=")
		if _, twice := parts[k]; twice {
			return nil, false
		}
		parts[k] = v
	}
	if strings.ReplaceAll(parts["algorithm"], "-", "") != strings.ReplaceAll(p.algorithm, "-", "") {
		return nil, false
	}
	return fromHex(parts["signature"], p.hash().Size())
}

func (p payU) sum(s Secret, body []byte) []byte {
	h := p.hash()
	h.Write(body)
	h.Write(s.value)
	return h.Sum(nil)
}

func (p payU) Sign(s Secret, _ string, _ time.Time, body []byte) (map[string]string, error) {
	if len(s.value) == 0 {
		return nil, errEmptySecret
	}
	return map[string]string{payUSignature: "sender=checkout;signature=" + hex.EncodeToString(p.sum(s, body)) + ";algorithm=" + p.algorithm + ";content=DOCUMENT"}, nil
}

// payULayout reads the two bodies there are: an order's and a refund's.
var payULayout = Layout{
	ID:       Paths{"refund.refundId + refund.status", "order.orderId + order.status"},
	Type:     Paths{"=refund + refund.status", "=order + order.status"},
	Time:     Paths{"refund.statusDateTime", "localReceiptDateTime"},
	Order:    Paths{"order.extOrderId", "extOrderId"},
	Payment:  Paths{"order.orderId", "orderId"},
	Object:   Paths{"refund.refundId"},
	Subject:  Paths{"refund.refundId", "order.orderId"},
	Amount:   Paths{"order.totalAmount"},
	Currency: Paths{"order.currencyCode", "refund.currencyCode"},
	Facts: []Fact{
		{Type: "order:COMPLETED", Kind: order.KindPaid},
		{Type: "order:PENDING", Kind: order.KindPending},
		{Type: "order:WAITING_FOR_CONFIRMATION", Kind: order.KindPending},
		{Type: "order:CANCELED", Kind: order.KindCancelled},
		{Type: "refund:FINALIZED", Kind: order.KindRefund, Amount: Paths{"refund.amount"}},
	},
}.mustCompile()

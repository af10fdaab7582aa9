package webhook

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// paypal signs `transmission id|time|webhook id|CRC32 of the body` with RSA, and
// names its certificate (paypal/PayPal-Python-SDK notifications.py). A body with the
// same CRC32 is easy to make, so the signature says that PayPal sent something, and
// not what: every event is a hint.
type paypal struct {
	*layout
	tolerance Tolerance
}

const (
	paypalID   = "Paypal-Transmission-Id"
	paypalTime = "Paypal-Transmission-Time"
	paypalSig  = "Paypal-Transmission-Sig"
	paypalCert = "Paypal-Cert-Url"
	paypalAlgo = "Paypal-Auth-Algo"
)

func newPayPal() Provider {
	// PayPal publishes no tolerance, and not whether a retry, up to three days later,
	// has a time of its own.
	return paypal{paypalLayout, Tolerance{Past: Unlimited, Future: Unlimited}}
}

func (paypal) Name() string           { return "paypal" }
func (p paypal) Tolerance() Tolerance { return p.tolerance }

func (p paypal) WithTolerance(t Tolerance) Provider {
	p.tolerance = t
	return p
}

func (paypal) SignatureHeaders() (names []string) {
	for _, name := range []string{paypalID, paypalTime, paypalSig, paypalCert, paypalAlgo} {
		names = append(names, strings.ToLower(name))
	}
	return names
}

func (paypal) Profile() Profile {
	return Profile{
		Title:     "PayPal",
		Docs:      "https://developer.paypal.com/api/rest/webhooks/rest",
		Secret:    "the webhook's id, as the app's settings show it",
		Signature: "RSA with SHA-256 in base64 over `transmission id|time|webhook id|CRC32`, by a certificate of paypal.com, in PAYPAL-TRANSMISSION-SIG",
		Covers:    "the transmission's id and time, and 32 bits of the body",
		Leaves:    "the body: another one with the same CRC32 is easy to make",
		Instead:   "every event is a hint until PayPal's API was asked",
		ID:        "`id` of the body",
		Trust:     event.Hint,
		Retries:   3 * 24 * time.Hour,
	}
}

// CheckSecret refuses what is often pasted in its place.
func (paypal) CheckSecret(s Secret) error {
	text := string(s.value)
	switch {
	case strings.HasPrefix(text, "WH-"):
		return fmt.Errorf("secret %s is an event's id (WH-…); give the webhook's id", s.Name)
	case len(text) > 40:
		return fmt.Errorf("secret %s is longer than a webhook's id: it looks like the app's client id, its secret or an address", s.Name)
	}
	return nil
}

// CertificateURL is a host of paypal.com; PayPal's own SDKs do not look.
func (paypal) CertificateURL(req Request) (string, Reason) {
	text, reason := one(req.Header(paypalCert))
	if reason != ReasonNone {
		return "", reason
	}
	return certificateURL(text, paypalHost)
}

func paypalHost(host string) bool { return strings.HasSuffix(host, ".paypal.com") }

func (p paypal) Verify(req Request, secrets []Secret, now time.Time) Verdict {
	var h [4]string
	for i, name := range []string{paypalID, paypalTime, paypalSig, paypalAlgo} {
		var reason Reason
		if h[i], reason = one(req.Header(name)); reason != ReasonNone {
			return refuse(reason)
		}
	}
	if _, reason := p.CertificateURL(req); reason != ReasonNone {
		return refuse(reason)
	}
	signedAt, err := time.Parse(time.RFC3339, h[1])
	signature, badSignature := base64.StdEncoding.Strict().DecodeString(h[2])
	// The algorithm is fixed: the request does not choose it.
	if err != nil || badSignature != nil || h[3] != "SHA256withRSA" {
		return refuse(ReasonMalformed)
	}
	key := paypalKey(req.Certificate, now)
	if key == nil {
		return refuse(ReasonCertificate)
	}
	sum := strconv.FormatUint(uint64(crc32.ChecksumIEEE(req.Body)), 10)
	for _, s := range secrets {
		digest := sha256.Sum256([]byte(h[0] + "|" + h[1] + "|" + string(s.value) + "|" + sum))
		if len(s.value) > 0 && rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], signature) == nil {
			return p.tolerance.judge(s.Name, signedAt, now)
		}
	}
	return refuse(ReasonMismatch)
}

// paypalKey is the certificate's key, if it is PayPal's, trusted and valid now.
func paypalKey(c Certificate, now time.Time) *rsa.PublicKey {
	if len(c.Chain) == 0 || c.Roots == nil {
		return nil
	}
	leaf, between := c.Chain[0], x509.NewCertPool()
	for _, issuer := range c.Chain[1:] {
		between.AddCert(issuer)
	}
	named := paypalHost(leaf.Subject.CommonName)
	for _, name := range leaf.DNSNames {
		named = named || paypalHost(name)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: c.Roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if key, ok := leaf.PublicKey.(*rsa.PublicKey); ok && named && err == nil {
		return key
	}
	return nil
}

func (paypal) Sign(Secret, string, time.Time, []byte) (map[string]string, error) {
	return nil, errors.New("sign: only PayPal has the key that signs its webhooks")
}

// paypalLayout reads events of API v2, and amounts of v1. Only a capture is a
// payment: an order or an authorization that the payer approved is not paid.
var paypalLayout = Layout{
	ID:    Paths{"id"},
	Type:  Paths{"event_type"},
	Time:  Paths{"create_time"},
	Trust: event.Hint,
	Order: Paths{"resource.custom_id", "resource.purchase_units.0.custom_id", "resource.disputed_transactions.0.custom",
		"resource.invoice_id", "resource.purchase_units.0.invoice_id", "resource.custom", "resource.invoice_number"},
	Subject: Paths{"resource.id", "resource.dispute_id", "resource.order_id"},
	Amount: Paths{"resource.amount.value", "resource.dispute_amount.value", "resource.purchase_units.0.amount.value",
		"resource.amount.total"},
	AmountUnit: "decimal",
	Currency: Paths{"resource.amount.currency_code", "resource.dispute_amount.currency_code",
		"resource.purchase_units.0.amount.currency_code", "resource.amount.currency"},
	Facts: []Fact{
		paypalCapture("COMPLETED", order.KindPaid),
		paypalCapture("PENDING", order.KindPending),
		paypalCapture("DECLINED", order.KindFailed),
		paypalCapture("DENIED", order.KindFailed),
		paypalRefund("REFUNDED"),
		paypalRefund("REVERSED"),
		paypalOther("PAYMENT.AUTHORIZATION.VOIDED", order.KindCancelled),
		paypalOther("CHECKOUT.ORDER.APPROVED", order.KindPending),
		paypalOther("CHECKOUT.PAYMENT-APPROVAL.REVERSED", order.KindCancelled),
		paypalDispute("CREATED", order.KindDisputeOpened, ""),
		paypalDispute("RESOLVED", order.KindDisputeWon, "RESOLVED_SELLER_FAVOUR"),
		paypalDispute("RESOLVED", order.KindDisputeLost, "RESOLVED_BUYER_FAVOUR"),
	},
}.mustCompile()

func paypalCapture(typ string, kind order.Kind) Fact {
	return Fact{Type: "PAYMENT.CAPTURE." + typ, Kind: kind, Payment: Paths{"resource.id"}}
}

// paypalOther is about an order or an authorization, which names no payment.
func paypalOther(typ string, kind order.Kind) Fact {
	return Fact{Type: typ, Kind: kind, Object: Paths{"resource.id", "resource.order_id"}}
}

// paypalRefund: the resource is the refund; the capture is where it came from.
func paypalRefund(typ string) Fact {
	return Fact{Type: "PAYMENT.CAPTURE." + typ, Kind: order.KindRefund,
		Payment: Paths{"last:resource.links[rel=up].href"}, Object: Paths{"resource.id"}}
}

func paypalDispute(typ string, kind order.Kind, outcome string) Fact {
	f := Fact{Type: "CUSTOMER.DISPUTE." + typ, Kind: kind,
		Payment: Paths{"resource.disputed_transactions.0.seller_transaction_id"}, Object: Paths{"resource.dispute_id"}}
	if outcome != "" {
		f.When = map[string]string{"resource.dispute_outcome.outcome_code": outcome}
	}
	return f
}

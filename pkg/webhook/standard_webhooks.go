package webhook

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// standardWebhooks is the Standard Webhooks scheme (standard-webhooks
// spec/standard-webhooks.md): `id.timestamp.body` is signed with HMAC-SHA256 (v1)
// or Ed25519 (v1a). Svix is the same under its own header names; its libraries
// accept the unbranded ones too. Id, time and the whole body are signed.
type standardWebhooks struct {
	*layout
	name string
	// prefixes of the three headers, in order of preference.
	prefixes  []string
	tolerance Tolerance
}

// Both ways, as the libraries do.
var standardTolerance = Tolerance{Past: 300 * time.Second, Future: 300 * time.Second}

func newStandardWebhooks() Provider {
	return standardWebhooks{standardLayout, "standard_webhooks", []string{"webhook-"}, standardTolerance}
}

func newSvix() Provider {
	return standardWebhooks{standardLayout, "svix", []string{"svix-", "webhook-"}, standardTolerance}
}

func (p standardWebhooks) Name() string         { return p.name }
func (p standardWebhooks) Tolerance() Tolerance { return p.tolerance }

func (p standardWebhooks) Profile() Profile {
	f := Profile{
		Title:     "Standard Webhooks",
		Docs:      "https://www.standardwebhooks.com",
		Secret:    "the signing secret (whsec_, base64), or for v1a the public key (whpk_)",
		Signature: "HMAC-SHA256 (v1) or Ed25519 (v1a) in base64 over `id.timestamp.body`, in " + p.prefixes[0] + "signature",
		Covers:    "the id, the time and the whole body",
		ID:        "header " + p.prefixes[0] + "id",
		Trust:     event.Signed,
		// The schedule that the specification suggests, and Svix's own: 5 s, 5 min,
		// 30 min, 2 h, 5 h, 10 h, 10 h.
		Retries: 27*time.Hour + 35*time.Minute + 5*time.Second,
	}
	if p.name == "svix" {
		f.Title, f.Docs = "Svix", "https://docs.svix.com/receiving/verifying-payloads/how"
	}
	return f
}

func (p standardWebhooks) WithTolerance(t Tolerance) Provider {
	p.tolerance = t
	return p
}

func (p standardWebhooks) WithOrder(at Paths) (_ Provider, err error) {
	p.layout, err = p.withOrder(at)
	return p, err
}

func (p standardWebhooks) SignatureHeaders() []string {
	var names []string
	for _, prefix := range p.prefixes {
		names = append(names, prefix+"id", prefix+"timestamp", prefix+"signature")
	}
	return p.headers(names...)
}

// prefix is that of the headers a request is verified and read by: the first of
// which all three are there. Two sets are never mixed.
func (p standardWebhooks) prefix(header Headers) string {
	for _, prefix := range p.prefixes {
		if len(header(prefix+"id")) > 0 && len(header(prefix+"timestamp")) > 0 && len(header(prefix+"signature")) > 0 {
			return prefix
		}
	}
	return p.prefixes[0]
}

func (p standardWebhooks) Verify(req Request, secrets []Secret, now time.Time) Verdict {
	prefix := p.prefix(req.Header)
	var h [3]string
	for i, name := range []string{"id", "timestamp", "signature"} {
		var reason Reason
		if h[i], reason = one(req.Header(prefix + name)); reason != ReasonNone {
			return refuse(reason)
		}
	}
	id, timestamp := h[0], h[1]
	signedAt, ok := parseUnix(timestamp)
	if !ok {
		return refuse(ReasonMalformed)
	}
	v1, v1a := parseStandard(h[2])
	if n := len(v1) + len(v1a); n == 0 || n > maxSignatures {
		return refuse(ReasonMalformed)
	}
	signed := []byte(id + "." + timestamp + ".")
	name, ok := matchHMAC(sha256.New, secrets, standardKey, v1, signed, req.Body)
	if !ok && len(v1a) > 0 {
		name, ok = matchEd25519(secrets, v1a, append(signed, req.Body...))
	}
	if !ok {
		return refuse(ReasonMismatch)
	}
	return p.tolerance.judge(name, signedAt, now)
}

// parseStandard takes a list like `v1,<base64> v1a,<base64>` apart: spaces between
// the signatures, a comma between version and signature. Unknown versions and
// what cannot be a signature are passed over.
func parseStandard(header string) (v1, v1a [][]byte) {
	for part := range strings.SplitSeq(header, " ") {
		version, text, _ := strings.Cut(part, ",")
		if len(text) > base64.StdEncoding.EncodedLen(ed25519.SignatureSize) {
			continue
		}
		sig, err := base64.StdEncoding.Strict().DecodeString(text)
		switch {
		case err != nil:
		case version == "v1" && len(sig) == sha256.Size:
			v1 = append(v1, sig)
		case version == "v1a" && len(sig) == ed25519.SignatureSize:
			v1a = append(v1a, sig)
		}
	}
	return v1, v1a
}

const (
	secretPrefix     = "whsec_"
	publicKeyPrefix  = "whpk_"
	privateKeyPrefix = "whsk_"
)

// standardKey is the HMAC key of a secret: base64 after an optional whsec_, 24 to
// 64 bytes. A public key is none: known to all, it must never verify a v1.
func standardKey(s Secret) ([]byte, error) {
	text := string(s.value)
	if strings.HasPrefix(text, publicKeyPrefix) || strings.HasPrefix(text, privateKeyPrefix) {
		return nil, fmt.Errorf("secret %s is a key of the v1a scheme", s.Name)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, secretPrefix))
	if err != nil {
		return nil, fmt.Errorf("secret %s is not base64 after its optional whsec_", s.Name)
	}
	if len(key) < 24 || len(key) > 64 {
		return nil, fmt.Errorf("secret %s has %d bytes; the scheme wants 24 to 64", s.Name, len(key))
	}
	return key, nil
}

// publicKey is the Ed25519 key of a whpk_ secret; nil if it is another kind.
func publicKey(s Secret) (ed25519.PublicKey, error) {
	text, ok := bytes.CutPrefix(s.value, []byte(publicKeyPrefix))
	if !ok {
		return nil, nil
	}
	key, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("secret %s is not a public key: whpk_ and %d bytes in base64", s.Name, ed25519.PublicKeySize)
	}
	return key, nil
}

func matchEd25519(secrets []Secret, candidates [][]byte, message []byte) (name string, ok bool) {
	for _, s := range secrets {
		key, err := publicKey(s)
		if err != nil || key == nil {
			continue
		}
		for _, c := range candidates {
			if ed25519.Verify(key, message, c) {
				return s.Name, true
			}
		}
	}
	return "", false
}

func (standardWebhooks) CheckSecret(s Secret) error {
	if bytes.HasPrefix(s.value, []byte(privateKeyPrefix)) {
		return fmt.Errorf("secret %s is a private signing key (whsk_); a receiver needs the public one (whpk_)", s.Name)
	}
	if key, err := publicKey(s); key != nil || err != nil {
		return err
	}
	_, err := standardKey(s)
	return err
}

// Sign signs with v1, or with v1a if the secret is a private key (whsk_).
func (p standardWebhooks) Sign(s Secret, id string, at time.Time, body []byte) (map[string]string, error) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	signed := []byte(id + "." + timestamp + ".")
	signature := ""
	if text, ok := bytes.CutPrefix(s.value, []byte(privateKeyPrefix)); ok {
		key, err := base64.StdEncoding.DecodeString(string(text))
		if err != nil || len(key) != ed25519.PrivateKeySize {
			return nil, fmt.Errorf("sign: secret %s is not a private key: whsk_ and %d bytes in base64", s.Name, ed25519.PrivateKeySize)
		}
		signature = "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(key, append(signed, body...)))
	} else {
		key, err := standardKey(s)
		if err != nil {
			return nil, fmt.Errorf("sign: %w", err)
		}
		signature = "v1," + base64.StdEncoding.EncodeToString(appendHMAC(nil, sha256.New, key, signed, body))
	}
	prefix := p.prefixes[0]
	return map[string]string{prefix + "id": id, prefix + "timestamp": timestamp, prefix + "signature": signature}, nil
}

func (p standardWebhooks) Read(header Headers, body []byte) (Reading, error) {
	prefix := p.prefix(header)
	return p.layout.Read(func(name string) []string {
		if own, ok := strings.CutPrefix(name, "webhook-"); ok {
			name = prefix + own
		}
		return header(name)
	}, body)
}

// standardLayout reads the envelope of the specification (type, timestamp, data).
// Everything under data is the sender's own; these are the names that Sluice
// expects there. A sender with others is a declared provider.
//
// data.id is the payment, unless data.payment_id names it. Only with
// data.refund_id can a refund.failed find the refund that it takes back.
var standardLayout = Layout{
	ID:          Paths{"header:webhook-id"},
	Type:        Paths{"type"},
	Time:        Paths{"timestamp"},
	TimeRepeats: true,
	Mode:        Paths{"livemode", "data.livemode", "mode"},
	Order:       Paths{"data.order_id"},
	Payment:     Paths{"data.payment_id", "data.id"},
	Subject:     Paths{"data.id"},
	Amount:      Paths{"data.amount"},
	Currency:    Paths{"data.currency"},
	Partial:     Paths{"data.is_partial"},
	Facts: []Fact{
		{Type: "payment.pending", Kind: order.KindPending},
		{Type: "payment.succeeded", Kind: order.KindPaid},
		{Type: "payment.failed", Kind: order.KindFailed},
		{Type: "payment.canceled", Kind: order.KindCancelled},
		{Type: "payment.cancelled", Kind: order.KindCancelled},
		{Type: "refund.succeeded", Kind: order.KindRefund, Object: Paths{"data.refund_id"}},
		{Type: "refund.failed", Kind: order.KindRefundFailed, Object: Paths{"data.refund_id"}},
		{Type: "dispute.opened", Kind: order.KindDisputeOpened, Object: Paths{"data.dispute_id"}},
		{Type: "dispute.created", Kind: order.KindDisputeOpened, Object: Paths{"data.dispute_id"}},
		{Type: "dispute.won", Kind: order.KindDisputeWon, Object: Paths{"data.dispute_id"}},
		{Type: "dispute.lost", Kind: order.KindDisputeLost, Object: Paths{"data.dispute_id"}},
	},
}.mustCompile()

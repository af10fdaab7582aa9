package webhook

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"sluice/pkg/event"
)

// wise signs the raw body with RSA (PKCS #1 v1.5, SHA-256); the secret is its public
// key, which it publishes, one for the sandbox and one for production
// (transferwise/digital-signatures-examples). It states nothing about orders.
type wise struct{ *layout }

const wiseSignature = "X-Signature-SHA256"

func newWise() Provider { return wise{wiseLayout} }

func (wise) Name() string               { return "wise" }
func (wise) SignatureHeaders() []string { return wiseLayout.headers(wiseSignature) }

func (wise) Profile() Profile {
	return Profile{
		Title:     "Wise",
		Docs:      "https://docs.wise.com/api-docs/features/webhooks-notifications/event-handling",
		Secret:    "Wise's public key (PEM), of the sandbox or of production",
		Signature: "RSA with SHA-256 in base64 over the body, in X-Signature-SHA256",
		Covers:    "the whole body",
		Leaves:    "the delivery id: it is in a header",
		Instead:   "a body sent again under another id is a new event, which states nothing about orders",
		ID:        "header X-Delivery-Id",
		Trust:     event.Signed,
		Retries:   RetriesUnknown,
	}
}

// maxRSA bounds a signature, and so the work of a check: 8192 bits.
const maxRSA = 1024

func wiseKey(s Secret) (*rsa.PublicKey, error) {
	block, rest := pem.Decode(s.value)
	if block == nil || block.Type != "PUBLIC KEY" || len(rest) > 0 {
		return nil, fmt.Errorf("secret %s is not a public key in PEM, which begins with -----BEGIN PUBLIC KEY-----", s.Name)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("secret %s is PEM, but no public key", s.Name)
	}
	public, ok := key.(*rsa.PublicKey)
	if !ok || public.Size() < 256 || public.Size() > maxRSA {
		return nil, fmt.Errorf("secret %s is not an RSA key of 2048 to 8192 bits", s.Name)
	}
	return public, nil
}

func (wise) CheckSecret(s Secret) error {
	_, err := wiseKey(s)
	return err
}

func (wise) Verify(req Request, secrets []Secret, _ time.Time) Verdict {
	header, reason := one(req.Header(wiseSignature))
	if reason != ReasonNone {
		return refuse(reason)
	}
	if len(header) > base64.StdEncoding.EncodedLen(maxRSA) {
		return refuse(ReasonMalformed)
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(header)
	if err != nil {
		return refuse(ReasonMalformed)
	}
	sum := sha256.Sum256(req.Body)
	for _, s := range secrets {
		key, err := wiseKey(s)
		if err == nil && rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil {
			return Verdict{Outcome: Valid, Secret: s.Name}
		}
	}
	return refuse(ReasonMismatch)
}

// Sign signs with a private key (PEM, PKCS #8), as a test has one.
func (wise) Sign(s Secret, id string, _ time.Time, body []byte) (map[string]string, error) {
	block, _ := pem.Decode(s.value)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("sign: the secret is not a private key in PEM (PKCS #8)")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := key.(*rsa.PrivateKey)
	if err != nil || !ok {
		return nil, errors.New("sign: the secret is not an RSA key")
	}
	sum := sha256.Sum256(body)
	signature, err := rsa.SignPKCS1v15(nil, private, crypto.SHA256, sum[:])
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return map[string]string{wiseSignature: base64.StdEncoding.EncodeToString(signature), "X-Delivery-Id": id}, nil
}

var wiseLayout = Layout{
	ID:      Paths{"header:X-Delivery-Id"},
	Type:    Paths{"event_type"},
	Time:    Paths{"data.occurred_at"},
	Subject: Paths{"data.resource.id"},
}.mustCompile()

package explain

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/webhook"
)

// Verdicts on a signature.
const (
	sigValid       = "valid"
	sigInvalid     = "invalid"
	sigStale       = "stale"
	sigAccepted    = "accepted_at_receipt"
	sigNotVerified = "not_verified"
	sigLookedUp    = "looked_up"
)

// Secrets are the endpoints with their secrets, or why there are none.
type Secrets struct {
	Endpoints endpoint.Set
	Problem   string
}

// signature verifies the stored bytes again, at the time of their receipt.
func (s Secrets) signature(e event.Event) Signature {
	sig := Signature{Verdict: sigNotVerified, AtReceipt: e.SecretName}
	ep, known := s.Endpoints.Get(e.Endpoint)
	switch {
	case e.BodySHA256 != sha256.Sum256(e.Body):
		sig.Verdict, sig.Why = sigInvalid, "the stored bytes are not those that were received: their SHA-256 differs"
		return sig
	case e.Trust == event.LookedUp:
		sig.Verdict, sig.Why = sigLookedUp, "Sluice asked the provider's API itself"
		return sig
	case e.Trust == event.Hint && e.SecretName == "":
		sig.Why = "nobody has signed it; that is why the provider is asked"
		return sig
	case known && isCertified(ep.Provider):
		sig.Verdict, sig.Why = sigAccepted, "the signing certificate was checked when the webhook came in, and is not kept"
		return sig
	case s.Problem != "" && len(e.Signature) > 0:
		sig.Why = s.Problem
		return sig
	case !known && len(e.Signature) > 0:
		sig.Why = fmt.Sprintf("endpoint %s is not in the endpoints file", e.Endpoint)
		return sig
	}
	var v webhook.Verdict
	if known && s.Problem == "" {
		// The sender's address is not stored, so the endpoint's addresses have no part in it.
		headers := webhook.StoredHeaders(e.Signature)
		query := strings.Join(headers(webhook.QueryHeader), "")
		v = ep.Provider.Verify(webhook.Request{Method: http.MethodPost, URL: ep.RequestURL(query), Header: headers, Body: e.Body}, ep.Secrets, e.ReceivedAt)
	}
	switch v.Outcome {
	case webhook.Valid:
		sig.Verdict, sig.Secret, sig.SignedAt = sigValid, v.Secret, when(v.SignedAt)
		return sig
	case webhook.Stale:
		sig.Verdict, sig.Secret, sig.SignedAt = sigStale, v.Secret, when(v.SignedAt)
		sig.Why = fmt.Sprintf("right, but signed %s before its receipt, which the endpoint's tolerance does not allow now", e.ReceivedAt.Sub(v.SignedAt))
		return sig
	}
	if len(e.Signature) == 0 { // a static credential, or the signature of a whole batch
		sig.Verdict, sig.Why = sigAccepted, "what it was verified by came with the request alone, and is kept nowhere"
		return sig
	}
	for _, secret := range ep.Secrets {
		if secret.Name == e.SecretName {
			sig.Verdict, sig.Why = sigInvalid, fmt.Sprintf("%s: %s, which matched at receipt, has another value now, or the bytes or headers were changed", v.Reason, secret)
			return sig
		}
	}
	sig.Why = fmt.Sprintf("secret %s, which matched at receipt, is not configured any more", e.SecretName)
	return sig
}

func isCertified(p webhook.Provider) bool {
	_, ok := p.(webhook.Certified)
	return ok
}

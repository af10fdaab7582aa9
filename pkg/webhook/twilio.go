package webhook

import (
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"slices"
	"strings"
	"time"

	"sluice/pkg/event"
)

// twilio signs the address it was given, and after it the form's names and values,
// sorted, with nothing between; of any other body the address carries the hash
// (twilio-go client/request_validator.go, twilio-node src/webhooks). The algorithm
// belongs to the key, so the one with SHA-256 is a provider of its own, and the
// header that names an algorithm is not looked at.
type twilio struct {
	name, url string
	hash      func() hash.Hash
}

const twilioSignature = "X-Twilio-Signature"

func newTwilio() Provider       { return twilio{name: "twilio", hash: sha1.New} }
func newTwilioSHA256() Provider { return twilio{name: "twilio_sha256", hash: sha256.New} }

func (p twilio) Name() string           { return p.name }
func (twilio) CheckSecret(Secret) error { return nil }
func (twilio) TimeRepeats() bool        { return false }
func (twilio) ChangedBody() ChangedBody { return Final }
func (twilio) SignatureHeaders() []string {
	return twilioForm.headers(append(twilioJSON.headers(), twilioSignature)...)
}

func (p twilio) Profile() Profile {
	f := Profile{
		Title:     "Twilio",
		Docs:      "https://www.twilio.com/docs/usage/webhooks/webhooks-security",
		Secret:    "the account's auth token",
		Signature: "HMAC-SHA1 in base64 over the URL and the form's sorted fields, in X-Twilio-Signature",
		Covers:    "the URL and every field of a form; of another body its SHA-256, which the URL carries",
		Leaves:    "where a name, a value or the URL ends, and headers",
		Instead:   "it states nothing about orders",
		ID:        "header I-Twilio-Idempotency-Token, or the message's or call's SID and its status, joined by a colon",
		Trust:     event.Signed,
		NeedsURL:  true,
		Retries:   RetriesUnknown,
	}
	if p.name != "twilio" {
		f.Title, f.Secret = "Twilio (shared key)", "the shared key's secret"
		f.Signature = strings.Replace(f.Signature, "SHA1", "SHA256", 1)
	}
	return f
}

func (p twilio) WithURL(url string) Provider {
	p.url = url
	return p
}

func (p twilio) Verify(req Request, secrets []Secret, _ time.Time) Verdict {
	header, reason := one(req.Header(twilioSignature))
	if reason != ReasonNone {
		return refuse(reason)
	}
	signature, ok := fromBase64(header, p.hash().Size())
	if !ok {
		return refuse(ReasonMalformed)
	}
	fields, reason := twilioFields(req.URL, req.Body)
	if reason != ReasonNone {
		return refuse(reason)
	}
	// Twilio signs the address with or without the standard port, it does not say when.
	for _, url := range twilioURLs(req.URL) {
		if name, ok := matchHMAC(p.hash, secrets, asShown, [][]byte{signature}, []byte(url), fields); ok {
			return Verdict{Outcome: Valid, Secret: name}
		}
	}
	return refuse(ReasonMismatch)
}

// twilioFields is what is signed after the address: nothing, if the body has the hash
// that the address carries. A body without one is always taken for a form, so that
// none goes unsigned. Of a name that comes twice every value is signed, as
// twilio-node does it; twilio-go looks at the first only.
func twilioFields(url string, body []byte) (signed []byte, reason Reason) {
	_, query, _ := strings.Cut(url, "?")
	parameters, err := parseForm([]byte(query))
	if err != nil {
		return nil, ReasonMalformed
	}
	bound := ""
	for _, f := range parameters {
		if f.name != "bodySHA256" {
			continue
		}
		if bound != "" {
			return nil, ReasonMalformed
		}
		bound = f.value
	}
	if bound != "" {
		sum := sha256.Sum256(body)
		if subtle.ConstantTimeCompare([]byte(hex.EncodeToString(sum[:])), []byte(bound)) != 1 {
			return nil, ReasonMismatch
		}
		return nil, ReasonNone
	}
	list, err := parseForm(body)
	if err != nil {
		return nil, ReasonMalformed
	}
	slices.SortFunc(list, func(a, b formField) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.value, b.value))
	})
	for _, f := range slices.Compact(list) {
		signed = append(append(signed, f.name...), f.value...)
	}
	return signed, ReasonNone
}

// twilioURLs are an address with and without its port.
func twilioURLs(url string) []string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return []string{url}
	}
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	host, path := rest[:end], rest[end:]
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexAny(host, "]@") {
		return []string{url, scheme + "://" + host[:i] + path}
	}
	port := ":80"
	if scheme == "https" {
		port = ":443"
	}
	return []string{scheme + "://" + host + port + path, url}
}

func (p twilio) Sign(s Secret, _ string, _ time.Time, body []byte) (map[string]string, error) {
	if len(s.value) == 0 {
		return nil, errEmptySecret
	}
	fields, reason := twilioFields(p.url, body)
	if reason != ReasonNone {
		return nil, errors.New("sign: the body is neither a form nor the one whose hash (bodySHA256) the URL carries")
	}
	sum := appendHMAC(nil, p.hash, s.value, []byte(p.url), fields)
	return map[string]string{twilioSignature: base64.StdEncoding.EncodeToString(sum)}, nil
}

func (twilio) Read(h Headers, body []byte) (Reading, error) {
	if isForm(body) {
		return twilioForm.Read(h, body)
	}
	return twilioJSON.Read(h, body)
}

const twilioToken = "header:I-Twilio-Idempotency-Token"

var (
	twilioForm = Layout{
		Body:    "form",
		ID:      Paths{twilioToken, "MessageSid + MessageStatus", "CallSid + CallStatus", "MessageSid", "CallSid"},
		Type:    Paths{"=message + MessageStatus", "=message + SmsStatus", "=call + CallStatus", "=request"},
		Subject: Paths{"MessageSid", "CallSid"},
	}.mustCompile()
	twilioJSON = Layout{
		ID:   Paths{twilioToken, "id"},
		Type: Paths{"type", "=request"},
	}.mustCompile()
)

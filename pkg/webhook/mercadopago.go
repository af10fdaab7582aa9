package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/event"
)

// mercadoPago signs `id:DATA.ID;request-id:X-REQUEST-ID;ts:TS;`, the id being that of
// the request's query, and parts that are absent left out (mercadopago/sdk-nodejs
// src/utils/webhook). The body is not signed, and says little: every event is a hint
// to ask for the signed id.
type mercadoPago struct {
	*layout
	tolerance Tolerance
}

const (
	mercadoSignature = "X-Signature"
	mercadoRequest   = "X-Request-Id"
	mercadoID        = "data.id"
)

func newMercadoPago() Provider {
	return mercadoPago{mercadoLayout, Tolerance{Past: Unlimited, Future: Unlimited}} // the SDK checks no time
}

func (mercadoPago) Name() string { return "mercadopago" }
func (mercadoPago) SignatureHeaders() []string {
	return mercadoLayout.headers(mercadoSignature, mercadoRequest)
}
func (p mercadoPago) Tolerance() Tolerance { return p.tolerance }

func (p mercadoPago) WithTolerance(t Tolerance) Provider {
	p.tolerance = t
	return p
}

func (mercadoPago) Profile() Profile {
	return Profile{
		Title:     "Mercado Pago",
		Docs:      "https://www.mercadopago.com/developers/en/docs/your-integrations/notifications/webhooks",
		Secret:    "the application's webhook secret",
		Signature: "HMAC-SHA256 in hex over the query's data.id, X-Request-Id and a time, in X-Signature",
		Covers:    "the object's id, the request's id and the time",
		Leaves:    "the whole body, and what happened",
		Instead:   "the object is the signed one, and every event is a hint until Mercado Pago's API was asked",
		ID:        "the query's `data.id` and header X-Request-Id, joined by a colon",
		Trust:     event.Hint,
		Retries:   RetriesUnknown,
	}
}

// CheckSecret refuses what is often pasted in its place.
func (mercadoPago) CheckSecret(s Secret) error {
	return refuseBeginning(s, "an access token or public key", "give the secret of the application's webhooks", "APP_USR-", "TEST-")
}

func (p mercadoPago) Verify(req Request, secrets []Secret, now time.Time) Verdict {
	header, reason := one(req.Header(mercadoSignature))
	if reason != ReasonNone {
		return refuse(reason)
	}
	ts, signatures, ok := parseMercado(header)
	signedAt, okTime := mercadoTime(ts)
	id, okID := mercadoOnly((&page{header: req.Header}).parameters(mercadoID))
	request, okRequest := mercadoOnly(req.Header(mercadoRequest))
	if !ok || !okTime || !okID || !okRequest {
		return refuse(ReasonMalformed)
	}
	name, ok := matchHMAC(sha256.New, secrets, asShown, signatures, []byte(mercadoManifest(id, request, ts)))
	if !ok {
		return refuse(ReasonMismatch)
	}
	return p.tolerance.judge(name, signedAt, now)
}

// mercadoOnly is the one value of what may be absent.
func mercadoOnly(values []string) (string, bool) {
	if len(values) == 0 {
		return "", true
	}
	return values[0], len(values) == 1
}

func mercadoManifest(id, request, ts string) (text string) {
	for _, part := range [][2]string{{"id", id}, {"request-id", request}, {"ts", ts}} {
		if part[1] != "" {
			text += part[0] + ":" + part[1] + ";"
		}
	}
	return text
}

// parseMercado takes `ts=…,v1=…[,v2=…]` apart; versions other than v1 are passed over.
func parseMercado(header string) (ts string, signatures [][]byte, ok bool) {
	for part := range strings.SplitSeq(header, ",") {
		k, v, found := strings.Cut(part, "=")
		if !found {
			return "", nil, false
		}
		switch strings.TrimSpace(k) {
		case "ts":
			if ts != "" {
				return "", nil, false
			}
			ts = strings.TrimSpace(v)
		case "v1":
			if sum, ok := fromHex(strings.TrimSpace(v), sha256.Size); ok {
				signatures = append(signatures, sum)
			}
		}
	}
	return ts, signatures, ts != "" && len(signatures) > 0 && len(signatures) <= maxSignatures
}

// mercadoTime reads seconds, or milliseconds in 13 digits: the samples have these, the
// SDK's comment those.
func mercadoTime(ts string) (time.Time, bool) {
	if len(ts) == 13 {
		return parseMillis(ts)
	}
	return parseUnix(ts)
}

// Sign signs for the request id; the id of the object it takes from the body, where
// the query has the same.
func (mercadoPago) Sign(s Secret, id string, at time.Time, body []byte) (map[string]string, error) {
	r, err := mercadoBody.scan(body)
	if len(s.value) == 0 || err != nil || !r[0].given() {
		return nil, errors.New("sign: it takes a secret and a body with data.id")
	}
	object, err := r[0].id()
	if err != nil {
		return nil, fmt.Errorf("sign: data.id %w", err)
	}
	ts := strconv.FormatInt(at.UnixMilli(), 10)
	sum := appendHMAC(nil, sha256.New, s.value, []byte(mercadoManifest(object, id, ts)))
	headers := map[string]string{mercadoSignature: "ts=" + ts + ",v1=" + hex.EncodeToString(sum)}
	if id != "" {
		headers[mercadoRequest] = id
	}
	return headers, nil
}

var mercadoBody = wanted(mercadoID)

// Read reads a notification. Only one about a payment names a payment.
func (mercadoPago) Read(h Headers, b []byte) (Reading, error) {
	r, err := mercadoLayout.Read(h, b)
	if r.Type != "payment" {
		r.Payment = ""
	}
	return r, err
}

// mercadoLayout reads the signed query before the unsigned body. live_mode is not
// read: nobody signed it, and the API says it again.
var mercadoLayout = Layout{
	ID:      Paths{"query:data.id + header:X-Request-Id", "query:data.id"},
	Type:    Paths{"query:type", "type", "=unknown"},
	Trust:   event.Hint,
	Payment: Paths{"query:data.id"},
	Subject: Paths{"query:data.id"},
}.mustCompile()

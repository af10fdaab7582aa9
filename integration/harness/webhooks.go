package harness

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Secrets of the two endpoints every deployment under test has. They are signed
// with here by the providers' published rules, not by the code under test.
const (
	StripeSecret   = "whsec_integration_9f2c41d8a7"
	StandardSecret = "whsec_c2x1aWNlLWludGVncmF0aW9uLXRlc3QtMDAwMQ=="
)

// Webhook is one signed request.
type Webhook struct {
	Endpoint string
	Header   http.Header
	Body     []byte
}

// Stripe signs body as Stripe does: hex HMAC-SHA256 over "t.body", the whole
// secret text as key (stripe-go webhook/client.go).
func Stripe(body []byte) Webhook { return StripeAt(body, StripeSecret, time.Now()) }

// StripeAt signs with any secret and time.
func StripeAt(body []byte, secret string, at time.Time) Webhook {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return Webhook{Endpoint: "stripe", Body: body, Header: http.Header{
		"Content-Type":     {"application/json; charset=utf-8"},
		"Stripe-Signature": {"t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))},
	}}
}

// Standard signs body by the Standard Webhooks v1 rule: base64 HMAC-SHA256 over
// "id.timestamp.body", key = the base64 text after whsec_.
func Standard(id string, body []byte) Webhook {
	key, err := base64.StdEncoding.DecodeString(StandardSecret[len("whsec_"):])
	if err != nil {
		panic(err)
	}
	t := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + t + "."))
	mac.Write(body)
	return Webhook{Endpoint: "standard", Body: body, Header: http.Header{
		"Content-Type":      {"application/json"},
		"Webhook-Id":        {id},
		"Webhook-Timestamp": {t},
		"Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))},
	}}
}

// Post sends it to the ingress at address and returns the status, 0 if no answer came.
func (w Webhook) Post(ctx context.Context, client *http.Client, address string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/webhooks/"+w.Endpoint, bytes.NewReader(w.Body))
	if err != nil {
		return 0, err
	}
	req.Header = w.Header.Clone()
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode, nil
}

// Intent is the body of a Stripe payment_intent event about order.
func Intent(id, kind, order, payment string, amount int64, at time.Time) []byte {
	return fmt.Appendf(nil, `{"id":%q,"object":"event","api_version":"2025-09-30.clover","created":%d,"livemode":true,"type":"payment_intent.%s","data":{"object":{"id":%q,"object":"payment_intent","amount":%d,"amount_received":%d,"currency":"usd","livemode":true,"metadata":{"order_id":%q},"status":%q}}}`,
		id, at.Unix(), kind, payment, amount, amount, order, kind)
}

// RefundTotal is the body of a Stripe charge.refunded event: refunded so far.
func RefundTotal(id, order, payment string, amount, refunded int64, at time.Time) []byte {
	return fmt.Appendf(nil, `{"id":%q,"object":"event","created":%d,"livemode":true,"type":"charge.refunded","data":{"object":{"id":"ch_%s","object":"charge","amount":%d,"amount_captured":%d,"amount_refunded":%d,"captured":true,"currency":"usd","livemode":true,"metadata":{"order_id":%q},"paid":true,"payment_intent":%q,"refunded":%t,"status":"succeeded"}}}`,
		id, at.Unix(), payment, amount, amount, refunded, order, payment, refunded == amount)
}

// Payment is the body of a Standard Webhooks payment event about order.
func Payment(kind, order, payment string, amount int64, at time.Time) []byte {
	return fmt.Appendf(nil, `{"type":"payment.%s","timestamp":%q,"data":{"id":%q,"order_id":%q,"amount":%d,"currency":"USD","status":%q}}`,
		kind, at.UTC().Format(time.RFC3339Nano), payment, order, amount, kind)
}

package integration

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/integration/harness"
	"sluice/pkg/kafka"
	"sluice/pkg/webhook"
)

const (
	paymeKey = "fkWW6UNrzvzyV6DhrdHJ6aEhr3dRcvJYkaGx"
	clickKey = "click-demo-key"
)

const twoWayEndpoints = `endpoints:
  - {name: payme, provider: payme, secrets: ["env:PAYME"], addresses: [127.0.0.1]}
  - name: click
    provider: click
    secrets: ["env:CLICK"]
    lookup: {settings: {service_id: "24001", merchant_user_id: "7"}, credentials: ["env:CLICK"]}
`

// cashier is a deployment whose merchant answers Payme and Click.
type cashier struct {
	*harness.Deployment
	env      []string
	public   string
	merchant *harness.Process
}

func newCashier(t *testing.T) *cashier {
	t.Helper()
	file := filepath.Join(t.TempDir(), "endpoints.yaml")
	if err := os.WriteFile(file, []byte(twoWayEndpoints), 0o600); err != nil {
		t.Fatal(err)
	}
	return &cashier{Deployment: harness.New(t, 3), env: []string{"SLUICE_ENDPOINTS=" + file, "PAYME=" + paymeKey, "CLICK=" + clickKey}}
}

func (c *cashier) open() {
	c.T.Helper()
	c.public = harness.FreeAddress(c.T)
	c.merchant = c.Start("merchant", append(c.env, "SLUICE_MERCHANT_PUBLIC_ADDRESS="+c.public)...)
}

// call sends one call of Payme's and returns what was answered.
func (c *cashier) call(method, params string) string {
	c.T.Helper()
	answer := c.post("payme", "text/json; charset=UTF-8", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
	if !strings.Contains(answer, `"result"`) {
		c.T.Fatalf("%s: %s", method, answer)
	}
	return answer
}

// click signs a form of Click's, sends it, and returns what was answered.
func (c *cashier) click(form url.Values) string {
	c.T.Helper()
	key, err := webhook.NewSecret("env:CLICK", clickKey)
	if err != nil {
		c.T.Fatal(err)
	}
	body, err := webhook.Click{}.Seal(key, []byte(form.Encode()))
	if err != nil {
		c.T.Fatal(err)
	}
	return c.post("click", "application/x-www-form-urlencoded", string(body))
}

func (c *cashier) post(endpoint, contentType, body string) string {
	c.T.Helper()
	req, err := http.NewRequestWithContext(c.T.Context(), http.MethodPost, "http://"+c.public+"/webhooks/"+endpoint, strings.NewReader(body))
	if err != nil {
		c.T.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("Paycom:"+paymeKey)))
	res, err := c.HTTP.Do(req)
	if err != nil {
		c.T.Fatalf("call the merchant: %v", err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		c.T.Fatalf("HTTP %d %s", res.StatusCode, answer)
	}
	return string(answer)
}

// view is the order as the shop sees it.
func (c *cashier) view(id string) string {
	c.T.Helper()
	req, err := http.NewRequestWithContext(c.T.Context(), http.MethodGet, "http://"+c.merchant.Address+"/v1/orders/"+id, nil)
	if err != nil {
		c.T.Fatal(err)
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		c.T.Fatalf("read order %s: %v", id, err)
	}
	defer func() { _ = res.Body.Close() }()
	text, _ := io.ReadAll(res.Body)
	return string(text)
}

// Click does not sign whether a payment was made: until its API has said so the order
// is reserved, and not paid.
func TestWhatClickSaysIsNotBelievedBeforeItsAPIWasAsked(t *testing.T) {
	c := newCashier(t)
	c.open()
	c.Start("processor", c.env...)
	c.Start("relay", c.env...)
	if status, body := c.Put(c.merchant, "ORD-3001", `{"amount":12505000,"currency":"UZS"}`); status != http.StatusCreated {
		t.Fatalf("register: %d %s", status, body)
	}
	form := url.Values{"click_trans_id": {"3219876543"}, "service_id": {"24001"}, "click_paydoc_id": {"3298765432"},
		"merchant_trans_id": {"ORD-3001"}, "amount": {"125050"}, "action": {"0"}, "error": {"0"}, "error_note": {"Success"}, "sign_time": {"2026-01-01 05:00:00"}}
	if got := c.click(form); !strings.Contains(got, `"merchant_prepare_id":1,"error":0`) {
		t.Fatalf("prepared: %s", got)
	}
	form.Set("action", "1")
	form.Set("merchant_prepare_id", "1")
	if got := c.click(form); !strings.Contains(got, `"merchant_confirm_id":1,"error":0`) {
		t.Fatalf("completed: %s", got)
	}
	form.Set("error", "-5017")
	if got := c.click(form); !strings.Contains(got, `"error":-9`) {
		t.Fatalf("cancelled: %s", got)
	}
	// What Click was answered reaches the topic through the outbox, a moment later.
	harness.Eventually(t, "all three calls are in the raw topic", 30*time.Second, func() error {
		if n := len(c.Records(kafka.Raw)); n != 3 {
			return fmt.Errorf("%d records", n)
		}
		return nil
	})
	c.Sound([]string{"3219876543:0", "3219876543:1"})
	if n := len(c.Records(kafka.Raw)); n != 3 {
		t.Errorf("%d records, want 3", n)
	}
	if n := c.Count("SELECT count(*) FROM hints WHERE order_id = 'ORD-3001' AND settled_at IS NULL"); n != 1 {
		t.Errorf("%d hints are held, want 1", n)
	}
	v := c.view("ORD-3001")
	if !strings.Contains(v, `"status":"pending"`) || !strings.Contains(v, `"reserved":{"source":"click","payment_id":"3219876543"`) || strings.Contains(v, `"until"`) {
		t.Errorf("the shop sees %s", v)
	}
}

// What Payme was answered is kept, wherever the merchant dies, and becomes the
// order's status: paid, and after a cancellation refunded.
func TestWhatPaymeWasAnsweredBecomesTheOrdersStatus(t *testing.T) {
	c := newCashier(t)
	c.open()
	c.Start("processor", c.env...)
	c.Start("relay", c.env...)
	if status, body := c.Put(c.merchant, "2001", `{"amount":12505000,"currency":"UZS"}`); status != http.StatusCreated {
		t.Fatalf("register: %d %s", status, body)
	}
	const id = "65a0c1d2e3f4a5b6c7d8e9f0"
	create := fmt.Sprintf(`{"id":%q,"time":%d,"amount":12505000,"account":{"order_id":"2001"}}`, id, time.Now().UnixMilli())
	perform := fmt.Sprintf(`{"id":%q}`, id)
	cancel := fmt.Sprintf(`{"id":%q,"reason":5}`, id)

	c.call("CreateTransaction", create)
	// The broker is away when the money is taken, and the merchant dies before it is back.
	c.Proxy.Cut()
	performed := c.call("PerformTransaction", perform)
	c.merchant.Kill()
	c.Proxy.Restore()
	c.open()
	if again := c.call("PerformTransaction", perform); again != performed {
		t.Errorf("answered %s, and before the crash %s", again, performed)
	}
	c.Becomes("2001", "paid")
	cancelled := c.call("CancelTransaction", cancel)
	c.Becomes("2001", "refunded")
	if again := c.call("CancelTransaction", cancel); again != cancelled {
		t.Errorf("answered %s, then %s", cancelled, again)
	}
	c.Sound([]string{id + ":CreateTransaction", id + ":PerformTransaction", id + ":CancelTransaction"})
	var statuses []string
	for _, m := range c.Messages("2001") {
		statuses = append(statuses, m.Status.String())
	}
	if got := strings.Join(statuses, " "); got != "pending paid refunded" {
		t.Errorf("published: %s", got)
	}
	if n := c.Count("SELECT count(*) FROM raw_outbox WHERE published_at IS NULL"); n != 0 {
		t.Errorf("%d records wait in the outbox", n)
	}
}

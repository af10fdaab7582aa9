package integration

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/integration/harness"
)

const paymeKey = "fkWW6UNrzvzyV6DhrdHJ6aEhr3dRcvJYkaGx"

// cashier is a deployment whose merchant answers Payme.
type cashier struct {
	*harness.Deployment
	env      []string
	public   string
	merchant *harness.Process
}

func newCashier(t *testing.T) *cashier {
	t.Helper()
	file := filepath.Join(t.TempDir(), "endpoints.yaml")
	text := "endpoints:\n  - {name: payme, provider: payme, secrets: [\"env:PAYME\"], addresses: [127.0.0.1]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &cashier{Deployment: harness.New(t, 3), env: []string{"SLUICE_ENDPOINTS=" + file, "PAYME=" + paymeKey}}
}

func (c *cashier) open() {
	c.T.Helper()
	c.public = harness.FreeAddress(c.T)
	c.merchant = c.Start("merchant", append(c.env, "SLUICE_MERCHANT_PUBLIC_ADDRESS="+c.public)...)
}

// call sends one call of Payme's and returns what was answered.
func (c *cashier) call(method, params string) string {
	c.T.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	req, err := http.NewRequestWithContext(c.T.Context(), http.MethodPost, "http://"+c.public+"/webhooks/payme", strings.NewReader(body))
	if err != nil {
		c.T.Fatal(err)
	}
	req.Header.Set("Content-Type", "text/json; charset=UTF-8")
	req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("Paycom:"+paymeKey)))
	res, err := c.HTTP.Do(req)
	if err != nil {
		c.T.Fatalf("%s: %v", method, err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK || !strings.Contains(string(answer), `"result"`) {
		c.T.Fatalf("%s: HTTP %d %s", method, res.StatusCode, answer)
	}
	return string(answer)
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

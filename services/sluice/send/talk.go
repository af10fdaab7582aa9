package send

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/order"
	"sluice/pkg/webhook"
	"sluice/services/sluice/sample"
)

// Call is one call of a two-way provider, and how the merchant answered it.
type Call struct {
	// Name is the method or action.
	Name string
	Answer
	// Code is the protocol's own error, 0 if there is none; Text is the answer in short.
	Code int
	Text string
}

// Talk has a two-way provider (Payme, Click) state a fact to the merchant: it asks,
// and pays or cancels, one call after the other, as the protocol has it. Every call
// is made again times more. It ends at the first call that is not answered well.
func (t Target) Talk(ctx context.Context, e endpoint.Endpoint, f sample.Fact, again int, forge bool) ([]Call, error) {
	if f.Currency != "UZS" {
		return nil, fmt.Errorf("%s pays in UZS only, not in %s", e.Provider.Name(), f.Currency)
	}
	c := talk{Target: t, endpoint: e, fact: f, again: again, forge: forge}
	switch e.Provider.(type) {
	case webhook.Payme:
		return c.payme(ctx)
	case webhook.Click:
		return c.click(ctx)
	}
	return nil, fmt.Errorf("provider %s asks nobody before it pays", e.Provider.Name())
}

type talk struct {
	Target
	endpoint endpoint.Endpoint
	fact     sample.Fact
	again    int
	forge    bool
	calls    []Call
}

// say makes one call, and again as often as a lost answer would have it made. It says
// whether the last was answered well.
func (c *talk) say(ctx context.Context, name string, w sample.Webhook, read func([]byte) (code int, text string)) bool {
	for range c.again + 1 {
		var body []byte
		call := Call{Name: name}
		call.Answer, body = c.exchange(ctx, Webhook{Webhook: w}, time.Now())
		if call.Status == http.StatusOK {
			call.Code, call.Text = read(body)
		}
		c.calls = append(c.calls, call)
	}
	last := c.calls[len(c.calls)-1]
	return last.Status == http.StatusOK && last.Code == 0
}

// paymeMethods are the calls by which Payme states a fact, and a cancel's reason.
var paymeMethods = map[order.Kind]struct {
	methods []string
	reason  int
}{
	order.KindPending:   {[]string{webhook.PaymeCheckPerform, webhook.PaymeCreate}, 0},
	order.KindPaid:      {[]string{webhook.PaymeCheckPerform, webhook.PaymeCreate, webhook.PaymePerform}, 0},
	order.KindCancelled: {[]string{webhook.PaymeCheckPerform, webhook.PaymeCreate, webhook.PaymeCancel}, sample.PaymeExecutionFailed},
	order.KindRefund:    {[]string{webhook.PaymeCancel}, sample.PaymeRefund},
}

func (c *talk) payme(ctx context.Context) ([]Call, error) {
	plan, ok := paymeMethods[c.fact.Kind]
	if !ok {
		return nil, fmt.Errorf("Payme states no %s; it has pending, paid, cancelled and refund (of the whole)", c.fact.Kind) //nolint:staticcheck // a name
	}
	for _, method := range plan.methods {
		w, err := sample.Payme(method, c.fact, plan.reason)
		if err != nil {
			return c.calls, err
		}
		if c.forge {
			c.Provider = wrongPassword{c.Provider}
		}
		if ok := c.say(ctx, method, w, paymeAnswer); !ok {
			break
		}
	}
	return c.calls, nil
}

// wrongPassword signs with a password that nobody gave.
type wrongPassword struct{ webhook.Provider }

func (p wrongPassword) Sign(webhook.Secret, string, time.Time, []byte) (map[string]string, error) {
	s, err := webhook.NewSecret("forged", "a-password-that-nobody-gave")
	if err != nil {
		return nil, err
	}
	return p.Provider.Sign(s, "", time.Time{}, nil)
}

func paymeAnswer(body []byte) (int, string) {
	var a struct {
		Error *struct {
			Code    int
			Message struct{ En string }
		}
		Result json.RawMessage
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return -1, "an answer that is not JSON"
	}
	if a.Error != nil {
		return a.Error.Code, strings.TrimSpace(fmt.Sprintf("error %d %s", a.Error.Code, a.Error.Message.En))
	}
	var short bytes.Buffer
	if err := json.Compact(&short, a.Result); err != nil {
		return -1, "an answer without a result"
	}
	return 0, short.String()
}

// clickEnds are the errors by which Click's Complete states a fact, and what its API
// says of it (payment_status).
var clickEnds = map[order.Kind]struct{ code, status int }{
	order.KindPaid:      {0, 2},
	order.KindFailed:    {sample.ClickDeclined, -1},
	order.KindCancelled: {sample.ClickCalledOff, -99},
	order.KindPending:   {0, 1},
}

func (c *talk) click(ctx context.Context) ([]Call, error) {
	end, ok := clickEnds[c.fact.Kind]
	if !ok {
		return nil, fmt.Errorf("Click states no %s; it has pending, paid, failed and cancelled", c.fact.Kind) //nolint:staticcheck // a name
	}
	return c.complete(ctx, end.code, end.status)
}

// TalkForgedClick has Click state a failed payment as paid: its error is not signed,
// so anybody who saw the Complete may have changed it. Only Click's API tells.
func (t Target) TalkForgedClick(ctx context.Context, e endpoint.Endpoint, f sample.Fact) ([]Call, error) {
	c := talk{Target: t, endpoint: e, fact: f}
	return c.complete(ctx, 0, clickEnds[order.KindFailed].status)
}

func (c *talk) complete(ctx context.Context, code, status int) ([]Call, error) {
	service := "24001"
	if l := c.endpoint.Lookup; l != nil && l.Settings["service_id"] != "" {
		service = l.Settings["service_id"]
	}
	var prepareID string
	read := func(body []byte) (int, string) {
		var a struct {
			Error     int             `json:"error"`
			Note      string          `json:"error_note"`
			PrepareID json.RawMessage `json:"merchant_prepare_id"`
		}
		if err := json.Unmarshal(body, &a); err != nil {
			return -8, "an answer that is not JSON"
		}
		if len(a.PrepareID) > 0 {
			prepareID = strings.Trim(string(a.PrepareID), `"`)
		}
		return a.Error, fmt.Sprintf("%d %s", a.Error, a.Note)
	}
	prepare := sample.Click(webhook.ClickPrepare, service, c.fact, "", 0)
	if c.forge {
		c.Provider = changedAmount{c.Provider.(webhook.Sealing)}
	}
	if ok := c.say(ctx, "prepare", prepare, read); !ok || c.fact.Kind == order.KindPending {
		return c.calls, nil
	}
	if err := c.pretend(ctx, service, status); err != nil {
		return c.calls, err
	}
	c.say(ctx, "complete", sample.Click(webhook.ClickComplete, service, c.fact, prepareID, code), read)
	return c.calls, nil
}

// changedAmount changes the form after it was signed.
type changedAmount struct{ webhook.Sealing }

func (p changedAmount) Seal(s webhook.Secret, body []byte) ([]byte, error) {
	sealed, err := p.Sealing.Seal(s, body)
	return bytes.Replace(sealed, []byte("amount="), []byte("amount=1"), 1), err
}

// pretend tells the stand-in of Click's API that sluice dev runs how the payment
// stands. Any other API knows by itself.
func (c *talk) pretend(ctx context.Context, service string, status int) error {
	l := c.endpoint.Lookup
	if l == nil || !strings.HasPrefix(l.BaseURL, "http://") {
		return nil // a real API is reached by https only
	}
	body, err := json.Marshal(map[string]any{"payment_id": sample.ClickPaydoc(c.fact.Payment), "payment_status": status})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, l.BaseURL+"/pretend/"+service+"/"+c.fact.Order, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := c.Client.Do(req)
	if err != nil {
		return fmt.Errorf("tell the stand-in of Click's API: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return errors.New("tell the stand-in of Click's API: " + resp.Status)
	}
	return nil
}

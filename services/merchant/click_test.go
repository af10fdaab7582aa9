package merchant

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// form is one request of Click's, not signed yet.
func form(trans, orderID, amount, action string) url.Values {
	return url.Values{
		"click_trans_id": {trans}, "service_id": {"24001"}, "click_paydoc_id": {"9" + trans}, "merchant_trans_id": {orderID},
		"amount": {amount}, "action": {action}, "error": {"0"}, "error_note": {"Success"}, "sign_time": {"2026-01-01 05:00:00"},
	}
}

// complete is a form that completes what was prepared as no.
func complete(trans, orderID, amount, no, failure string) url.Values {
	f := form(trans, orderID, amount, webhook.ClickComplete)
	f.Set("merchant_prepare_id", no)
	f.Set("error", failure)
	return f
}

// click signs a form, sends it, and returns what was answered.
func (s *shop) click(f url.Values) string {
	s.Helper()
	return s.clickTo("click", f)
}

func (s *shop) clickTo(endpoint string, f url.Values) string {
	s.Helper()
	key, err := webhook.NewSecret("env:CLICK", clickKey)
	if err != nil {
		s.Fatal(err)
	}
	body, err := webhook.Click{}.Seal(key, []byte(f.Encode()))
	if err != nil {
		s.Fatal(err)
	}
	return s.sent(endpoint, string(body))
}

func (s *shop) sent(endpoint, body string) string {
	s.Helper()
	w := s.send(endpoint, "application/x-www-form-urlencoded", http.Header{}, body)
	if w.Code != http.StatusOK {
		s.Fatalf("HTTP %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func (s *shop) says(answer string, code int) {
	s.Helper()
	var a struct {
		Error *int
		Note  string `json:"error_note"`
	}
	if err := json.Unmarshal([]byte(answer), &a); err != nil || a.Error == nil || *a.Error != code || a.Note == "" {
		s.Errorf("answered %s, want error %d", answer, code)
	}
}

// prepared prepares a payment and returns its number.
func (s *shop) prepared(trans, orderID, amount string) string {
	s.Helper()
	answer := s.click(form(trans, orderID, amount, webhook.ClickPrepare))
	var a struct {
		No    json.Number `json:"merchant_prepare_id"`
		Error int
	}
	if err := json.Unmarshal([]byte(answer), &a); err != nil || a.Error != 0 || a.No == "" {
		s.Fatalf("not prepared: %s", answer)
	}
	return a.No.String()
}

// Click's test page: the eight scenarios, with what is sent twice.
func TestClicksTestPageRunsThrough(t *testing.T) {
	s := newShop(t)
	s.order("ORD-3001", 125050)

	// 1 and 2: wrong signature, in both actions.
	for _, f := range []url.Values{form("1", "ORD-3001", "125050", "0"), complete("1", "ORD-3001", "125050", "1", "0")} {
		f.Set("sign_string", strings.Repeat("0", 32))
		s.says(s.sent("click", f.Encode()), -1)
	}
	// 3: wrong amounts; 4: an order that is not there; 5: an unknown action.
	s.says(s.click(form("1", "ORD-3001", "125051", "0")), -2)
	s.says(s.click(form("1", "ORD-3001", "12505000", "0")), -2)
	s.says(s.click(form("1", "ORD-9999", "125050", "0")), -5)
	s.says(s.click(form("1", "ORD-3001", "125050", "5")), -3)

	// 6: Prepare and Complete, each twice.
	prepare := form("3219876543", "ORD-3001", "125050", "0")
	first := s.click(prepare)
	s.pass(time.Minute)
	if again := s.click(prepare); again != first {
		t.Errorf("prepared twice:\n%s\n%s", first, again)
	}
	if want := `{"click_trans_id":3219876543,"merchant_trans_id":"ORD-3001","merchant_prepare_id":1,"error":0,"error_note":"Success"}`; first != want {
		t.Errorf("answered %s\nwant     %s", first, want)
	}
	if got := s.reserved("ORD-3001"); got != "click 3219876543" {
		t.Errorf("reserved for %q", got)
	}
	s.says(s.click(complete("3219876543", "ORD-3001", "125050", "77", "0")), -6)
	s.says(s.click(complete("3219876544", "ORD-3001", "125050", "1", "0")), -6)
	s.says(s.click(complete("3219876543", "ORD-3001", "125049", "1", "0")), -2)
	done := complete("3219876543", "ORD-3001", "125050.00", "1", "0")
	if got, want := s.click(done), `{"click_trans_id":3219876543,"merchant_trans_id":"ORD-3001","merchant_confirm_id":1,"error":0,"error_note":"Success"}`; got != want {
		t.Errorf("answered %s\nwant     %s", got, want)
	}
	// 7: the repeat of what is confirmed, and a Prepare of it.
	again := s.click(done)
	s.says(again, -4)
	if s.click(done) != again {
		t.Error("the repeat is answered differently each time")
	}
	s.says(s.click(prepare), -4)
	s.says(s.click(form("5", "ORD-3001", "125050", "0")), -4)
	// 8: a cancellation after it; the order stays reserved until Click's API has said so.
	cancel := complete("3219876543", "ORD-3001", "125050", "1", "-5017")
	s.says(s.click(cancel), -9)
	s.pass(time.Minute)
	s.says(s.click(cancel), -9)
	if got := s.reserved("ORD-3001"); got == "" {
		t.Error("an unsigned error field released a paid order")
	}

	events := s.published()
	want := []struct {
		id    string
		fact  order.Kind
		trust event.Trust
	}{{"3219876543:0", order.KindPending, event.Signed}, {"3219876543:1", order.KindPaid, event.Hint}, {"3219876543:1", order.KindCancelled, event.Hint}}
	if len(events) != len(want) {
		t.Fatalf("%d events, want %d", len(events), len(want))
	}
	for i, e := range events {
		r := s.reading(e)
		if r.ID != want[i].id || r.Fact != want[i].fact || e.Trust != want[i].trust || r.Order != "ORD-3001" || r.Amount != 12505000 || e.SecretName != "env:CLICK" {
			t.Errorf("event %d: %+v says %+v, want %+v", i, e, r, want[i])
		}
		if v := s.m.routes["click"].endpoint.Verify(webhook.Request{Method: "POST", Header: webhook.StoredHeaders(e.Signature), Body: e.Body}, e.ReceivedAt); v.Outcome != webhook.Valid {
			t.Errorf("event %d does not verify again: %+v", i, v)
		}
	}
}

func TestAFailedPaymentIsCancelledAndTheOrderOpen(t *testing.T) {
	s := newShop(t)
	s.order("ORD-3003", 5000)
	s.put("ORD-3003", `{"amount":500050,"currency":"UZS"}`, http.StatusOK)
	no := s.prepared("3219876601", "ORD-3003", "5000.50")
	failed := complete("3219876601", "ORD-3003", "5000.50", no, "-1")
	first := s.click(failed)
	s.says(first, -9)
	if s.click(failed) != first {
		t.Error("the repeat is answered differently")
	}
	s.says(s.click(form("3219876601", "ORD-3003", "5000.50", "0")), -9)
	if got := s.reserved("ORD-3003"); got != "" {
		t.Errorf("still reserved for %s", got)
	}
	// error is not signed: who turns it around gets no success, but Click is asked.
	s.says(s.click(complete("3219876601", "ORD-3003", "5000.50", no, "0")), -9)
	s.pass(time.Minute)
	s.says(s.click(complete("3219876601", "ORD-3003", "5000.50", no, "0")), -9)
	s.says(s.click(failed), -9)
	if got := s.reserved("ORD-3003"); got != "click 3219876601" {
		t.Errorf("reserved for %q while Click is asked", got)
	}
	facts := ""
	for _, e := range s.published() {
		facts += fmt.Sprint(s.reading(e).Fact, " ")
	}
	if facts != "pending failed paid " {
		t.Errorf("events: %s", facts)
	}
	// Click's API said that it failed.
	s.happens("ORD-3003", "click", order.KindFailed, "93219876601", 5000)
	if got := s.reserved("ORD-3003"); got != "" {
		t.Errorf("still reserved for %s", got)
	}
	s.prepared("3219876602", "ORD-3003", "5000.50")
}

func TestEveryFieldIsHeldToWhatWasPrepared(t *testing.T) {
	s := newShop(t)
	s.order("ORD-1", 1250)
	s.order("ORD-2", 1250)
	no := s.prepared("55", "ORD-1", "1250")
	for field, c := range map[string]struct {
		value string
		code  int
	}{"merchant_trans_id": {"ORD-2", -5}, "amount": {"1250.01", -2}, "service_id": {"24002", -8}, "click_paydoc_id": {"1", -8}, "merchant_prepare_id": {no + "1", -6}} {
		f := complete("55", "ORD-1", "1250", no, "0")
		f.Set(field, c.value)
		s.says(s.click(f), c.code)
		if field == "merchant_prepare_id" {
			continue
		}
		f = form("55", "ORD-1", "1250", "0")
		f.Set(field, c.value)
		s.says(s.click(f), c.code)
	}
	// Digits that move between fields keep the signature; what was prepared does not.
	f := complete("55", "ORD-1", "1250", no, "0")
	key, _ := webhook.NewSecret("k", clickKey)
	body, err := webhook.Click{}.Seal(key, []byte(f.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	moved, _ := url.ParseQuery(string(body))
	moved.Set("merchant_prepare_id", "")
	moved.Set("amount", no+"1250")
	s.says(s.sent("click", moved.Encode()), -8)
	s.says(s.clickTo("click-two", complete("55", "ORD-1", "1250", no, "0")), -6)
	s.says(s.click(complete("55", "ORD-1", "1250", no, "0")), 0)
	if events := s.published(); len(events) != 2 {
		t.Errorf("%d events", len(events))
	}
}

func TestWhatClickCannotHavePaidIsRefused(t *testing.T) {
	s := newShop(t)
	for _, id := range []string{"paid", "off"} {
		s.order(id, 10)
	}
	s.put("dollars", `{"amount":1000,"currency":"USD"}`, http.StatusCreated)
	s.happens("paid", "stripe", order.KindPaid, "p", 10)
	s.happens("off", "stripe", order.KindCancelled, "", 10)
	s.happens("stub", "stripe", order.KindPaid, "p2", 10)
	for id, code := range map[string]int{"paid": -4, "off": -9, "stub": -5, "dollars": -2} {
		s.says(s.click(form("1", id, "10", "0")), code)
	}
	s.order("o", 10)
	for change, code := range map[string]int{"amount=10.001": -2, "amount=1e1": -2, "amount=-10": -2, "amount=": -2, "error=1": -8, "error=-1": -9, "error=x": -8, "sign_time=today": -8, "click_trans_id=": -8} {
		name, value, _ := strings.Cut(change, "=")
		f := form("1", "o", "10", "0")
		f.Set(name, value)
		t.Run(change, func(*testing.T) { s.says(s.click(f), code) })
	}
	f := form("1", "o", "10", "0")
	f.Del("click_paydoc_id")
	s.says(s.click(f), -8)
	s.says(s.sent("click", "%zz"), -8)
	s.says(s.sent("click", form("1", "o", "10", "0").Encode()+"&amount=1"), -8)
	s.says(s.sent("click", strings.Repeat("a", maxBody+1)), -8)
	if events := s.published(); len(events) != 0 {
		t.Errorf("%d events of refused requests", len(events))
	}
	w := httptest.NewRecorder()
	s.public.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/webhooks/click", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", w.Code)
	}
}

func TestAReservationOfClicksEndsByItself(t *testing.T) {
	s := newShop(t)
	s.order("o", 10)
	no := s.prepared("1", "o", "10")
	s.pass(30*time.Minute - time.Millisecond)
	s.says(s.click(form("2", "o", "10", "0")), -7)
	s.refused(s.rpc("CheckPerformTransaction", `{"amount":1000,"account":{"order_id":"o"}}`), -31050, "order_id")
	s.pass(time.Millisecond)
	transaction(t, s.rpc("CreateTransaction", createParams(paymeID, "o", 1000, s.clock.Load())))
	s.says(s.click(form("1", "o", "10", "0")), -7)
	// Click has debited the payer: no error, and the order is the other's still.
	s.says(s.click(complete("1", "o", "10", no, "0")), 0)
	if got := s.reserved("o"); got != "payme "+paymeID {
		t.Errorf("reserved for %q", got)
	}
	if !strings.Contains(s.rpc("PerformTransaction", named(paymeID)), `"state":2`) {
		t.Error("Payme lost its reservation")
	}
}

func TestAnOrderPaidMeanwhileIsNoErrorAfterADebit(t *testing.T) {
	s := newShop(t)
	s.order("o", 10)
	no := s.prepared("1", "o", "10")
	s.happens("o", "stripe", order.KindPaid, "p", 10)
	s.says(s.click(complete("1", "o", "10", no, "0")), 0)
	if events := s.published(); len(events) != 2 {
		t.Errorf("%d events: the second payment is lost", len(events))
	}
}

func FuzzClickIsAlwaysAnswered(f *testing.F) {
	for _, seed := range []string{form("1", "o", "10", "0").Encode(), complete("1", "o", "1.5", "7", "-1").Encode(), "%zz", "action=5", "click_trans_id=%ff&click_trans_id=1"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		form, err := webhook.Click{}.Form(body)
		for _, code := range []clickError{clickOK, clickBadRequest} {
			if a := clickReply(form, code, 7); !json.Valid(a.body) || a.operation == "" {
				t.Errorf("%q is answered %q", body, a.body)
			}
		}
		if err == nil && (form.TransID == "" || form.Order == "" || form.Action == "") {
			t.Errorf("%q is taken as %+v", body, form)
		}
	})
}

package merchant

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

const (
	paymeID  = "65a0c1d2e3f4a5b6c7d8e9f0"
	paymeID2 = "65a0c1d2e3f4a5b6c7d8e9f1"
	atPayme  = 1767225600123
)

func createParams(id, orderID string, tiyin int64, at int64) string {
	return fmt.Sprintf(`{"id":%q,"time":%d,"amount":%d,"account":{"order_id":%q}}`, id, at, tiyin, orderID)
}

func named(id string) string { return fmt.Sprintf(`{"id":%q}`, id) }

func transaction(t *testing.T, answer string) string {
	t.Helper()
	var a struct{ Result struct{ Transaction string } }
	if err := json.Unmarshal([]byte(answer), &a); err != nil || a.Result.Transaction == "" {
		t.Fatalf("no transaction in %s", answer)
	}
	return a.Result.Transaction
}

// Payme's test page, from the first call to the refund: each of Create, Perform and
// Cancel is sent twice and its answers compared.
func TestPaymesSandboxRunsThrough(t *testing.T) {
	s := newShop(t)
	s.order("2001", 125050)

	s.refused(s.rpc("CheckPerformTransaction", `{"amount":12505000,"account":{"order_id":"no such"}}`), -31050, "order_id")
	s.refused(s.rpc("CheckPerformTransaction", `{"amount":1,"account":{"order_id":"2001"}}`), -31001, "")
	s.result(s.twice("CheckPerformTransaction", `{"amount":12505000,"account":{"order_id":"2001"}}`), `{"allow":true}`)

	s.refused(s.rpc("CreateTransaction", createParams(paymeID, "no such", 12505000, atPayme)), -31050, "order_id")
	s.refused(s.rpc("CreateTransaction", createParams(paymeID, "2001", 12505001, atPayme)), -31001, "")
	at := s.clock.Load()
	created := s.twice("CreateTransaction", createParams(paymeID, "2001", 12505000, atPayme))
	no := transaction(t, created)
	s.result(created, fmt.Sprintf(`{"create_time":%d,"transaction":%q,"state":1}`, at, no))
	if got := s.reserved("2001"); got != "payme "+paymeID {
		t.Errorf("reserved for %q", got)
	}
	s.refused(s.rpc("CreateTransaction", createParams(paymeID2, "2001", 12505000, atPayme)), -31050, "order_id")
	s.refused(s.rpc("CheckPerformTransaction", `{"amount":12505000,"account":{"order_id":"2001"}}`), -31050, "order_id")

	s.result(s.rpc("CheckTransaction", named(paymeID)), fmt.Sprintf(`{"create_time":%d,"perform_time":0,"cancel_time":0,"transaction":%q,"state":1,"reason":null}`, at, no))
	s.refused(s.rpc("CheckTransaction", named("nobody's")), -31003, "")
	s.refused(s.rpc("PerformTransaction", named("nobody's")), -31003, "")
	s.refused(s.rpc("CancelTransaction", `{"id":"nobody's","reason":1}`), -31003, "")

	paidAt := s.clock.Load()
	s.result(s.twice("PerformTransaction", named(paymeID)), fmt.Sprintf(`{"transaction":%q,"perform_time":%d,"state":2}`, no, paidAt))
	s.refused(s.rpc("CreateTransaction", createParams(paymeID, "2001", 12505000, atPayme)), -31008, "")

	backAt := s.clock.Load()
	s.result(s.twice("CancelTransaction", `{"id":"`+paymeID+`","reason":5}`), fmt.Sprintf(`{"transaction":%q,"cancel_time":%d,"state":-2}`, no, backAt))
	s.refused(s.rpc("PerformTransaction", named(paymeID)), -31008, "")
	s.result(s.twice("CheckTransaction", named(paymeID)), fmt.Sprintf(`{"create_time":%d,"perform_time":%d,"cancel_time":%d,"transaction":%q,"state":-2,"reason":5}`, at, paidAt, backAt, no))
	s.result(s.twice("GetStatement", fmt.Sprintf(`{"from":%d,"to":%d}`, atPayme, atPayme)),
		fmt.Sprintf(`{"transactions":[{"id":%q,"time":%d,"amount":12505000,"account":{"order_id":"2001"},"create_time":%d,"perform_time":%d,"cancel_time":%d,"transaction":%q,"state":-2,"reason":5}]}`,
			paymeID, atPayme, at, paidAt, backAt, no))

	// What happened, and nothing twice.
	want := []webhook.Reading{
		{ID: paymeID + ":CreateTransaction", Fact: order.KindPending, Time: time.UnixMilli(atPayme)},
		{ID: paymeID + ":PerformTransaction", Fact: order.KindPaid, Time: time.UnixMilli(paidAt)},
		{ID: paymeID + ":CancelTransaction", Fact: order.KindRefund, Time: time.UnixMilli(backAt)},
	}
	events := s.published()
	if len(events) != len(want) {
		t.Fatalf("%d events, want %d", len(events), len(want))
	}
	for i, e := range events {
		r := s.reading(e)
		if r.ID != want[i].ID || r.Fact != want[i].Fact || !r.Time.Equal(want[i].Time) || r.Order != "2001" || r.Payment != paymeID ||
			r.Amount != 12505000 || r.Currency != "UZS" || e.Trust != event.Signed || e.Source != "payme" || e.SecretName != "env:PAYME" {
			t.Errorf("event %d: %+v says %+v, want %+v", i, e, r, want[i])
		}
		for _, h := range e.Signature {
			if strings.Contains(string(h.Value), "Basic") || h.Name == "authorization" {
				t.Errorf("event %s keeps the password", e.ID)
			}
		}
	}
	if more := s.published(); len(more) != 0 {
		t.Errorf("%d events more", len(more))
	}
}

func TestACancelledCreateLeavesTheOrderOpen(t *testing.T) {
	s := newShop(t)
	s.order("2002", 10)
	no := transaction(t, s.twice("CreateTransaction", createParams(paymeID, "2002", 1000, atPayme)))
	at := s.clock.Load()
	s.result(s.twice("CancelTransaction", `{"id":"`+paymeID+`","reason":3}`), fmt.Sprintf(`{"transaction":%q,"cancel_time":%d,"state":-1}`, no, at))
	s.refused(s.rpc("PerformTransaction", named(paymeID)), -31008, "")
	s.refused(s.rpc("CreateTransaction", createParams(paymeID, "2002", 1000, atPayme)), -31008, "")
	events := s.published()
	if r := s.reading(events[len(events)-1]); r.Fact != order.KindCancelled || len(events) != 2 {
		t.Errorf("%d events, the last is %+v", len(events), r)
	}
	// The attempt was called off, not the order, though its status says so.
	s.happens("2002", "payme", order.KindCancelled, paymeID, 10)
	if v := s.get("2002"); v.Status != "cancelled" || v.Reserved != nil {
		t.Fatalf("the order is %+v", v)
	}
	transaction(t, s.rpc("CreateTransaction", createParams(paymeID2, "2002", 1000, atPayme)))
}

func TestAnOrderThatCannotBePaidIsRefused(t *testing.T) {
	s := newShop(t)
	for _, id := range []string{"paid", "refunded", "off", "failed"} {
		s.order(id, 10)
	}
	s.put("dollars", `{"amount":1000,"currency":"USD"}`, http.StatusCreated)
	s.put("nothing", `{"amount":0,"currency":"UZS"}`, http.StatusCreated)
	s.happens("paid", "stripe", order.KindPaid, "p1", 10)
	s.happens("refunded", "stripe", order.KindPaid, "p2", 10)
	s.happens("refunded", "stripe", order.KindRefund, "p2", 10)
	s.happens("off", "stripe", order.KindCancelled, "", 10)
	s.happens("failed", "stripe", order.KindFailed, "p3", 10)
	s.happens("stub", "stripe", order.KindPaid, "p4", 10)
	for id, code := range map[string]int{"paid": -31050, "refunded": -31050, "off": -31050, "stub": -31050, "": -31050, "dollars": -31001, "nothing": -31001} {
		amount, data := int64(1000), "order_id"
		if code == -31001 {
			data = ""
		}
		if id == "nothing" {
			amount = 0
		}
		for i, answer := range []string{
			s.rpc("CheckPerformTransaction", fmt.Sprintf(`{"amount":%d,"account":{"order_id":%q}}`, amount, id)),
			s.rpc("CreateTransaction", createParams(paymeID, id, amount, atPayme)),
		} {
			t.Run(fmt.Sprint(id, i), func(*testing.T) { s.refused(answer, code, data) })
		}
	}
	s.result(s.rpc("CheckPerformTransaction", `{"amount":1000,"account":{"order_id":"failed"}}`), `{"allow":true}`)
	if events := s.published(); len(events) != 0 {
		t.Errorf("%d events of refused calls", len(events))
	}
}

func TestARepeatedCreateIsHeldToTheFirst(t *testing.T) {
	s := newShop(t)
	s.order("a", 10)
	s.order("b", 10)
	first := s.rpc("CreateTransaction", createParams(paymeID, "a", 1000, atPayme))
	s.refused(s.rpc("CreateTransaction", createParams(paymeID, "b", 1000, atPayme)), -31050, "order_id")
	s.refused(s.rpc("CreateTransaction", createParams(paymeID, "a", 1001, atPayme)), -31001, "")
	s.refused(s.rpc("CreateTransaction", createParams(paymeID, "a", 1000, atPayme+1)), -31008, "")
	if again := s.rpc("CreateTransaction", createParams(paymeID, "a", 1000, atPayme)); again != first {
		t.Errorf("%s\n%s", again, first)
	}
	// Another cash box's transaction may have the same id.
	s.refused(s.rpcTo("payme-two", "CheckTransaction", named(paymeID)), -31003, "")
	transaction(t, s.rpcTo("payme-two", "CreateTransaction", fmt.Sprintf(`{"id":%q,"time":%d,"amount":1000,"account":{"invoice":"b","order_id":"a"}}`, paymeID, atPayme)))
	s.refused(s.rpcTo("payme-two", "CheckPerformTransaction", `{"amount":1000,"account":{"order_id":"a"}}`), -31050, "invoice")
}

func TestATransactionTimesOutAfterTwelveHours(t *testing.T) {
	s := newShop(t)
	for _, id := range []string{"perform", "check", "statement", "create", "sweep", "late", "performed"} {
		s.order(id, 10)
		if id != "late" {
			transaction(t, s.rpc("CreateTransaction", createParams("t-"+id, id, 1000, atPayme)))
		}
	}
	s.rpc("PerformTransaction", named("t-performed"))
	s.clock.Store(atPayme + paymeTimeout.Milliseconds() - 1)
	s.result(s.rpc("CheckTransaction", named("t-check")), fmt.Sprintf(`{"create_time":%d,"perform_time":0,"cancel_time":0,"transaction":"2","state":1,"reason":null}`, begin))
	over := s.clock.Add(1)

	s.refused(s.rpc("PerformTransaction", named("t-perform")), -31008, "")
	s.refused(s.rpc("CreateTransaction", createParams("t-create", "create", 1000, atPayme)), -31008, "")
	s.refused(s.rpc("CreateTransaction", createParams("t-late", "late", 1000, atPayme)), -31008, "")
	s.refused(s.rpc("CreateTransaction", createParams("t-early", "late", 1000, over+paymeTimeout.Milliseconds()+1)), -31008, "")
	want := fmt.Sprintf(`"perform_time":0,"cancel_time":%d,"transaction":"2","state":-1,"reason":4}`, over)
	if got := s.twice("CheckTransaction", named("t-check")); !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	list := s.rpc("GetStatement", fmt.Sprintf(`{"from":%d,"to":%d}`, atPayme, atPayme))
	if strings.Count(list, `"state":-1,"reason":4`) != 5 || strings.Count(list, `"state":2,"reason":null`) != 1 {
		t.Errorf("the statement: %s", list)
	}
	for _, id := range []string{"perform", "check", "statement", "create", "sweep"} {
		if got := s.reserved(id); got != "" {
			t.Errorf("order %s is reserved for %s", id, got)
		}
		transaction(t, s.rpc("CreateTransaction", createParams("again-"+id, id, 1000, over)))
	}
	if got := s.reserved("performed"); got == "" {
		t.Error("a paid order is open again before its payment arrived")
	}
}

func TestTheClearingTimesOutWhatNobodyAsksFor(t *testing.T) {
	s := newShop(t)
	s.order("o", 10)
	transaction(t, s.rpc("CreateTransaction", createParams(paymeID, "o", 1000, atPayme)))
	s.clock.Store(atPayme + paymeTimeout.Milliseconds())
	s.m.clear(t.Context())
	at := s.clock.Load()
	s.pass(time.Hour)
	if got := s.rpc("CheckTransaction", named(paymeID)); !strings.Contains(got, fmt.Sprintf(`"cancel_time":%d`, at)) {
		t.Errorf("not cancelled by the clearing: %s", got)
	}
}

func TestPerformLooksAtTheOrderAgain(t *testing.T) {
	s := newShop(t)
	for name, change := range map[string]func(id string){
		"paid by another":  func(id string) { s.happens(id, "stripe", order.KindPaid, "p-"+id, 10) },
		"called off":       func(id string) { s.happens(id, "stripe", order.KindCancelled, "", 10) },
		"another amount":   func(id string) { s.put(id, `{"amount":999,"currency":"UZS"}`, http.StatusOK) },
		"another currency": func(id string) { s.put(id, `{"amount":1000,"currency":"USD"}`, http.StatusOK) },
	} {
		id := strings.ReplaceAll(name, " ", "-")
		s.order(id, 10)
		transaction(t, s.rpc("CreateTransaction", createParams(id, id, 1000, atPayme)))
		change(id)
		s.refused(s.rpc("PerformTransaction", named(id)), -31008, "")
		if got := s.rpc("CheckTransaction", named(id)); !strings.Contains(got, `"state":1`) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestAStatementIsByPaymesTimeBothBoundsIncluded(t *testing.T) {
	s := newShop(t)
	for i, at := range []int64{3000, 1000, 2000, 4000} {
		id := fmt.Sprint("o", i)
		s.order(id, 10)
		transaction(t, s.rpc("CreateTransaction", createParams(fmt.Sprint("t", i), id, 1000, atPayme+at)))
	}
	s.rpc("CreateTransaction", createParams("refused", "nobody", 1000, atPayme+2000))
	for bounds, want := range map[[2]int64]string{{1000, 3000}: "t1 t2 t0", {1001, 2999}: "t2", {1000, 4000}: "t1 t2 t0 t3", {5000, 6000}: ""} {
		var a struct {
			Result struct{ Transactions []struct{ ID string } }
		}
		if err := json.Unmarshal([]byte(s.rpc("GetStatement", fmt.Sprintf(`{"from":%d,"to":%d}`, atPayme+bounds[0], atPayme+bounds[1]))), &a); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, tr := range a.Result.Transactions {
			ids = append(ids, tr.ID)
		}
		if got := strings.Join(ids, " "); got != want || a.Result.Transactions == nil {
			t.Errorf("from %d to %d: %q, want %q", bounds[0], bounds[1], got, want)
		}
	}
	for _, params := range []string{`{"from":2,"to":1}`, `{"to":1}`, `{"from":1}`, `{"from":"1","to":2}`, `{"from":-1,"to":2}`} {
		s.refused(s.rpc("GetStatement", params), -32600, "")
	}
	if got := s.rpc("GetStatement", `{"from":0,"to":1}`); !strings.Contains(got, `"transactions":[]`) {
		t.Errorf("a statement since 1970: %s", got)
	}
}

func TestWhatIsNoCallOfPaymesIsAnsweredInItsProtocol(t *testing.T) {
	s := newShop(t)
	s.order("2001", 10)
	good := `{"id":9,"method":"CheckPerformTransaction","params":{"amount":1000,"account":{"order_id":"2001"}}}`
	key := basic("Paycom", paymeKey)
	for name, c := range map[string]struct {
		header http.Header
		body   string
		code   int
		id     string
	}{
		"the old key":         {basic("Paycom", paymeOldKey), good, 0, "9"},
		"another key":         {basic("Paycom", "nobody's"), good, -32504, "9"},
		"another login":       {basic("paycom", paymeKey), good, -32504, "9"},
		"no key":              {http.Header{}, good, -32504, "9"},
		"no key, no JSON":     {http.Header{}, "{", -32504, "null"},
		"no JSON":             {key, good[1:], -32700, "null"},
		"nothing":             {key, "", -32700, "null"},
		"a list":              {key, "[" + good + "]", -32600, "null"},
		"no method":           {key, `{"id":9,"params":{}}`, -32600, "9"},
		"a name twice":        {key, `{"id":9,"method":"GetStatement","method":"x"}`, -32600, "null"},
		"unknown":             {key, `{"id":9,"method":"Refund","params":{}}`, -32601, "9"},
		"another case":        {key, `{"id":9,"method":"performTransaction","params":{}}`, -32601, "9"},
		"ChangePassword":      {key, `{"id":9,"method":"ChangePassword","params":{"password":"x"}}`, -32601, "9"},
		"a text for an id":    {key, `{"id":"abc","method":"ChangePassword"}`, -32601, `"abc"`},
		"an object for an id": {key, `{"id":{"a":1},"method":"ChangePassword"}`, -32601, `null`},
		"no params":           {key, `{"id":9,"method":"CreateTransaction"}`, -32600, "9"},
		"amount as text":      {key, strings.Replace(good, "1000", `"1000"`, 1), -31001, "9"},
		"amount with a part":  {key, strings.Replace(good, "1000", "1000.0", 1), -31001, "9"},
		"amount below 0":      {key, strings.Replace(good, "1000", "-1000", 1), -31001, "9"},
		"no time":             {key, `{"id":9,"method":"CreateTransaction","params":{"id":"x","amount":1000,"account":{"order_id":"2001"}}}`, -32600, "9"},
		"no reason":           {key, `{"id":9,"method":"CancelTransaction","params":{"id":"x"}}`, -32600, "9"},
		"too large":           {key, good + strings.Repeat(" ", maxBody), -32700, "null"},
	} {
		w := s.send("payme", "application/json", c.header, c.body)
		var a rpcAnswer
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != http.StatusOK {
			t.Errorf("%s: HTTP %d %s", name, w.Code, w.Body)
			continue
		}
		code := 0
		if a.Error != nil {
			code = a.Error.Code
		}
		if code != c.code || string(a.ID) != c.id {
			t.Errorf("%s: %s, want %d for %s", name, w.Body, c.code, c.id)
		}
	}
	s.from = "198.51.100.1:1"
	s.refused(s.rpc("CheckPerformTransaction", `{"amount":1000,"account":{"order_id":"2001"}}`), -32504, "")
	w := httptest.NewRecorder()
	s.public.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/webhooks/payme", nil))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "-32300") {
		t.Errorf("GET: %d %s", w.Code, w.Body)
	}
}

func TestAReceiptsDataIsKept(t *testing.T) {
	s := newShop(t)
	s.order("o", 10)
	transaction(t, s.rpc("CreateTransaction", createParams(paymeID, "o", 1000, atPayme)))
	s.result(s.twice("SetFiscalData", `{"id":"`+paymeID+`","type":"PERFORM","fiscal_data":{"receipt_id":1}}`), `{"success":true}`)
	s.refused(s.rpc("SetFiscalData", `{"id":"x","type":"CANCEL","fiscal_data":{"receipt_id":1}}`), -31003, "")
	s.refused(s.rpc("SetFiscalData", `{"id":"`+paymeID+`","type":"NEITHER","fiscal_data":{}}`), -32600, "")
	s.refused(s.rpc("SetFiscalData", `{"id":"`+paymeID+`","type":"PERFORM","fiscal_data":[]}`), -32600, "")
}

func TestOfManyCreatesForOneOrderOneWins(t *testing.T) {
	s := newShop(t)
	s.order("o", 10)
	const callers = 20
	answers := make([]string, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			if i%2 == 0 {
				answers[i] = s.rpc("CreateTransaction", createParams(fmt.Sprint("t", i), "o", 1000, atPayme))
			} else {
				answers[i] = s.click(form(fmt.Sprint(100+i), "o", "10", webhook.ClickPrepare))
			}
		})
	}
	wg.Wait()
	won := 0
	for i, a := range answers {
		switch {
		case strings.Contains(a, `"state":1`), strings.Contains(a, `"error":0`):
			won++
		case i%2 == 0:
			s.refused(a, -31050, "order_id")
		case !strings.Contains(a, `"error":-7`):
			t.Errorf("answered %s", a)
		}
	}
	if won != 1 {
		t.Errorf("%d won:\n%s", won, strings.Join(answers, "\n"))
	}
	if events := s.published(); len(events) != 1 {
		t.Errorf("%d events", len(events))
	}
}

func TestOneTransactionSentManyTimesAtOnceIsOne(t *testing.T) {
	s := newShop(t)
	s.order("o", 10)
	for _, call := range [][2]string{{"CreateTransaction", createParams(paymeID, "o", 1000, atPayme)}, {"PerformTransaction", named(paymeID)}, {"CancelTransaction", `{"id":"` + paymeID + `","reason":5}`}} {
		answers := make([]string, 10)
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() {
				s.pass(time.Millisecond)
				answers[i] = s.rpc(call[0], call[1])
			})
		}
		wg.Wait()
		for _, a := range answers {
			if a != answers[0] || !strings.Contains(a, "result") {
				t.Errorf("%s: %s and %s", call[0], a, answers[0])
			}
		}
	}
	if events := s.published(); len(events) != 3 {
		t.Errorf("%d events, want 3", len(events))
	}
}

// The processor locks many orders by number, and the merchant one: neither waits for
// the other in a circle.
func TestProvidersAndTheProcessorDoNotBlockEachOther(t *testing.T) {
	s := newShop(t)
	const orders = 12
	for i := range orders {
		s.order(fmt.Sprint("o", i), 10)
	}
	var wg sync.WaitGroup
	for i := range orders {
		id := fmt.Sprint("o", i)
		wg.Go(func() {
			transaction(t, s.rpc("CreateTransaction", createParams("t"+id, id, 1000, atPayme)))
			s.rpc("PerformTransaction", named("t"+id))
			s.rpc("CancelTransaction", `{"id":"t`+id+`","reason":5}`)
		})
		wg.Go(func() { s.happens(id, "stripe", order.KindFailed, "p"+id, 10) })
	}
	wg.Wait()
	for i := range orders {
		if got := s.rpc("CheckTransaction", named(fmt.Sprint("to", i))); !strings.Contains(got, `"state":-2`) {
			t.Errorf("order %d: %s", i, got)
		}
	}
}

func FuzzPaymeIsAlwaysAnswered(f *testing.F) {
	for _, seed := range []string{`{"id":1,"method":"CreateTransaction","params":{"account":{"order_id":"1"}}}`, `{`, `[]`, `{"id":[1]}`, "\xff", `{"params":{"account":{"a":"\u0000"},"type":"PERFORM","fiscal_data":{}}}`} {
		f.Add([]byte(seed))
	}
	p, _ := webhook.Builtin("payme")
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := p.(webhook.Payme).Call(body)
		a := answered("x", c.RPC, nil, faultSystem)
		if !json.Valid(a.body) {
			t.Errorf("%q is answered %q", body, a.body)
		}
		if account := accountOf(body); account != "" && (!json.Valid([]byte(account)) || len(account) > maxKept) {
			t.Errorf("%q has the account %q", body, account)
		}
		if kind, data := fiscalOf(body); data != "" && !json.Valid([]byte(data)) {
			t.Errorf("%q has the data %q of %q", body, data, kind)
		}
		if err == nil && c.Order != "" && accountOf(body) == "" && len(body) < maxKept {
			t.Errorf("%q names order %q, and no account", body, c.Order)
		}
	})
}

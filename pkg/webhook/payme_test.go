package webhook

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

var paymeHost = netip.MustParseAddr("185.234.113.7")

func basic(pair string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) }

func TestPaymeIsItsKeyFromItsAddresses(t *testing.T) {
	p := builtinOf(t, "payme")
	old, fresh := Secret{"old", []byte("fkWW6UNrzvzyV6DhrdHJ6aEhr3dRcvJYkaGx")}, Secret{"new", []byte("n3w6UNrzvzyV6DhrdHJ6aEhr3dRcvJYkaGx0")}
	right := basic("Paycom:" + string(old.value))
	for name, c := range map[string]struct {
		from    string
		headers []string
		want    Reason
	}{
		"right":                     {"185.234.113.1", []string{"Authorization", right}, ReasonNone},
		"the last address":          {"185.234.113.15", []string{"Authorization", right}, ReasonNone},
		"mapped into IPv6":          {"::ffff:185.234.113.9", []string{"Authorization", right}, ReasonNone},
		"one address too low":       {"185.234.113.0", []string{"Authorization", right}, ReasonAddress},
		"one address too high":      {"185.234.113.16", []string{"Authorization", right}, ReasonAddress},
		"another network":           {"10.0.0.1", []string{"Authorization", right}, ReasonAddress},
		"no address":                {"", []string{"Authorization", right}, ReasonAddress},
		"the other key":             {"185.234.113.1", []string{"Authorization", basic("Paycom:" + string(fresh.value))}, ReasonNone},
		"lower case scheme":         {"185.234.113.1", []string{"Authorization", strings.Replace(right, "Basic", "basic", 1)}, ReasonNone},
		"no header":                 {"185.234.113.1", nil, ReasonMissing},
		"an empty header":           {"185.234.113.1", []string{"Authorization", ""}, ReasonMissing},
		"twice":                     {"185.234.113.1", []string{"Authorization", right, "Authorization", right}, ReasonMalformed},
		"bearer":                    {"185.234.113.1", []string{"Authorization", strings.Replace(right, "Basic", "Bearer", 1)}, ReasonMalformed},
		"not base64":                {"185.234.113.1", []string{"Authorization", "Basic Paycom:key"}, ReasonMalformed},
		"base64 with loose bits":    {"185.234.113.1", []string{"Authorization", "Basic UB=="}, ReasonMalformed},
		"another login":             {"185.234.113.1", []string{"Authorization", basic("Payme:" + string(old.value))}, ReasonMismatch},
		"login in lower case":       {"185.234.113.1", []string{"Authorization", basic("paycom:" + string(old.value))}, ReasonMismatch},
		"no colon":                  {"185.234.113.1", []string{"Authorization", basic("Paycom")}, ReasonMismatch},
		"an empty key":              {"185.234.113.1", []string{"Authorization", basic("Paycom:")}, ReasonMismatch},
		"the key and more":          {"185.234.113.1", []string{"Authorization", basic("Paycom:" + string(old.value) + "x")}, ReasonMismatch},
		"a colon belongs to it":     {"185.234.113.1", []string{"Authorization", basic("Paycom::" + string(old.value))}, ReasonMismatch},
		"the beginning of the key":  {"185.234.113.1", []string{"Authorization", basic("Paycom:" + string(old.value)[:35])}, ReasonMismatch},
		"a key of nobody":           {"185.234.113.1", []string{"Authorization", basic("Paycom:gone")}, ReasonMismatch},
		"the scheme without a pair": {"185.234.113.1", []string{"Authorization", "Basic"}, ReasonMismatch},
	} {
		req := Request{Header: headersOf(c.headers...), Body: []byte("{}")}
		if c.from != "" {
			req.Remote = netip.MustParseAddr(c.from)
		}
		v := p.Verify(req, []Secret{fresh, {}, old}, noon)
		if v.Reason != c.want || (v.Outcome == Valid) != (c.want == ReasonNone) || (v.Secret == "") != (c.want != ReasonNone) {
			t.Errorf("%s: %+v, want %q", name, v, c.want)
		}
	}
	elsewhere := p.(Addressed).WithAddresses([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
	req := signed(t, elsewhere, old, "", noon, nil)
	req.Remote = netip.MustParseAddr("127.0.0.1")
	if v := elsewhere.Verify(req, []Secret{old}, noon); v.Outcome != Valid || v.Secret != "old" {
		t.Errorf("%+v", v)
	}
	if v := p.Verify(req, []Secret{old}, noon); v.Reason != ReasonAddress {
		t.Errorf("WithAddresses changed the provider it was called on: %+v", v)
	}
}

func TestAPaymeKeyThatIsNoneIsRefused(t *testing.T) {
	p := builtinOf(t, "payme")
	for value, says := range map[string]string{
		"Paycom:fkWW6UNrzvzyV6DhrdHJ6aEhr3dRcvJYkaGx": "login", basic("Paycom:fkWW6U"): "login", strings.TrimPrefix(basic("Paycom:fkWW6U"), "Basic "): "login",
		"5e730e8e0b852a417aa49ceb": "cash box's id",
	} {
		if err := p.CheckSecret(secretOf(t, value)); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), value) {
			t.Errorf("%v", err)
		}
	}
	for _, value := range []string{"fkWW6UNrzvzyV6DhrdHJ6aEhr3dRcvJYkaGx", "KeyFromMerchantCabinet"} {
		if err := p.CheckSecret(secretOf(t, value)); err != nil {
			t.Error(err)
		}
	}
}

// A static credential never lies in a record.
func TestPaymeStoresNoCredential(t *testing.T) {
	for _, name := range builtinOf(t, "payme").SignatureHeaders() {
		if strings.EqualFold(name, "authorization") || !strings.HasPrefix(name, ":") {
			t.Errorf("%s is stored", name)
		}
	}
}

func TestAPaymeRecordIsReadWithWhatTheMerchantStored(t *testing.T) {
	p := builtinOf(t, "payme")
	call := func(method, more string) []byte {
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"%s","params":{"id":"tx1"%s}}`, method, more)
	}
	stored := func(more ...string) Headers {
		return headersOf(append([]string{PaymeOrder, "ord", PaymeAmount, "12505000", PaymeTime, "1767225660789"}, more...)...)
	}
	when := time.UnixMilli(1767225660789).UTC()
	refund := Reading{ID: "tx1:CancelTransaction", Type: PaymeCancel, Time: when, Trust: event.Signed, Order: "ord", Payment: "tx1", Object: "tx1:refund",
		Subject: "tx1", Fact: order.KindRefund, Amount: 12505000, Currency: "UZS", PaymentAmount: 12505000, Extent: Full}
	for name, c := range map[string]struct {
		header Headers
		body   []byte
		want   Reading
	}{
		"performed": {stored(), call(PaymePerform, ""), Reading{ID: "tx1:PerformTransaction", Type: PaymePerform, Time: when, Trust: event.Signed,
			Order: "ord", Payment: "tx1", Subject: "tx1", Fact: order.KindPaid, Amount: 12505000, Currency: "UZS"}},
		// The stored state decides, not the reason.
		"cancelled before": {stored(PaymeState, "-1"), call(PaymeCancel, `,"reason":5`), Reading{ID: "tx1:CancelTransaction", Type: PaymeCancel, Time: when,
			Trust: event.Signed, Order: "ord", Payment: "tx1", Subject: "tx1", Fact: order.KindCancelled, Amount: 12505000, Currency: "UZS"}},
		"cancelled after": {stored(PaymeState, "-2"), call(PaymeCancel, `,"reason":3`), refund},
		// Alone they are no more than hints.
		"performed, alone": {headersOf(), call(PaymePerform, `,"amount":1,"account":{"order_id":"x"}`), Reading{ID: "tx1:PerformTransaction", Type: PaymePerform,
			Trust: event.Hint, Payment: "tx1", Subject: "tx1", Fact: order.KindPaid, Currency: "UZS"}},
		"created": {headersOf(), call(PaymeCreate, `,"time":1767225600123,"amount":500,"account":{"order_id":42}`), Reading{ID: "tx1:CreateTransaction", Type: PaymeCreate,
			Time: time.UnixMilli(1767225600123).UTC(), Trust: event.Signed, Order: "42", Payment: "tx1", Subject: "tx1", Fact: order.KindPending, Amount: 500, Currency: "UZS"}},
		"a question": {stored(), call(PaymeCheckTransaction, ""), Reading{Type: PaymeCheckTransaction, Trust: event.Signed, Subject: "tx1", Currency: "UZS"}},
		"unknown":    {stored(), call("SetFiscalData", ""), Reading{ID: "tx1:SetFiscalData", Type: "SetFiscalData", Trust: event.Signed, Payment: "tx1", Subject: "tx1", Currency: "UZS"}},
	} {
		if r, err := p.Read(c.header, c.body); err != nil || r != c.want {
			t.Errorf("%s: %+v, %v\nwant %+v", name, r, err, c.want)
		}
	}
	for name, c := range map[string]struct {
		header Headers
		body   []byte
	}{
		"no amount stored":     {headersOf(PaymeOrder, "ord", PaymeTime, "1767225660789"), call(PaymePerform, "")},
		"no time stored":       {headersOf(PaymeOrder, "ord", PaymeAmount, "1"), call(PaymePerform, "")},
		"an amount of nothing": {headersOf(PaymeOrder, "ord", PaymeAmount, "0", PaymeTime, "1767225660789"), call(PaymePerform, "")},
		"below nothing":        {headersOf(PaymeOrder, "ord", PaymeAmount, "-5", PaymeTime, "1767225660789"), call(PaymePerform, "")},
		"no number":            {headersOf(PaymeOrder, "ord", PaymeAmount, "1e3", PaymeTime, "1767225660789"), call(PaymePerform, "")},
		"two orders":           {stored(PaymeOrder, "other"), call(PaymePerform, "")},
		"no state":             {stored(), call(PaymeCancel, `,"reason":5`)},
		"another state":        {stored(PaymeState, "2"), call(PaymeCancel, `,"reason":5`)},
		"no transaction":       {stored(), []byte(`{"id":1,"method":"PerformTransaction","params":{}}`)},
		"a number for one":     {stored(), []byte(`{"id":1,"method":"PerformTransaction","params":{"id":5}}`)},
	} {
		if r, err := p.Read(c.header, c.body); err == nil || r != (Reading{}) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestAPaymeCallIsReadExactly(t *testing.T) {
	p := builtinOf(t, "payme").(Payme)
	for body, want := range map[string]PaymeCall{
		`{"id":101,"method":"CheckPerformTransaction","params":{"amount":500000,"account":{"order_id":"A-1"}}}`: {RPC: []byte("101"), Method: PaymeCheckPerform, Amount: 500000, Order: "A-1"},
		`{"id":"x\u0041","method":"GetStatement","params":{"from":1767225600000,"to":1767311999999}}`:           {RPC: []byte(`"x\u0041"`), Method: PaymeGetStatement, From: 1767225600000, To: 1767311999999},
		`{"method":"CancelTransaction","params":{"id":"t","reason":4,"ID":"u"}}`:                                {RPC: []byte("null"), Method: PaymeCancel, ID: "t", Reason: 4},
		// What is no positive whole number is no amount.
		`{"id":1,"method":"CheckPerformTransaction","params":{"amount":-5,"account":{"order_id":{"a":1}}}}`: {RPC: []byte("1"), Method: PaymeCheckPerform},
		`{"id":1,"method":"CheckPerformTransaction","params":{"amount":"500"}}`:                             {RPC: []byte("1"), Method: PaymeCheckPerform},
		`{"id":1,"method":"CheckPerformTransaction","params":{"amount":5.0}}`:                               {RPC: []byte("1"), Method: PaymeCheckPerform},
		`{"id":1,"method":"CheckPerformTransaction","params":{"amount":99999999999999999999}}`:              {RPC: []byte("1"), Method: PaymeCheckPerform},
		`{"id":{"a":1},"method":"X"}`: {RPC: []byte("null"), Method: "X"},
	} {
		if want.Method != PaymeGetStatement {
			want.From, want.To = -1, -1
		}
		got, err := p.Call([]byte(body))
		if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
	for body, want := range map[string]error{
		"": ErrPaymeJSON, "{": ErrPaymeJSON, "id=1": ErrPaymeJSON, `{"id":1}`: ErrPaymeCall, "[]": ErrPaymeCall, `{"id":1,"method":7}`: ErrPaymeCall,
		`{"id":1,"method":"PerformTransaction","params":{"id":"a","id":"b"}}`: ErrPaymeCall, // O14
	} {
		if _, err := p.Call([]byte(body)); !errors.Is(err, want) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestTheFieldOfAPaymeAccountIsTheShopsOwn(t *testing.T) {
	p := builtinOf(t, "payme").(Payme)
	own, err := p.WithOrder(Paths{"params.account.invoice"})
	if err != nil {
		t.Fatal(err)
	}
	call, err := own.(Payme).Call([]byte(`{"id":1,"method":"CheckPerformTransaction","params":{"account":{"invoice":"I-7","order_id":"O-7"}}}`))
	if err != nil || call.Order != "I-7" {
		t.Errorf("%+v, %v", call, err)
	}
	for _, paths := range []Paths{nil, {"params.id"}, {"header:X-Order"}, {"params.account."}} {
		if _, err := p.WithOrder(paths); err == nil {
			t.Errorf("%q was taken", paths)
		}
	}
}

// The vector changed_amount_still_authenticates: another amount, and nothing in the
// request says so. What catches it is the merchant, which compares the amount with
// the order's before it lets the call through, and the event's amount, which is the
// stored one.
func TestAChangedPaymeAmountIsNeverTheEventsAmount(t *testing.T) {
	p, s := builtinOf(t, "payme").(Payme), secretOf(t, "fkWW6UNrzvzyV6DhrdHJ6aEhr3dRcvJYkaGx")
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"PerformTransaction","params":{"id":"tx1","amount":1}}`)
	req := signed(t, p, s, "", noon, body)
	req.Remote = paymeHost
	if v := p.Verify(req, []Secret{s}, noon); v.Outcome != Valid {
		t.Fatalf("%+v", v)
	}
	r, err := p.Read(headersOf(PaymeOrder, "ord", PaymeAmount, "12505000", PaymeTime, "1767225660789"), body)
	if err != nil || r.Amount != 12505000 {
		t.Errorf("%+v, %v", r, err)
	}
	if call, err := p.Call([]byte(`{"id":1,"method":"CheckPerformTransaction","params":{"amount":1,"account":{"order_id":"2001"}}}`)); err != nil || call.Amount != 1 {
		t.Errorf("the merchant does not see the amount that came: %+v, %v", call, err)
	}
}

package lookup_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/lookup"
	"sluice/pkg/order"
	"sluice/pkg/testkit/provider"
	"sluice/pkg/webhook"
)

// swept says of each provider that lists what its lists hold: an item's document by its
// number and time, and what the first one states.
var swept = map[string]map[string]struct {
	document func(n int, at time.Time) string
	payment  string
	kind     order.Kind
	amount   int64
}{
	"stripe": {"/v1/events": {func(n int, at time.Time) string {
		return fmt.Sprintf(`{"id":"evt_%d","object":"event","type":"payment_intent.succeeded","created":%d,"livemode":false,"data":{"object":{"id":"pi_%d","amount":1000,"amount_received":1000,"currency":"eur","metadata":{"order_id":"ORD-%d"}}}}`, n, at.Unix(), n, n)
	}, "pi_0", order.KindPaid, 1000}},
	"gocardless": {"/events": {func(n int, at time.Time) string {
		return fmt.Sprintf(`{"id":"EV%d","created_at":%q,"resource_type":"payments","action":"confirmed","links":{"payment":"PM%d"},"metadata":{}}`, n, at.Format(time.RFC3339), n)
	}, "PM0", order.KindPaid, 0}},
	"paddle": {"/events": {func(n int, at time.Time) string {
		return fmt.Sprintf(`{"event_id":"evt_%d","event_type":"transaction.completed","occurred_at":%q,"data":{"id":"txn_%d","custom_data":{"order_id":"ORD-%d"},"currency_code":"EUR","details":{"totals":{"total":"1000"}}}}`, n, at.Format(time.RFC3339), n, n)
	}, "txn_0", order.KindPaid, 1000}},
	"paypal": {"/v1/notifications/webhooks-events": {func(n int, at time.Time) string {
		return fmt.Sprintf(`{"id":"WH-%d","create_time":%q,"resource_type":"capture","event_type":"PAYMENT.CAPTURE.COMPLETED","resource":{"id":"CAP%d","custom_id":"ORD-%d","amount":{"value":"10.00","currency_code":"EUR"}}}`, n, at.Format(time.RFC3339), n, n)
	}, "CAP0", order.KindPaid, 1000}},
	"square": {
		"/v2/payments": {func(n int, at time.Time) string {
			return fmt.Sprintf(`{"id":"sq_%d","status":"COMPLETED","reference_id":"ORD-%d","created_at":%q,"updated_at":%q,"amount_money":{"amount":1000,"currency":"EUR"}}`, n, n, at.Format(time.RFC3339), at.Format(time.RFC3339))
		}, "sq_0", order.KindPaid, 1000},
		"/v2/refunds": {func(n int, at time.Time) string {
			return fmt.Sprintf(`{"id":"sqr_%d","status":"COMPLETED","payment_id":"old_%d","created_at":%q,"updated_at":%q,"amount_money":{"amount":300,"currency":"EUR"}}`, n, n, at.Format(time.RFC3339), at.Format(time.RFC3339))
		}, "old_0", order.KindRefund, 300}},
	"mollie": mollieLists, "mollie_classic": mollieLists,
	"razorpay": {
		"/v1/payments": {func(n int, at time.Time) string {
			return fmt.Sprintf(`{"id":"pay_%d","entity":"payment","status":"captured","amount":1000,"currency":"INR","amount_refunded":0,"created_at":%d,"notes":{"order_id":"ORD-%d"}}`, n, at.Unix(), n)
		}, "pay_0", order.KindPaid, 1000},
		"/v1/refunds": {func(n int, at time.Time) string {
			return fmt.Sprintf(`{"id":"rfnd_%d","entity":"refund","status":"processed","amount":300,"currency":"INR","payment_id":"old_%d","created_at":%d}`, n, n, at.Unix())
		}, "old_0", order.KindRefund, 300}},
	"yookassa": {
		"/v3/payments": {func(n int, at time.Time) string {
			return fmt.Sprintf(`{"id":"yk-%d","status":"succeeded","amount":{"value":"10.00","currency":"RUB"},"created_at":%q,"captured_at":%q,"metadata":{"order_id":"ORD-%d"},"test":true}`, n, at.Format(time.RFC3339), at.Format(time.RFC3339), n)
		}, "yk-0", order.KindPaid, 1000},
		"/v3/refunds": {func(n int, at time.Time) string {
			return fmt.Sprintf(`{"id":"rf-%d","payment_id":"old-%d","status":"succeeded","amount":{"value":"3.00","currency":"RUB"},"created_at":%q}`, n, n, at.Format(time.RFC3339))
		}, "old-0", order.KindRefund, 300}},
	"mercadopago": {"/v1/payments/search": {func(n int, at time.Time) string {
		return fmt.Sprintf(`{"id":%d,"status":"approved","live_mode":false,"transaction_amount":10.00,"currency_id":"BRL","external_reference":"ORD-%d","date_approved":%q,"date_last_updated":%q,"date_created":%q}`, 7000+n, n, at.Format(time.RFC3339), at.Format(time.RFC3339), at.Format(time.RFC3339))
	}, "7000", order.KindPaid, 1000}},
	"flutterwave": {"/v3/transactions": {func(n int, at time.Time) string {
		return fmt.Sprintf(`{"id":%d,"tx_ref":"ORD-%d","amount":10,"currency":"NGN","status":"successful","created_at":%q}`, 9000+n, n, at.Format(time.RFC3339))
	}, "9000", order.KindPaid, 1000}},
}

var mollieLists = map[string]struct {
	document func(n int, at time.Time) string
	payment  string
	kind     order.Kind
	amount   int64
}{
	"/v2/payments": {func(n int, at time.Time) string {
		return fmt.Sprintf(`{"resource":"payment","id":"tr_%d","mode":"test","status":"paid","amount":{"value":"10.00","currency":"EUR"},"metadata":{"order_id":"ORD-%d"},"createdAt":%q,"paidAt":%q}`, n, n, at.Format(time.RFC3339), at.Format(time.RFC3339))
	}, "tr_0", order.KindPaid, 1000},
	"/v2/refunds": {func(n int, at time.Time) string {
		return fmt.Sprintf(`{"resource":"refund","id":"re_%d","mode":"test","status":"refunded","amount":{"value":"3.00","currency":"EUR"},"paymentId":"tr_old%d","createdAt":%q}`, n, n, at.Format(time.RFC3339))
	}, "tr_old0", order.KindRefund, 300},
	"/v2/chargebacks": {func(n int, at time.Time) string {
		return fmt.Sprintf(`{"resource":"chargeback","id":"chb_%d","amount":{"value":"10.00","currency":"EUR"},"paymentId":"tr_back%d","createdAt":%q}`, n, n, at.Format(time.RFC3339))
	}, "tr_back0", order.KindDisputeOpened, 1000},
}

// pages sweeps a span, page by page, against a fake, and says how many requests it took.
func pages(t *testing.T, s lookup.Sweep, span lookup.Span, serve func(lookup.Request) lookup.Response) (items []lookup.Item, requests int) {
	t.Helper()
	for at := ""; ; {
		requests++
		if requests > 200 {
			t.Fatal("the list has no end")
		}
		p := s.Read(span, at, serve(s.Ask(span, at, "token", now)), now)
		if p.Outcome != lookup.Answered || p.Unread != 0 {
			t.Fatalf("page %q: %s %s, %d unread", at, p.Outcome, p.Why, p.Unread)
		}
		items = append(items, p.Items...)
		if at = p.Next; at == "" {
			return items, requests
		}
	}
}

func served(lists *provider.Lists) func(lookup.Request) lookup.Response {
	return func(r lookup.Request) lookup.Response {
		request := httptest.NewRequest(r.Method, r.URL, nil)
		for name, value := range r.Header {
			request.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		lists.ServeHTTP(w, request)
		return lookup.Response{Status: w.Code, Body: w.Body.Bytes()}
	}
}

// O45: all pages of every list are read, to the last item, and none outside the span.
func TestASweepReadsAllPagesOfAllLists(t *testing.T) {
	span := lookup.Span{Since: at("2026-01-01T00:00:00Z"), Until: at("2026-01-02T00:00:00Z")}
	for _, api := range lookup.All() {
		listing, lists := api.Listing()
		want, told := swept[api.Provider]
		if lists != told {
			t.Fatalf("%s: it lists: %t; this test knows what: %t", api.Provider, lists, told)
		}
		if !lists {
			continue
		}
		t.Run(api.Provider, func(t *testing.T) {
			style := strings.TrimSuffix(api.Provider, "_classic")
			fake := &provider.Lists{Provider: style, Size: 3}
			const n = 8
			for path, l := range want {
				for i := range n {
					when := span.Since.Add(time.Duration(i) * time.Hour)
					var own struct { // a provider may go on behind an item's own id
						ID json.RawMessage `json:"id"`
					}
					document := l.document(i, when)
					if err := json.Unmarshal([]byte(document), &own); err != nil {
						t.Fatal(err)
					}
					fake.Put(path, cmp.Or(strings.Trim(string(own.ID), `"`), fmt.Sprint(i)), when, document)
				}
				// A day before, and a day after.
				fake.Put(path, "before", span.Since.Add(-25*time.Hour), l.document(100, span.Since.Add(-25*time.Hour)))
				fake.Put(path, "after", span.Until.Add(25*time.Hour), l.document(101, span.Until.Add(25*time.Hour)))
			}
			s, ok := account(t, api.Provider).Sweep()
			if !ok {
				t.Fatal("no sweep")
			}
			if strings.Contains(fmt.Sprint(s.Ask(span, "", "token", now)), "hidden") {
				t.Error("the request's text holds the credential")
			}
			items, requests := pages(t, s, span, served(fake))
			if len(items) != n*len(want) {
				t.Fatalf("%d items, want %d", len(items), n*len(want))
			}
			if requests < 3*len(want) {
				t.Errorf("%d requests; with 3 on a page it must be more", requests)
			}
			for path, l := range want {
				found := 0
				for _, item := range items {
					facts := item.Facts
					if listing.OwnEvents != (item.Event != nil) {
						t.Fatalf("%s: an event: %t, want %t", path, item.Event != nil, listing.OwnEvents)
					}
					if item.Event != nil {
						p, _ := webhook.Builtin(api.Provider)
						reading, err := p.Read(func(string) []string { return nil }, item.Event)
						if err != nil {
							t.Fatal(err)
						}
						facts = []webhook.Reading{reading}
					} else if item.Target.Payment == "" || item.Target.Object != item.Target.Payment {
						t.Errorf("%s: asks about %+v", path, item.Target)
					}
					if slices.ContainsFunc(facts, func(f webhook.Reading) bool {
						return f.Payment == l.payment && f.Fact == l.kind && f.Amount == l.amount && (f.Mode == event.Test || f.Mode == "")
					}) {
						found++
					}
				}
				if found != 1 {
					t.Errorf("%s: %d items state %s of %s, want 1", path, found, l.kind, l.payment)
				}
			}
		})
	}
}

// O45: silence decides nothing. Only an empty list says that nothing happened.
func TestWhatIsNoListEndsASweepAndDecidesNothing(t *testing.T) {
	span := lookup.Span{Since: at("2026-01-01T00:00:00Z"), Until: at("2026-01-02T00:00:00Z")}
	for _, api := range lookup.All() {
		if _, lists := api.Listing(); !lists {
			continue
		}
		s, _ := account(t, api.Provider).Sweep()
		for name, c := range map[string]struct {
			answer lookup.Response
			want   lookup.Outcome
		}{
			"nothing in time":     {lookup.Response{}, lookup.Unavailable},
			"an error":            {lookup.Response{Status: 500}, lookup.Unavailable},
			"too many requests":   {lookup.Response{Status: 429, RetryAfter: "60"}, lookup.Unavailable},
			"the credential":      {lookup.Response{Status: 401}, lookup.Refused},
			"no such list":        {lookup.Response{Status: 404}, lookup.Unknown},
			"a redirect":          {lookup.Response{Status: 302}, lookup.Unreadable},
			"too large":           {lookup.Response{Status: 200, Oversized: true}, lookup.Unreadable},
			"an empty body":       {lookup.Response{Status: 200}, lookup.Unreadable},
			"an empty object":     {lookup.Response{Status: 200, Body: []byte(`{}`)}, lookup.Unreadable},
			"half a body":         {lookup.Response{Status: 200, Body: []byte(`{"data":[{"id":"ev`)}, lookup.Unreadable},
			"null for a list":     {lookup.Response{Status: 200, Body: []byte(`{"data":null,"items":null,"events":null,"payments":null,"results":null,"_embedded":null}`)}, lookup.Unreadable},
			"an object for lists": {lookup.Response{Status: 200, Body: []byte(`{"data":{},"items":{},"events":{},"payments":{},"results":{},"_embedded":{"payments":{}}}`)}, lookup.Unreadable},
		} {
			p := s.Read(span, "", c.answer, now)
			if p.Outcome != c.want || len(p.Items) > 0 || p.Next != "" {
				t.Errorf("%s, %s: %s %q, %d items, next %q; want %s", api.Provider, name, p.Outcome, p.Why, len(p.Items), p.Next, c.want)
			}
			if c.answer.Status == 429 && p.RetryAfter != time.Minute {
				t.Errorf("%s: asked for quiet of %s", api.Provider, p.RetryAfter)
			}
		}
	}
}

// An address in an answer is followed for its query alone, and only to the same list.
func TestAListThatLeadsElsewhereIsNotFollowed(t *testing.T) {
	span := lookup.Span{Since: at("2026-01-01T00:00:00Z"), Until: at("2026-01-02T00:00:00Z")}
	s, _ := account(t, "mollie").Sweep()
	item := swept["mollie"]["/v2/payments"].document(1, span.Since)
	read := func(at, href string) lookup.Page {
		return s.Read(span, at, lookup.Response{Status: 200, Body: fmt.Appendf(nil, `{"_embedded":{"payments":[%s]},"_links":{"next":{"href":%q}}}`, item, href)}, now)
	}
	if p := read("", "https://evil.example/v2/payouts?from=x"); p.Outcome != lookup.Unreadable {
		t.Errorf("another list: %+v", p)
	}
	p := read("", "https://evil.example/v2/payments?from=tr_2&limit=250")
	if r := s.Ask(span, p.Next, "", now); p.Outcome != lookup.Answered || r.URL != "https://api.test/v2/payments?from=tr_2&limit=250" {
		t.Errorf("%+v leads to %s", p, r.URL)
	}
	if again := read(p.Next, "https://api.mollie.com/v2/payments?from=tr_2&limit=250"); again.Outcome != lookup.Unreadable {
		t.Errorf("a page that leads to itself: %+v", again)
	}
}

func FuzzSweepsReadAnything(f *testing.F) {
	f.Add("", []byte(`{"object":"list","has_more":true,"data":[{"id":"evt_1"}]}`))
	f.Add("0:x", []byte(`{"_embedded":{"payments":[{"id":"tr_1","createdAt":"2026-01-01T00:00:00Z"}]},"_links":{"next":{"href":"?a"}}}`))
	f.Add("1:7", []byte(`{"items":[{"id":"rfnd_1","payment_id":"pay_1","status":"processed","amount":1,"currency":"INR"}],"next_cursor":"a"}`))
	span := lookup.Span{Since: at("2026-01-01T00:00:00Z"), Until: at("2026-01-02T00:00:00Z")}
	f.Fuzz(func(t *testing.T, at string, body []byte) {
		for _, api := range lookup.All() {
			l, err := api.New(lookup.Account{Mode: event.Test, BaseURL: "https://api.test", Settings: settings[api.Provider], Secret: "hidden"})
			if err != nil {
				t.Fatal(err)
			}
			s, ok := l.Sweep()
			if !ok {
				continue
			}
			p := s.Read(span, at, lookup.Response{Status: 200, Body: body}, now)
			if p.Outcome != lookup.Answered && (len(p.Items) > 0 || p.Next != "") {
				t.Fatalf("no answer, and yet %+v", p)
			}
			if r := s.Ask(span, p.Next, "", now); !strings.HasPrefix(r.URL, "https://api.test/") {
				t.Fatalf("leads to %s", r.URL)
			}
			for _, item := range p.Items {
				for _, fact := range item.Facts {
					_, _ = lookup.Encode(fact)
				}
			}
		}
	})
}

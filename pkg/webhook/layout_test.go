package webhook

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// small is the least layout, changed.
func small(t testing.TB, change func(*Layout)) *layout {
	t.Helper()
	l := Layout{ID: Paths{"id"}, Type: Paths{"type"}}
	change(&l)
	c, err := l.compile()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAPathLeadsIntoArraysHeadersAndTheQuery(t *testing.T) {
	header := func(name string) []string {
		return map[string][]string{"x-order": {"from-header"}, QueryHeader: {"a=1&order=from%20query&twice=1&twice=2"}}[strings.ToLower(name)]
	}
	body := []byte(`{"id":"e","type":"t","list":[{"id":"first"},{"id":"second","deep":[[1,{"id":"nested"}]]}],"o":{"0":"key"},"n":[null,7],
		"links":[{"rel":"self","href":"https://api.test/v2/a/A1"},{"href":"https://api.test/v2/b/B%2F2?x=/y","rel":"up"},{"rel":"next","href":"plain"},{"rel":"slash","href":"x/"},
			{"rel":"two","href":"1"},{"rel":"two","href":"2"},{"rel":"none"},{"rel":{"rel":"up"},"href":"3"},7,[{"rel":"up","href":"4"}]],
		"attrs":[{"name":"a.b","value":{"list":[{"k":"v","id":5}]}}]}`)
	for path, want := range map[string]string{
		"list.0.id": "first", "list.1.id": "second", "list.1.deep.0.1.id": "nested", "list.2.id": "", "list.id": "", "list.00.id": "", "list.-1.id": "",
		"o.0": "key", "n.0": "", "n.1": "7",
		"links[rel=self].href": "https://api.test/v2/a/A1", "last:links[rel=self].href": "A1", "last:links[rel=up].href": "B%2F2",
		"last:links[rel=next].href": "plain", "last:links[rel=slash].href": "", "links[rel=none].href": "", "links[rel=gone].href": "", "list[id=first].id": "first",
		"attrs[name=a.b].value.list[k=v].id": "5", "links[rel=up,href=x].rel": "", "links[href=x/,rel=slash].rel": "slash", "id[rel=up].href": "",
		"header:X-Order": "from-header", "query:order": "from query", "query:gone": "", "=fixed": "fixed",
	} {
		c := small(t, func(l *Layout) { l.Order = Paths{path} })
		if r, err := c.Read(header, body); err != nil || r.Order != want {
			t.Errorf("%s: %q, %v; want %q", path, r.Order, err, want)
		}
	}
	// What is not one thing is refused by the fact that needs it, and by no other.
	for _, path := range []string{"links[rel=two].href", "query:twice"} {
		c := small(t, func(l *Layout) {
			l.Order, l.Facts = Paths{path}, []Fact{{Type: "f", Kind: order.KindFailed}}
		})
		if r, err := c.Read(header, []byte(strings.Replace(string(body), `"type":"t"`, `"type":"f"`, 1))); err == nil {
			t.Errorf("%s is read as %q", path, r.Order)
		}
		if _, err := c.Read(header, body); err != nil {
			t.Errorf("%s makes an event unreadable that does not need it: %v", path, err)
		}
	}
	if got := small(t, func(l *Layout) { l.Order = Paths{"query:order", "header:X-Order", "x"} }).headers("X-Sig"); strings.Join(got, " ") != ":query x-order x-sig" {
		t.Errorf("headers that a stored body is read with: %q", got)
	}
}

// O14, in what the paths into arrays reach.
func TestAChosenObjectHasEachKeyOnce(t *testing.T) {
	c := small(t, func(l *Layout) { l.Order = Paths{"list[n=o].v"} })
	for _, list := range []string{`[{"n":"o","v":1,"v":2}]`, `[{"n":"o","n":"x","v":1}]`} {
		if r, err := c.Read(headersOf(), []byte(`{"id":"e","type":"t","list":`+list+`}`)); err == nil {
			t.Errorf("%s is read as %q", list, r.Order)
		}
	}
}

// O25: other parts never make the same id.
func TestAnIDOfSeveralPartsIsUnambiguous(t *testing.T) {
	c := small(t, func(l *Layout) { l.ID = Paths{"a + b + c", "id"} })
	read := func(body string) string {
		r, err := c.Read(headersOf(), []byte(body))
		if err != nil {
			return err.Error()
		}
		return r.ID
	}
	for body, want := range map[string]string{
		`{"a":"x","b":7,"c":true,"type":"t"}`:                                 "x:7:true",
		`{"a":"x:y","b":"z","c":"%","type":"t"}`:                              "x%3Ay:z:%25",
		`{"a":"x","b":"y:z","c":"%25","type":"t"}`:                            "x:y%3Az:%2525",
		`{"a":"x%3Ay","b":"z","c":"%","type":"t"}`:                            "x%253Ay:z:%25",
		`{"a":"x","b":null,"id":"e:1","type":"t"}`:                            "e:1", // a part that is missing: the next way
		`{"a":"x","b":"","type":"t"}`:                                         "the event states no id",
		`{"a":"x","b":"y","c":{},"type":"t"}`:                                 "c is neither text nor an integer of 64 bits",
		`{"a":"x","b":1.5,"c":"z","type":"t"}`:                                "b is neither text nor an integer of 64 bits",
		`{"a":"x","b":"y","c":"` + strings.Repeat(":", 100) + `","type":"t"}`: "the event's id is longer than 255 bytes",
	} {
		if got := read(body); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

func TestAFormIsReadByItsFields(t *testing.T) {
	c := small(t, func(l *Layout) {
		*l = Layout{Body: "form", ID: Paths{"trans + action"}, Type: Paths{"action"}, Time: Paths{"at"}, TimeFormat: time.DateTime, TimeZone: "+05:00",
			Mode: Paths{"live"}, Order: Paths{"order[id]"}, Amount: Paths{"sum.total"}, AmountUnit: "decimal", Currency: Paths{"=UZS"},
			Facts: []Fact{{Type: "1", Kind: order.KindPaid, When: map[string]string{"error": "0"}}}}
	})
	body := "trans=9007199254740993&action=1&at=2026-01-01+05%3A00%3A09&order%5Bid%5D=ORD%20%D0%B6&sum.total=1000.00&error=0&live=false&note=x&note=y&empty"
	r, err := c.Read(headersOf(), []byte(body))
	want := Reading{ID: "9007199254740993:1", Type: "1", Time: time.Unix(1767225609, 0).UTC(), Mode: event.Test, Trust: event.Signed,
		Order: "ORD ж", Fact: order.KindPaid, Amount: 100000, Currency: "UZS"}
	if err != nil || r != want {
		t.Errorf("got  %+v, %v\nwant %+v", r, err, want)
	}
	for _, bad := range []string{
		body + "&action=1", body + "&%61ction=2", strings.Replace(body, "1000.00", "1000.00;", 1), strings.Replace(body, "ORD", "%zz", 1), strings.Replace(body, "ORD", "%ff", 1),
		`{"trans":1,"action":"1"}`, "", strings.Replace(body, "1000.00", "1e3", 1), strings.Repeat("a=1&", maxFormFields+1) + body, strings.Replace(body, "+05", "T05", 1),
	} {
		if r, err := c.Read(headersOf(), []byte(bad)); err == nil {
			t.Errorf("%.80q is read: %+v", bad, r)
		}
	}
}

// O03: the bytes alone say that JSON came as a field of a form.
func TestJSONInAFormIsRead(t *testing.T) {
	p := acme(t, nil)
	want, err := p.Read(acmeHeaders, payment())
	if err != nil {
		t.Fatal(err)
	}
	form := "payload=" + url.QueryEscape(string(payment()))
	for _, body := range []string{form, form + "&more=1"} {
		req := signed(t, p, secretOf(t, "s3cr3t-s3cr3t"), "msg", noon, []byte(body))
		if v := p.Verify(req, []Secret{secretOf(t, "s3cr3t-s3cr3t")}, noon); v.Outcome != Valid {
			t.Errorf("%+v", v)
		}
		if got, err := p.Read(acmeHeaders, []byte(body)); err != nil || got != want {
			t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
		}
	}
	// The signature is over the form as it came, never over what is in it.
	req := signed(t, p, secretOf(t, "s3cr3t-s3cr3t"), "msg", noon, payment())
	req.Body = []byte(form)
	if v := p.Verify(req, []Secret{secretOf(t, "s3cr3t-s3cr3t")}, noon); v.Outcome != Invalid {
		t.Errorf("%+v", v)
	}
	for _, body := range []string{form + "&payload=" + url.QueryEscape(string(payment())), "payload=", "payload", "payload=%7", "x=1&" + form, form + "%2", "payload=" + url.QueryEscape(form)} {
		if r, err := p.Read(acmeHeaders, []byte(body)); err == nil {
			t.Errorf("%q is read: %+v", body, r)
		}
	}
}

func TestTheLayoutSaysWhatIsOnlyAHint(t *testing.T) {
	c := small(t, func(l *Layout) {
		l.Trust, l.Order = event.Hint, Paths{"order"}
		l.Facts = []Fact{{Type: "paid", Kind: order.KindPending, Trust: event.Signed}, {Type: "maybe", Kind: order.KindPending}}
	})
	for typ, want := range map[string]event.Trust{"paid": event.Signed, "maybe": event.Hint, "else": event.Hint} {
		r, err := c.Read(headersOf(), []byte(`{"id":"e","type":"`+typ+`","order":"o"}`))
		if err != nil || r.Trust != want {
			t.Errorf("%s: %q, %v", typ, r.Trust, err)
		}
	}
}

func TestAConditionMayBeThatAFieldSaysNothing(t *testing.T) {
	c := small(t, func(l *Layout) {
		l.Order, l.Facts = Paths{"order"}, []Fact{{Type: "t", Kind: order.KindFailed, When: map[string]string{"retry": ""}}}
	})
	for field, want := range map[string]order.Kind{`"retry":null`: order.KindFailed, `"retry":""`: order.KindFailed, `"x":1`: order.KindFailed, `"retry":false`: order.KindNone} {
		if r, err := c.Read(headersOf(), []byte(`{"id":"e","type":"t","order":"o",`+field+`}`)); err != nil || r.Fact != want {
			t.Errorf("%s: %s, %v", field, r.Fact, err)
		}
	}
}

// O20: one refund may be paid out in parts, each an amount of its own.
func TestAnAmountMayBeTheSumOfParts(t *testing.T) {
	c := small(t, func(l *Layout) {
		*l = Layout{ID: Paths{"id"}, Type: Paths{"type"}, Order: Paths{"order"}, Amount: Paths{"sum:parts[kind=refund,status=ok].amount"}, AmountUnit: "decimal", Currency: Paths{"=EUR"},
			Facts: []Fact{{Type: "t", Kind: order.KindRefund, When: map[string]string{"parts[kind=refund,status=ok].amount": "*"}}}}
	})
	read := func(parts string) (Reading, error) {
		return c.Read(headersOf(), []byte(`{"id":"e","type":"t","order":"o","parts":`+parts+`}`))
	}
	const ok, refund = `"status":"ok"`, `"kind":"refund"`
	for parts, want := range map[string]int64{
		`[{` + ok + `,` + refund + `,"amount":"2.50"}]`: 250,
		`[{` + ok + `,` + refund + `,"amount":"2.50"},{` + refund + `,"amount":0.1,` + ok + `},{` + ok + `,` + refund + `,"amount":"1"}]`:                                        360,
		`[{` + ok + `,` + refund + `,"amount":"2.50"},{"status":"failed",` + refund + `,"amount":"9"},{` + ok + `,"kind":"capture","amount":"9"},{` + ok + `,` + refund + `},7]`: 250,
	} {
		if r, err := read(parts); err != nil || r.Amount != want || r.Fact != order.KindRefund {
			t.Errorf("%s: %+v, %v", parts, r, err)
		}
	}
	for _, parts := range []string{`[]`, `null`, `[{"status":"failed",` + refund + `,"amount":"9"}]`, `{}`} {
		if r, err := read(parts); err != nil || r.Fact != order.KindNone {
			t.Errorf("%s: %+v, %v", parts, r, err)
		}
	}
	for _, second := range []string{`"x"`, `"1.001"`, `"92233720368547758.07"`, `{}`, `"-1"`} {
		if r, err := read(`[{` + ok + `,` + refund + `,"amount":"2.50"},{` + ok + `,` + refund + `,"amount":` + second + `}]`); err == nil {
			t.Errorf("%s is read as %d", second, r.Amount)
		}
	}
	if _, err := (Layout{ID: Paths{"sum:a"}, Type: Paths{"b"}}).compile(); err == nil || !strings.Contains(err.Error(), "reading.id") {
		t.Errorf("a sum of ids: %v", err)
	}
}

func TestTimesAreReadAsTheProviderWritesThem(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 9, 0, time.UTC)
	for _, c := range []struct {
		unit, format, zone, value string
		want                      time.Time
	}{
		{"", "", "", `"2026-01-01T05:00:09+0500"`, at}, {"", "", "", `"2026-01-01T00:00:09.1234567Z"`, at.Add(123456700)},
		{"rfc3339", "", "", `"2026-01-01T05:00:09+05:00"`, at}, {"rfc3339", "", "", `"1767225609"`, time.Time{}}, {"rfc3339", "", "", "1767225609", time.Time{}},
		{"", time.DateTime, "+07:00", `"2026-01-01 07:00:09"`, at}, {"", time.DateTime, "", `"2026-01-01 00:00:09.5"`, at.Add(500 * time.Millisecond)},
		{"", time.DateTime, "", "1767225609", time.Time{}}, {"", time.DateTime, "", `"2026-02-30 00:00:09"`, time.Time{}}, {"", time.DateTime, "", `"2026-01-01T00:00:09Z"`, time.Time{}},
		{"", "02.01.2006 15:04:05 -0700", "", `"01.01.2026 03:00:09 +0300"`, at}, {"", "20060102150405", "", `"20260101000009"`, at},
		{"", "", "", `"9999-12-31T23:59:59-23:00"`, time.Time{}},
	} {
		l := small(t, func(l *Layout) {
			l.Time, l.TimeUnit, l.TimeFormat, l.TimeZone = Paths{"at"}, c.unit, c.format, c.zone
			l.Order, l.Facts = Paths{"order"}, []Fact{{Type: "t", Kind: order.KindFailed}}
		})
		r, err := l.Read(headersOf(), []byte(`{"id":"e","type":"t","order":"o","at":`+c.value+`}`))
		if !r.Time.Equal(c.want) || (err != nil) != c.want.IsZero() {
			t.Errorf("%+v: %s, %v", c, r.Time, err)
		}
	}
}

// O19: every valid form of 8.20 is exactly 820 cents; the rest is refused, never rounded.
func TestDecimalsAreExactInEveryForm(t *testing.T) {
	p := acme(t, func(d *Declaration) { d.Reading.AmountUnit = "decimal" })
	for value, want := range map[string]int64{
		`"8.20"`: 820, "8.20": 820, "8.2": 820, "8.20e0": 820, "82e-1": 820, `"8.200"`: 820, "8.200": 820, "0.82E+1": 820, "820e-2": 820, "82000e-4": 820, "0.0082e3": 820,
		"19.99": 1999, "599.80": 59980, "0.07": 7, "7e-2": 7, "1.10": 110, "4.35": 435, "1234567890.12": 123456789012, "1e2": 10000, "0e0": 0, "0e30": 0,
	} {
		if r, err := p.Read(acmeHeaders, payment("1200", value)); err != nil || r.Amount != want {
			t.Errorf("%s: %d, %v", value, r.Amount, err)
		}
	}
	for _, value := range []string{`"8.205"`, "8.205", "8205e-3", `"8,20"`, `" 8.20"`, `"8.20 EUR"`, `"0x10"`, `"NaN"`, `"Infinity"`, `"1e400"`, "1e400", "1e-400", "1e99999999999999999999", `"-0"`, "-0", "-82e-1",
		`"٨.٢٠"`, `"8.20e0"`, `"8."`, `".20"`, `"+8.20"`, "true", "{}", "[8.20]", `""`, "null", "1e18"} {
		if r, err := p.Read(acmeHeaders, payment("1200", value)); err == nil {
			t.Errorf("%s is read as %d", value, r.Amount)
		}
	}
}

func TestAnExtentIsTheProvidersWord(t *testing.T) {
	c := small(t, func(l *Layout) {
		l.Order, l.Extent, l.Amount, l.Currency = Paths{"order"}, Paths{"how"}, Paths{"amount"}, Paths{"=EUR"}
		l.Facts = []Fact{{Type: "t", Kind: order.KindRefund}, {Type: "all", Kind: order.KindRefundTotal, Extent: Paths{"=full"}}}
	})
	for _, w := range []struct {
		typ, how string
		want     Extent
	}{{"t", "full", Full}, {"t", "partial", Partial}, {"t", "else", ExtentUnknown}, {"t", "", ExtentUnknown}, {"all", "partial", Full}} {
		r, err := c.Read(headersOf(), []byte(`{"id":"e","type":"`+w.typ+`","order":"o","amount":1,"how":"`+w.how+`"}`))
		if err != nil || r.Extent != w.want {
			t.Errorf("%+v: %v, %v", w, r.Extent, err)
		}
	}
}

// The shop's order id is where the endpoint says, for every provider with a layout.
func TestAnEndpointSaysWhereItsOrderIDIs(t *testing.T) {
	for _, p := range providers(t) {
		ordered, ok := p.Provider.(Ordered)
		if !ok {
			continue
		}
		_, timed := p.Provider.(Timed)
		for _, bad := range []Paths{nil, {"header:"}, {"a[b].c", "ok"}} {
			if _, err := ordered.WithOrder(bad); err == nil {
				t.Errorf("%s takes %q for a place", p.Name(), bad)
			}
		}
		other, err := ordered.WithOrder(Paths{"header:X-Own-Order"})
		if err != nil {
			t.Errorf("%s: %v", p.Name(), err)
			continue
		}
		if _, still := other.(Timed); still != timed {
			t.Errorf("%s: a place of the order changes whether a time is signed", p.Name())
		}
		if names := other.SignatureHeaders(); !strings.Contains(strings.Join(names, " "), "x-own-order") {
			t.Errorf("%s stores only %q", p.Name(), names)
		}
	}
	p, err := acme(t, nil).(Ordered).WithOrder(Paths{"data.note"})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := p.Read(acmeHeaders, payment()); err != nil || r.Order != "x" {
		t.Errorf("%q, %v", r.Order, err)
	}
	stripe, err := builtinOf(t, "stripe").(Ordered).WithOrder(Paths{"data.object.own"})
	if err != nil {
		t.Fatal(err)
	}
	session := []byte(`{"id":"e","type":"checkout.session.completed","data":{"object":{"id":"cs","own":"mine","client_reference_id":"not this","payment_status":"paid","amount_total":1,"currency":"usd"}}}`)
	if r, err := stripe.Read(headersOf(), session); err != nil || r.Order != "mine" {
		t.Errorf("a fact with places of its own: %q, %v", r.Order, err)
	}
	svix, err := builtinOf(t, "svix").(Ordered).WithOrder(Paths{"header:X-Shop-Order"})
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{"Svix-Id": {"m"}, "Svix-Timestamp": {"1"}, "Svix-Signature": {"v1,x"}, "X-Shop-Order": {"o"}}
	if r, err := svix.Read(h.Values, []byte(`{"type":"t"}`)); err != nil || r.ID != "m" || r.Order != "o" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestAWrongLayoutSaysEverythingThatIsWrongAndWhere(t *testing.T) {
	l := Layout{Body: "xml", ID: Paths{"a + "}, Type: Paths{"header:"}, Time: Paths{"query:"}, TimeUnit: "h", TimeFormat: "15:04", TimeZone: "Tashkent", Trust: "full",
		Mode: Paths{"="}, Order: Paths{"a..b"}, Subject: Paths{"last:"}, Payment: Paths{"links[rel].href"}, Object: Paths{"links[rel=up]"}, Amount: Paths{"x[a=b].y", "[a=b].y"},
		Facts: []Fact{{Type: "t", Kind: order.KindFailed, Trust: "looked_up", When: map[string]string{".": "x"}, Extent: Paths{"a."}}}}
	_, err := l.compile()
	if err == nil {
		t.Fatal("it compiles")
	}
	for _, want := range []string{"reading.body:", "reading.id: path", "reading.type: path", "reading.time: path", "reading.time_unit: \"h\"", "reading.time_format:", "reading.time_zone:", "reading.trust:",
		"reading.mode:", `reading.order: path "a..b"`, "reading.subject:", `reading.payment: path "links[rel].href"`, "reading.object:", `reading.amount: path "[a=b].y"`,
		"reading.facts[0] (t): trust:", "reading.facts[0] (t): when:", "reading.facts[0] (t): extent:"} {
		if n := strings.Count(err.Error(), want); n != 1 {
			t.Errorf("%q is said %d times in\n%v", want, n, err)
		}
	}
	l = Layout{ID: Paths{"id"}, Type: Paths{"type"}, Time: Paths{"at"}, TimeZone: "+05:00"}
	if _, err := l.compile(); err == nil || !strings.Contains(err.Error(), "reading.time_zone: is of times in a time_format, and there is none") {
		t.Errorf("a zone without a format: %v", err)
	}
}

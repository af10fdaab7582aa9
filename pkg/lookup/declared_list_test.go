package lookup_test

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/pkg/lookup"
	"sluice/pkg/order"
)

// All pages of a declared list are read, however it goes on, and in each form of time.
func TestADeclaredListIsSweptToItsEnd(t *testing.T) {
	span := lookup.Span{Since: at("2026-01-01T00:00:00Z"), Until: at("2026-01-02T00:00:00Z")}
	const n = 7
	item := func(i int) string {
		return fmt.Sprintf(`{"id":"r%d","status":"ok","payment_id":"p%d","amount":100,"currency":"EUR"}`, i, i)
	}
	for name, c := range map[string]struct {
		pages, form, since, until string
		// from says where a page begins, and what it carries of the next one.
		from func(url.Values) (int, string)
	}{
		"cursor": {`cursor: next, parameter: after`, "rfc3339", "2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z",
			func(q url.Values) (int, string) {
				i, _ := strconv.Atoi(q.Get("after"))
				if i+3 >= n {
					return i, `"next":null`
				}
				return i, fmt.Sprintf(`"next":"%d"`, i+3)
			}},
		"page": {`page: page`, "unix", "1767225600", "1767312000", func(q url.Values) (int, string) {
			i, err := strconv.Atoi(q.Get("page"))
			if err != nil {
				i = 1
			}
			return (i - 1) * 3, `"x":1`
		}},
		"skip": {`skip: offset`, "date", "2026-01-01", "2026-01-02", func(q url.Values) (int, string) {
			i, _ := strconv.Atoi(q.Get("offset"))
			return i, `"x":1`
		}},
		"link": {`link: links.next`, "rfc3339", "2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z", func(q url.Values) (int, string) {
			i, _ := strconv.Atoi(q.Get("at"))
			if i+3 >= n {
				return i, `"links":{}`
			}
			return i, fmt.Sprintf(`"links":{"next":"https://api.test/v1/refunds?at=%d&since=2026-01-01T00:00:00.000Z&until=2026-01-02T00:00:00.000Z"}`, i+3)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := declaredAt(t, `{auth: {scheme: bearer}, payment: [{path: "/p/{payment}", readings: [`+reading+`]}], list: [{path: "/refunds?since={since}&until={until}", time: `+c.form+`,
				pages: {list: data, `+c.pages+`}, holds: objects, id: id, payment: payment_id,
				readings: [{id: id, type: status, payment: payment_id, object: id, amount: amount, currency: currency, facts: [{type: ok, kind: refund}]}]}]}`)
			s, ok := l.Sweep()
			if !ok || s.OwnEvents {
				t.Fatalf("%t, %+v", ok, s.Listing)
			}
			items, _ := pages(t, s, span, func(r lookup.Request) lookup.Response {
				u, err := url.Parse(r.URL)
				if err != nil || u.Path != "/v1/refunds" || u.Query().Get("since") != c.since || u.Query().Get("until") != c.until {
					t.Fatalf("asks for %s, %v", r.URL, err)
				}
				from, next := c.from(u.Query())
				var some []string
				for i := from; i < min(from+3, n); i++ {
					some = append(some, item(i))
				}
				return lookup.Response{Status: 200, Body: fmt.Appendf(nil, `{"data":[%s],%s}`, strings.Join(some, ","), next)}
			})
			if len(items) != n {
				t.Fatalf("%d items, want %d", len(items), n)
			}
			if f := items[0].Facts; items[0].Target.Payment != "p0" || len(f) != 1 || f[0].Fact != order.KindRefund || f[0].Amount != 100 || f[0].Object != "r0" {
				t.Errorf("%+v", items[0])
			}
		})
	}
}

func TestADeclaredListMayHoldTheProvidersOwnEvents(t *testing.T) {
	l := declaredAt(t, `{auth: {scheme: bearer}, payment: [{path: "/p/{payment}", readings: [`+reading+`]}],
		list: [{path: "/events?from={since}&to={until}", pages: {list: data, skip: offset}, holds: events}]}`)
	s, ok := l.Sweep()
	if !ok || !s.OwnEvents || s.Every != time.Hour {
		t.Fatalf("%t, %+v", ok, s.Listing)
	}
	p := s.Read(lookup.Span{}, "", lookup.Response{Status: 200, Body: []byte(`{"data":[{"id":"e1"}]}`)}, now)
	if len(p.Items) != 1 || string(p.Items[0].Event) != `{"id":"e1"}` {
		t.Errorf("%+v", p)
	}
}

func TestEverythingThatIsWrongWithADeclaredListIsToldAtOnce(t *testing.T) {
	_, err := declared(t, `
auth: {scheme: bearer}
payment: [{path: "/p/{payment}", readings: [`+reading+`]}]
list:
  - {path: "events?a={since}&b={until}", time: epoch, holds: both}
  - {path: "/events?a={since}", pages: {list: data, skip: a, page: b}, holds: events, id: id}
  - {path: "/x?a={since}&b={until}&c={payment}", pages: {list: data, skip: a}, holds: objects}
  - {path: "/x?a={since}&b={until}", pages: {list: data, skip: a}, holds: objects, id: id, readings: [{id: number, type: "a..b"}]}
`)
	if err == nil {
		t.Fatal("it is taken")
	}
	for _, want := range []string{
		`list[0].path: "events?a={since}&b={until}" does not begin with one /`, `list[0].time: "epoch"`, "list[0].pages: missing", `list[0].holds: "both" is neither events nor objects`,
		"list[1].path: \"/events?a={since}\" does not hold {since} and {until}", "list[1].pages: give one of", "list[1].holds: events are read as webhooks are",
		"list[2].path: \"/x?a={since}&b={until}&c={payment}\" holds what is no path", "list[2].readings: objects need id and readings",
		"list[3].readings[0].type", "list[3].readings[0]: each item is read by itself",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing of %q in\n%v", want, err)
		}
	}
}

package lookup_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"sluice/pkg/event"
	"sluice/pkg/lookup"
	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// exchange is one look-up with a provider's answers, in testdata/exchanges/PROVIDER.json;
// its README says what the fields mean.
type exchange struct {
	Name     string
	Target   lookup.Target
	Outcome  string
	Pages    int
	Exchange []struct {
		Ask    string
		Answer json.RawMessage
	}
	Facts    []string
	Webhooks []json.RawMessage

	provider string
}

func exchanges(t testing.TB, provider string) (all []exchange) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "exchanges", provider+".json"))
	if err != nil {
		t.Fatalf("an API needs its exchanges: %v", err)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatalf("%s: %v", provider, err)
	}
	for i := range all {
		all[i].provider, all[i].Target.Object = provider, "object"
	}
	return all
}

// every runs a test of every exchange of every API.
func every(t *testing.T, test func(*testing.T, exchange)) {
	t.Helper()
	for _, api := range apis(t) {
		for _, e := range exchanges(t, api.Provider) {
			t.Run(api.Provider+": "+e.Name, func(t *testing.T) { test(t, e) })
		}
	}
}

// first are a target and the answers of one look-up that states a fact.
func first(t testing.TB, provider string) (lookup.Target, []lookup.Response) {
	t.Helper()
	e := exchanges(t, provider)[0]
	return e.Target, e.answers()
}

func (e exchange) answers() (all []lookup.Response) {
	for _, step := range e.Exchange {
		all = append(all, answer(string(step.Answer)))
	}
	return all
}

func answer(body string) lookup.Response { return lookup.Response{Status: 200, Body: []byte(body)} }

// ask plays a look-up with answers in their order, and says what was asked for.
func ask(t testing.TB, provider string, target lookup.Target, answers []lookup.Response) (step lookup.Step, asked []string) {
	t.Helper()
	l := account(t, provider)
	for n := 0; ; n++ {
		step = l.Next(target, answers[:n], "token", now)
		if step.Request == nil {
			return step, asked
		}
		path := strings.TrimPrefix(step.Request.URL, "https://api.test")
		if step.Request.Method == http.MethodPost {
			path += " " + string(step.Request.Body)
		}
		if asked = append(asked, path); n == len(answers) {
			t.Fatalf("asks for %s, and there is no answer more", path)
		}
	}
}

// said is a fact as the exchanges write it.
func said(r webhook.Reading) string {
	or := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	when := "-"
	if !r.Time.IsZero() {
		when = r.Time.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprintf("%s %s %s %d %s %s %s", r.Fact, or(r.Payment), or(r.Object), r.Amount, r.Currency, when, or(r.Order))
}

func TestAnAnswerIsSplitIntoTheFactsThatWebhooksWouldHaveStated(t *testing.T) {
	every(t, func(t *testing.T, e exchange) {
		step, asked := ask(t, e.provider, e.Target, e.answers())
		if step.Outcome.String() != cmp.Or(e.Outcome, "answered") {
			t.Fatalf("%s: %s", step.Outcome, step.Why)
		}
		got, want := []string{}, []string{}
		for _, f := range step.Facts {
			got = append(got, said(f))
			if f.Subject != "object" || f.Mode != event.Test || f.Trust != "" {
				t.Errorf("%+v", f)
			}
			if _, err := lookup.Encode(f); err != nil {
				t.Errorf("%+v: %v", f, err)
			}
		}
		if diff := gocmp.Diff(e.Facts, got); diff != "" {
			t.Error(diff)
		}
		for _, step := range e.Exchange {
			want = append(want, step.Ask)
		}
		if diff := gocmp.Diff(want, asked); diff != "" {
			t.Error(diff)
		}
	})
}

// O45: the late real webhook changes nothing, and a look-up after it neither.
func TestAWebhookThatComesAfterTheLookUpChangesNothing(t *testing.T) {
	paired := map[string]int{}
	every(t, func(t *testing.T, e exchange) {
		if len(e.Webhooks) == 0 {
			return
		}
		step, _ := ask(t, e.provider, e.Target, e.answers())
		var learnt, heard []order.Entry
		for i, f := range step.Facts {
			learnt = append(learnt, entry(f, byte(i+1)))
		}
		for i, raw := range e.Webhooks {
			r := sent(t, e.provider, raw)
			if r.Fact == order.KindNone || r.Fact == order.KindPending {
				continue
			}
			heard = append(heard, entry(r, byte(i+101)))
			same := func(l order.Entry) bool { return l.Kind == r.Fact && l.Payment == r.Payment && l.Object == r.Object }
			if !slices.ContainsFunc(learnt, same) && r.Fact != order.KindRefundTotal {
				t.Errorf("the webhook states %s, and the look-up does not", said(r))
			}
		}
		reg := &order.Registration{Amount: learnt[0].Amount, Currency: learnt[0].Currency, Time: 1}
		alone, both := order.Fold(reg, learnt), order.Fold(reg, append(slices.Clone(learnt), heard...))
		if alone.State != both.State {
			t.Errorf("looked up: %+v, and with the webhooks: %+v", alone.State, both.State)
		}
		paired[e.provider]++
	})
	for _, provider := range []string{"stripe", "paddle", "checkout", "razorpay", "square", "paypal", "yookassa", "gocardless", "midtrans", "flutterwave"} {
		if paired[provider] == 0 {
			t.Errorf("no webhook of %s is paired with a look-up", provider)
		}
	}
}

func entry(r webhook.Reading, n byte) order.Entry {
	e := order.Entry{Hash: [16]byte{n}, Source: "s", Kind: r.Fact, Payment: r.Payment, Object: r.Object, Amount: r.Amount, Currency: r.Currency}
	if !r.Time.IsZero() {
		e.Time = r.Time.UnixMilli()
	}
	return e
}

// sent reads a webhook: one of pkg/webhook's fixtures by its name, or one that is
// written out.
func sent(t *testing.T, provider string, raw json.RawMessage) webhook.Reading {
	t.Helper()
	type fixture struct {
		Name    string
		Headers map[string]string
		Body    json.RawMessage
	}
	var f fixture
	var name string
	if json.Unmarshal(raw, &name) == nil {
		files, _ := filepath.Glob(filepath.Join("..", "webhook", "testdata", "fixtures", provider+"*.json"))
		for _, file := range files {
			var list []fixture
			text, err := os.ReadFile(file)
			if err != nil || json.Unmarshal(text, &list) != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if i := slices.IndexFunc(list, func(f fixture) bool { return f.Name == name }); i >= 0 {
				f = list[i]
			}
		}
	} else if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	if f.Body == nil {
		t.Fatalf("%s has no fixture %s", provider, raw)
	}
	p, _ := webhook.Builtin(provider)
	r, err := p.Read(func(header string) []string {
		for name, value := range f.Headers {
			if strings.EqualFold(name, header) {
				return []string{value}
			}
		}
		return nil
	}, f.Body)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return r
}

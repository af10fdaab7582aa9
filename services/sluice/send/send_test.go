package send

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
	"sluice/services/sluice/sample"
)

func target(t *testing.T, handle http.HandlerFunc) Target {
	t.Helper()
	srv := httptest.NewServer(handle)
	t.Cleanup(srv.Close)
	p, _ := webhook.Builtin("stripe")
	secret, err := webhook.NewSecret("test", "whsec_of_the_sending_tests")
	if err != nil {
		t.Fatal(err)
	}
	return Target{URL: srv.URL, Provider: p, Secret: secret, Client: srv.Client()}
}

func paid(t *testing.T, id string) Webhook {
	t.Helper()
	w, err := sample.Make("stripe", sample.Fact{Kind: order.KindPaid, ID: id, Order: "o", Payment: "pi_1", Amount: 1, Currency: "EUR", Time: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return Webhook{Webhook: w}
}

func TestSentWebhooksVerifyAndForgedOnesDoNot(t *testing.T) {
	var tgt Target
	tgt = target(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		v := tgt.Provider.Verify(webhook.Request{Header: r.Header.Values, Body: body}, []webhook.Secret{tgt.Secret}, time.Now())
		if v.Outcome != webhook.Valid {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	true1, forged := paid(t, "evt_1"), paid(t, "evt_2")
	forged.Forge = true
	before := bytes.Clone(forged.Body)
	answered := 0
	sum := tgt.All(t.Context(), []Webhook{true1, forged, true1}, Pace{}, func() { answered++ })
	if sum.Answers[200] != 2 || sum.Answers[401] != 1 || answered != 3 {
		t.Errorf("answers %v, %d reported", sum.Answers, answered)
	}
	if !bytes.Equal(before, forged.Body) {
		t.Error("forging changed the webhook itself")
	}
}

// A slow server must show in the latencies of those that had to wait for it, not
// only in its own.
func TestLatencyAtARateCountsFromWhenAWebhookWasDue(t *testing.T) {
	const slow = 200 * time.Millisecond
	var once sync.Once
	tgt := target(t, func(http.ResponseWriter, *http.Request) {
		once.Do(func() { <-time.After(slow) })
	})
	var ws []Webhook
	for i := range 10 {
		ws = append(ws, paid(t, strconv.Itoa(i)))
	}
	sum := tgt.All(t.Context(), ws, Pace{Rate: 1000, Parallel: 1}, func() {})
	if got := sum.Quantile(0.5); got < slow/2 {
		t.Errorf("half of the webhooks waited less than %v behind one that took %v", got, slow)
	}
}

func TestASenderWithoutAnAnswerSaysWhy(t *testing.T) {
	tgt := target(t, func(http.ResponseWriter, *http.Request) {})
	tgt.URL = "http://127.0.0.1:1"
	sum := tgt.All(t.Context(), []Webhook{paid(t, "evt_1")}, Pace{}, func() {})
	if sum.Answers[0] != 1 || sum.Err == nil {
		t.Errorf("answers %v, error %v", sum.Answers, sum.Err)
	}
}

func TestDuplicatesAndShufflingKeepEveryWebhook(t *testing.T) {
	ws := []Webhook{paid(t, "a"), paid(t, "b"), paid(t, "c")}
	out := Arrange(ws, 2, true, rand.New(rand.NewPCG(1, 2)))
	n := map[string]int{}
	for _, w := range out {
		n[w.ID]++
	}
	if len(out) != 9 || n["a"] != 3 || n["b"] != 3 || n["c"] != 3 {
		t.Errorf("got %v", n)
	}
}

func TestARecordedFileKeepsItsBytes(t *testing.T) {
	id := func() string { return "msg" }
	pretty := "{\n \"id\": \"evt_1\" ,\"n\": 1.0 }\n"
	for _, c := range []struct {
		text string
		want []string
	}{
		{pretty, []string{pretty}},
		{"{\"a\":1}\n\n{\"b\": 2}\r\n", []string{`{"a":1}`, `{"b": 2}`}},
	} {
		got, err := Recorded([]byte(c.text), id)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(c.want) {
			t.Fatalf("%q: %d bodies", c.text, len(got))
		}
		for i := range got {
			if string(got[i].Body) != c.want[i] {
				t.Errorf("body %q, want %q", got[i].Body, c.want[i])
			}
		}
	}
	for _, bad := range []string{"", "\n", "{\"a\":1}\nnot json\n"} {
		if _, err := Recorded([]byte(bad), id); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

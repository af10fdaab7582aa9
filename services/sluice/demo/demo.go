// Package demo sends one day of webhooks to a running deployment, as badly as
// networks deliver them, and shows what became of it.
package demo

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"sluice/pkg/audit"
	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/services/sluice/sample"
	"sluice/services/sluice/send"
	"sluice/services/sluice/terminal"
)

// Demo is one run.
type Demo struct {
	// Ingress and Merchant are the roles' addresses, Public that of the merchant's
	// listener for providers.
	Ingress, Merchant, Public string
	Endpoints                 endpoint.Set
	Mode                      event.Mode
	Kafka                     kafka.Config
	Store                     *postgres.Store
	Out                       *terminal.Printer
	Log                       *slog.Logger
	// Began is when the program was started.
	Began time.Time
}

// settleTimeout is how long the day may take to end as it must.
const settleTimeout = 45 * time.Second

// Run sends the day and prints its story. It says whether every order ended as it
// must and the books add up.
func (d Demo) Run(ctx context.Context) (bool, error) {
	run := strings.ToLower(crand.Text()[:5])
	stories := day(run)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	topic := d.watch(watching, stories)
	before, err := audit.Read(ctx, d.Kafka, d.Store, d.Log)
	if err != nil {
		return false, err
	}

	d.Out.Title("A day of webhooks")
	for _, s := range stories {
		if !s.late {
			if err := d.register(ctx, s); err != nil {
				return false, err
			}
		}
	}
	waves, err := d.deliveries(stories, time.Now().Add(-10*time.Hour).Truncate(time.Second))
	if err != nil {
		return false, err
	}
	calls, err := d.talk(ctx, stories)
	if err != nil {
		return false, err
	}
	sent := answers{}
	for _, wave := range [][]delivery{waves.first, waves.middle} {
		if err := d.send(ctx, wave, sent); err != nil {
			return false, err
		}
	}
	for _, s := range stories {
		if s.late {
			if err := d.register(ctx, s); err != nil {
				return false, err
			}
		}
	}
	step := d.Out.Step("settle")
	ends, books, err := d.settle(ctx, stories, topic)
	if err == nil {
		if err = d.send(ctx, waves.last, sent); err == nil {
			ends, books, err = d.settle(ctx, stories, topic)
		}
	}
	if err != nil {
		step.Fail()
		return false, err
	}
	step.Done("every event has its verdict")
	d.Out.Table([][]string{
		{"orders registered", fmt.Sprint(len(stories))},
		{"webhooks sent, in random order and with repeats", fmt.Sprint(sent.total())},
		{"  accepted (2xx)", fmt.Sprint(sent[http.StatusOK])},
		{"  refused (401, a wrong signature)", fmt.Sprint(sent[http.StatusUnauthorized])},
		{"calls of Payme and Click, each answered", fmt.Sprint(calls)},
		{"first order status on Kafka", fmt.Sprintf("%.1f s after the start", topic.firstSeen().Sub(d.Began).Seconds())},
	})
	return d.report(stories, ends, topic, before, books, sent), nil
}

// register tells the shop's API what an order is worth.
func (d Demo) register(ctx context.Context, s story) error {
	body, err := json.Marshal(map[string]any{"amount": s.amount, "currency": s.currency, "reference": s.title})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, d.Merchant+"/v1/orders/"+s.id, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("register order %s: %w", s.id, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("register order %s: %s: %s", s.id, resp.Status, text)
	}
	return nil
}

// delivery is one webhook on its way to one endpoint.
type delivery struct {
	endpoint string
	send.Webhook
}

// waves are all webhooks of the day: those that come before anything else, those
// that come in random order, some twice or three times, and the last.
type waves struct{ first, middle, last []delivery }

func (d Demo) deliveries(stories []story, morning time.Time) (waves, error) {
	random := rand.New(rand.NewPCG(2026, 11)) // the same day every time
	var w waves
	for _, s := range stories {
		to, ok := d.Endpoints.Get(s.endpoint)
		if !ok {
			return w, fmt.Errorf("the endpoints file has no endpoint %q, which the demo needs", s.endpoint)
		}
		if to.Provider.Profile().TwoWay {
			continue
		}
		for _, h := range s.events {
			f := h.fact
			f.Time = morning.Add(h.at)
			f.Live = (d.Mode == event.Live) != h.other
			body, err := webhookOf(to, f)
			if err != nil {
				return w, err
			}
			one := delivery{s.endpoint, send.Webhook{Webhook: body, Forge: h.forged}}
			if h.first {
				w.first = append(w.first, one)
			}
			wave := &w.middle
			if h.last {
				wave = &w.last
			}
			for range max(h.copies, 1) + random.IntN(3) {
				*wave = append(*wave, one)
			}
		}
	}
	stray, err := d.strays()
	w.middle = append(w.middle, stray...)
	random.Shuffle(len(w.middle), func(i, j int) { w.middle[i], w.middle[j] = w.middle[j], w.middle[i] })
	return w, err
}

// talk has Payme and Click ask and pay. It says how many calls were made.
func (d Demo) talk(ctx context.Context, stories []story) (calls int, err error) {
	client := &http.Client{Timeout: 30 * time.Second}
	for _, s := range stories {
		to, ok := d.Endpoints.Get(s.endpoint)
		if !ok || !to.Provider.Profile().TwoWay {
			continue
		}
		target := send.To(d.Public+"/webhooks/"+s.endpoint, to, client)
		for _, h := range s.events {
			f := h.fact
			f.Time = time.Now()
			var made []send.Call
			if s.forgedClick {
				made, err = target.TalkForgedClick(ctx, to, f)
			} else {
				made, err = target.Talk(ctx, to, f, 0, false)
			}
			if err != nil {
				return calls, fmt.Errorf("pay order %s at %s: %w", s.id, s.endpoint, err)
			}
			for _, call := range made {
				calls++
				if call.Status != http.StatusOK || call.Code != 0 {
					return calls, fmt.Errorf("pay order %s at %s: %s was answered %d %s", s.id, s.endpoint, call.Name, call.Status, call.Text)
				}
			}
		}
	}
	return calls, nil
}

// strays are authentic webhooks that no order is waiting for: of a type that
// means nothing, and one that nobody can read.
func (d Demo) strays() ([]delivery, error) {
	id := "evt_" + strings.ToLower(crand.Text()[:12])
	live := d.Mode == event.Live
	unknown, err := json.Marshal(map[string]any{"id": id, "object": "event", "type": "customer.updated", "created": time.Now().Unix(), "livemode": live,
		"data": map[string]any{"object": map[string]any{"id": "cus_1", "object": "customer"}}})
	if err != nil {
		return nil, err
	}
	broken := fmt.Appendf(nil, `{"id": %q, "type": "payment_intent.succeeded", "data":`, id+"_broken")
	to := func(body []byte) delivery {
		return delivery{"stripe", send.Webhook{Webhook: sample.Webhook{ID: id, ContentType: "application/json", Body: body}}}
	}
	return []delivery{to(unknown), to(broken)}, nil
}

// webhookOf makes the webhook by which an endpoint's provider would state a fact.
func webhookOf(to endpoint.Endpoint, f sample.Fact) (sample.Webhook, error) {
	if to.Declaration != nil {
		return sample.Declared(to.Declaration.Reading, f)
	}
	return sample.Make(to.Provider.Name(), f)
}

// answers counts HTTP statuses.
type answers map[int]int

func (a answers) total() (n int) {
	for _, count := range a {
		n += count
	}
	return n
}

// send delivers in the given order, several at once, and counts the answers. A
// 503 is sent again, as a provider would.
func (d Demo) send(ctx context.Context, ds []delivery, sent answers) (err error) {
	client := &http.Client{Timeout: 30 * time.Second}
	for chunk := range slices.Chunk(ds, 8) {
		results := make(chan send.Answer)
		for _, one := range chunk {
			to, _ := d.Endpoints.Get(one.endpoint)
			target := send.To(d.Ingress+"/webhooks/"+one.endpoint, to, client)
			go func() { results <- target.Patiently(ctx, one.Webhook) }()
		}
		for range chunk {
			a := <-results
			if a.Status == 0 {
				err = errors.Join(err, a.Err)
			}
			sent[a.Status]++
		}
		if err != nil {
			return fmt.Errorf("send webhooks: %w", err)
		}
	}
	return nil
}

// Package send delivers webhooks to an ingress as a provider would, and measures
// how it answers.
package send

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/webhook"
	"sluice/services/sluice/sample"
)

// Target is where webhooks go and how they are signed.
type Target struct {
	// URL is the whole address, with the endpoint.
	URL      string
	Provider webhook.Provider
	Secret   webhook.Secret
	Client   *http.Client
	// SignedURL is what a Located provider signs: the endpoint's url, not where it is
	// sent to here.
	SignedURL string
}

// To is how an endpoint's webhooks are signed, sent to url.
func To(url string, e endpoint.Endpoint, client *http.Client) Target {
	t := Target{URL: url, Provider: e.Provider, Client: client, SignedURL: e.URL}
	if len(e.Secrets) > 0 {
		t.Secret = e.Secrets[0]
	}
	return t
}

// Webhook is one delivery.
type Webhook struct {
	sample.Webhook
	// Forge changes the body after it was signed.
	Forge bool
}

// Answer is what one delivery was answered.
type Answer struct {
	// Status is the HTTP status; 0 if there was no answer (Err says why).
	Status int
	Err    error
	// Latency is from when the webhook was due to the end of its answer.
	Latency time.Duration
}

// Post delivers one webhook, signed at the moment at.
func (t Target) Post(ctx context.Context, w Webhook, at time.Time) Answer {
	a, _ := t.exchange(ctx, w, at)
	return a
}

// maxAnswer is what is read of an answer's body.
const maxAnswer = 64 << 10

// exchange delivers one webhook and reads what it is answered.
func (t Target) exchange(ctx context.Context, w Webhook, at time.Time) (Answer, []byte) {
	body, headers, err := t.sign(w, at)
	if err != nil {
		return Answer{Err: err}, nil
	}
	if w.Forge {
		body = append(slices.Clip(body), '\n')
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL, bytes.NewReader(body))
	if err != nil {
		return Answer{Err: err}, nil
	}
	if w.ContentType != "" {
		req.Header.Set("Content-Type", w.ContentType)
	}
	for _, set := range []map[string]string{headers, w.Headers} { // what is unsigned is the sample's to say
		for name, value := range set {
			req.Header.Set(name, value)
		}
	}
	resp, err := t.Client.Do(req)
	if err != nil {
		return Answer{Err: err}, nil
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	if err != nil {
		return Answer{Err: err}, nil
	}
	return Answer{Status: resp.StatusCode}, answer
}

// sign signs in the headers, or within the body, or both, as the provider does.
func (t Target) sign(w Webhook, at time.Time) (body []byte, headers map[string]string, err error) {
	p, body := t.Provider, w.Body
	if located, ok := p.(webhook.Located); ok && t.SignedURL != "" {
		p = located.WithURL(t.SignedURL)
	}
	if sealing, ok := p.(webhook.Sealing); ok {
		if body, err = sealing.Seal(t.Secret, body); err != nil {
			return nil, nil, err
		}
	}
	headers, err = p.Sign(t.Secret, w.ID, at, body)
	return body, headers, err
}

// Pace is how deliveries follow each other.
type Pace struct {
	// Rate is deliveries a second. They leave on time whether or not earlier ones
	// were answered, and a late start counts as latency. 0: as fast as answers come.
	Rate float64
	// Parallel is how many wait for their answers at once (at least 1).
	Parallel int
}

// All delivers every webhook and calls answered after each. It ends early with
// what there is when ctx ends.
func (t Target) All(ctx context.Context, webhooks []Webhook, pace Pace, answered func()) Summary {
	sum := Summary{Answers: map[int]int{}, began: time.Now()}
	type job struct {
		w   Webhook
		due time.Time
	}
	jobs := make(chan job)
	var (
		mu sync.Mutex
		wg sync.WaitGroup
	)
	for range max(pace.Parallel, 1) {
		wg.Go(func() {
			for j := range jobs {
				if j.due.IsZero() {
					j.due = time.Now()
				}
				a := t.Post(ctx, j.w, time.Now())
				a.Latency = time.Since(j.due)
				mu.Lock()
				sum.add(a)
				mu.Unlock()
				answered()
			}
		})
	}
feed:
	for i, w := range webhooks {
		j := job{w: w}
		if pace.Rate > 0 {
			j.due = sum.began.Add(time.Duration(float64(i) / pace.Rate * float64(time.Second)))
			select {
			case <-time.After(time.Until(j.due)):
			case <-ctx.Done():
			}
		}
		select {
		case jobs <- j:
		case <-ctx.Done():
			break feed
		}
	}
	close(jobs)
	wg.Wait()
	sum.Took = time.Since(sum.began)
	return sum
}

// Summary is how a set of deliveries was answered.
type Summary struct {
	// Answers counts HTTP statuses; 0 is no answer.
	Answers map[int]int
	// Err is the first reason for no answer.
	Err  error
	Took time.Duration

	began     time.Time
	latencies []time.Duration
}

func (s *Summary) add(a Answer) {
	s.Answers[a.Status]++
	if a.Err != nil && (s.Err == nil || errors.Is(s.Err, context.Canceled)) {
		s.Err = a.Err
	}
	if a.Status != 0 {
		s.latencies = append(s.latencies, a.Latency)
	}
}

// Sent is how many were delivered, answered or not.
func (s *Summary) Sent() (n int) {
	for _, count := range s.Answers {
		n += count
	}
	return n
}

// Quantile is the latency that the share q of answers did not exceed.
func (s *Summary) Quantile(q float64) time.Duration {
	if len(s.latencies) == 0 {
		return 0
	}
	slices.Sort(s.latencies)
	return s.latencies[min(int(q*float64(len(s.latencies))), len(s.latencies)-1)]
}

// Rate is answers a second.
func (s *Summary) Rate() float64 { return float64(len(s.latencies)) / s.Took.Seconds() }

// Meaning says what a status means for a provider's webhook.
func Meaning(status int) string {
	switch {
	case status == 0:
		return "no answer: the provider would send it again"
	case status == http.StatusUnauthorized:
		return "refused: the signature is wrong, missing or stale"
	case status == http.StatusNotFound:
		return "refused: no endpoint of that name"
	case status == http.StatusRequestEntityTooLarge:
		return "refused: the body is too large"
	case status == http.StatusServiceUnavailable:
		return "not now: Kafka has not acknowledged it; the provider would send it again"
	case status/100 == 2:
		return "accepted: Kafka has it"
	}
	return fmt.Sprintf("unexpected: %s", http.StatusText(status))
}

// Patiently posts until it is answered anything but 503, signing anew each time,
// as a provider's retries do.
func (t Target) Patiently(ctx context.Context, w Webhook) Answer {
	for {
		a := t.Post(ctx, w, time.Now())
		if a.Status != http.StatusServiceUnavailable {
			return a
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return Answer{Err: ctx.Err()}
		}
	}
}

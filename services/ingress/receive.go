package ingress

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"sync"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/webhook"
)

// answer is what one request gets.
type answer struct {
	status  int
	outcome outcome
	// reason is of a small set, fit for a metric label.
	reason     string
	retryAfter time.Duration
	// hangUp: the request was not read to its end.
	hangUp bool
	// says is the body; usually none.
	says webhook.Answer
}

type outcome string

const (
	accepted    outcome = "accepted"    // 2xx: in the raw topic
	challenged  outcome = "challenged"  // 200 to a provider that checks the address; nothing was sent
	refused     outcome = "refused"     // 4xx: the sender's fault, nothing is left of it
	aborted     outcome = "aborted"     // the request never came in whole
	unavailable outcome = "unavailable" // 503: ours, to be sent again
	failed      outcome = "failed"      // 500: a fault in the program
)

// receive takes one webhook from request to answer. Nothing unverified leaves it,
// and 2xx means that all in-sync replicas have the exact body.
func (in *Ingress) receive(r *http.Request, name string) answer {
	rt := in.routes[name]
	if rt == nil {
		return answer{status: http.StatusNotFound, outcome: refused, reason: "unknown_endpoint", hangUp: true}
	}
	defer in.inFlight.Add(-1)
	if in.inFlight.Add(1) > in.cfg.Requests {
		return busy
	}
	loan := loan{from: &in.bodies}
	defer loan.giveBack()
	body, err := readBody(r.Body, r.ContentLength, &loan)
	if err != nil {
		return unread(err)
	}
	received := in.now()
	header := headers(r)
	signature, ok := rt.signature(r)
	if !ok {
		return unverified(webhook.ReasonMalformed)
	}
	req := webhook.Request{Method: r.Method, URL: rt.RequestURL(r.URL.RawQuery), Header: header, Body: body, Remote: in.proxies.Sender(r)}
	if rt.certified != nil {
		if a := in.certificate(rt.certified, &req); a.status != 0 {
			return a
		}
	}
	verdict := rt.Verify(req, received)
	if verdict.Outcome != webhook.Valid {
		return unverified(verdict.Reason)
	}
	if verdict.Secret != "" {
		in.metrics.verified.WithLabelValues(rt.Name, verdict.Secret).Inc()
	}
	e := event.Event{
		Source: rt.Source, Provider: rt.Provider.Name(), Endpoint: rt.Name, Mode: rt.Mode, TimeRepeats: rt.Provider.TimeRepeats(),
		ContentType: storable(r.Header.Get("Content-Type")), Traceparent: storable(r.Header.Get("Traceparent")),
		ReceivedAt: received, SecretName: verdict.Secret, Signature: signature,
	}
	items, readable, refusal := in.split(rt, body, &loan)
	if refusal.status != 0 {
		return refusal
	}
	records := make([]record, len(items))
	for i, item := range items {
		one := e
		one.Body, one.BodySHA256, one.Signature = item, sha256.Sum256(item), rt.signatureOf(req, e, item)
		if records[i], err = rt.record(one, header, readable); err != nil { // checked at the start, so that only a fault of ours gets here
			in.log.Error("encode record headers", "endpoint", rt.Name, "error", err)
			return answer{status: http.StatusInternalServerError, outcome: failed, reason: "internal"}
		}
	}
	a := in.produce(records)
	if a.outcome == accepted && rt.answering != nil {
		a.says = rt.answering.Answer(header, body)
	}
	return a
}

// certificate puts into the request what its signature is checked with.
func (in *Ingress) certificate(p webhook.Certified, req *webhook.Request) answer {
	address, reason := p.CertificateURL(*req)
	if reason != webhook.ReasonNone {
		return unverified(reason)
	}
	var err error
	if req.Certificate, err = in.certificates.Get(address); err != nil {
		return answer{status: http.StatusServiceUnavailable, outcome: unavailable, reason: "certificate", retryAfter: retryAfter}
	}
	return answer{}
}

// record is one event as it is produced.
type record struct {
	kafka.Record
	// reason is what is noteworthy of it, fit for a metric label; usually nothing.
	reason string
}

// record reads the body into the event. An authentic body that cannot be read, or
// whose reading cannot be stored, is kept all the same, under an id made from its
// bytes, for people to see: a refusal would make the provider send it for ever.
func (rt *route) record(e event.Event, header webhook.Headers, readable bool) (record, error) {
	if readable {
		if known, headers, err := rt.Identify(e, header); err == nil {
			reason := ""
			if known.Mode != rt.Mode {
				reason = "other_mode"
			}
			return record{kafka.Record{Key: []byte(known.ID), Value: e.Body, Headers: headers}, reason}, nil
		}
	}
	e.ID, e.Type, e.Trust = "sha256:"+hex.EncodeToString(e.BodySHA256[:]), event.Unreadable, event.Signed
	e.TimeRepeats = false
	headers, err := e.Headers()
	return record{kafka.Record{Key: []byte(e.ID), Value: e.Body, Headers: headers}, "unreadable"}, err
}

// produce writes the records, all at once, and waits for all: 2xx means that all are
// in the raw topic. If one is not, the provider sends all again, and what is kept twice
// then is a duplicate (O08). The request's own end is not waited on: a client that
// hangs up must not look like a fault of the brokers.
func (in *Ingress) produce(records []record) answer {
	ctx := in.deadlines.next(in.now())
	if len(records) == 1 {
		return in.produceOne(ctx, records[0])
	}
	answers := make([]answer, len(records))
	var all sync.WaitGroup
	for i, r := range records {
		all.Go(func() { answers[i] = in.produceOne(ctx, r) })
	}
	all.Wait()
	return worst(answers)
}

func (in *Ingress) produceOne(ctx context.Context, r record) answer {
	err := in.producer.Produce(ctx, r.Record)
	var u *kafka.Unavailable
	switch {
	case err == nil:
		return answer{status: http.StatusOK, outcome: accepted, reason: r.reason}
	case errors.Is(err, kafka.ErrTooLarge):
		return answer{status: http.StatusRequestEntityTooLarge, outcome: refused, reason: "too_large"}
	case errors.As(err, &u):
		return answer{status: http.StatusServiceUnavailable, outcome: unavailable, reason: u.Reason, retryAfter: u.RetryAfter}
	default:
		return answer{status: http.StatusServiceUnavailable, outcome: unavailable, reason: "unknown", retryAfter: retryAfter}
	}
}

const retryAfter = 5 * time.Second

var busy = answer{status: http.StatusServiceUnavailable, outcome: unavailable, reason: "busy", retryAfter: retryAfter, hangUp: true}

func unverified(reason webhook.Reason) answer {
	if reason == webhook.ReasonEmpty {
		return answer{status: http.StatusBadRequest, outcome: refused, reason: string(reason)}
	}
	return answer{status: http.StatusUnauthorized, outcome: refused, reason: string(reason)}
}

// unread answers a body that did not come in.
func unread(err error) answer {
	switch {
	case errors.Is(err, errTooLarge):
		return answer{status: http.StatusRequestEntityTooLarge, outcome: refused, reason: "too_large", hangUp: true}
	case errors.Is(err, errNoMemory):
		return busy
	case isTimeout(err):
		return answer{status: http.StatusRequestTimeout, outcome: aborted, reason: "slow", hangUp: true}
	default:
		return answer{status: http.StatusBadRequest, outcome: aborted, reason: "broken", hangUp: true}
	}
}

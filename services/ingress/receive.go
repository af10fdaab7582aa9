package ingress

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
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
}

type outcome string

const (
	accepted    outcome = "accepted"    // 2xx: in the raw topic
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
	signature, ok := rt.signature(r.Header)
	if !ok {
		return unverified(webhook.ReasonMalformed)
	}
	verdict := rt.Verify(webhook.Request{Method: r.Method, Header: r.Header.Values, Body: body}, received)
	if verdict.Outcome != webhook.Valid {
		return unverified(verdict.Reason)
	}
	e := event.Event{
		Source: rt.Source, Provider: rt.Provider.Name(), Endpoint: rt.Name, Mode: rt.Mode, TimeRepeats: rt.Provider.TimeRepeats(),
		ContentType: storable(r.Header.Get("Content-Type")), Traceparent: storable(r.Header.Get("Traceparent")),
		ReceivedAt: received, SecretName: verdict.Secret, Signature: signature, Body: body, BodySHA256: sha256.Sum256(body),
	}
	e, headers, reason, err := rt.describe(e, r.Header.Values)
	if err != nil { // checked at the start, so that only a fault of ours gets here
		in.log.Error("encode record headers", "endpoint", rt.Name, "error", err)
		return answer{status: http.StatusInternalServerError, outcome: failed, reason: "internal"}
	}
	return in.produce(e, headers, reason)
}

// describe reads the body into the event. An authentic body that cannot be read
// or whose reading cannot be stored is kept all the same, under an id made from
// its bytes, for people to see: a refusal would make the provider send it for ever.
func (rt *route) describe(e event.Event, header webhook.Headers) (event.Event, []event.Header, string, error) {
	reading, err := rt.Read(header, e.Body)
	if err == nil {
		known := e
		known.ID, known.Type, known.Time, known.Mode, known.Trust = reading.ID, reading.Type, statable(reading.Time), reading.Mode, reading.Trust
		known.Order, known.Payment = reading.Order, reading.Payment
		if headers, err := known.Headers(); err == nil {
			reason := ""
			if known.Mode != rt.Mode {
				reason = "other_mode"
			}
			return known, headers, reason, nil
		}
	}
	e.ID, e.Type, e.Trust = "sha256:"+hex.EncodeToString(e.BodySHA256[:]), event.Unreadable, event.Signed
	e.TimeRepeats = false
	headers, err := e.Headers()
	return e, headers, "unreadable", err
}

// produce writes the event and waits. The request's own end is not waited on: a
// client that hangs up must not look like a fault of the brokers.
func (in *Ingress) produce(e event.Event, headers []event.Header, reason string) answer {
	err := in.producer.Produce(in.deadlines.next(in.now()), kafka.Record{Key: []byte(e.ID), Value: e.Body, Headers: headers})
	var u *kafka.Unavailable
	switch {
	case err == nil:
		return answer{status: http.StatusOK, outcome: accepted, reason: reason}
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

package ingress

import (
	"bytes"

	"sluice/pkg/event"
	"sluice/pkg/webhook"
)

// maxItems is the most events of one request: GoCardless, the largest we know of,
// sends 250.
const maxItems = 1000

// split takes a verified body apart into one body an event. What cannot be taken
// apart, or into too many, is one that cannot be read: it is kept whole, for people.
// The answer is set if there is nothing to keep, or no memory for it.
func (in *Ingress) split(rt *route, body []byte, loan *loan) (items [][]byte, readable bool, refusal answer) {
	if rt.batched == nil {
		return [][]byte{body}, true, answer{}
	}
	items, err := rt.batched.Split(body)
	size := int64(0)
	for _, item := range items {
		size += int64(len(item))
	}
	switch {
	case err != nil || len(items) > maxItems || size > in.cfg.BodyBytes-loan.size:
		return [][]byte{body}, false, answer{}
	case len(items) == 0:
		return nil, false, unverified(webhook.ReasonEmpty)
	case size > smallBody && !loan.extend(loan.size+size):
		return nil, false, busy
	}
	return items, true, answer{}
}

// signatureOf is the part of a request's signature that verifies an item by itself:
// headers that sign a whole batch would make its items look forged.
func (rt *route) signatureOf(whole webhook.Request, e event.Event, item []byte) []event.Header {
	if rt.batched == nil || len(e.Signature) == 0 || bytes.Equal(item, whole.Body) {
		return e.Signature
	}
	whole.Body = item
	if rt.Verify(whole, e.ReceivedAt).Outcome != webhook.Valid {
		return nil
	}
	return e.Signature
}

// worst is a batch's answer: that of the item which most wants to be sent again, or
// else the most noteworthy of those that were kept.
func worst(answers []answer) answer {
	w := answers[0]
	for _, a := range answers[1:] {
		if a.status > w.status || a.status == w.status && a.reason > w.reason {
			w = a
		}
	}
	return w
}

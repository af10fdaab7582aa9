package processor

import (
	"strings"
	"testing"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// What ingress could not read says why as a dead letter, in words of its provider's
// rules and none of the body's.
func TestADeadLetterThatIngressCouldNotReadSaysWhy(t *testing.T) {
	good := stated{id: "evt_1", order: "ord_1", payment: "pi_1", kind: order.KindPaid, amount: 1000}.event()
	for body, why := range map[string]string{
		"confidential":     "not JSON",
		`["confidential"]`: "not a JSON object",
		`{"id":"evt_1","type":["confidential"],"created":1,"data":{"object":{}}}`:                                                                      "type is neither text",
		`{"id":"evt_1","id":"confidential","type":"x"}`:                                                                                                "twice",
		`{"id":"evt_1","type":"payment_intent.succeeded","created":1,"data":{"object":{"id":"pi","amount_received":"confidential","currency":"eur"}}}`: "amount_received is not an integer",
		string(good.Body): "can be read now",
	} {
		e := good
		e.ID, e.Type, e.Body, e.BodySHA256 = "sha256:x", event.Unreadable, []byte(body), [32]byte{}
		r := opened(t, e)
		if r.dead != deadBody || !strings.Contains(r.detail, why) || strings.Contains(r.detail, "confidential") {
			t.Errorf("%s: %s %q, want %q", body, r.dead, r.detail, why)
		}
	}
	gone := good
	gone.Type, gone.Endpoint = event.Unreadable, "gone"
	if r := opened(t, gone); r.dead != deadBody || r.detail == "" {
		t.Errorf("of an endpoint that is gone: %s %q", r.dead, r.detail)
	}
}

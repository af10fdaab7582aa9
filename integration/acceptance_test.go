// Package integration proves the promises of docs/guarantees.md on the built
// program, Apache Kafka and PostgreSQL.
package integration

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"sluice/integration/harness"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
)

// The acceptance list: what a buyer of this system tries first.

func TestAValidMessageBecomesOneOrderStatus(t *testing.T) {
	d := harness.New(t, 0)
	ingress, merchant := d.Start("ingress"), d.Start("merchant")
	d.Start("processor")
	d.Start("relay")
	d.Register(merchant, "A-1", 1250)

	body := harness.Intent("evt_a1", "succeeded", "A-1", "pi_a1", 1250, time.Now())
	d.Accept(ingress, harness.Stripe(body))
	d.Accept(ingress, harness.Standard("msg_a1", harness.Payment("pending", "A-1", "pi_a1", 1250, time.Now())))

	d.Becomes("A-1", "paid")
	d.Sound([]string{"evt_a1", "msg_a1"})
	for _, r := range d.Records(kafka.Raw) {
		if string(r.Key) == "evt_a1" && string(r.Value) != string(body) {
			t.Errorf("the raw record is not the body, byte for byte")
		}
	}
	messages := d.Messages("A-1")
	if len(messages) != 2 {
		t.Fatalf("%d messages about the order, want pending and paid: %+v", len(messages), messages)
	}
	paid := messages[1]
	if paid.Status != order.Paid || paid.Previous != order.Pending || paid.Paid != 1250 || paid.Currency != "USD" ||
		paid.Cause.EventID != "evt_a1" || paid.Correction || paid.ID() != "A-1.2" {
		t.Errorf("the second message is not what happened: %+v", paid)
	}
}

func TestAWrongSignatureLeavesNothingBehind(t *testing.T) {
	d := harness.New(t, 0)
	ingress := d.Start("ingress")
	forged := harness.StripeAt(harness.Intent("evt_f", "succeeded", "F-1", "pi_f", 100, time.Now()), "whsec_somebody_else_0001", time.Now())
	if got := d.Post(ingress, forged); got != http.StatusUnauthorized {
		t.Errorf("a forged webhook was answered %d, want 401", got)
	}
	changed := harness.Stripe(harness.Intent("evt_g", "succeeded", "F-1", "pi_f", 100, time.Now()))
	changed.Body = harness.Intent("evt_g", "succeeded", "F-1", "pi_f", 999, time.Now())
	if got := d.Post(ingress, changed); got != http.StatusUnauthorized {
		t.Errorf("a changed body was answered %d, want 401", got)
	}
	if n := len(d.Records(kafka.Raw)); n != 0 {
		t.Errorf("%d records in the raw topic, want none", n)
	}
}

// Case O23: simultaneous duplicates over two receivers and two processors, and
// three related events in parallel.
func TestTheSameEventIdAgainChangesNothing(t *testing.T) {
	d := harness.New(t, 0)
	ingresses := []*harness.Process{d.Start("ingress"), d.Start("ingress")}
	merchant := d.Start("merchant")
	d.Start("processor")
	d.Start("processor")
	d.Start("relay")
	d.Register(merchant, "D-1", 500)

	w := harness.Stripe(harness.Intent("evt_d", "succeeded", "D-1", "pi_d", 500, time.Now()))
	answers := make(chan int, 50)
	for i := range 50 {
		go func() { answers <- d.Post(ingresses[i%2], w) }()
	}
	for range 50 {
		if got := <-answers; got != http.StatusOK {
			t.Errorf("a duplicate was answered %d, want 200", got)
		}
	}
	// The same payment told by other events, at once.
	related := []harness.Webhook{
		harness.Stripe(harness.Intent("evt_d2", "succeeded", "D-1", "pi_d", 500, time.Now())),
		harness.Stripe(harness.Intent("evt_d3", "succeeded", "D-1", "pi_d", 500, time.Now())),
		harness.Stripe(harness.Intent("evt_d4", "succeeded", "D-1", "pi_d", 500, time.Now())),
	}
	for i, w := range related {
		go func() { answers <- d.Post(ingresses[i%2], w) }()
	}
	for range related {
		if got := <-answers; got != http.StatusOK {
			t.Errorf("a related event was answered %d, want 200", got)
		}
	}

	d.Becomes("D-1", "paid")
	d.Sound([]string{"evt_d", "evt_d2", "evt_d3", "evt_d4"})
	if n := d.Count("SELECT count(*) FROM processed_events"); n != 4 {
		t.Errorf("%d processed events, want 4", n)
	}
	if _, version := d.Order("D-1"); version != 2 {
		t.Errorf("the order is at version %d, want 2: pending, paid", version)
	}
}

func TestAStopAfterAcceptanceLosesNothing(t *testing.T) {
	d := harness.New(t, 0)
	ingress, merchant := d.Start("ingress"), d.Start("merchant")
	d.Register(merchant, "S-1", 700)
	d.Accept(ingress, harness.Stripe(harness.Intent("evt_s", "succeeded", "S-1", "pi_s", 700, time.Now())))
	ingress.Kill() // accepted, and nobody has processed it yet
	merchant.Kill()

	d.Start("processor")
	d.Start("relay")
	d.Becomes("S-1", "paid")
	d.Sound([]string{"evt_s"})
}

// Cases O27, O28, O29: a refund before its payment, a late failure, an event
// before its order.
func TestEventsOutOfOrderEndInTheRightStatus(t *testing.T) {
	d := harness.New(t, 12)
	ingress, merchant := d.Start("ingress"), d.Start("merchant")
	d.Start("processor")
	d.Start("processor")
	d.Start("relay")
	at := time.Now().Add(-time.Hour)

	var accepted []string
	send := func(id string, body []byte) {
		t.Helper()
		accepted = append(accepted, id)
		d.Accept(ingress, harness.Stripe(body))
	}
	const n = 25
	for i := range n {
		id, pi := fmt.Sprintf("O-%d", i), fmt.Sprintf("pi_o%d", i)
		// In the order of arrival: refund, payment, the failure before it, then the order itself.
		send("evt_r"+id, harness.RefundTotal("evt_r"+id, id, pi, 900, 300, at.Add(2*time.Minute)))
		send("evt_p"+id, harness.Intent("evt_p"+id, "succeeded", id, pi, 900, at.Add(time.Minute)))
		send("evt_f"+id, harness.Intent("evt_f"+id, "payment_failed", id, pi+"x", 900, at))
	}
	harness.Eventually(t, "everything is held for its order", 30*time.Second, func() error {
		if held := d.Count("SELECT count(*) FROM held_events"); held != 3*n {
			return fmt.Errorf("%d events are held", held)
		}
		return nil
	})
	for i := range n {
		d.Register(merchant, fmt.Sprintf("O-%d", i), 900)
	}
	for i := range n {
		d.Becomes(fmt.Sprintf("O-%d", i), "partially_refunded")
	}
	d.Sound(accepted)
	if held := d.Count("SELECT count(*) FROM held_events"); held != 0 {
		t.Errorf("%d events are still held, want none", held)
	}
}

// Cases O39, O30 (relay's side): what must go out waits while its broker is away.
func TestAFailedOutsideEffectIsDoneLaterAndOnce(t *testing.T) {
	d := harness.New(t, 0)
	merchant := d.Start("merchant")
	relay := d.Start("relay")
	d.Register(merchant, "E-0", 100)
	harness.Eventually(t, "the first message is published and marked", 20*time.Second, func() error {
		n, marked := len(d.Messages("E-0")), d.Count("SELECT count(*) FROM relay_shards WHERE cursor > 0")
		if n != 1 || marked != 1 {
			return fmt.Errorf("%d messages, %d shards marked", n, marked)
		}
		return nil
	})

	d.Proxy.Cut()
	for i := range 20 {
		d.Register(merchant, fmt.Sprintf("E-%d", i+1), 100)
	}
	harness.Eventually(t, "the relay says that it is not ready", 30*time.Second, func() error {
		if relay.IsReady() == nil {
			return fmt.Errorf("it is ready")
		}
		return nil
	})
	if n := d.Count("SELECT count(*) FROM order_transitions t JOIN relay_shards s USING (shard) WHERE t.id > s.cursor"); n != 20 {
		t.Errorf("%d of 20 transitions are marked while the broker was away", 20-n)
	}
	if n := d.Count("SELECT count(*) FROM order_transitions"); n != 21 {
		t.Errorf("%d transitions wait, want all 21 kept", n)
	}
	d.Proxy.Restore()
	for i := range 21 {
		id := fmt.Sprintf("E-%d", i)
		harness.Eventually(t, "order "+id+" is published", 30*time.Second, func() error {
			if n := len(d.Messages(id)); n != 1 {
				return fmt.Errorf("%d messages", n)
			}
			return nil
		})
	}
	relay.Ready()
}

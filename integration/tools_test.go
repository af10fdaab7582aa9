package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/integration/harness"
	"sluice/pkg/kafka"
)

// run runs a tool of the machine and returns what it said.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// kafkaTool is one of Kafka's own command line tools.
func kafkaTool(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("SLUICE_TEST_KAFKA_TOOLS")
	if dir == "" {
		t.Fatal("SLUICE_TEST_KAFKA_TOOLS is not set: run `make test`, or `make parts` and export what it prints")
	}
	return filepath.Join(dir, name)
}

// Engineers replay by resetting offsets, with Kafka's own tool: nothing changes,
// and the books still add up.
func TestAnOffsetResetToTheBeginningChangesNothing(t *testing.T) {
	d := harness.New(t, 3)
	ingress, merchant := d.Start("ingress"), d.Start("merchant")
	processor := d.Start("processor")
	d.Start("relay")
	var accepted []string
	base := time.Now().Add(-time.Hour)
	for i := range 40 {
		id, pi := fmt.Sprintf("T-%d", i), fmt.Sprintf("pi_t%d", i)
		d.Register(merchant, id, 500)
		d.Accept(ingress, harness.Stripe(harness.RefundTotal("evt_tr"+id, id, pi, 500, 100, base.Add(time.Minute))))
		d.Accept(ingress, harness.Stripe(harness.Intent("evt_tp"+id, "succeeded", id, pi, 500, base)))
		accepted = append(accepted, "evt_tr"+id, "evt_tp"+id)
	}
	for i := range 40 {
		d.Becomes(fmt.Sprintf("T-%d", i), "partially_refunded")
	}
	d.Sound(accepted)
	published := len(d.Records(kafka.Status))
	transitions := d.Count("SELECT count(*) FROM order_transitions")

	// Stop the group, reset it, start it again.
	if code := processor.Stop(); code != 0 {
		t.Fatalf("the processor ended with %d", code)
	}
	group, topic := d.Kafka.Topic(kafka.Group), d.Kafka.Topic(kafka.Raw)
	said := run(t, kafkaTool(t, "kafka-consumer-groups.sh"), "--bootstrap-server", d.Kafka.Brokers[0], "--group", group,
		"--topic", topic, "--reset-offsets", "--to-earliest", "--execute")
	if !strings.Contains(said, topic) {
		t.Errorf("kafka-consumer-groups did not name the topic it reset:\n%s", said)
	}
	if n := d.Committed(); n != 0 {
		t.Fatalf("offsets sum to %d after the reset, want 0", n)
	}
	d.Start("processor")
	d.Sound(accepted)
	if n := d.Count("SELECT count(*) FROM order_transitions"); n != transitions {
		t.Errorf("%d transitions after the replay, %d before", n, transitions)
	}
	if n := len(d.Records(kafka.Status)); n != published {
		t.Errorf("%d status messages after the replay, %d before", n, published)
	}
	described := run(t, kafkaTool(t, "kafka-consumer-groups.sh"), "--bootstrap-server", d.Kafka.Brokers[0], "--group", group, "--describe")
	if !strings.Contains(described, topic) {
		t.Errorf("kafka-consumer-groups --describe does not show the topic:\n%s", described)
	}
}

func TestKcatReadsTheStatusTopic(t *testing.T) {
	if _, err := exec.LookPath("kcat"); err != nil {
		t.Fatal("kcat is not installed: `apt-get install kcat`, or `brew install kcat`")
	}
	d := harness.New(t, 0)
	merchant := d.Start("merchant")
	d.Start("relay")
	d.Register(merchant, "kcat-1", 4200)
	harness.Eventually(t, "the message is published", 20*time.Second, func() error {
		if len(d.Messages("kcat-1")) != 1 {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	said := run(t, "kcat", "-b", d.Kafka.Brokers[0], "-t", d.Kafka.Topic(kafka.Status), "-C", "-e", "-q", "-f", "%k %h %s\n")
	for _, want := range []string{"kcat-1 ", "content-type=application/cloudevents+json", `"status":"pending"`, `"version":1`} {
		if !strings.Contains(said, want) {
			t.Errorf("kcat does not show %s:\n%s", want, said)
		}
	}
}

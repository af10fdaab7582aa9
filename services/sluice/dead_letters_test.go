package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
	"sluice/services/processor"
)

// mourned is a deployment in which records die, and the commands that look at them.
type mourned struct {
	*testing.T
	kafka     kafka.Config
	store     *postgres.Store
	client    *kgo.Client
	admin     *kadm.Client
	endpoints string                 // the file's path
	misread   map[string]event.Event // by id; see newMisread
}

const (
	noEndpoints   = "endpoints:\n  - {name: other, provider: stripe, secrets: [env:S]}\n"
	withEndpoints = noEndpoints + "  - {name: shop, provider: stripe, secrets: [env:S]}\n"
)

func newMourned(t *testing.T) *mourned {
	t.Helper()
	m := &mourned{T: t, kafka: testkit.Kafka(t, 1), endpoints: filepath.Join(t.TempDir(), "endpoints.yaml")}
	database := testkit.Database(t)
	for name, value := range map[string]string{"DATABASE_URL": database.URL, "KAFKA_BROKERS": strings.Join(m.kafka.Brokers, ","),
		"KAFKA_TOPIC_PREFIX": m.kafka.TopicPrefix, "SLUICE_ENDPOINTS": m.endpoints, "SLUICE_MODE": "live", "USER": "anna"} {
		t.Setenv(name, value)
	}
	var err error
	if m.store, err = postgres.Open(t.Context(), database, 8); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.store.Close)
	m.client = testkit.Client(t, m.kafka)
	m.admin = kadm.NewClient(m.client)
	m.configure(noEndpoints)
	if _, err := m.store.Register(t.Context(), time.Now(), postgres.Registration{OrderID: "A-1", Amount: 1250, Currency: "EUR"}); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *mourned) configure(text string) {
	m.Helper()
	if err := os.WriteFile(m.endpoints, []byte(text), 0o600); err != nil {
		m.Fatal(err)
	}
}

// paid is a webhook of endpoint shop that pays A-1, with a number on its card.
func (m *mourned) paid(id string) event.Event {
	body := fmt.Sprintf(`{"id":%q,"type":"payment_intent.succeeded","created":%d,"livemode":true,"data":{"object":{"id":"pi_1","amount_received":1250,"currency":"eur","metadata":{"order_id":"A-1"},"card":"4242424242424242"}}}`,
		id, time.Now().Unix())
	return event.Event{Source: "shop", ID: id, Type: "payment_intent.succeeded", Time: time.Now().Truncate(time.Second), TimeRepeats: true, Mode: event.Live,
		Provider: "stripe", Endpoint: "shop", Order: "A-1", Payment: "pi_1", Trust: event.Signed, ContentType: "application/json", ReceivedAt: time.Now(),
		Signature: []event.Header{{Name: "stripe-signature", Value: []byte("confidential-signature")}}, Body: []byte(body)}
}

// unread is the same as ingress keeps it where it cannot read the body.
func (m *mourned) unread(id string) event.Event {
	e := m.paid(id)
	e.ID, e.Type, e.Time, e.TimeRepeats, e.Order, e.Payment = "sha256:00ff", event.Unreadable, time.Time{}, false, "", ""
	return e
}

func (m *mourned) produce(e event.Event, more ...kgo.RecordHeader) {
	m.Helper()
	headers, err := e.Headers()
	if err != nil {
		m.Fatal(err)
	}
	r := &kgo.Record{Topic: m.kafka.Topic(kafka.Raw), Key: []byte(e.ID), Value: e.Body, Headers: more}
	for _, h := range headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
	}
	if err := m.client.ProduceSync(m.Context(), r).FirstErr(); err != nil {
		m.Fatal(err)
	}
}

// process runs a processor with the present endpoints until everything is applied.
func (m *mourned) process() {
	m.Helper()
	endpoints, err := deployment{Endpoints: m.endpoints, Mode: event.Live}.readings()
	if err != nil {
		m.Fatal(err)
	}
	p, err := processor.New(m.Context(), processor.Config{Workers: 1, Batch: 100, Chores: time.Hour}, processor.Deps{Kafka: m.kafka, Store: m.store,
		Endpoints: endpoints, Mode: event.Live, Log: slog.New(slog.DiscardHandler), Reg: prometheus.NewRegistry(), Now: time.Now})
	if err != nil {
		m.Fatal(err)
	}
	ctx, cancel := context.WithCancel(m.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	deadline := time.After(time.Minute)
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		lag, err := kafka.Lag(m.Context(), m.kafka, slog.New(slog.DiscardHandler), m.kafka.Topic(kafka.Group), m.kafka.Topic(kafka.Raw))
		if err == nil && lag == 0 {
			break
		}
		select {
		case <-deadline:
			m.Fatalf("%d records are left, %v", lag, err)
		case <-tick.C:
		}
	}
	cancel()
	if err := <-ended; err != nil {
		m.Fatal(err)
	}
}

// rewind resets the group to the beginning.
func (m *mourned) rewind() {
	m.Helper()
	if _, err := m.admin.DeleteGroup(m.Context(), m.kafka.Topic(kafka.Group)); err != nil {
		m.Fatal(err)
	}
}

// says runs a command and holds what it says to expressions; a body or signature is
// never among it.
func (m *mourned) says(command string, want ...string) string {
	m.Helper()
	out, err := sluice(m.T, strings.Fields(command)...)
	if err != nil {
		out += err.Error()
	}
	for _, w := range want {
		if !regexp.MustCompile(w).MatchString(out) {
			m.Errorf("sluice %s: no %q in\n%s", command, w, out)
		}
	}
	if strings.Contains(out, "4242") || strings.Contains(out, "confidential") {
		m.Errorf("sluice %s shows what it must not:\n%s", command, out)
	}
	return out
}

// applied checks that A-1 was paid once, whatever was sent how often, and that every
// record is in the books once.
func (m *mourned) applied(records int64) {
	m.Helper()
	m.says("audit", "the books add up")
	story, err := m.store.Story(m.Context(), "A-1")
	if err != nil {
		m.Fatal(err)
	}
	if story.Status != order.Paid || story.Version != 2 {
		m.Errorf("the order is %s at version %d, want paid at 2", story.Status, story.Version)
	}
	booked, err := m.store.BooksSince(m.Context(), time.Unix(0, 0))
	if err != nil {
		m.Fatal(err)
	}
	all, applied := int64(0), int64(0)
	for k, n := range booked {
		if k.Endpoint == postgres.Merchant {
			continue
		}
		if all += n; k.Verdict == order.Applied {
			applied += n
		}
	}
	if applied != 1 || all != records {
		m.Errorf("the books have %v: %d applied, %d in all, want 1 and %d", booked, applied, all, records)
	}
}

// sendLate settles all open letters as sent, and puts their copies into the topic when
// the returned function is called: a replay can be anywhere in between.
func (m *mourned) sendLate() (publish func()) {
	m.Helper()
	letters, err := m.store.ListDeadLetters(m.Context(), time.Now(), postgres.DeadLetterFilter{Limit: 10})
	if err != nil {
		m.Fatal(err)
	}
	var copies []*kgo.Record
	_, others, err := m.store.SendDeadLettersAgain(m.Context(), time.Now(), "anna", "mended", letters, func(taken []postgres.DeadLetter) []error {
		for _, d := range taken {
			r := &kgo.Record{Topic: m.kafka.Topic(kafka.Raw), Key: d.Key, Value: d.Body}
			for _, h := range d.Headers {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
			}
			copies = append(copies, r)
		}
		return make([]error, len(taken))
	})
	if err != nil || len(others) > 0 {
		m.Fatal(others, err)
	}
	return func() {
		if err := m.client.ProduceSync(m.Context(), copies...).FirstErr(); err != nil {
			m.Fatal(err)
		}
	}
}

// A letter whose endpoint was not configured is sent again after the fix, and applied
// once, whether a replay goes over its old place before, in between, or after.
func TestADeadLetterThatIsSentAgainIsAppliedOnceWhateverIsReplayed(t *testing.T) {
	for name, replay := range map[string]struct{ before, between, after bool }{
		"no replay": {}, "before": {before: true}, "between": {between: true}, "after": {after: true}, "between and after": {between: true, after: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMourned(t)
			m.produce(m.paid("evt_1"))
			m.process()
			m.says("dead-letters list", `0/0 .*\(unknown\) +endpoint .* open`)
			m.says("dead-letters send-again 0/0 --reason early", `would die again \(endpoint`, `not sent again: 1`)
			m.says("dead-letters send-again 0/0 --as bo --reason early", `would die again \(endpoint`) // nobody has claimed it
			m.configure(withEndpoints)
			if replay.before {
				m.rewind()
				m.process()
				m.says("dead-letters send-again 0/0 --reason mended", `settled already: readable`)
				m.applied(1)
				return
			}
			if replay.between {
				late := m.sendLate()
				m.rewind()
				m.process()
				m.applied(1)
				late()
			} else {
				m.says("dead-letters send-again 0/0 --reason mended", `sent again: 1`)
			}
			m.process()
			m.applied(2)
			if replay.after {
				m.rewind()
				m.process()
				m.applied(2)
			}
			m.says("dead-letters list --settled", `sent again by anna`)
			m.says("dead-letters send-again 0/0 --reason mended", `settled already: send_again by anna`)
			m.says("explain evt_1 --as dead_letter", `sent again by anna`, `mended`)
		})
	}
}

// What ingress could not read has no name of its own: sent again it gets the one that
// the provider's next delivery has, so that the two are one event.
func TestWhatIngressCouldNotReadIsSentAgainUnderItsOwnName(t *testing.T) {
	m := newMourned(t)
	m.configure(withEndpoints)
	m.produce(m.unread("evt_1"))
	m.process()
	m.says("dead-letters list --cause body", `0/0 .* shop +body`)
	out := m.says("dead-letters show 0/0", `can be read +event evt_1 of shop`, `paid 12\.50 EUR, order A-1, payment pi_1`, `sluice_signature_stripe-signature +\(22 bytes, not shown\)`, `ce_type +unreadable`)
	if strings.Contains(out, "taken over from another record") {
		t.Errorf("it says that the event is known:\n%s", out)
	}
	m.rewind()
	m.process() // a replay cannot give it its name
	m.says("dead-letters send-again --cause body --reason mended", `sent again: 1`)
	m.process()
	m.applied(2)
	m.produce(m.paid("evt_1")) // the provider repeats it
	m.process()
	m.applied(3)
	m.says("explain evt_1", `taken over`)
	m.says("dead-letters show 0/0", `its event was taken over from another record`, `sent again by anna`, `mended`)
}

// The tool dies after Kafka has the copy and before the letter is settled: it is sent a
// second time, and applied once.
func TestALetterThatWasSentBeforeACrashIsSentTwiceAndAppliedOnce(t *testing.T) {
	m := newMourned(t)
	m.produce(m.paid("evt_1"))
	m.process()
	m.configure(withEndpoints)
	letters, err := m.store.ListDeadLetters(t.Context(), time.Now(), postgres.DeadLetterFilter{Limit: 10})
	if err != nil || len(letters) != 1 {
		t.Fatalf("%v, %v", letters, err)
	}
	publisher, err := kafka.NewPublisher(t.Context(), m.kafka, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer publisher.Close()
	present, err := desk{}.rules()
	if err != nil {
		t.Fatal(err)
	}
	sender := letterSender{rules: present, topic: m.kafka.Topic(kafka.Raw), publish: publisher.Publish}
	dying, die := context.WithCancel(t.Context())
	_, _, err = m.store.SendDeadLettersAgain(dying, time.Now(), "anna", "mended", letters, func(taken []postgres.DeadLetter) []error {
		failed := sender.send(dying, taken)
		die() // as a killed program's connection ends: nothing of the transaction is left
		return failed
	})
	if err == nil {
		t.Fatal("the transaction of a program that died was committed")
	}
	m.says("dead-letters list", `claimed by anna`)
	m.says("dead-letters send-again --all --as bo --reason mended", `somebody else has claimed it: anna`)
	m.says("dead-letters send-again --all --reason mended", `sent again: 1`)
	m.process()
	m.applied(3)
}

// A person's decision that a letter counts for nothing outlives every replay.
func TestADiscardedLetterIsNeverTakenOverByAReplay(t *testing.T) {
	m := newMourned(t)
	m.produce(m.paid("evt_1"))
	m.process()
	m.says("review list --kind dead_letter", `dead letter`)
	m.says("dead-letters discard 0/0 --reason ours", `discarded: 1`)
	m.says("review list", `nothing waits`)
	m.configure(withEndpoints)
	m.rewind()
	m.process()
	story, err := m.store.Story(t.Context(), "A-1")
	if err != nil || story.Status != order.Pending {
		t.Errorf("the order is %s, %v", story.Status, err)
	}
	m.says("audit", "the books add up")
	m.says("explain evt_1 --as dead_letter", `discarded by anna`)
	m.produce(m.paid("evt_1")) // the provider's own repeat is another record
	m.process()
	m.applied(2)
}

func TestABodyIsWrittenOnlyWhereItWasAskedForAndNeverOverAnotherFile(t *testing.T) {
	m := newMourned(t)
	e := m.paid("evt_1")
	m.produce(e, kgo.RecordHeader{Key: "Authorization", Value: []byte("confidential")}, kgo.RecordHeader{Key: "a\x1b[2Jb", Value: []byte("x")})
	m.process()
	out := m.says("dead-letters show 0/0", `died of +endpoint: endpoint shop is not configured`, `cannot be read +endpoint`, `Authorization +\(12 bytes, not shown\)`)
	if strings.Contains(out, "\x1b") {
		t.Errorf("a stranger's header reaches the terminal:\n%q", out)
	}
	m.says("dead-letters show 0/0 --json", `"reason": "endpoint"`)
	file := filepath.Join(t.TempDir(), "body")
	m.says("dead-letters show 0/0 --body " + file)
	if got, err := os.ReadFile(file); err != nil || string(got) != string(e.Body) {
		t.Errorf("wrote %q, %v", got, err)
	}
	m.says("dead-letters show 0/0 --body "+file, `exists`)
	if out, err := sluice(t, "dead-letters", "show", "0/0", "--body", "-"); err != nil || out != string(e.Body) {
		t.Errorf("printed %q, %v", out, err)
	}
	m.says("dead-letters show 0/7", `no such dead letter`)
	t.Setenv("SLUICE_ENDPOINTS", "nowhere.yaml")
	m.says("dead-letters show 0/0", `the endpoints file is not known here`)
	m.says("dead-letters send-again 0/0 --reason why", `--anyway`)
	for _, wrong := range []string{"send-again --reason why", "discard 0/0 --all --reason why", "show seven", "send-again x --reason why", "list --since yesterday", "list --cause rust"} {
		if _, err := sluice(t, strings.Fields("dead-letters "+wrong)...); exitCode(err) != 2 {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

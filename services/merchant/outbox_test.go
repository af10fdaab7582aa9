package merchant

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
	"sluice/pkg/webhook"
)

func TestWithoutKafkaPaymentsAreTakenAndWait(t *testing.T) {
	s := newShop(t)
	s.order("o", 10)
	s.records.Away(true)
	transaction(t, s.rpc("CreateTransaction", createParams(paymeID, "o", 1000, atPayme)))
	if !strings.Contains(s.rpc("PerformTransaction", named(paymeID)), `"state":2`) {
		t.Fatal("not performed")
	}
	s.pass(90 * time.Second)
	if err := s.m.publishAll(t.Context()); err == nil {
		t.Fatal("published without a broker")
	}
	if n, age := testutil.ToFloat64(s.m.metrics.waiting), testutil.ToFloat64(s.m.metrics.oldest); n != 2 || age != 90 {
		t.Errorf("%v records wait, the oldest for %v s", n, age)
	}
	s.records.Away(false)
	if events := s.published(); len(events) != 2 || events[0].ID != paymeID+":CreateTransaction" || events[1].ID != paymeID+":PerformTransaction" {
		t.Errorf("published %+v", events)
	}
	if n := testutil.ToFloat64(s.m.metrics.waiting); n != 0 {
		t.Errorf("%v records wait still", n)
	}
}

func TestPublishedRecordsAreForgottenInTime(t *testing.T) {
	s := newShop(t)
	s.order("o", 10)
	s.rpc("CreateTransaction", createParams(paymeID, "o", 1000, atPayme))
	drop := func() int64 {
		n, err := s.store.DropRaw(t.Context(), s.now().Add(-time.Hour), 10)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	s.pass(2 * time.Hour)
	if n := drop(); n != 0 {
		t.Fatalf("%d records were forgotten before they were published", n)
	}
	s.published()
	if n := drop(); n != 0 {
		t.Errorf("%d records were forgotten at once", n)
	}
	s.pass(2 * time.Hour)
	if n := drop(); n != 1 {
		t.Errorf("%d records were forgotten, want 1", n)
	}
}

// A crash after Kafka has taken the records, before they are marked: they come again
// under the same keys, and with the same bytes.
func TestACrashBeforeTheMarkRepeatsTheRecord(t *testing.T) {
	s := newShop(t)
	cfg := testkit.Kafka(t, 3)
	producer, err := kafka.NewProducer(t.Context(), cfg, "merchant", cfg.Topic(kafka.Raw), testkit.Log(t), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = producer.Close(context.Background()) })
	s.m.outbox.producer = producer
	s.order("o", 10)
	s.rpc("CreateTransaction", createParams(paymeID, "o", 1000, atPayme))
	s.rpc("PerformTransaction", named(paymeID))

	crashed, crash := context.WithCancel(t.Context())
	n := 0
	_, err = s.store.PublishRaw(crashed, s.now, 10, func(r postgres.OutboxRecord) error {
		if n++; n == 2 {
			defer crash() // the transaction is never committed
		}
		return s.m.produce(t.Context(), r)
	})
	if err == nil {
		t.Fatal("it did not crash")
	}
	if err := s.m.publishAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, _, _ := s.store.RawBacklog(t.Context()); n != 0 {
		t.Errorf("%d records wait", n)
	}
	seen := map[string][]string{}
	cl := testkit.Client(t, cfg, kgo.ConsumeTopics(cfg.Topic(kafka.Raw)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for n := 0; n < 4; {
		fetches := cl.PollFetches(t.Context())
		fetches.EachRecord(func(r *kgo.Record) {
			n++
			headers := make([]event.Header, len(r.Headers))
			for i, h := range r.Headers {
				headers[i] = event.Header{Name: h.Key, Value: h.Value}
			}
			e, err := event.Parse(r.Key, r.Value, headers)
			if err != nil {
				t.Fatal(err)
			}
			s.reading(e)
			seen[e.ID] = append(seen[e.ID], string(e.Body))
		})
	}
	for _, id := range []string{paymeID + ":CreateTransaction", paymeID + ":PerformTransaction"} {
		if got := seen[id]; len(got) != 2 || got[0] != got[1] {
			t.Errorf("%s: %q, want the same twice", id, got)
		}
	}
}

// What the processor will read is what the transaction was made for, or nothing is
// committed.
func TestNoEventTellsOfAnotherOrderOrAmount(t *testing.T) {
	s := newShop(t)
	q := request{endpoint: s.m.routes["payme"].endpoint, received: s.now(),
		Request: webhook.Request{Body: []byte(`{"method":"CreateTransaction","params":` + createParams(paymeID, "o", 1000, atPayme) + `}`)}}
	if _, err := q.event("k", nil, "o", 1000); err != nil {
		t.Fatal(err)
	}
	for _, other := range []struct {
		order  string
		amount int64
	}{{"p", 1000}, {"o", 1001}} {
		if _, err := q.event("k", nil, other.order, other.amount); err == nil {
			t.Errorf("taken for %+v", other)
		}
	}
}

func TestOneMerchantPublishesAtATime(t *testing.T) {
	s := newShop(t)
	s.order("o", 10)
	s.rpc("CreateTransaction", createParams(paymeID, "o", 1000, atPayme))
	_, err := s.store.PublishRaw(t.Context(), s.now, 10, func(postgres.OutboxRecord) error {
		n, err := s.store.PublishRaw(t.Context(), s.now, 10, func(postgres.OutboxRecord) error {
			t.Error("two publish at a time")
			return nil
		})
		if n != 0 || err != nil {
			t.Errorf("the second: %d records, %v", n, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatKafkaTookBeforeARefusalIsNotPublishedAgain(t *testing.T) {
	s := newShop(t)
	s.order("o", 10)
	s.rpc("CreateTransaction", createParams(paymeID, "o", 1000, atPayme))
	s.rpc("PerformTransaction", named(paymeID))
	taken := 0
	n, err := s.store.PublishRaw(t.Context(), s.now, 10, func(postgres.OutboxRecord) error {
		if taken++; taken == 2 {
			return errors.New("the broker went away")
		}
		return nil
	})
	if n != 1 || err == nil {
		t.Fatalf("%d published, %v", n, err)
	}
	if events := s.published(); len(events) != 1 || events[0].ID != paymeID+":PerformTransaction" {
		t.Errorf("published again: %+v", events)
	}
}

func TestTheRolePublishesWhatItAnswered(t *testing.T) {
	s := newShop(t)
	s.order("o", 10)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.m.Run(ctx) }()
	s.rpc("CreateTransaction", createParams(paymeID, "o", 1000, atPayme))
	deadline := time.After(10 * time.Second)
	for len(s.records.Records()) == 0 {
		select {
		case <-deadline:
			t.Fatal("nothing was published")
		case <-time.After(5 * time.Millisecond):
		}
	}
	s.rpc("PerformTransaction", named(paymeID))
	stop()
	if err := <-ended; err != nil {
		t.Errorf("stopped with %v", err)
	}
	if len(s.records.Records()) != 2 {
		t.Errorf("%d records after the stop, want 2", len(s.records.Records()))
	}
}

func TestOnlyTwoWayEndpointsArePublicAndNothingElse(t *testing.T) {
	s := newShop(t)
	for _, path := range []string{"/webhooks/stripe", "/webhooks/", "/webhooks/nobody", "/v1/orders/o", "/"} {
		w := httptest.NewRecorder()
		s.public.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}")))
		if w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/webhooks/payme", strings.NewReader("{}")))
	if w.Code != http.StatusNotFound {
		t.Errorf("the API answers providers: %d", w.Code)
	}
}

func TestADatabaseThatIsAwayIsASystemErrorInTheProtocol(t *testing.T) {
	s := newShop(t)
	s.store.Close()
	s.refused(s.rpc("CheckPerformTransaction", `{"amount":1000,"account":{"order_id":"o"}}`), -32400, "")
	s.says(s.click(form("1", "o", "10", "0")), -7)
}

func TestEndpointsThatPayNeedAPublicAddress(t *testing.T) {
	cfg := sound(Config{})
	cfg.PublicAddress = ""
	set := loadEndpoints(t, twoWayEndpoints)
	if err := cfg.CheckEndpoints(set); err == nil || !strings.Contains(err.Error(), "SLUICE_MERCHANT_PUBLIC_ADDRESS") {
		t.Errorf("without one: %v", err)
	}
	if _, err := New(cfg, Deps{Log: testkit.Log(t), Reg: prometheus.NewRegistry(), Now: time.Now, Endpoints: set}); err == nil {
		t.Error("it started")
	}
	if err := cfg.CheckEndpoints(loadEndpoints(t, "endpoints:\n  - {name: stripe, provider: stripe, secrets: [\"env:NOT_SET\"]}\n")); err != nil {
		t.Errorf("though nobody pays: %v", err)
	}
}

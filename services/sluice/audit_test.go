package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/audit"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/testkit"
	"sluice/services/sluice/terminal"
)

// O24
func TestAuditExitsWithOneAndNamesTheEventThatHasNoVerdict(t *testing.T) {
	cfg, database := testkit.Kafka(t, 1), testkit.Database(t)
	t.Setenv("KAFKA_BROKERS", strings.Join(cfg.Brokers, ","))
	t.Setenv("KAFKA_TOPIC_PREFIX", cfg.TopicPrefix)
	t.Setenv("DATABASE_URL", database.URL)
	if out, err := sluice(t, "audit"); err != nil || !strings.Contains(out, "the books add up") {
		t.Fatalf("an empty deployment: %v\n%s", err, out)
	}
	e := event.Event{Source: "stripe", ID: "evt_lost", Type: "payment_intent.succeeded", Mode: event.Live, Provider: "stripe", Endpoint: "stripe-eu",
		Trust: event.Signed, ReceivedAt: time.Now(), Order: "A-1", Body: []byte(`{"card":"4242"}`)}
	headers, err := e.Headers()
	if err != nil {
		t.Fatal(err)
	}
	r := &kgo.Record{Topic: cfg.Topic(kafka.Raw), Key: []byte(e.ID), Value: e.Body}
	for _, h := range headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
	}
	client := testkit.Client(t, cfg)
	if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if out, err := sluice(t, "audit"); err != nil {
		t.Fatalf("one event in flight: %v\n%s", err, out)
	}
	topics, err := testkit.Admin(t, cfg).ListTopics(t.Context(), cfg.Topic(kafka.Raw))
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", database.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	id := topics[cfg.Topic(kafka.Raw)].ID
	if _, err := db.Exec(`INSERT INTO partitions VALUES ($1, 0, 'raw', 'me', 1, 0)`, [16]byte(id)); err != nil {
		t.Fatal(err)
	}
	out, err := sluice(t, "audit")
	if err == nil || !strings.Contains(out, "1 unaccounted") || !strings.Contains(out, "evt_lost") || strings.Contains(out, "4242") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = sluice(t, "audit", "--json")
	var d audit.Document
	if jsonErr := json.Unmarshal([]byte(out), &d); err == nil || jsonErr != nil || d.Unaccounted != 1 || len(d.Findings) != 1 || d.Findings[0].EventID != "evt_lost" {
		t.Errorf("%v, %v\n%s", err, jsonErr, out)
	}
	if out, err := sluice(t, "audit", "--since", "2020-01-01", "--until", "2020-01-02"); err != nil {
		t.Errorf("a span without events: %v\n%s", err, out)
	}
}

func TestASpanIsWrittenAsPeopleDo(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 30, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{"6h": now.Add(-6 * time.Hour), "2026-11-02": time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC),
		"2026-11-02T03:04:05Z": time.Date(2026, 11, 2, 3, 4, 5, 0, time.UTC), "2026-11-02 03:04": time.Date(2026, 11, 2, 3, 4, 0, 0, time.UTC)} {
		if got, err := moment(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, c := range []auditCmd{{Since: "yesterday"}, {Since: "-6h"}, {Since: "2026-11-02", Until: "2026-11-01"}} {
		if _, err := c.span(now); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

func TestTheBooksAreOneAlignedTable(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	r := &audit.Report{Lines: []audit.Line{
		{Before: at, Accepted: 120345, Counted: 120345, Endpoints: map[string]map[order.Verdict]int64{"stripe": {order.Applied: 120000, order.Duplicate: 345}}},
		{From: at, Before: at.Add(time.Hour), Accepted: 12, InFlight: 1, Counted: 11, Endpoints: map[string]map[order.Verdict]int64{
			"shop": {order.Applied: 3, order.Held: 1}, "stripe": {order.Applied: 5, order.NoChange: 1, order.Dead: 1}}},
	}}
	var out bytes.Buffer
	printAudit(terminal.New(&out), r, nil)
	const want = `
The books
  hour (UTC)               endpoint  accepted  applied  no change  duplicate  held  dead  in flight  unaccounted
  before 2026-11-30 12:00  all         120345   120000          0        345     0     0          0            0
                           stripe      120345   120000          0        345     0     0
  2026-11-30 12:00         all             12        8          1          0     1     1          1            0
                           shop             4        3          0          0     1     0
                           stripe           7        5          1          0     0     1
  total                                120357   120008          1        345     1     1          1            0

the books add up
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

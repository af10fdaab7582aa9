package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
	"sluice/pkg/testkit/provider"
)

// driftWorld is a day at Square and at CloudPayments, which lists nothing, and what is
// known of it here.
type driftWorld struct {
	*testing.T
	database postgres.Config
	store    *postgres.Store
	square   *provider.Lists
	payments *provider.Documents
	faulty   *provider.Faulty
}

var driftDay = time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)

func newDriftWorld(t *testing.T) *driftWorld {
	t.Helper()
	documents := &provider.Documents{Header: "Authorization", Value: "Bearer api-secret"}
	w := &driftWorld{T: t, database: testkit.Database(t), payments: documents,
		square: &provider.Lists{API: documents, Provider: "square", Header: "Authorization", Value: "Bearer api-secret", Size: 3}}
	w.faulty = &provider.Faulty{API: w.square}
	server := httptest.NewServer(w.faulty)
	t.Cleanup(server.Close)
	kafka := testkit.Kafka(t, 3)
	file := filepath.Join(t.TempDir(), "endpoints.yaml")
	text := fmt.Sprintf(`endpoints:
  - {name: square, provider: square, url: https://shop.example/webhooks/square, secrets: [env:SIGNING], lookup: {base_url: %q, credentials: ["env:API"], rate: 1000}}
  - {name: github, provider: github, secrets: [env:SIGNING]}
`, server.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"KAFKA_BROKERS": strings.Join(kafka.Brokers, ","), "KAFKA_TOPIC_PREFIX": kafka.TopicPrefix, "DATABASE_URL": w.database.URL,
		"SLUICE_ENDPOINTS": file, "SLUICE_MODE": "live", "SIGNING": "a-signing-key-of-some-length", "API": "api-secret", "USER": "anna", "SLUICE_DEV_BROKER": "true",
		"SLUICE_RECONCILER_BACKOFF_BASE": "2ms", "SLUICE_RECONCILER_BACKOFF_MAX": "10ms"} {
		t.Setenv(name, value)
	}
	var err error
	if w.store, err = postgres.Open(t.Context(), w.database, 4); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	return w
}

// there puts a payment at the provider, with one refund if refunded is not 0: into its
// lists of a day if at is not zero.
func (w *driftWorld) there(id, status string, at time.Time, amount, refunded int64) {
	document := fmt.Sprintf(`{"id":%q,"status":%q,"reference_id":"O-%s","created_at":"2026-11-29T10:00:00Z","amount_money":{"amount":%d,"currency":"EUR"}`, id, status, id, amount)
	if refunded > 0 {
		refund := fmt.Sprintf(`{"id":"r-%s","status":"COMPLETED","payment_id":%q,"created_at":"2026-11-29T11:00:00Z","amount_money":{"amount":%d,"currency":"EUR"}}`, id, id, refunded)
		w.payments.Put("/v2/refunds/r-"+id, `{"refund":`+refund+`}`)
		w.square.Put("/v2/refunds", "r-"+id, at, refund)
		document += fmt.Sprintf(`,"refund_ids":["r-%s"]`, id)
	}
	document += "}"
	w.payments.Put("/v2/payments/"+id, `{"payment":`+document+`}`)
	if !at.IsZero() {
		w.square.Put("/v2/payments", id, at, document)
	}
}

// here takes a webhook's fact over, at an order of 10.00.
func (w *driftWorld) here(id string, kind order.Kind, at time.Time, amount int64) {
	w.Helper()
	if _, err := w.store.Register(w.Context(), at, postgres.Registration{OrderID: "O-" + id, Amount: 1000, Currency: "EUR"}); err != nil {
		w.Fatal(err)
	}
	name := fmt.Sprintf("%s-%s", id, kind)
	err := w.store.InTx(w.Context(), func(tx postgres.Tx) error {
		_, err := tx.Apply(w.Context(), at, []postgres.Fact{{OrderID: "O-" + id, EventID: name, EventType: "payment.updated", Endpoint: "square", AppendedAt: at,
			Entry: order.Entry{Hash: event.Event{Source: "square", ID: name}.Hash(), Source: "square", Kind: kind, Time: at.UnixMilli(), Payment: id, Amount: amount, Currency: "EUR"}}})
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
}

func (w *driftWorld) drift(args ...string) (string, error) {
	var out strings.Builder
	err := run(append([]string{"drift", "--data-dir", w.TempDir()}, args...), &out, &out)
	return out.String(), err
}

func TestDriftNamesEachDifferenceAndNothingElseAndChangesNothing(t *testing.T) {
	w := newDriftWorld(t)
	at := driftDay.Add(10 * time.Hour)
	w.there("same", "COMPLETED", at, 1000, 0)
	w.here("same", order.KindPaid, at, 1000)
	w.there("lost", "COMPLETED", at, 1000, 0)
	w.here("nobodys", order.KindPaid, at, 1000)
	w.there("dearer", "COMPLETED", at, 1000, 0)
	w.here("dearer", order.KindPaid, at, 900)
	w.there("failed", "FAILED", at, 1000, 0)
	w.here("failed", order.KindPaid, at, 1000)
	w.there("unrefunded", "COMPLETED", at, 1000, 0)
	w.here("unrefunded", order.KindPaid, at, 1000)
	w.here("unrefunded", order.KindRefundTotal, at, 300)
	w.there("refunded", "COMPLETED", at, 1000, 500)
	w.here("refunded", order.KindPaid, at, 1000)
	w.there("held", "COMPLETED", at, 1100, 0)
	w.here("held", order.KindPaid, at, 1100) // not what the order is worth
	w.there("pending", "PENDING", at, 1000, 0)
	w.here("yesterdays", order.KindPaid, at.AddDate(0, 0, -1), 1000)
	w.there("tomorrows", "COMPLETED", at.AddDate(0, 0, 1), 1000, 0)
	w.there("elsewhen", "COMPLETED", at.AddDate(0, 0, -3), 1000, 0) // made before, paid today
	w.here("elsewhen", order.KindPaid, at, 1000)
	w.here("silent", order.KindPaid, at, 1000)
	w.faulty.API = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/silent") {
			rw.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.square.ServeHTTP(rw, r)
	})
	before := testkit.Contents(t, w.database, "paces")
	out, err := w.drift("--day", "2026-11-29", "--json")
	if !errors.Is(err, errDrift) || exitCode(err) != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	if diff := cmp.Diff(before, testkit.Contents(t, w.database, "paces")); diff != "" {
		t.Errorf("it has changed something:\n%s", diff)
	}
	var report driftReport
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range report.differences() {
		got = append(got, fmt.Sprintf("%s %s %s", d.Payment, d.Kind, d.Order))
	}
	want := []string{"dearer other_amount O-dearer", "failed other_status O-failed", "held not_applied O-held", "lost missing_here O-lost",
		"nobodys missing_there O-nobodys", "refunded missing_here O-refunded", "unrefunded other_refunds O-unrefunded"}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	s := report.Sources[0]
	if len(report.Sources) != 1 || len(s.NotCompared) != 1 || s.NotCompared[0].Payment != "silent" || s.Listed != 9 || !slices.Equal(report.Unasked, []string{"github"}) {
		t.Errorf("%+v, unasked %v", s, report.Unasked)
	}
	out, err = w.drift("--day", "2026-11-29", "--source", "square")
	for _, text := range []string{"Missing here", "O-lost", "paid 10.00 EUR", "nothing", "Missing there", "Other amount", "held: amount mismatch", "Not compared", "silent", "--feed", "7 differences"} {
		if !strings.Contains(out, text) {
			t.Errorf("%q is not said:\n%s", text, out)
		}
	}
	if strings.Contains(out, "api-secret") {
		t.Error("the credential is printed")
	}
	if !errors.Is(err, errDrift) {
		t.Error(err)
	}

	// Feeding makes up for what is missing here, and for nothing else.
	if out, err = w.drift("--day", "2026-11-29", "--feed"); exitCode(err) != 2 {
		t.Errorf("without a reason: %v\n%s", err, out)
	}
	out, err = w.drift("--day", "2026-11-29", "--feed", "--reason", "the endpoint was off", "--json")
	if !errors.Is(err, errDrift) { // what feeding does not make up for is left
		t.Fatalf("%v\n%s", err, out)
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Fed != 2 {
		t.Fatalf("%d fed, %v", report.Fed, err)
	}
	log := testkit.Contents(t, w.database, "paces")
	if log["audit_log"] == before["audit_log"] {
		t.Error("nothing is in the audit log")
	}
	delete(log, "audit_log")
	delete(before, "audit_log")
	if diff := cmp.Diff(before, log); diff != "" {
		t.Errorf("feeding has changed more than the audit log and the raw topic:\n%s", diff)
	}
}

// O45: silence decides nothing.
func TestADayThatNobodyAnswersForIsNotCompared(t *testing.T) {
	w := newDriftWorld(t)
	w.here("ours", order.KindPaid, driftDay.Add(time.Hour), 1000)
	for name, fault := range map[string]provider.Fault{"500": provider.Status(500, ""), "an empty object": provider.Status(200, "{}"), "401": provider.Status(401, "")} {
		w.faulty.Fail(fault)
		out, err := w.drift("--day", "2026-11-29", "--json")
		var report driftReport
		if !errors.Is(err, errNotCompared) || exitCode(err) != 1 || json.Unmarshal([]byte(out), &report) != nil || len(report.differences()) != 0 || report.notCompared() != 2 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	w.faulty.Fail(nil)
	w.there("ours", "COMPLETED", time.Time{}, 1000, 0)
	if out, err := w.drift("--day", "2026-11-29"); err != nil || !strings.Contains(out, "nothing differs") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, args := range [][]string{{"--day", "yesterday"}, {"--day", "2026-11-29", "--source", "github"}, {"--day", "2026-11-29", "--reason", "x"}, {}} {
		if out, err := w.drift(args...); exitCode(err) != 2 {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}

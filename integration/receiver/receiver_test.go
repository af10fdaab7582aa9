package receiver_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"sluice/integration/receiver"
	"sluice/pkg/testkit"
)

const secret = "whsec_aW50ZWdyYXRpb24tdGVzdC1yZWNlaXZlci0wMDE="

// world is one receiver with a database of its own.
type world struct {
	*testing.T
	db      *pgxpool.Pool
	handler http.Handler
}

func newWorld(t *testing.T, act func(context.Context, pgx.Tx, receiver.Call) error, secrets ...string) world {
	t.Helper()
	db, err := pgxpool.New(t.Context(), testkit.Database(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if _, err := db.Exec(t.Context(), receiver.Schema); err != nil {
		t.Fatal(err)
	}
	r, err := receiver.New(db, slog.New(slog.DiscardHandler), act, secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return world{t, db, r}
}

// call is a call about order o-1, signed at a time, and its answer.
func (w world) call(id, signedID string, at time.Time) int {
	w.Helper()
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		w.Fatal(err)
	}
	body := []byte(`{"id":"` + id + `","data":{"effect":"fulfil","change":{"order_id":"o-1","version":2,"status":"paid"}}}`)
	signature, err := signer.Sign(signedID, at, body)
	if err != nil {
		w.Fatal(err)
	}
	r := httptest.NewRequestWithContext(w.Context(), http.MethodPost, "/orders", bytes.NewReader(body))
	r.Header.Set("webhook-id", signedID)
	r.Header.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	r.Header.Set("webhook-signature", signature)
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, r)
	return answer.Code
}

func (w world) acts() (n int) {
	w.Helper()
	if err := w.db.QueryRow(w.Context(), "SELECT count(*) FROM shipments").Scan(&n); err != nil {
		w.Fatal(err)
	}
	return n
}

func TestARepeatIsAnsweredAlikeAndActsOnce(t *testing.T) {
	w := newWorld(t, receiver.Ship, "whsec_b2xkLWludGVncmF0aW9uLXJlY2VpdmVyLTAwMDE=", secret) // in a rotation
	for range 3 {
		if got := w.call("fulfil_1", "fulfil_1", time.Now()); got != http.StatusNoContent {
			t.Errorf("answered %d", got)
		}
	}
	if w.call("fulfil_2", "fulfil_2", time.Now()); w.acts() != 2 {
		t.Errorf("%d acts for two keys, want 2", w.acts())
	}
}

func TestRepeatsAtTheSameMomentActOnce(t *testing.T) {
	w := newWorld(t, receiver.Ship, secret)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got := w.call("fulfil_1", "fulfil_1", time.Now()); got != http.StatusNoContent {
				t.Errorf("answered %d", got)
			}
		})
	}
	all.Wait()
	if w.acts() != 1 {
		t.Errorf("%d acts, want 1", w.acts())
	}
}

func TestAnActThatFailsLeavesTheKeyFree(t *testing.T) {
	var tried atomic.Int32
	w := newWorld(t, func(ctx context.Context, tx pgx.Tx, c receiver.Call) error {
		if err := receiver.Ship(ctx, tx, c); err != nil || tried.Add(1) > 1 {
			return err
		}
		return errors.New("the carrier's table is full")
	}, secret)
	if got := w.call("fulfil_1", "fulfil_1", time.Now()); got != http.StatusServiceUnavailable || w.acts() != 0 {
		t.Errorf("answered %d, %d acts", got, w.acts())
	}
	if got := w.call("fulfil_1", "fulfil_1", time.Now()); got != http.StatusNoContent || w.acts() != 1 {
		t.Errorf("answered %d the second time, %d acts", got, w.acts())
	}
}

func TestOnlySignedCallsOfNowAreTaken(t *testing.T) {
	w := newWorld(t, receiver.Ship, "whsec_b2xkLWludGVncmF0aW9uLXJlY2VpdmVyLTAwMDE=")
	if got := w.call("fulfil_1", "fulfil_1", time.Now()); got != http.StatusUnauthorized {
		t.Errorf("another secret's: answered %d", got)
	}
	w = newWorld(t, receiver.Ship, secret)
	if got := w.call("fulfil_1", "fulfil_1", time.Now().Add(-time.Hour)); got != http.StatusUnauthorized {
		t.Errorf("an hour old: answered %d", got)
	}
	if got := w.call("fulfil_1", "fulfil_2", time.Now()); got != http.StatusBadRequest {
		t.Errorf("with another id: answered %d", got)
	}
	if w.acts() != 0 {
		t.Errorf("%d acts, want none", w.acts())
	}
}

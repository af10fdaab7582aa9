// Package receiver is how a service receives Sluice's effects rightly: it verifies the
// signature, takes the idempotency key down in the same transaction as what it does,
// and answers 2xx only when that is committed. Copy it.
package receiver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Schema is what the receiver needs in its own database. Keys are kept as long as an
// effect may come again: for ever, or as long as Sluice's orders are.
const Schema = `
CREATE TABLE IF NOT EXISTS received_effects (key text PRIMARY KEY, received_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS shipments (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, order_id text NOT NULL, key text NOT NULL);`

// Call is what a call says, as far as this service cares.
type Call struct {
	ID   string `json:"id"`
	Data struct {
		Effect string `json:"effect"`
		Change struct {
			OrderID string `json:"order_id"`
			Version int64  `json:"version"`
			Status  string `json:"status"`
		} `json:"change"`
	} `json:"data"`
}

// Receiver receives calls.
type Receiver struct {
	db *pgxpool.Pool
	// verifiers, one for each secret: two during a rotation.
	verifiers []*standardwebhooks.Webhook
	log       *slog.Logger
	// act does what the effect asks for, in the transaction that takes its key down.
	act func(context.Context, pgx.Tx, Call) error
}

// New makes a receiver. What act does outside of its transaction (a mail, a call to a
// carrier) is not undone with it: write it down there and do it afterwards, under the
// same key.
func New(db *pgxpool.Pool, log *slog.Logger, act func(context.Context, pgx.Tx, Call) error, secrets ...string) (*Receiver, error) {
	r := &Receiver{db: db, log: log, act: act}
	for _, s := range secrets {
		v, err := standardwebhooks.NewWebhook(s)
		if err != nil {
			return nil, fmt.Errorf("read a signing secret: %w", err)
		}
		r.verifiers = append(r.verifiers, v)
	}
	if len(r.verifiers) == 0 {
		return nil, errors.New("no signing secret")
	}
	return r, nil
}

// Ship is the act of this example: a shipment is written down.
func Ship(ctx context.Context, tx pgx.Tx, c Call) error {
	_, err := tx.Exec(ctx, `INSERT INTO shipments (order_id, key) VALUES ($1, $2)`, c.Data.Change.OrderID, c.ID)
	return err
}

const maxBody = 1 << 20

func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		http.Error(w, "the body was not read", http.StatusBadRequest)
		return
	}
	if !r.verified(req.Header, body) {
		http.Error(w, "the signature is wrong", http.StatusUnauthorized)
		return
	}
	// The body is signed and the Idempotency-Key header is not: the id is the key.
	var call Call
	if err := json.Unmarshal(body, &call); err != nil || call.ID == "" || call.ID != req.Header.Get("webhook-id") {
		http.Error(w, "not an effect", http.StatusBadRequest)
		return
	}
	if err := r.once(req.Context(), call); err != nil {
		r.log.Error("a call is not taken over; it will come again", "key", call.ID, "error", err)
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *Receiver) verified(header http.Header, body []byte) bool {
	for _, v := range r.verifiers {
		if v.Verify(body, header) == nil {
			return true
		}
	}
	return false
}

// once acts if the key is new. A second call with the same key that comes while the
// first is under way waits for it at the INSERT: if the first fails, the second acts.
func (r *Receiver) once(ctx context.Context, call Call) error {
	// A caller that went away does not undo what is as good as done.
	ctx = context.WithoutCancel(ctx)
	return pgx.BeginFunc(ctx, r.db, func(tx pgx.Tx) error {
		added, err := tx.Exec(ctx, `INSERT INTO received_effects (key) VALUES ($1) ON CONFLICT DO NOTHING`, call.ID)
		if err != nil {
			return fmt.Errorf("take the key down: %w", err)
		}
		if added.RowsAffected() == 0 {
			return nil // done before: the answer is the same
		}
		return r.act(ctx, tx, call)
	})
}

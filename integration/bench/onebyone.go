package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
)

// oneByOneTables are what the usual design needs, and no more.
const oneByOneTables = `
CREATE TABLE one_processed (source text, event_id text, PRIMARY KEY (source, event_id));
CREATE TABLE one_orders (order_id text PRIMARY KEY, status text NOT NULL DEFAULT 'pending', paid bigint NOT NULL DEFAULT 0,
  refunded bigint NOT NULL DEFAULT 0, version bigint NOT NULL DEFAULT 1) WITH (fillfactor = 90);
CREATE TABLE one_outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, order_id text NOT NULL, payload jsonb NOT NULL)`

// oneByOne applies the same events in the same order for d, each in a transaction
// of its own on one connection, and returns events a second. Kafka and reading
// the bodies are left out: the usual design is flattered.
func oneByOne(t *scope, url string, ds []delivery, orders int, d time.Duration) float64 {
	ctx := t.Context()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatalf("reach the database: %v", err)
	}
	defer func() { _ = c.Close(ctx) }()
	if _, err := c.Exec(ctx, oneByOneTables); err != nil {
		t.Fatalf("make the tables of the baseline: %v", err)
	}
	_, err = c.Exec(ctx, "INSERT INTO one_orders (order_id) SELECT 'order-' || to_char(n, 'FM00000000') FROM generate_series(0, $1::int - 1) n", orders)
	if err != nil {
		t.Fatalf("register orders of the baseline: %v", err)
	}
	began, n := time.Now(), 0
	for _, one := range ds {
		if time.Since(began) > d {
			break
		}
		if err := applyOne(ctx, c, one); err != nil {
			t.Fatalf("apply one event: %v", err)
		}
		n++
	}
	return float64(n) / time.Since(began).Seconds()
}

func applyOne(ctx context.Context, c *pgx.Conn, one delivery) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "INSERT INTO one_processed VALUES ('stripe', $1) ON CONFLICT DO NOTHING", one.eventID())
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		var status string
		var taken, back, version int64
		id := orderID(int(one.order))
		err = tx.QueryRow(ctx, "SELECT status, paid, refunded, version FROM one_orders WHERE order_id = $1 FOR UPDATE", id).Scan(&status, &taken, &back, &version)
		if err != nil {
			return err
		}
		switch one.step {
		case failed:
			status = "failed"
		case paid:
			status, taken = "paid", price
		case partlyRefunded:
			status, back = "partially_refunded", price/4
		case refunded:
			status, back = "refunded", price
		}
		if _, err = tx.Exec(ctx, "UPDATE one_orders SET status = $2, paid = $3, refunded = $4, version = version + 1 WHERE order_id = $1", id, status, taken, back); err != nil {
			return err
		}
		message, err := json.Marshal(map[string]any{"order_id": id, "status": status, "version": version + 1, "paid": taken, "refunded": back})
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO one_outbox (order_id, payload) VALUES ($1, $2)", id, message)
		return err
	})
}

package main

import (
	"crypto/sha256"
	"slices"
	"time"

	"sluice/integration/harness"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// register registers orders as the merchant role does, many in a transaction.
func register(t *scope, d *harness.Deployment, orders int) {
	store, err := postgres.Open(t.Context(), d.Database, 2)
	if err != nil {
		t.Fatalf("reach the database: %v", err)
	}
	defer store.Close()
	if _, err := store.EnsurePartitions(t.Context(), time.Now()); err != nil {
		t.Fatalf("make table partitions: %v", err)
	}
	now := time.Now()
	facts := make([]postgres.Fact, orders)
	for o := range facts {
		id := "registered-" + orderID(o)
		sum := sha256.Sum256([]byte(id))
		facts[o] = postgres.Fact{
			Entry: order.Entry{Hash: [16]byte(sum[:16]), Source: postgres.Merchant, Kind: order.KindRegistered,
				Time: now.Add(-2 * time.Hour).UnixMilli(), Object: "cart", Amount: price, Currency: "USD"},
			OrderID: orderID(o), EventID: id, EventType: "order.registered", Endpoint: postgres.Merchant,
			AppendedAt: now, Partition: -1, Offset: -1,
		}
	}
	for some := range slices.Chunk(facts, 2_000) {
		err := store.InTx(t.Context(), func(tx postgres.Tx) error {
			_, err := tx.Apply(t.Context(), now, some)
			return err
		})
		if err != nil {
			t.Fatalf("register orders: %v", err)
		}
	}
}

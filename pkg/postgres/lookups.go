package postgres

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// awaitProvider arms the look-up of what a held event is about. The event stays
// held until the provider's answer, an event of its own, lets it fit; or until the
// grace of AwaitingProvider is over.
func (tx Tx) awaitProvider(ctx context.Context, m *member, now time.Time) error {
	object := cmp.Or(m.PaymentID, m.ObjectID, m.EventID)
	if err := tx.q.ArmLookup(ctx, m.SourceNo, object, timestamp(now)); err != nil {
		return fmt.Errorf("arm a look-up: %w", err)
	}
	err := tx.q.SetVerdict(ctx, dbgen.SetVerdictParams{OrderNo: m.OrderNo, EventHash: m.EventHash,
		Verdict: int16(order.Held), Reason: int16(order.AwaitingProvider)})
	if err != nil {
		return fmt.Errorf("hold an event for its provider: %w", err)
	}
	err = tx.q.AwaitProvider(ctx, dbgen.AwaitProviderParams{OrderNo: m.OrderNo, EventHash: m.EventHash,
		Reason: int16(order.AwaitingProvider), DueAt: timestamp(tx.store.graces.due(order.AwaitingProvider, now))})
	if err != nil {
		return fmt.Errorf("hold an event for its provider: %w", err)
	}
	return nil
}

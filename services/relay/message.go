package relay

import (
	"errors"
	"fmt"
	"time"

	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/pkg/status"
)

// errUnknownFormat: a later release wrote the row.
var errUnknownFormat = errors.New("this program does not know its format")

// record makes a row's record, of no topic yet. It depends on the row alone:
// publishing again publishes the same bytes.
func record(t postgres.Transition) (kafka.Record, error) {
	if t.Format != status.Format {
		return kafka.Record{}, fmt.Errorf("encode order transition %d, of format %d: %w", t.ID, t.Format, errUnknownFormat)
	}
	m := status.Message{
		Source: status.Source, OrderID: t.OrderID, Version: t.Version, Previous: t.From, Status: t.To,
		Amount: t.Amount, Paid: t.Paid, Refunded: t.Refunded, Currency: t.Currency, Dispute: t.Dispute,
		Cause:     status.Cause{Source: t.CauseSource, EventID: t.CauseEventID},
		ChangedAt: t.ChangedAt, Correction: t.Correction,
	}
	if t.OccurredAt > 0 {
		m.OccurredAt = time.UnixMilli(t.OccurredAt)
	}
	return kafka.Record{Key: m.Key(), Value: m.Encode(), Headers: m.Headers()}, nil
}

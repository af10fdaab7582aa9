package relay

import (
	"fmt"
	"time"

	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/pkg/status"
)

// source is the CloudEvents source of every message; a row published again must
// be the same bytes, so it is no setting.
const source = "sluice"

// record makes a row's record. It depends on the row alone: publishing again
// publishes the same bytes.
func record(topic string, t postgres.Transition) (kafka.Record, error) {
	if t.Format != status.Format {
		return kafka.Record{}, fmt.Errorf("encode order transition %d: this program does not know format %d", t.ID, t.Format)
	}
	m := status.Message{
		Source: source, OrderID: t.OrderID, Version: t.Version, Previous: t.From, Status: t.To,
		Amount: t.Amount, Paid: t.Paid, Refunded: t.Refunded, Currency: t.Currency, Dispute: t.Dispute,
		Cause:     status.Cause{Source: t.CauseSource, EventID: t.CauseEventID},
		ChangedAt: t.ChangedAt, Correction: t.Correction,
	}
	if t.OccurredAt > 0 {
		m.OccurredAt = time.UnixMilli(t.OccurredAt)
	}
	return kafka.Record{Topic: topic, Key: m.Key(), Value: m.Encode(), Headers: m.Headers()}, nil
}

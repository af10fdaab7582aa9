// Package audit holds the books against Kafka: every record in the raw topic
// must have ended in one verdict, or be on its way to one.
package audit

import (
	"context"
	"log/slog"
	"time"

	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// Books is the ledger of one deployment at one moment.
type Books struct {
	// Accepted is how many records lie in the raw topic: everything answered 2xx.
	Accepted int64
	// InFlight are records that the processor has not committed yet.
	InFlight int64
	// Verdicts say how the others ended.
	Verdicts map[order.Verdict]int64
}

// Counted is how many events have a verdict.
func (b Books) Counted() (n int64) {
	for _, count := range b.Verdicts {
		n += count
	}
	return n
}

// Unaccounted is accepted less everything known; 0 if nothing was lost and
// nothing was counted twice.
func (b Books) Unaccounted() int64 { return b.Accepted - b.Counted() - b.InFlight }

// Read reads the ledger. The figures come from two systems: only on a quiet
// deployment do they belong to one moment.
func Read(ctx context.Context, cfg kafka.Config, store *postgres.Store, log *slog.Logger) (Books, error) {
	raw := cfg.Topic(kafka.Raw)
	accepted, err := kafka.Count(ctx, cfg, log, raw)
	if err != nil {
		return Books{}, err
	}
	lag, err := kafka.Lag(ctx, cfg, log, cfg.Topic(kafka.Group), raw)
	if err != nil {
		return Books{}, err
	}
	rows, err := store.BooksSince(ctx, time.Unix(0, 0))
	if err != nil {
		return Books{}, err
	}
	b := Books{Accepted: accepted, InFlight: lag, Verdicts: map[order.Verdict]int64{}}
	for line, n := range rows {
		b.Verdicts[line.Verdict] += n
	}
	return b, nil
}

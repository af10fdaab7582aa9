// Package audit holds the books against Kafka's offsets: every record that the
// raw topic ever took must have ended in one verdict, or be on its way to one.
//
// Its path: audit.go reads the two sides, lines.go sets them side by side (pure),
// examine.go reads the records of the hours that do not add up and names them.
package audit

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// Auditor reads both sides of one deployment's books. Safe for concurrent use.
type Auditor struct {
	cfg     kafka.Config
	log     *slog.Logger
	store   *postgres.Store
	offsets *kafka.Offsets
	now     func() time.Time
}

// Open connects to cfg's brokers.
func Open(ctx context.Context, cfg kafka.Config, store *postgres.Store, log *slog.Logger, now func() time.Time) (*Auditor, error) {
	offsets, err := kafka.NewOffsets(ctx, cfg, log, cfg.Topic(kafka.Raw))
	if err != nil {
		return nil, err
	}
	return &Auditor{cfg: cfg, log: log, store: store, offsets: offsets, now: now}, nil
}

// Close gives the connection to the brokers back.
func (a *Auditor) Close() { a.offsets.Close() }

// Books is the ledger of one deployment at one moment. It is exact on a busy one
// too: the database's side is one snapshot, and what Kafka takes later is in flight.
type Books struct {
	// Accepted is how many records the raw topic ever took: everything answered 2xx,
	// whether it is still there or not.
	Accepted int64
	// InFlight are records that were not applied yet. A replay reads below what was
	// applied: nothing of it is in flight.
	InFlight int64
	// WrittenOff are records that expired before they were read, or that somebody had
	// left out, and of which a person knows: their review items are settled.
	WrittenOff int64
	// Counted is how many records have a verdict; Verdicts say which (only filled by
	// Read).
	Counted  int64
	Verdicts map[order.Verdict]int64
	// Former is the part of Accepted, as far as it was applied, and of Counted that
	// belongs to raw topics that were deleted since.
	Former Sums
}

// Sums are two sides of one account.
type Sums struct{ Accepted, Counted int64 }

// Unaccounted is accepted less everything known; 0 if nothing was lost and
// nothing was counted twice.
func (b Books) Unaccounted() int64 {
	return b.Accepted - b.InFlight - b.WrittenOff - b.Counted
}

// Figure reads only the sums, for every minute: three requests to the brokers and
// one pass over the books (see BenchmarkFigure).
func (a *Auditor) Figure(ctx context.Context) (Books, error) {
	ledger, err := a.store.Ledger(ctx)
	if err != nil {
		return Books{}, err
	}
	// After the database, so that nothing was applied that Kafka does not show.
	extent, err := a.offsets.Extent(ctx)
	if err != nil {
		return Books{}, err
	}
	return sums(ledger, extent, a.cfg.Topic(kafka.Raw)), nil
}

// Read reads the sums and the verdicts once, with a connection of its own.
func Read(ctx context.Context, cfg kafka.Config, store *postgres.Store, log *slog.Logger) (Books, error) {
	a, err := Open(ctx, cfg, store, log, time.Now)
	if err != nil {
		return Books{}, err
	}
	defer a.Close()
	ledger, err := store.LedgerHours(ctx)
	if err != nil {
		return Books{}, err
	}
	extent, err := a.offsets.Extent(ctx)
	if err != nil {
		return Books{}, err
	}
	b := sums(ledger, extent, cfg.Topic(kafka.Raw))
	b.Verdicts = map[order.Verdict]int64{}
	for _, h := range ledger.Hours {
		b.Verdicts[h.Verdict] += h.Events
	}
	return b, nil
}

// Report is the audit of a span of hours.
type Report struct {
	// Books are the sums over all time; Unaccounted of all lines together is theirs.
	Books Books
	// Lines run without gaps: all that is before the span, its hours, all that is
	// after it. The first is longer where records expired.
	Lines []Line
	// Gaps are the ranges of offsets that expired before they were read and that
	// nobody settled.
	Gaps []postgres.LedgerGap
	// Lookups are the open questions to providers, by source: what is held for them is
	// in no order's set.
	Lookups []postgres.OpenLookups
	// Truncated are partitions whose log ends before what was applied: the brokers
	// lost records.
	Truncated []int32

	topicID [16]byte
	extent  kafka.Extent
	ledger  postgres.Ledger
}

// maxHours bounds a report: each hour is one request to the brokers.
const maxHours = 24 * 400

// Hours audits each hour from since on and before until. A span that begins
// earlier than the books do is cut.
func (a *Auditor) Hours(ctx context.Context, since, until time.Time) (*Report, error) {
	ledger, err := a.store.LedgerHours(ctx)
	if err != nil {
		return nil, err
	}
	since, until = since.Truncate(time.Hour), until.Add(time.Hour-1).Truncate(time.Hour)
	if now := a.now().Add(time.Hour - 1).Truncate(time.Hour); until.After(now) {
		until = now
	}
	if first := firstHour(ledger, until); since.Before(first) {
		since = first
	}
	var bounds []boundary
	for at := since; !at.After(until) && len(bounds) < maxHours; at = at.Add(time.Hour) {
		offsets, err := a.offsets.At(ctx, at)
		if err != nil {
			return nil, err
		}
		bounds = append(bounds, boundary{at, offsets})
	}
	lookups, err := a.store.OpenLookups(ctx)
	if err != nil {
		return nil, err
	}
	// Last: what it says is left was there when the boundaries were read.
	extent, err := a.offsets.Extent(ctx)
	if err != nil {
		return nil, err
	}
	r := report(ledger, extent, a.cfg.Topic(kafka.Raw), bounds)
	r.Lookups = lookups
	return r, nil
}

// Within leaves the lines that touch the span.
func (r *Report) Within(since, until time.Time) {
	r.Lines = slices.DeleteFunc(r.Lines, func(l Line) bool {
		return !l.Before.IsZero() && !l.Before.After(since) || !l.From.IsZero() && !l.From.Before(until)
	})
}

// firstHour is the first hour of the books, and the one before until if there is
// none.
func firstHour(l postgres.Ledger, until time.Time) time.Time {
	first := until.Add(-time.Hour)
	for _, h := range l.Hours {
		// Hour 0 is where records with times of their own making are counted.
		if h.Hour.Before(first) && h.Hour.Unix() > 0 {
			first = h.Hour
		}
	}
	return first
}

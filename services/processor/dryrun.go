package processor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
)

// DryRunDeps are what a dry run works with.
type DryRunDeps struct {
	// Store knows the effects, if the processor's does (WithEffects). A role that may
	// read and nothing else is enough.
	Store     *postgres.Store
	Endpoints endpoint.Set
	Mode      event.Mode
	Log       *slog.Logger
	Now       func() time.Time
}

// DryRunOptions say how records would be applied.
type DryRunOptions struct {
	// TopicID is the raw topic's.
	TopicID [16]byte
	// Selected: the records are a selection, and every one of them counts as met before;
	// else those do that lie below what was applied of their partition, as in a replay.
	Selected bool
	// Batch is how many records are applied together (2,000 if 0), Samples how many of
	// each kind are kept (5 if 0).
	Batch, Samples int
	// Progress, if not nil, hears after each batch how many records were seen.
	Progress func(records int64)
}

// DryRun finds out what applying records would do, and does nothing.
type DryRun struct{}

// NewDryRun begins a dry run.
func NewDryRun(context.Context, DryRunDeps, DryRunOptions) (*DryRun, error) {
	return nil, errors.New("dry run: not there yet")
}

// Add goes on with records, in their partitions' order. They may be used again
// afterwards.
func (d *DryRun) Add(ctx context.Context, records []kafka.Record) error { return nil }

// Report is what the records added so far would do.
func (d *DryRun) Report() Outlook { return Outlook{} }

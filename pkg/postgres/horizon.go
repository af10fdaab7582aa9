package postgres

import (
	"context"
	"fmt"
	"time"
)

// LedgerHorizon is the provider's time back to which processed_events knows every
// event: the window, and less if its older months were dropped by a shorter one.
func (s *Store) LedgerHorizon(ctx context.Context, now time.Time) (time.Time, error) {
	there, err := tablePartitions(ctx, s.pool)
	if err != nil {
		return time.Time{}, fmt.Errorf("look how far back processed events reach: %w", err)
	}
	var oldest time.Time
	for name, is := range there {
		table, suffix := split(name)
		if table != "processed_events" || is != attached {
			continue
		}
		if m, err := time.Parse(partitionedTables[table], suffix); err == nil && (oldest.IsZero() || m.Before(oldest)) {
			oldest = m
		}
	}
	if window := now.UTC().Add(-s.window); oldest.Before(window) {
		return window, nil
	}
	return oldest, nil
}

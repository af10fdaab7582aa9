package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// How Wait tries again: quickly at first, for parts that start side by side.
const (
	firstWait  = 100 * time.Millisecond
	maxWait    = 5 * time.Second
	tryTimeout = 10 * time.Second
)

// Wait tries until what (a dependency, say "Kafka") answers or ctx ends, and
// says for what it waits: at once, and again with every fifth attempt. Each try
// gets ten seconds. It returns ctx's error with the last reason.
func Wait(ctx context.Context, log *slog.Logger, what string, try func(ctx context.Context) error) error {
	for attempt := 1; ; attempt++ {
		err := once(ctx, try)
		if err == nil {
			if attempt > 1 {
				log.Info(what+" answers", "attempts", attempt)
			}
			return nil
		}
		if ctx.Err() == nil && attempt%5 == 1 {
			log.Warn("waiting for "+what, "attempt", attempt, "error", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w (last: %w)", what, ctx.Err(), err)
		case <-time.After(min(firstWait<<min(attempt-1, 10), maxWait)):
		}
	}
}

func once(ctx context.Context, try func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	return try(ctx)
}

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

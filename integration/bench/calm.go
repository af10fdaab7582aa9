package main

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// calm is the share of the CPUs that others may use before a moment is called
// disturbed; idle servers use a little.
const calm = 0.1

// await waits until other programs leave the machine alone, for patience at most,
// and says how busy it was last. Nothing is being measured meanwhile.
func await(ctx context.Context, patience time.Duration) (others float64) {
	for until := time.Now().Add(patience); ; {
		others = busy(ctx, time.Second)
		if others <= calm || time.Now().After(until) || ctx.Err() != nil {
			return others
		}
	}
}

// busy is the share of all CPUs that is used during d; 0 where the system does
// not say.
func busy(ctx context.Context, d time.Duration) float64 {
	used, idle := ticks()
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	usedThen, idleThen := ticks()
	if usedThen+idleThen == used+idle {
		return 0
	}
	return (usedThen - used) / (usedThen - used + idleThen - idle)
}

// ticks are what /proc/stat counts since the start of the system, all CPUs.
func ticks() (used, idle float64) {
	line, _, _ := strings.Cut(text("/proc/stat"), "\n")
	for i, f := range strings.Fields(strings.TrimPrefix(line, "cpu")) {
		n, err := strconv.ParseFloat(f, 64)
		switch {
		case err != nil || i > 7: // guests' time is in the others
		case i == 3 || i == 4: // idle, waiting for a disk
			idle += n
		default:
			used += n
		}
	}
	return used, idle
}

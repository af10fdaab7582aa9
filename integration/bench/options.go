package main

import "time"

// options say how long each measure takes.
type options struct {
	rounds  int           // of what is compared in turns; the median counts
	flood   time.Duration // one round of closed-loop load
	warm    time.Duration
	steady  time.Duration // one round at a steady rate
	orders  int           // what the processor is given, four events each
	rows    int           // processed events that are there before
	single  time.Duration // of the one-event-per-transaction baseline
	path    time.Duration // of the whole path at a steady rate
	backlog int           // transitions that the relay finds
	hanging int           // orders that a reconciler asks about, 100 a second
	replay  int           // records that are read again
	dryRun  int           // records that a plan looks at
	// patience is how long a round waits until the machine is calm.
	patience time.Duration
}

var (
	full = options{rounds: 3, flood: 4 * time.Second, warm: 6 * time.Second, steady: 20 * time.Second,
		orders: 70_000, rows: 10_000_000, single: 10 * time.Second, path: 30 * time.Second, backlog: 1_000_000, hanging: 100_000, replay: 10_000_000, dryRun: 1_000_000}
	short = options{rounds: 1, flood: 500 * time.Millisecond, warm: 200 * time.Millisecond, steady: time.Second,
		orders: 1_000, rows: 20_000, single: time.Second, path: 2 * time.Second, backlog: 20_000, hanging: 3_000, replay: 60_000, dryRun: 40_000}
)

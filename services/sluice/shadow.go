package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"sluice/pkg/replay"
	"sluice/services/processor"
	"sluice/services/sluice/again"
	"sluice/services/sluice/terminal"
)

type shadowCmd struct {
	ToEarliest bool    `help:"From the first record that is left." group:"Which span (one of):"`
	ToDatetime string  `help:"From the first record appended then or later: 2026-11-30T14:00 (UTC)." placeholder:"TIME" group:"Which span (one of):"`
	ByDuration string  `help:"From so long ago, by the broker's append time: 2h30m." placeholder:"DURATION" group:"Which span (one of):"`
	ToOffset   *int64  `help:"From this offset on." placeholder:"N" group:"Which span (one of):"`
	Whole      bool    `help:"Everything from the first record that is left, and every order built from nothing." group:"Which span (one of):"`
	Partitions []int32 `help:"Only these partitions, like 0,2." placeholder:"N"`
	Provider   string  `help:"Only records of this provider." placeholder:"NAME"`
	Keep       bool    `help:"Leave the scratch schema there, to be looked at; drop it yourself."`
	desk
}

func (shadowCmd) Help() string {
	return `Reads the records of a span anew, by this program and these endpoints, into a scratch schema of the same database,
and prints which orders come to something else than the live ones have: status, money, dispute, what is held. Live
tables are only read. Exits with 1 if anything differs. What differs can be brought about by sluice replay --reapply
over the same span. Registrations and what people decided come from the live orders. With --whole every order is built
from nothing but records, registrations and decisions; what no record says any more stays as it is.

It compares with one moment, so live traffic does not disturb it. The scratch schema is dropped at the end; one that a
killed run left is dropped by the next. Of long spans it holds one snapshot of the database for as long as it takes.

Examples:
  sluice shadow --by-duration 2h                 what would the last two hours be, under the present rules?
  sluice shadow --whole                          does everything follow from the records?
  sluice shadow --to-earliest --provider acme --json | jq '.orders[].order'

Settings:
  KAFKA_BROKERS, DATABASE_URL, SLUICE_ENDPOINTS, SLUICE_MODE and what belongs to them (sluice processor --help)`
}

// errDiffers: the shadow is not what is live.
var errDiffers = errors.New("the shadow differs from the live orders")

// target reads the flags.
func (s shadowCmd) target(now time.Time) (t replay.Target, err error) {
	switch {
	case count(s.ToEarliest, s.ToDatetime != "", s.ByDuration != "", s.ToOffset != nil, s.Whole) != 1:
		return t, errors.New("say which span, one of --to-earliest, --to-datetime, --by-duration, --to-offset, --whole")
	case s.Whole && (s.Partitions != nil || s.Provider != ""):
		return t, errors.New("--whole means every partition and every provider")
	}
	t = replay.Target{How: replay.ToEarliest, Partitions: s.Partitions}
	switch {
	case s.ToDatetime != "":
		t.How = replay.ToDatetime
		t.At, err = replay.ParseTime(s.ToDatetime)
	case s.ByDuration != "":
		var d time.Duration
		t.How = replay.ByDuration
		d, err = replay.ParseDuration(s.ByDuration)
		t.At = now.Add(-d)
	case s.ToOffset != nil:
		t.How, t.N = replay.ToOffset, *s.ToOffset
	}
	return t, err
}

func (s shadowCmd) Run(ctx context.Context, c *console) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	target, err := s.target(time.Now())
	if err != nil {
		return usageError{err}
	}
	l, err := openLook(ctx, s.desk)
	if err != nil {
		return err
	}
	defer l.Close()
	rules, err := l.settings.Effects.rules()
	if err != nil {
		return err
	}
	l.deps.Anew = &processor.Anew{}
	var bar *terminal.Bar
	f, err := l.source.Forecast(ctx, again.Selection{Span: &target, Provider: s.Provider}, l.deps, again.Shadowing{Database: l.settings.Database, Effects: rules,
		Whole: s.Whole, Keep: s.Keep, Total: func(n int) { bar = s.progress(c.err).Bar(n) }, Step: func(n int) { bar.Add(n) }})
	end(&bar)
	if err != nil {
		return brokenOff(err)
	}
	err = s.say(c, f, func(p *terminal.Printer) {
		printDone(p, "Read anew, beside the live orders", &f.Done)
		printDifferences(p, &f, "would be")
		if f.Schema != "" {
			p.Line("\n  schema %s is left there; when you have seen it: DROP SCHEMA %s CASCADE", f.Schema, f.Schema)
		}
	})
	if err != nil || len(f.Orders) == 0 {
		return err
	}
	return fmt.Errorf("%w: %d of %d", errDiffers, len(f.Orders), f.Compared)
}

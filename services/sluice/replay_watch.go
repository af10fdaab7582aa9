package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	replaying "sluice/services/sluice/replay"
	"sluice/services/sluice/terminal"
)

// replayWatch is for a replay that somebody began.
type replayWatch struct {
	Status bool `help:"Say how the open replay stands, and what the last ones did."`
	Follow bool `help:"Show the progress of the open replay until it ends."`
	Stop   bool `help:"End the open replay: what it did stays done. Needs --reason."`
}

func (w replayWatch) given() bool { return w.Status || w.Follow || w.Stop }

func (w replayWatch) run(ctx context.Context, c *console, acts replayActs, d desk) error {
	if w.Stop {
		acts.Execute = true
		if err := acts.check(); err != nil {
			return usageError{err}
		}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	place, err := openReplay(ctx, d)
	if err != nil {
		return err
	}
	defer place.Close()
	if w.Status {
		return w.status(ctx, c, place, d)
	}
	r, err := place.Current(ctx)
	if errors.Is(err, replaying.ErrNone) {
		err = fmt.Errorf("%w; sluice replay --status shows the last ones", err)
	}
	if err != nil {
		return err
	}
	if !w.Stop {
		return follow(ctx, c, place, r.ID, d)
	}
	if err := place.Stop(ctx, r, acts.As, acts.Reason); err != nil {
		return err
	}
	now, err := place.Progress(ctx, r.ID)
	if err != nil {
		return err
	}
	return d.say(c, now.Status(), func(p *terminal.Printer) { now.Status().Print(p) })
}

// shownReplays is how many of the last replays --status shows.
const shownReplays = 5

func (w replayWatch) status(ctx context.Context, c *console, place *replayPlace, d desk) error {
	last, err := place.Last(ctx, shownReplays)
	if err != nil {
		return err
	}
	all := make([]replaying.Status, 0, len(last))
	for _, now := range last {
		all = append(all, now.Status())
	}
	return d.say(c, all, func(p *terminal.Printer) {
		if len(all) == 0 {
			p.Line("%s", p.Green("nobody has replayed anything"))
		}
		for i, s := range all {
			if i > 0 {
				p.Line("")
			}
			s.Print(p)
		}
	})
}

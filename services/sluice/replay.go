package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
)

// replayCmd is in three parts: what is to be read again by offsets, by selections,
// and how it is agreed on. Each part knows its own flags.
type replayCmd struct {
	replayOffsets   `group:"Where to read from (one of):"`
	replaySelection `group:"What to look at again, instead of offsets:"`
	replayWatch     `group:"A replay that is there:"`
	replayActs      `group:"Doing it:"`
	desk
}

func (replayCmd) Help() string {
	return `Reads a part of the raw topic once more. It prints a plan and changes nothing, unless --execute is given too.
Events that were taken over are duplicates and change nothing, so it is safe to go back too far. Processors go on
with live traffic while they replay; they are paused and resumed by this command, for less than a second.

Examples:
  sluice replay --by-duration 2h                                what the last two hours would be
  sluice replay --to-datetime 2026-11-30T14:00 --execute --reason "ticket 4711"
  sluice replay --to-offset 1200 --partitions 0,2               like --topic t:0,2 of Kafka's tool
  sluice replay --to-current                                    where the group is; --export writes it as CSV
  sluice replay --status
  sluice replay --order A-1001                                  look at an order's events again
  sluice replay --dead-letters --endpoint acme --execute --reason "the layout was fixed"
  sluice replay --by-duration 6h --reapply --verdict held,no_change   read anew under the present rules

Settings:
  KAFKA_BROKERS, DATABASE_URL, SLUICE_ENDPOINTS and what belongs to them (sluice processor --help)`
}

func (r replayCmd) Run(ctx context.Context, c *console) error {
	if err := r.check(); err != nil {
		return usageError{err}
	}
	switch offsets, selection, watch := r.replayOffsets.given(), r.replaySelection.given(), r.replayWatch.given(); {
	case !offsets && !selection && !watch:
		return usageError{errors.New("say where to read from, like --by-duration 2h, or what to look at again (sluice replay --help shows what there is)")}
	case r.Verdict != nil && !r.Reapply:
		return usageError{errors.New("--verdict goes with --reapply")}
	case offsets && selection && !r.ofSpan(), offsets && watch, selection && watch:
		return usageError{errors.New("offsets, a selection, and a replay that is there are three things; give flags of one of them")}
	case (selection || watch) && r.idle(r.ofSpan()) != "":
		return usageError{fmt.Errorf("%s goes with offsets, like --to-earliest, and with nothing else", r.idle(r.ofSpan()))}
	case selection:
		return r.replaySelection.run(ctx, c, r.replayOffsets, r.replayActs, r.desk)
	case watch:
		return r.replayWatch.run(ctx, c, r.replayActs, r.desk)
	}
	return r.replayOffsets.run(ctx, c, r.replayActs, r.desk)
}

// replayActs say whether a plan is carried out, by whom and why.
type replayActs struct {
	Execute bool   `help:"Do what the plan says. Asks at a terminal; elsewhere --plan must name the plan."`
	Plan    string `help:"The digest of the plan that was agreed on, as the plan shows it: refuses if the plan would be another now." placeholder:"DIGEST"`
	Reason  string `help:"Why, for the audit log." placeholder:"TEXT"`
	As      string `help:"Who you are, for the audit log." env:"USER" placeholder:"NAME"`
}

// check says what is missing to carry anything out.
func (a replayActs) check() error {
	switch {
	case !a.Execute && a.Plan != "":
		return errors.New("--plan names the plan to carry out; it needs --execute")
	case !a.Execute:
		return nil
	}
	return accountable(a.As, a.Reason)
}

// errUnagreed: nobody said yes to the plan.
var errUnagreed = errors.New("nothing was done: nobody agreed to the plan")

// agree returns nil if the plan with this digest, which was just printed, may be
// carried out: it is the one that --plan names, or somebody at the terminal says so.
func (a replayActs) agree(c *console, digest string) error {
	if a.Plan != "" {
		if a.Plan != digest {
			return fmt.Errorf("nothing was done: this is another plan (%s) than the one that was agreed on (%s); look at what changed", digest, a.Plan)
		}
		return nil
	}
	if !isatty.IsTerminal(os.Stdin.Fd()) {
		return usageError{fmt.Errorf("nothing was done: there is nobody to ask; add --plan %s", digest)}
	}
	fmt.Fprint(c.err, "Do it? [y/N] ")
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil && answer == "" {
		return cmp.Or(err, errUnagreed)
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errUnagreed
	}
	return nil
}

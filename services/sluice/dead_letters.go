package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/postgres"
	"sluice/services/sluice/terminal"
)

type deadLettersCmd struct {
	List      deadLettersListCmd    `cmd:"" help:"Records that nobody could read, the oldest first, and how many there are."`
	Show      deadLettersShowCmd    `cmd:"" help:"One of them: why it died, where it lies, and what it says by the present rules."`
	SendAgain deadLettersAgainCmd   `cmd:"" name:"send-again" help:"Put them into the raw topic once more, after what they died of was mended."`
	Discard   deadLettersDiscardCmd `cmd:"" help:"They count for nothing, and no replay takes them over."`
}

// deadFilter chooses dead letters.
type deadFilter struct {
	Endpoint string `help:"Only those of this endpoint." placeholder:"NAME"`
	Cause    string `help:"Only those that died of this: headers, endpoint, body, no_order, refused." enum:",headers,endpoint,body,no_order,refused" default:"" placeholder:"CAUSE"`
	Since    string `help:"Only those that died since: a time like 2026-11-30T14:00:00Z or 2026-11-30, or how long ago, like 6h." placeholder:"TIME"`
}

func (f deadFilter) given() bool { return f != deadFilter{} }

func (f deadFilter) filter(now time.Time) (postgres.DeadLetterFilter, error) {
	found := postgres.DeadLetterFilter{Endpoint: f.Endpoint, Reason: f.Cause}
	if f.Since == "" {
		return found, nil
	}
	var err error
	if found.Since, err = moment(f.Since, now); err != nil {
		return found, usageError{fmt.Errorf("--since: %w", err)}
	}
	return found, nil
}

type deadLettersListCmd struct {
	desk
	deadFilter
	Settled bool `help:"Those that are settled, in place of those that are open." xor:"which"`
	All     bool `help:"Both." xor:"which"`
	Limit   int  `help:"At most so many; the counts are of all." default:"100"`
}

func (deadLettersListCmd) Help() string {
	return `A dead letter is a record of the raw topic that nobody could read: kept as it was, counted as dead, and a review
item. It is settled when it was sent again or discarded, or when a replay over its place could read it.

Examples:
  sluice dead-letters list                                 what is open
  sluice dead-letters list --endpoint stripe-eu --since 6h
  sluice dead-letters list --settled --cause body
  sluice dead-letters list --json | jq -r '.letters[].letter'

Settings:
  DATABASE_URL and what belongs to it (sluice processor --help)`
}

// deadList is what list says.
type deadList struct {
	Letters []postgres.DeadLetterSummary `json:"letters"`
	Counts  []postgres.DeadLetterCount   `json:"counts"`
}

func (r deadLettersListCmd) Run(ctx context.Context, c *console) error {
	f, err := r.filter(time.Now())
	if err != nil {
		return err
	}
	store, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	f.Settled, f.All, f.Limit = r.Settled, r.All, r.Limit
	var found deadList
	if found.Letters, err = store.ListDeadLetters(ctx, time.Now(), f); err != nil {
		return err
	}
	if found.Counts, err = store.CountDeadLetters(ctx, f); err != nil {
		return err
	}
	return r.say(c, found, func(p *terminal.Printer) { printDeadLetters(p, found) })
}

type deadLettersShowCmd struct {
	desk
	Letter string `arg:"" help:"PARTITION/OFFSET, or TOPIC/PARTITION/OFFSET, as in the list."`
	Body   string `help:"Write the exact bytes of the body to this new file; - is the standard output, and then nothing else is printed. It may hold personal data." placeholder:"FILE"`
}

func (deadLettersShowCmd) Help() string {
	return `Says why it died, where its record lies, and its headers; the values of signatures and of headers that are not
Sluice's own are never shown. With the endpoints file (SLUICE_ENDPOINTS, SLUICE_MODE) it reads the bytes by the
present rules, and says whether a processor could take them over now, and what they state. It changes nothing.

Examples:
  sluice dead-letters show 0/1734
  sluice dead-letters show 0/1734 --body letter.json
  sluice dead-letters show 0/1734 --json | jq .now

Settings:
  DATABASE_URL and what belongs to it (sluice processor --help); SLUICE_ENDPOINTS, SLUICE_MODE`
}

func (r deadLettersShowCmd) Run(ctx context.Context, c *console) error {
	ref, err := postgres.ParseDeadLetterRef(r.Letter)
	if err != nil {
		return usageError{err}
	}
	store, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	found, err := store.DeadLetterCase(ctx, time.Now(), ref)
	if err != nil {
		return err
	}
	switch r.Body {
	case "":
	case "-":
		_, err := c.out.Write(found.Body)
		return err
	default:
		if err := writeNew(r.Body, found.Body); err != nil {
			return fmt.Errorf("write the body: %w", err)
		}
	}
	rules, err := r.rules()
	if err != nil {
		return err
	}
	shown, err := rules.show(ctx, store, found)
	if err != nil {
		return err
	}
	return r.say(c, shown, func(p *terminal.Printer) { printDeadLetter(p, shown) })
}

// writeNew writes a file that only its owner reads, and never over another one.
func writeNew(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// rules are the present endpoints, or why they are not known here.
type rules struct {
	endpoints endpoint.Set
	unknown   string
}

func (d desk) rules() (rules, error) {
	e, err := running(d.DataDir)
	if err != nil {
		return rules{}, err
	}
	declared, err := read[deployment](e)
	if err == nil {
		var set endpoint.Set
		if set, err = declared.readings(); err == nil {
			return rules{endpoints: set}, nil
		}
	}
	return rules{unknown: "the endpoints file is not known here: " + err.Error()}, nil
}

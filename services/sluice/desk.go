package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"sluice/pkg/postgres"
	"sluice/services/sluice/terminal"
)

// desk is what every command that a person works with has: where the database is, and
// whether people or programs read the answer.
type desk struct {
	JSON    bool   `help:"For programs." name:"json"`
	DataDir string `help:"Of a running sluice dev, for what the environment does not say." default:".sluice"`
}

func (d desk) open(ctx context.Context) (*postgres.Store, error) {
	e, err := running(d.DataDir)
	if err != nil {
		return nil, err
	}
	cfg, err := read[postgres.Config](e)
	if err != nil {
		return nil, err
	}
	return postgres.Open(ctx, cfg, 2)
}

// progress is where people see how far long work is; programs see nothing of it.
func (d desk) progress(w io.Writer) *terminal.Printer {
	if d.JSON {
		w = io.Discard
	}
	return terminal.New(w)
}

// say prints a result for programs, or for people.
func (d desk) say(c *console, result any, people func(*terminal.Printer)) error {
	if !d.JSON {
		people(terminal.New(c.out))
		return nil
	}
	enc := json.NewEncoder(c.out)
	enc.SetIndent("", "  ")
	return enc.Encode(result)
}

// end takes away a bar that may never have begun.
func end(bar **terminal.Bar) {
	if *bar != nil {
		(*bar).End()
		*bar = nil
	}
}

// named: who acts said who that is.
func named(as string) error {
	if strings.TrimSpace(as) == "" {
		return errors.New("say who you are: --as NAME")
	}
	return nil
}

// accountable: who acts said who that is, and why.
func accountable(as, reason string) error {
	if strings.TrimSpace(reason) == "" {
		return errors.New("say why: --reason TEXT")
	}
	return named(as)
}

// count is how many of several ways were given.
func count(given ...bool) (n int) {
	for _, yes := range given {
		if yes {
			n++
		}
	}
	return n
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/services/sluice/terminal"
)

type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Say everything that is wrong with the configuration, at once."`
}

type configCheckCmd struct {
	Roles   []string `arg:"" optional:"" help:"Roles to check; all by default."`
	Connect bool     `help:"Also reach Kafka and the database, and check topics and schema."`
}

func (configCheckCmd) Help() string {
	return `Reads the settings of each role from the environment, and the endpoints file with its secrets. Prints
every problem and exits with 1 if there is any. Secrets are never printed.

Examples:
  sluice config check                  all roles
  sluice config check ingress          one
  sluice config check --connect        and what they connect to`
}

// section is one line of the check: what was looked at and what is wrong with it.
type section struct {
	name string
	err  error
}

var errConfig = errors.New("the configuration has problems")

func (k configCheckCmd) Run(ctx context.Context, c *console) error {
	sections, err := k.check(ctx, processEnvironment())
	if err != nil {
		return err
	}
	p, bad := terminal.New(c.out), 0
	for _, s := range sections {
		if s.err == nil {
			p.Line("%s %s", p.Green("✓"), s.name)
			continue
		}
		p.Line("%s %s", p.Red("✗"), s.name)
		for line := range strings.SplitSeq(s.err.Error(), "\n") {
			p.Line("    %s", line)
		}
		bad++
	}
	if bad > 0 {
		return errConfig
	}
	return nil
}

func (k configCheckCmd) check(ctx context.Context, e environment) ([]section, error) {
	chosen := roles
	if len(k.Roles) > 0 {
		chosen = nil
		for _, name := range k.Roles {
			r, err := roleNamed(name)
			if err != nil {
				return nil, err
			}
			chosen = append(chosen, r)
		}
	}
	cfg, err := read[daemon.Config](e)
	sections := []section{{"process", errors.Join(err, cfg.Check())}}
	for _, r := range chosen {
		sections = append(sections, section{r.name, r.check(e)})
	}
	if k.Connect {
		sections = append(sections, connect(ctx, e)...)
	}
	return sections, nil
}

// connectTimeout: a check answers while somebody waits for it.
const connectTimeout = 10 * time.Second

func connect(ctx context.Context, e environment) []section {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	quiet := slog.New(slog.DiscardHandler)
	brokers := func() error {
		cfg, err := read[kafka.Config](e)
		if err != nil {
			return err
		}
		return kafka.Reach(ctx, cfg, quiet)
	}
	database := func() error {
		cfg, err := read[postgres.Config](e)
		if err != nil {
			return err
		}
		store, err := postgres.Open(ctx, cfg, 1)
		if err != nil {
			return err
		}
		store.Close()
		if err := postgres.CheckSchema(ctx, cfg); err != nil {
			return fmt.Errorf("it answers, but: %w", err)
		}
		return nil
	}
	return []section{{"Kafka answers", brokers()}, {"database answers, its schema is this version's", database()}}
}

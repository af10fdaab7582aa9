package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"sluice/pkg/audit"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/services/sluice/terminal"
)

type auditCmd struct {
	Since   string `help:"Begin of the span: 2026-11-30T14:00:00Z, 2026-11-30, or how long ago, like 6h. By default a day ago." placeholder:"TIME"`
	Until   string `help:"Its end. By default now." placeholder:"TIME"`
	JSON    bool   `help:"For programs." name:"json"`
	DataDir string `help:"Of a running sluice dev, for what the environment does not say." default:".sluice"`
}

func (auditCmd) Help() string {
	return `Holds the books against Kafka's offsets: accepted = applied + no change + duplicate + held + dead + in flight,
for each hour of the broker's append time. What is missing is unaccounted. Exits with 1 if that is not 0; it then
reads the records of the hours that do not add up and names the events. It changes nothing.

Examples:
  sluice audit                                        the last day by the hour, and all before it
  sluice audit --since 2026-11-01 --until 2026-11-02  one day
  sluice audit --json | jq .unaccounted

Settings:
  KAFKA_BROKERS, DATABASE_URL and what belongs to them (sluice processor --help)`
}

var errUnaccounted = errors.New("the books do not add up")

func (a auditCmd) Run(ctx context.Context, c *console) error {
	e, err := running(a.DataDir)
	if err != nil {
		return err
	}
	s, err := read[struct {
		Kafka    kafka.Config
		Database postgres.Config
	}](e)
	if err != nil {
		return err
	}
	now := time.Now()
	span, err := a.span(now)
	if err != nil {
		return usageError{err}
	}
	store, err := postgres.Open(ctx, s.Database, 2)
	if err != nil {
		return err
	}
	defer store.Close()
	auditor, err := audit.Open(ctx, s.Kafka, store, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		return err
	}
	defer auditor.Close()
	return span.run(ctx, auditor, c.out, a.JSON)
}

// auditSpan is what is asked for.
type auditSpan struct {
	since, until time.Time
	// given: by flags; else what does not add up elsewhere is looked for too.
	given bool
}

func (a auditCmd) span(now time.Time) (s auditSpan, err error) {
	s = auditSpan{since: now.Add(-24 * time.Hour), until: now, given: a.Since != "" || a.Until != ""}
	for _, flag := range []struct {
		name, text string
		to         *time.Time
	}{{"--since", a.Since, &s.since}, {"--until", a.Until, &s.until}} {
		if flag.text == "" {
			continue
		}
		if *flag.to, err = moment(flag.text, now); err != nil {
			return s, fmt.Errorf("%s: %w", flag.name, err)
		}
	}
	if !s.since.Before(s.until) {
		return s, fmt.Errorf("the span ends at %s, before it begins", stamp(s.until))
	}
	return s, nil
}

// moment reads a time as people write it.
func moment(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is neither a time like 2026-11-30T14:00:00Z or 2026-11-30 (UTC) nor a duration like 6h", text)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

// run prints the audit of a span.
func (s auditSpan) run(ctx context.Context, auditor *audit.Auditor, out io.Writer, asJSON bool) error {
	report, err := auditor.Hours(ctx, s.since, s.until)
	if err != nil {
		return err
	}
	if s.given {
		report.Within(s.since, s.until)
	} else if report.Outside() != 0 {
		// Somewhere else: by the hour, so that only those hours are read.
		if report, err = auditor.Hours(ctx, time.Unix(0, 0), s.until); err != nil {
			return err
		}
	}
	var findings []audit.Finding
	unaccounted := report.Unaccounted()
	if unaccounted != 0 {
		var bar *terminal.Bar
		p := terminal.New(out)
		if asJSON {
			p = terminal.New(io.Discard)
		}
		findings, err = report.Examine(ctx, auditor, func(total int) { bar = p.Bar(total) }, func(n int) { bar.Add(n) })
		end(&bar)
		if err != nil {
			return err
		}
		unaccounted = report.Unaccounted()
	}
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(report.JSON(findings)); err != nil {
			return err
		}
	} else {
		printAudit(terminal.New(out), report, findings)
	}
	if unaccounted != 0 || len(findings) > 0 {
		return errUnaccounted
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/pkg/endpoint"
	"sluice/pkg/kafka"
	"sluice/pkg/lookup"
	"sluice/pkg/postgres"
	"sluice/services/reconciler"
	"sluice/services/sluice/terminal"
)

type driftCmd struct {
	desk
	Day    string `help:"The day to compare, in UTC." required:"" placeholder:"YYYY-MM-DD"`
	Source string `help:"Only this one. By default every source whose endpoint has a lookup." placeholder:"NAME"`
	Feed   bool   `help:"Write what is missing here into the raw topic, as events of its source. Needs --reason."`
	As     string `help:"Who you are, for the audit log." env:"USER" placeholder:"NAME"`
	Reason string `help:"Why, for the audit log." placeholder:"TEXT"`
}

func (driftCmd) Help() string {
	return `Compares what the providers say of a day with what is known here, and prints every difference: what each side
says, and what to do. Where a provider lists what happened, its list is read; payments that it does not confirm, and
those of other providers, are asked about one by one. Requests keep to the rate of the endpoint's lookup, which is
shared with the reconcilers. Nothing is changed unless --feed is given. What brought no answer is listed as not
compared, for silence decides nothing. Exits with 1 if anything differs or could not be compared.

Examples:
  sluice drift --day 2026-11-29                     every source
  sluice drift --day 2026-11-29 --source stripe
  sluice drift --day 2026-11-29 --json | jq '.sources[].differences[] | select(.kind == "missing_here")'
  sluice drift --day 2026-11-29 --feed --reason "the endpoint was switched off at the provider"

Settings:
  DATABASE_URL, SLUICE_ENDPOINTS, SLUICE_MODE and the credentials that the file names (sluice reconciler --help);
  with --feed also KAFKA_BROKERS`
}

var (
	errDrift       = errors.New("the providers and we differ")
	errNotCompared = errors.New("not everything could be compared")
)

// driftReport is what a comparison found.
type driftReport struct {
	Day     string             `json:"day"`
	Sources []reconciler.Drift `json:"sources"`
	// Unasked are the sources that no lookup is configured for.
	Unasked []string `json:"unasked"`
	// Fed is how many events were written into the raw topic.
	Fed int `json:"fed"`
}

func (r driftReport) differences() (all []reconciler.Difference) {
	for _, s := range r.Sources {
		all = append(all, s.Differences...)
	}
	return all
}

func (r driftReport) notCompared() (n int) {
	for _, s := range r.Sources {
		n += len(s.NotCompared)
	}
	return n
}

func (d driftCmd) Run(ctx context.Context, c *console) error {
	day, err := time.Parse(time.DateOnly, d.Day)
	switch {
	case err != nil:
		return usageError{fmt.Errorf("--day: %q is no day like 2026-11-29", d.Day)}
	case day.After(time.Now()):
		return usageError{fmt.Errorf("--day: %s is yet to come (days are in UTC)", d.Day)}
	case d.Feed && strings.TrimSpace(d.Reason) == "":
		return usageError{errors.New("--feed needs --reason: it is written into the audit log")}
	case !d.Feed && d.Reason != "":
		return usageError{errors.New("--reason is for --feed: nothing is changed without it")}
	case d.Feed:
		if err := named(d.As); err != nil {
			return usageError{err}
		}
	}
	e, err := running(d.DataDir)
	if err != nil {
		return err
	}
	tools, done, err := d.tools(ctx, e)
	if err != nil {
		return err
	}
	defer done()
	report, err := d.compare(ctx, c, tools, day)
	if err != nil {
		return err
	}
	rest := report.differences()
	if d.Feed {
		if report.Fed, err = d.feed(ctx, tools, rest); err != nil {
			return err
		}
		rest = slices.DeleteFunc(slices.Clone(rest), reconciler.Difference.Feedable)
	}
	if err := d.say(c, report, func(p *terminal.Printer) { printDrift(p, report) }); err != nil {
		return err
	}
	switch {
	case len(rest) > 0:
		return errDrift
	case report.notCompared() > 0:
		return errNotCompared
	}
	return nil
}

// driftTools are what a comparison works with.
type driftTools struct {
	*reconciler.Reconciler
	store     *postgres.Store
	endpoints endpoint.Set
}

func (d driftCmd) tools(ctx context.Context, e environment) (t driftTools, done func(), err error) {
	s, err := read[struct {
		Deployment deployment
		Database   postgres.Config
		Reconciler reconciler.Config
		Kafka      kafka.Config
	}](e)
	if err != nil {
		return t, nil, err
	}
	if t.endpoints, err = s.Deployment.accounts(e); err != nil {
		return t, nil, err
	}
	if t.store, err = postgres.Open(ctx, s.Database, 4); err != nil {
		return t, nil, err
	}
	quiet := slog.New(slog.DiscardHandler)
	deps := reconciler.Deps{Log: quiet, Registry: prometheus.NewRegistry(), Owner: owner(), Store: t.store, Endpoints: t.endpoints, Now: time.Now}
	closeAll := t.store.Close
	if d.Feed {
		producer, err := kafka.NewProducer(ctx, s.Kafka, "drift", s.Kafka.Topic(kafka.Raw), quiet, prometheus.NewRegistry())
		if err != nil {
			closeAll()
			return t, nil, err
		}
		deps.Producer = producer
		closeAll = func() {
			flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Reconciler.DrainTimeout)
			defer cancel()
			_ = producer.Close(flush) // what it has not written, Feed has told of
			t.store.Close()
		}
	}
	if t.Reconciler, err = reconciler.New(s.Reconciler, deps); err != nil {
		closeAll()
		return t, nil, err
	}
	return t, closeAll, nil
}

// compare compares every source that was asked for.
func (d driftCmd) compare(ctx context.Context, c *console, t driftTools, day time.Time) (driftReport, error) {
	report := driftReport{Day: d.Day, Sources: []reconciler.Drift{}, Unasked: []string{}}
	names := t.Sources()
	for _, e := range t.endpoints.All() {
		if !slices.Contains(names, e.Source) && !slices.Contains(report.Unasked, e.Source) {
			report.Unasked = append(report.Unasked, e.Source)
		}
	}
	if d.Source != "" {
		if !slices.Contains(names, d.Source) {
			return report, usageError{fmt.Errorf("--source: no endpoint of source %q has a lookup; there are %s", d.Source, strings.Join(names, ", "))}
		}
		names, report.Unasked = []string{d.Source}, []string{}
	}
	span := lookup.Span{Since: day, Until: day.AddDate(0, 0, 1)}
	for _, name := range names {
		bar := steps{printer: d.progress(c.out)}
		found, err := t.Drift(ctx, name, span, bar.to)
		end(&bar.bar)
		if err != nil {
			return report, fmt.Errorf("compare source %s: %w", name, err)
		}
		report.Sources = append(report.Sources, found)
	}
	return report, nil
}

// feed writes what is missing here into the raw topic. The audit log comes first: what
// is not in it was not done.
func (d driftCmd) feed(ctx context.Context, t driftTools, differences []reconciler.Difference) (int, error) {
	bySource := map[string]int{}
	for _, x := range differences {
		if x.Feedable() {
			bySource[x.Source]++
		}
	}
	if len(bySource) == 0 {
		return 0, nil
	}
	err := t.store.InTx(ctx, func(tx postgres.Tx) error {
		return tx.AddAuditEntry(ctx, postgres.AuditEntry{At: time.Now(), Who: d.As, Action: "drift_feed", Subject: "day " + d.Day, Reason: d.Reason,
			After: map[string]any{"missing_here": bySource}})
	})
	if err != nil {
		return 0, err
	}
	return t.Feed(ctx, differences)
}

// steps is a bar whose total is known once the work is under way.
type steps struct {
	printer *terminal.Printer
	bar     *terminal.Bar
	done    int
}

func (s *steps) to(done, total int) {
	if total == 0 {
		return // a list does not say how long it is
	}
	if s.bar == nil {
		s.bar = s.printer.Bar(total)
	}
	s.bar.Add(done - s.done)
	s.done = done
}

package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/pkg/retention"
	"sluice/services/processor"
	"sluice/services/sluice/dev"
	"sluice/services/sluice/terminal"
)

type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Say everything that is wrong with the configuration, at once."`
}

type configCheckCmd struct {
	Roles   []string `arg:"" optional:"" help:"Roles to check; all by default."`
	Connect bool     `help:"Also reach Kafka and the database, and check the topics, their retention and the schema."`
}

func (configCheckCmd) Help() string {
	return `Reads the settings of each role from the environment (sluice ROLE --help lists them), and the endpoints file that
SLUICE_ENDPOINTS names (endpoints.yaml by default) with its secrets. Prints every problem and exits with 1 if there is
any. Secrets are never printed.

Examples:
  sluice config check                  all roles
  sluice config check ingress          one
  SLUICE_ENDPOINTS=mine.yaml SLUICE_MODE=test sluice config check ingress
  sluice config check --connect        and what they connect to`
}

// section is one line of the check: what was looked at and what is wrong with it.
type section struct {
	name string
	err  error
	// notes are no problems, but worth knowing.
	notes []string
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
			for _, note := range s.notes {
				p.Line("    %s", p.Yellow(note))
			}
			continue
		}
		p.Line("%s %s", p.Red("✗"), s.name)
		for line := range strings.SplitSeq(s.err.Error(), "\n") {
			p.Line("    %s", line)
		}
		bad++
	}
	if bad == 0 {
		return nil
	}
	// Other commands find a running sluice dev; this one checks what roles would be
	// started with here.
	_, set := os.LookupEnv("KAFKA_BROKERS")
	if found, err := dev.ReadEnvironment(defaultDataDir); err == nil && len(found) > 0 && !set {
		p.Line("\nfor what the sluice dev of this directory has: source %s", filepath.Join(defaultDataDir, "env"))
	}
	return errConfig
}

func (k configCheckCmd) check(ctx context.Context, e environment) ([]section, error) {
	chosen := roles
	if len(k.Roles) > 0 {
		chosen = nil
		for _, name := range k.Roles {
			r, err := roleNamed(name)
			if err != nil {
				return nil, usageError{err}
			}
			chosen = append(chosen, r)
		}
	}
	cfg, err := read[daemon.Config](e)
	sections := []section{{name: "process", err: errors.Join(err, cfg.Check())}}
	for _, r := range chosen {
		sections = append(sections, section{name: r.name, err: r.check(e)})
		if h := horizons(e, nil); r.name == processorRole.name && !k.Connect && len(h.notes) > 0 {
			sections = append(sections, h)
		}
	}
	if k.Connect {
		sections = append(sections, connect(ctx, e, chosen)...)
	}
	return sections, nil
}

// connectTimeout: a check answers while somebody waits for it.
const connectTimeout = 10 * time.Second

// connect reaches what the chosen roles need and looks at how it is.
func connect(ctx context.Context, e environment, chosen []role) (sections []section) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	s, _ := read[struct {
		Kafka     kafka.Config
		Database  postgres.Config
		Processor processor.Config
		Effects   effects
	}](e) // what is wrong with it, the roles' sections say
	quiet := slog.New(slog.DiscardHandler)
	if slices.ContainsFunc(chosen, func(r role) bool { return r.kafka || r.kafkaFor != nil && r.kafkaFor(e) }) {
		sections = append(sections, inTurn(
			attempt{"Kafka answers", func() error {
				if len(s.Kafka.Brokers) == 0 {
					return errors.New("KAFKA_BROKERS is not set")
				}
				return kafka.Reach(ctx, s.Kafka, quiet)
			}},
			attempt{"Kafka's topics are as they must be", func() error {
				return kafka.CheckTopics(ctx, s.Kafka, quiet, kafka.EnsureOptions{Dev: s.Processor.DevBroker})
			}})...)
		if last := sections[len(sections)-1]; last.name != "Kafka answers" && !errors.Is(last.err, kafka.ErrNoTopic) {
			kept, err := kafka.ReadRetention(ctx, s.Kafka, quiet, processor.Topics(s.Kafka)...)
			found := horizons(e, kept)
			found.err = errors.Join(err, found.err)
			sections = append(sections, found)
		}
	}
	if slices.ContainsFunc(chosen, func(r role) bool { return r.database }) {
		sections = append(sections, inTurn(
			attempt{"database answers", func() error {
				if s.Database.URL == "" {
					return errors.New("DATABASE_URL is not set")
				}
				store, err := postgres.Open(ctx, s.Database, 1)
				if err == nil {
					store.Close()
				}
				return err
			}},
			attempt{"database schema is this version's", func() error { return postgres.CheckSchema(ctx, s.Database) }},
			attempt{"the running roles have these effects", func() error {
				store, err := postgres.Open(ctx, s.Database, 1)
				if err != nil {
					return err
				}
				defer store.Close()
				return s.Effects.agree(ctx, store)
			}})...)
	}
	return sections
}

// attempt is a part of the check that reaches for something.
type attempt struct {
	name string
	try  func() error
}

// inTurn tries one after the other: without the first, nothing is known of the rest.
func inTurn(attempts ...attempt) (sections []section) {
	for _, a := range attempts {
		err := a.try()
		sections = append(sections, section{name: a.name, err: err})
		if err != nil {
			break
		}
	}
	return sections
}

// horizons is what the processor checks of retention when it starts; kept is what Kafka
// says of its topics, nil if it was not asked.
func horizons(e environment, kept map[string]kafka.Retention) section {
	found := section{name: "retention"}
	s, _ := read[horizonSettings](e) // what is wrong with it, the role's section says
	window, err := s.Database.Window()
	if err != nil {
		return found // likewise
	}
	endpoints, _ := endpointsOf(e)
	report := retention.Check(s.Processor.Horizons(s.Kafka, kept, window, s.Database.LongestGrace(), endpoints))
	found.err = report.Refusal()
	for _, f := range report.Of(retention.Warn) {
		found.notes = append(found.notes, f.String())
	}
	return found
}

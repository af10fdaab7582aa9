// Command sluice is the whole program: every role, and the tools around them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "sluice:", err)
		os.Exit(exitCode(err))
	}
}

// usageError: the command line, or what it names, is not what the command needs.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitCode is 2 for what was asked wrongly, 1 for what went wrong.
func exitCode(err error) int {
	if usage := (usageError{}); errors.As(err, &usage) {
		return 2
	}
	return 1
}

// cli is the command line.
type cli struct {
	Dev       devCmd         `cmd:"" group:"try" help:"Everything on this machine in one command."`
	Send      sendCmd        `cmd:"" group:"try" help:"Sign and send real-looking webhooks."`
	Verify    VerifyCmd      `cmd:"" group:"try" help:"Say whether a recorded request verifies, or why not; check files of vectors."`
	Providers providersCmd   `cmd:"" group:"try" help:"How each provider signs, what that covers, and what it needs."`
	Broker    brokerCmd      `cmd:"" group:"try" help:"The development broker alone. Not for production."`
	Ingress   ingressCmd     `cmd:"" group:"roles" help:"Receive webhooks, verify them, write them to Kafka."`
	Process   processorCmd   `cmd:"" name:"processor" group:"roles" help:"Apply events to orders, each once."`
	Relay     relayCmd       `cmd:"" group:"roles" help:"Publish order statuses to Kafka."`
	Merchant  merchantCmd    `cmd:"" group:"roles" help:"The shop's API: register and read orders."`
	Reconcile reconcilerCmd  `cmd:"" name:"reconciler" group:"roles" help:"Ask the providers what their webhooks only hint at."`
	Run       runCmd         `cmd:"" group:"roles" help:"Several roles in one process."`
	Migrate   migrateCmd     `cmd:"" group:"operate" help:"Bring the database's schema and Kafka's topics to this version."`
	Audit     auditCmd       `cmd:"" group:"operate" help:"Hold the books against Kafka, and name what is missing."`
	Replay    replayCmd      `cmd:"" group:"operate" help:"Read a part of the raw topic once more, safely."`
	Review    reviewCmd      `cmd:"" group:"operate" help:"What waits for a person, and deciding on it."`
	Dead      deadLettersCmd `cmd:"" name:"dead-letters" group:"operate" help:"Records that nobody could read: what they are, sending them again, discarding them."`
	Retention retentionCmd   `cmd:"" group:"operate" help:"How far back everything reaches, set against each other."`
	Archive   archiveCmd     `cmd:"" group:"operate" help:"What was written to files before it left the database."`
	Drift     driftCmd       `cmd:"" group:"operate" help:"What the providers say of a day, and we do not, or otherwise."`
	Effects   effectsCmd     `cmd:"" group:"operate" help:"What must happen outside: what is due, what failed, sending it again."`
	Shadow    shadowCmd      `cmd:"" group:"operate" help:"Say what the orders would be if their records were read now, beside the live ones."`
	Explain   explainCmd     `cmd:"" group:"operate" help:"Say everything about an event, an order or a payment."`
	Config    configCmd      `cmd:"" group:"operate" help:"Check the configuration."`
	Health    healthCmd      `cmd:"" group:"operate" help:"Ask a running process whether it is ready."`
	Docs      docsCmd        `cmd:"" group:"try" help:"The contract as pages: topics, HTTP, schemas, examples."`
	Version   versionCmd     `cmd:"" group:"operate" help:"Say which version this is."`
}

// console is where commands speak to people and machines.
type console struct{ out, err io.Writer }

// run carries one command line out.
func run(args []string, out, errs io.Writer) error {
	c := &console{out, errs}
	parser, err := kong.New(&cli{},
		kong.Name("sluice"),
		kong.Description("Turns payment providers' webhooks into exactly-once, rightly-ordered order statuses on Kafka.\n\nBegin with:  sluice dev --demo"),
		kong.ExplicitGroups([]kong.Group{
			{Key: "try", Title: "Try it:"},
			{Key: "roles", Title: "Roles (each reads its settings from the environment):"},
			{Key: "operate", Title: "Operate:"},
		}),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.Writers(out, errs),
		kong.Bind(c),
		kong.BindTo(context.Background(), (*context.Context)(nil)),
	)
	if err != nil {
		return err
	}
	command, err := parser.Parse(joined(args))
	if err != nil {
		return usageError{fmt.Errorf("%w (%s --help shows what there is)", err, meant(err))}
	}
	err = command.Run()
	if errors.Is(err, syscall.ECONNREFUSED) {
		err = fmt.Errorf("%w\n  nobody listens there; if it is a sluice dev, start it again, else see KAFKA_BROKERS and DATABASE_URL", err)
	}
	return err
}

var negative = regexp.MustCompile(`^-[0-9]+$`)

// joined has a flag's negative number behind a =, so that --shift-by -10 is taken as
// Kafka's own tools take it: no flag here is a number.
func joined(args []string) (all []string) {
	for _, arg := range args {
		if last := len(all) - 1; negative.MatchString(arg) && last >= 0 && strings.HasPrefix(all[last], "--") && !strings.Contains(all[last], "=") {
			all[last] += "=" + arg
			continue
		}
		all = append(all, arg)
	}
	return all
}

// meant is the command that a wrong command line was about.
func meant(err error) string {
	path := "sluice"
	if wrong := (*kong.ParseError)(nil); errors.As(err, &wrong) {
		for _, step := range wrong.Context.Path {
			if step.Command != nil {
				path += " " + step.Command.Name
			}
		}
	}
	return path
}

// brokenOff says in plain words that somebody stopped what only looks.
func brokenOff(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("broken off; nothing was changed")
	}
	return err
}

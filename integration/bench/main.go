// Command bench measures Sluice on real parts, each figure beside its ceiling or
// baseline in the same run. It drives the built program from outside:
//
//	go run ./integration/parts -- go run ./integration/bench
//
// It needs KAFKA_BROKERS and DATABASE_URL, which parts gives it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"sluice/integration/harness"
)

func main() {
	if os.Getenv(ceilingVariable) != "" {
		if err := serveCeiling(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// progress tells people what was just seen.
type progress func(format string, args ...any)

// measures are all that can be measured, in the order of the table.
var measures = []struct {
	name, what string
	run        func(*scope, options, progress) []row
}{
	{"ingress", "webhooks a second, beside the same handler without Kafka", ingressThroughput},
	{"latency", "ingress at a steady 5,000/s", ingressLatency},
	{"processor", "events applied a second, beside one event a transaction", processorThroughput},
	{"replay", "known records read again by one processor, beside live traffic", replayBesideLive},
	{"dryrun", "what the plan of a replay says that records would do, known ones and with new ones among them", forecast},
	{"ledger", "the processor with many events processed before, what they take, and dropping them", ledgerGrowth},
	{"relay", "a backlog published, and from commit to topic", relayed},
	{"path", "from a webhook's 2xx to its message on the status topic", wholePath},
	{"reconcile", "orders that hang, asked about at a provider's limit by one reconciler and by three", reconciled},
	{"dev", "to the first order status of sluice dev --demo", firstStatus},
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := flags.String("only", "", "measure only these, separated by commas: "+strings.Join(names(), ", "))
	quick := flags.Bool("quick", false, "seconds instead of minutes: shows that it works, the figures mean little")
	patience := flags.Duration("patience", 0, "wait so long at most before each round until other programs leave the machine alone")
	before := flags.Int("rows", 0, "how many events were processed before, for ledger (10,000,000; -quick: 20,000)")
	records := flags.Int("records", 0, "how many records are read again, for replay (10,000,000; -quick: 60,000) and dryrun (1,000,000; 40,000)")
	write := flags.Bool("write", false, "write docs/benchmarks.md and docs/benchmarks.svg")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := known(*only); err != nil {
		return err
	}
	if *write && (*quick || *only != "") {
		return errors.New("-write keeps whole runs only: leave -quick and -only away")
	}
	o := full
	if *quick {
		o = short
	}
	o.patience = *patience
	if *before > 0 {
		o.rows = *before
	}
	if *records > 0 {
		o.replay, o.dryRun = *records, *records
	}
	disturbed := await(ctx, o.patience)
	if disturbed > calm {
		fmt.Fprintf(out, "Other programs use %.0f %% of the CPUs: every figure will be worse than it could be.\n", 100*disturbed)
	}
	began := time.Now()
	var rows []row
	for _, m := range measures {
		if *only != "" && !listed(*only, m.name) {
			continue
		}
		fmt.Fprintf(out, "%s: %s\n", m.name, m.what)
		say := func(format string, args ...any) {
			fmt.Fprintf(out, "  %6s  %s\n", time.Since(began).Round(time.Second), fmt.Sprintf(format, args...))
		}
		if err := within(ctx, m.name, func(t *scope) { rows = append(rows, m.run(t, o, say)...) }); err != nil {
			return err
		}
	}
	fmt.Fprintln(out)
	printTable(out, rows)
	if *write {
		return writeDocs(harness.Root(), rows, machine(ctx, disturbed), time.Now())
	}
	return nil
}

func names() (all []string) {
	for _, m := range measures {
		all = append(all, m.name)
	}
	return all
}

func listed(list, name string) bool {
	for part := range strings.SplitSeq(list, ",") {
		if part == name {
			return true
		}
	}
	return false
}

func known(only string) error {
	for part := range strings.SplitSeq(only, ",") {
		if part != "" && !listed(strings.Join(names(), ","), part) {
			return fmt.Errorf("no measure %q; there are %s", part, strings.Join(names(), ", "))
		}
	}
	return nil
}

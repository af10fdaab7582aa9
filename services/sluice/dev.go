package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/services/sluice/demo"
	"sluice/services/sluice/dev"
	"sluice/services/sluice/port"
	"sluice/services/sluice/terminal"
)

type devCmd struct {
	Demo     bool       `help:"Send a day of webhooks and tell each order's story."`
	Exit     bool       `help:"End after the demo; success only if the books add up."`
	DataDir  string     `help:"Where everything is kept, from run to run." default:".sluice" type:"path"`
	Kafka    []string   `help:"Use these brokers instead of the development broker." placeholder:"HOST:PORT"`
	Database string     `help:"Use this database instead of a PostgreSQL server of its own." placeholder:"URL"`
	Listen   string     `help:"Where webhooks come in; another port if this one is taken." default:"127.0.0.1:8080"`
	API      string     `help:"Where the shop's API is." default:"127.0.0.1:8081"`
	Public   string     `help:"Where Payme and Click call." default:"127.0.0.1:8082"`
	ClickAPI string     `help:"Where the stand-in for Click's API is." default:"127.0.0.1:8083"`
	Admin    string     `help:"Where health, metrics and profiles are." default:"127.0.0.1:9090"`
	Mode     event.Mode `help:"live or test: which of the providers' worlds this deployment is." default:"test"`
	Verbose  bool       `help:"Show the roles' log here, not only in the data directory." short:"v"`
}

func (devCmd) Help() string {
	return `Starts the development broker and a PostgreSQL server (from this machine's programs, else downloaded once),
makes schema and topics, and runs every role in one process, all on loopback. What it makes (data, secrets,
endpoints.yaml) stays in the data directory and is there again the next time.
Effects are those of the file that SLUICE_EFFECTS names.

Examples:
  sluice dev                     bring it up, then send webhooks with sluice send, kcat, curl
  sluice dev --demo              and send a shuffled, duplicated day of webhooks first
  sluice dev --demo --exit       the same, then end
  sluice dev --kafka localhost:9092 --database postgres://localhost/sluice`
}

var errDemo = errors.New("the demo did not end as it must")

func (d devCmd) Run(ctx context.Context, c *console) (err error) {
	began := time.Now()
	p := terminal.New(c.out)
	dir, err := dev.Open(d.DataDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	log, logFile, err := d.log(dir, c.err)
	if err != nil {
		return err
	}
	defer logFile.Close()
	ctx, stop := daemon.Notify(ctx, log)
	defer stop()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	p.Title("sluice dev")
	e := processEnvironment()
	stopParts, err := d.parts(ctx, dir, e, p, log, fail)
	defer func() { err = errors.Join(err, stopParts()) }()
	if errors.Is(err, context.Canceled) {
		return interrupted(ctx)
	}
	if err != nil {
		return err
	}
	if err := d.settings(dir, e); err != nil {
		return err
	}
	endpoints, err := load(e) // before the roles do, each of which would say the same of it
	if err != nil {
		return err
	}
	if err := d.migrate(ctx, e, p, log); err != nil {
		return err
	}

	stopClick, err := d.standIn(dir, e, fail)
	if err != nil {
		return err
	}
	defer stopClick()

	step := p.Step("roles")
	cfg, err := read[daemon.Config](e)
	if err != nil {
		return err
	}
	running := make(chan error, 1)
	roleCtx, stopRoles := context.WithCancel(ctx)
	go func() {
		err := launch(roleCtx, cfg, roles, e, log)
		fail(err)
		running <- err
	}()
	defer func() {
		stopRoles()
		if roleErr := <-running; roleErr != nil && !errors.Is(err, roleErr) {
			err = errors.Join(err, roleErr)
		}
	}()
	if err := ready(ctx, cfg.Admin); err != nil {
		step.Fail()
		return err
	}
	step.Done(strings.Join(roleNames(), ", "))
	if d.Demo || d.Exit {
		ok, err := d.demo(ctx, e, p, log, began)
		switch {
		case errors.Is(err, context.Canceled):
			return interrupted(ctx)
		case err != nil:
			return fmt.Errorf("demo: %w", err)
		case d.Exit && !ok:
			return errDemo
		case d.Exit:
			return nil
		}
	}
	d.next(p, dir, e, endpoints)
	p.Line("\n%s", p.Dim("Running. Ctrl-C stops it; the data stays in "+dir.Path()+"."))
	<-ctx.Done()
	p.Line("\nstopping")
	return interrupted(ctx)
}

// interrupted is why ctx ended: nil if somebody asked for it.
func interrupted(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// log writes the roles' log to the data directory, and to errs if asked for.
func (d devCmd) log(dir *dev.Dir, errs io.Writer) (*slog.Logger, io.Closer, error) {
	f, err := os.OpenFile(dir.Path("sluice.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open log: %w", err)
	}
	var w io.Writer = f
	if d.Verbose {
		w = io.MultiWriter(f, errs)
	}
	cfg, err := read[daemon.LogConfig](processEnvironment())
	if err != nil {
		return nil, nil, err
	}
	cfg.Format = "text"
	log, err := daemon.NewLog(cfg, w)
	return log, f, err
}

// settings decides the rest of e and leaves it where other commands find it.
func (d devCmd) settings(dir *dev.Dir, e environment) error {
	var err error
	for name, at := range map[string]string{"SLUICE_INGRESS_ADDRESS": d.Listen, "SLUICE_MERCHANT_ADDRESS": d.API, "SLUICE_MERCHANT_PUBLIC_ADDRESS": d.Public,
		clickAPI: d.ClickAPI, "SLUICE_ADMIN_ADDRESS": d.Admin} {
		if e[name], err = address(dir, name, at); err != nil {
			return err
		}
	}
	endpoints, err := dir.Endpoints("http://" + e[clickAPI])
	if err != nil {
		return err
	}
	e["SLUICE_ENDPOINTS"], e["SLUICE_MODE"] = endpoints, string(d.Mode)
	delete(e, "SLUICE_MERCHANT_TOKEN") // on loopback there is none
	delete(e, "SLUICE_MERCHANT_TOKEN_FILE")
	e["SLUICE_INGRESS_UNREADY"] = "0s" // no load balancer here to wait for
	e["SLUICE_INGRESS_URL"] = "http://" + e["SLUICE_INGRESS_ADDRESS"]
	e["SLUICE_MERCHANT_URL"] = "http://" + e["SLUICE_MERCHANT_ADDRESS"]
	e["SLUICE_MERCHANT_PUBLIC_URL"] = "http://" + e["SLUICE_MERCHANT_PUBLIC_ADDRESS"]
	shared := map[string]string{}
	for _, name := range []string{"KAFKA_BROKERS", "DATABASE_URL", "SLUICE_ENDPOINTS", "SLUICE_EFFECTS", "SLUICE_MODE", "SLUICE_INGRESS_URL", "SLUICE_MERCHANT_URL",
		"SLUICE_MERCHANT_PUBLIC_URL", "SLUICE_MERCHANT_PUBLIC_ADDRESS", clickAPI} {
		shared[name] = e[name]
	}
	if len(d.Kafka) == 0 {
		shared["SLUICE_DEV_BROKER"], e["SLUICE_DEV_BROKER"] = "true", "true"
	}
	return dir.WriteEnvironment(shared)
}

// load reads the endpoints file that e names.
func load(e environment) (endpoint.Set, error) {
	s, err := read[deployment](e)
	if err != nil {
		return endpoint.Set{}, err
	}
	return s.load(e)
}

// address is at, with another port if that one is taken.
func address(dir *dev.Dir, name, at string) (string, error) {
	host, number, err := net.SplitHostPort(at)
	if err != nil {
		return "", fmt.Errorf("address %q must be host:port: %w", at, err)
	}
	wanted, err := strconv.Atoi(number)
	if err != nil {
		return "", fmt.Errorf("address %q must end in a port number", at)
	}
	chosen, err := port.Choose(dir.Path(strings.ToLower(name)+".port"), wanted)
	return net.JoinHostPort(host, strconv.Itoa(chosen)), err
}

func (d devCmd) migrate(ctx context.Context, e environment, p *terminal.Printer, log *slog.Logger) error {
	step := p.Step("schema")
	s, err := read[migrateSettings](e)
	if err == nil {
		s.Topics.Dev = len(d.Kafka) == 0
		_, err = migrate(ctx, s, log)
	}
	if err != nil {
		step.Fail()
		return err
	}
	step.Done("database and topics are up to date")
	return nil
}

// readyTimeout: the consumer group's first assignment takes the longest.
const readyTimeout = time.Minute

// ready waits until every role is.
func ready(ctx context.Context, admin string) error {
	limited, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	report := "no answer yet"
	for {
		if text, ready, err := askReady(limited, admin); err == nil {
			if ready {
				return nil
			}
			report = text
		}
		select {
		case <-tick.C:
		case <-limited.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("roles are not ready after %v: %s", readyTimeout, strings.ReplaceAll(report, "\n", "; "))
		}
	}
}

// next says where everything is and what to try.
func (d devCmd) next(p *terminal.Printer, dir *dev.Dir, e environment, endpoints endpoint.Set) {
	var webhooks, calls []string
	for _, one := range endpoints.All() {
		if one.Provider.Profile().TwoWay {
			calls = append(calls, one.Name)
		} else {
			webhooks = append(webhooks, one.Name)
		}
	}
	p.Title("Where")
	p.Table([][]string{
		{"webhooks", e["SLUICE_INGRESS_URL"] + "/webhooks/{" + strings.Join(webhooks, ",") + "}"},
		{"Payme, Click", e["SLUICE_MERCHANT_PUBLIC_URL"] + "/webhooks/{" + strings.Join(calls, ",") + "}"},
		{"orders", e["SLUICE_MERCHANT_URL"] + "/v1/orders/{id}"},
		{"health, metrics", "http://" + e["SLUICE_ADMIN_ADDRESS"] + "/{readyz,metrics}"},
		{"the contract", "http://" + e["SLUICE_ADMIN_ADDRESS"] + "/docs/"},
		{"Kafka", e["KAFKA_BROKERS"]},
		{"endpoints", dir.Path("endpoints.yaml")},
		{"log", dir.Path("sluice.log")},
	})
	p.Title("Try, in another terminal")
	program := dev.ShellWord(os.Args[0])
	for _, line := range []string{
		dir.Source(),
		`curl -X PUT $SLUICE_MERCHANT_URL/v1/orders/A-1 -H 'content-type: application/json' -d '{"amount":4990,"currency":"EUR"}'`,
		program + " send stripe --order A-1 --amount 4990 --duplicates 4",
		program + " send payme --order A-2 --amount 12500000   # once A-2 is registered, in UZS",
		"curl $SLUICE_MERCHANT_URL/v1/orders/A-1",
		"kcat -b $KAFKA_BROKERS -C -t orders.status.v1 -o beginning -e",
		`psql "$DATABASE_URL" -c 'select order_id, status, paid, refunded, version from orders'`,
	} {
		p.Line("  %s", line)
	}
}

// demo runs the day and says whether everything ended as it must.
func (d devCmd) demo(ctx context.Context, e environment, p *terminal.Printer, log *slog.Logger, began time.Time) (bool, error) {
	s, err := read[struct {
		Deployment deployment
		Kafka      kafka.Config
		Database   postgres.Config
	}](e)
	if err != nil {
		return false, err
	}
	endpoints, err := s.Deployment.load(e)
	if err != nil {
		return false, err
	}
	store, err := postgres.Open(ctx, s.Database, 2)
	if err != nil {
		return false, err
	}
	defer store.Close()
	return demo.Demo{Ingress: e["SLUICE_INGRESS_URL"], Merchant: e["SLUICE_MERCHANT_URL"], Public: e["SLUICE_MERCHANT_PUBLIC_URL"], Endpoints: endpoints, Mode: s.Deployment.Mode,
		Kafka: s.Kafka, Store: store, Out: p, Log: log, Began: began}.Run(ctx)
}

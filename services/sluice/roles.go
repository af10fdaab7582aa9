package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"sluice/pkg/daemon"
	"sluice/pkg/postgres"
)

// process is what the roles of one process share.
type process struct {
	env environment
	log *slog.Logger
	reg prometheus.Registerer
}

// role is one role as the command line knows it.
type role struct {
	name string
	// check reads its settings and says everything that is wrong with them,
	// without reaching for anything.
	check func(environment) error
	// start waits for what the role needs, saying for what, and makes it.
	start func(context.Context, process) (daemon.Worker, error)
	// kafka and database say what it connects to.
	kafka, database bool
	// kafkaFor, if set, says whether it connects to Kafka as it is configured.
	kafkaFor func(environment) bool
	// alone, if set, prepares a process that runs nothing but this role.
	alone func()
}

var roles = []role{ingressRole, processorRole, relayRole, merchantRole, reconcilerRole}

func roleNames() (names []string) {
	for _, r := range roles {
		names = append(names, r.name)
	}
	return names
}

func roleNamed(name string) (role, error) {
	var names []string
	for _, r := range roles {
		if r.name == name {
			return r, nil
		}
		names = append(names, r.name)
	}
	hint := ""
	if strings.ContainsAny(name, "./") {
		hint = " (an endpoints file is named by SLUICE_ENDPOINTS)"
	}
	return role{}, fmt.Errorf("no role %q; there are %s%s", name, strings.Join(names, ", "), hint)
}

// serve runs roles in this process until it is told to stop.
func serve(ctx context.Context, names []string, e environment, c *console) error {
	var problems []error
	cfg, err := read[daemon.Config](e)
	problems = append(problems, err, cfg.Check())
	chosen := make([]role, 0, len(names))
	for _, name := range names {
		r, err := roleNamed(name)
		if err == nil {
			chosen = append(chosen, r)
			err = r.check(e)
		}
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	log, err := daemon.NewLog(cfg.Log, c.err)
	if err != nil {
		return err
	}
	ctx, stop := daemon.Notify(ctx, log)
	defer stop()
	if len(chosen) == 1 && chosen[0].alone != nil {
		chosen[0].alone()
	}
	return launch(ctx, cfg, chosen, e, log)
}

// launch runs roles until ctx ends.
func launch(ctx context.Context, cfg daemon.Config, chosen []role, e environment, log *slog.Logger) error {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var starting []daemon.Role
	for _, r := range chosen {
		starting = append(starting, daemon.Role{Name: r.name, Start: func(ctx context.Context) (daemon.Worker, error) {
			return r.start(ctx, process{env: e, log: log.With("role", r.name), reg: reg})
		}})
	}
	return daemon.Run(ctx, cfg, log, reg, starting...)
}

// closing is a worker that gives back what was opened for it when it has ended.
type closing struct {
	daemon.Worker
	close func()
}

// Notes are the worker's own.
func (c closing) Notes() []string {
	if w, ok := c.Worker.(interface{ Notes() []string }); ok {
		return w.Notes()
	}
	return nil
}

func (c closing) Run(ctx context.Context) error {
	defer c.close()
	return c.Worker.Run(ctx)
}

// openStore waits for the database and for the schema of this version.
func openStore(ctx context.Context, cfg postgres.Config, conns int32, log *slog.Logger) (store *postgres.Store, err error) {
	err = daemon.Wait(ctx, log, "the database", func(ctx context.Context) (err error) {
		store, err = postgres.Open(ctx, cfg, conns)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = daemon.Wait(ctx, log, "the database's schema (sluice migrate makes it)", func(ctx context.Context) error {
		return postgres.CheckSchema(ctx, cfg)
	})
	if err != nil {
		store.Close()
		return nil, err
	}
	return store, nil
}

// owner names this process among all of its deployment, anew at each start.
func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), rand.Text()[:6])
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/services/sluice/dev"
	"sluice/services/sluice/devclick"
	"sluice/services/sluice/devdb"
	"sluice/services/sluice/terminal"
)

// parts brings Kafka and PostgreSQL up, or takes those given, and says in e where
// they are. stop is never nil and ends what was started, the broker last.
func (d devCmd) parts(ctx context.Context, dir *dev.Dir, e environment, p *terminal.Printer, log *slog.Logger, fail context.CancelCauseFunc) (stop func() error, err error) {
	var stops []func() error
	stop = func() (err error) {
		for _, s := range stops {
			err = errors.Join(err, s())
		}
		return err
	}
	watch := func(what string, done <-chan struct{}) {
		go func() {
			select {
			case <-done:
				fail(fmt.Errorf("%s ended by itself; see the logs in %s", what, dir.Path()))
			case <-ctx.Done():
			}
		}()
	}

	step := p.Step("Kafka")
	if len(d.Kafka) > 0 {
		e["KAFKA_BROKERS"] = strings.Join(d.Kafka, ",")
		if err := givenKafka(ctx, e, step, log); err != nil {
			return stop, err
		}
		step.Done(e["KAFKA_BROKERS"] + ", as given")
	} else {
		for name := range maps.Clone(e) { // settings for another cluster
			if strings.HasPrefix(name, "KAFKA_") {
				delete(e, name)
			}
		}
		program, err := os.Executable()
		if err != nil {
			return stop, fmt.Errorf("find this program: %w", err)
		}
		broker, err := dev.StartBroker(ctx, dir, program)
		if err != nil {
			step.Fail()
			return stop, err
		}
		stops = append(stops, broker.Stop)
		watch("the development broker", broker.Done())
		e["KAFKA_BROKERS"] = broker.Addr
		step.Done(broker.Addr + ", " + p.Yellow("development broker: one copy, not for production"))
	}

	step = p.Step("PostgreSQL")
	if d.Database != "" {
		e["DATABASE_URL"] = d.Database
		if err := givenDatabase(ctx, e, step, log); err != nil {
			return stop, err
		}
		step.Done("as given")
		return stop, nil
	}
	password, err := dir.Password("database")
	if err != nil {
		return stop, fmt.Errorf("make the database's password: %w", err)
	}
	db, err := devdb.Start(ctx, devdb.Config{Dir: dir.Path("postgres"), Password: password}, log)
	if err != nil {
		step.Fail()
		return stop, err
	}
	stops = append([]func() error{db.Stop}, stops...)
	watch("the PostgreSQL server", db.Done())
	e["DATABASE_URL"] = db.URL
	detail := fmt.Sprintf("%d from %s", db.Version, db.Programs)
	if db.Account != "" {
		detail += ", as " + db.Account
	}
	step.Done(detail)
	return stop, nil
}

// givenKafka reaches the brokers that somebody else runs, waiting for them.
func givenKafka(ctx context.Context, e environment, step *terminal.Step, log *slog.Logger) error {
	cfg, err := read[kafka.Config](e)
	if err = errors.Join(err, cfg.Check()); err != nil {
		step.Fail()
		return err
	}
	return await(ctx, step, log, "Kafka at "+e["KAFKA_BROKERS"], func(ctx context.Context) error { return kafka.Reach(ctx, cfg, log) })
}

// givenDatabase reaches the database that somebody else runs, waiting for it.
func givenDatabase(ctx context.Context, e environment, step *terminal.Step, log *slog.Logger) error {
	cfg, err := read[postgres.Config](e)
	if err = errors.Join(err, cfg.Check()); err != nil {
		step.Fail()
		return err
	}
	return await(ctx, step, log, "the database", func(ctx context.Context) error {
		store, err := postgres.Open(ctx, cfg, 1)
		if err == nil {
			store.Close()
		}
		return err
	})
}

// await tries until what answers, and says on the terminal that it waits.
func await(ctx context.Context, step *terminal.Step, log *slog.Logger, what string, try func(context.Context) error) error {
	err := daemon.Wait(ctx, log, what, func(ctx context.Context) error {
		err := try(ctx)
		if err != nil {
			step.Note("waiting for " + what + ": " + strings.Join(strings.Fields(err.Error()), " "))
		}
		return err
	})
	if err != nil {
		step.Fail()
	}
	return err
}

// clickAPI is where the stand-in for Click's API is; a setting of sluice dev alone.
const clickAPI = "SLUICE_DEV_CLICK_API"

// standIn serves what the endpoints file names as Click's API, so that what is paid
// there is confirmed as in production.
func (d devCmd) standIn(dir *dev.Dir, e environment, fail context.CancelCauseFunc) (stop func(), err error) {
	path, err := dir.Secret(dev.Click)
	if err != nil {
		return nil, err
	}
	secret, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the secret of Click's stand-in: %w", err)
	}
	api, err := devclick.Open(strings.TrimSpace(string(secret)), dir.Path("click.json"))
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", e[clickAPI])
	if err != nil {
		return nil, fmt.Errorf("stand in for Click's API: %w", err)
	}
	srv := &http.Server{Handler: api.Handler(), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			fail(fmt.Errorf("the stand-in for Click's API ended: %w", err))
		}
	}()
	return func() { _ = srv.Close() }, nil
}

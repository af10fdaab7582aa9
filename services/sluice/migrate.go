package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/services/sluice/terminal"
)

type migrateCmd struct {
	DevBroker bool          `help:"The broker is sluice's development broker: keep topics by size, compact none." env:"SLUICE_DEV_BROKER"`
	Wait      time.Duration `help:"How long to wait for Kafka and the database." default:"2m"`
}

func (migrateCmd) Help() string {
	return `Makes or updates the database's schema and partitions, and Kafka's topics. It changes nothing that is
right already; several may run at once.

Examples:
  DATABASE_URL=postgres://… KAFKA_BROKERS=kafka:9092 sluice migrate
  SLUICE_TOPIC_REPLICATION=3 sluice migrate      three copies of each record, two of them in sync
  sluice migrate --dev-broker                    against sluice broker

Settings:
  ` + strings.Join(settingLines[migrateSettings]("SLUICE_HELD_GRACE", "SLUICE_HELD_GRACE_BY_REASON"), "\n  ")
}

type migrateSettings struct {
	Kafka    kafka.Config
	Database postgres.Config
	Topics   kafka.EnsureOptions
	Log      daemon.LogConfig
}

func (m migrateCmd) Run(ctx context.Context, c *console) error {
	s, err := read[migrateSettings](processEnvironment())
	log, lerr := daemon.NewLog(s.Log, c.err)
	if err := errors.Join(err, lerr, s.Kafka.Check(), s.Database.Check()); err != nil {
		return err
	}
	ctx, stop := daemon.Notify(ctx, log)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, m.Wait)
	defer cancel()
	s.Topics.Dev = m.DevBroker
	created, err := migrate(ctx, s, log)
	if err != nil {
		return err
	}
	p := terminal.New(c.out)
	p.Line("database schema and partitions are up to date")
	for _, topic := range created {
		p.Line("topic %s created", topic)
	}
	p.Line("topics are as they must be")
	return nil
}

// migrate brings the database and the topics to this version; it waits for both
// until ctx ends.
func migrate(ctx context.Context, s migrateSettings, log *slog.Logger) (created []string, err error) {
	var store *postgres.Store
	err = daemon.Wait(ctx, log, "the database", func(ctx context.Context) (err error) {
		store, err = postgres.Open(ctx, s.Database, 1)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	if err := postgres.Migrate(ctx, s.Database); err != nil {
		return nil, err
	}
	if _, err := store.EnsurePartitions(ctx, time.Now()); err != nil {
		return nil, err
	}
	err = daemon.Wait(ctx, log, "Kafka", func(ctx context.Context) error { return kafka.Reach(ctx, s.Kafka, log) })
	if err != nil {
		return nil, err
	}
	return kafka.EnsureTopics(ctx, s.Kafka, log, s.Topics)
}

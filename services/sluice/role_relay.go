package main

import (
	"context"
	"errors"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/kafka"
	"sluice/services/relay"
)

type relaySettings struct {
	Kafka    kafka.Config
	Database database
	Relay    relay.Config
}

// relayConns: one to read, one to write cursors, one to listen, one to spare.
const relayConns = 4

var relayRole = role{
	name:     "relay",
	kafka:    true,
	database: true,
	check: func(e environment) error {
		s, err := read[relaySettings](e)
		return errors.Join(err, s.Kafka.Check(), s.Database.config().Check(), s.Relay.Check())
	},
	start: func(ctx context.Context, p process) (daemon.Worker, error) {
		s, err := read[relaySettings](p.env)
		if err != nil {
			return nil, err
		}
		store, err := openStore(ctx, s.Database.config(), relayConns, p.log)
		if err != nil {
			return nil, err
		}
		// A wrong password or missing TLS shows here; the relay itself would only wait.
		err = daemon.Wait(ctx, p.log, "Kafka", func(ctx context.Context) error { return kafka.Reach(ctx, s.Kafka, p.log) })
		if err != nil {
			store.Close()
			return nil, err
		}
		r, err := relay.New(s.Relay, relay.Deps{Log: p.log, Registry: p.reg, Topics: []string{s.Kafka.Topic(kafka.Status), s.Kafka.Topic(kafka.Latest)},
			Owner: owner(), Store: store, Broker: relay.Kafka{Config: s.Kafka, Log: p.log}, Now: time.Now})
		if err != nil {
			store.Close()
			return nil, err
		}
		return closing{r, store.Close}, nil
	},
}

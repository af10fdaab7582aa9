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
		var publisher *kafka.Publisher
		err = daemon.Wait(ctx, p.log, "Kafka", func(ctx context.Context) (err error) {
			publisher, err = kafka.NewPublisher(ctx, s.Kafka, p.log)
			return err
		})
		if err != nil {
			store.Close()
			return nil, err
		}
		closeAll := func() { publisher.Close(); store.Close() }
		r, err := relay.New(s.Relay, relay.Deps{Log: p.log, Registry: p.reg, Topic: s.Kafka.Topic(kafka.Status), Owner: owner(),
			Store: store, Publisher: publisher, Now: time.Now})
		if err != nil {
			closeAll()
			return nil, err
		}
		return closing{r, closeAll}, nil
	},
}

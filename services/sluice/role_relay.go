package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/pkg/daemon"
	"sluice/pkg/kafka"
	"sluice/services/relay"
	calls "sluice/services/relay/effects"
)

type relaySettings struct {
	Kafka    kafka.Config
	Database database
	Relay    relay.Config
	Effects  effects
	Calls    calls.Config
}

const (
	// relayConns: one to read, one to write cursors, one to listen, one to spare.
	relayConns = 4
	// callConns: one to claim, and those that write attempts down.
	callConns = 4
)

var relayRole = role{
	name:     "relay",
	kafka:    true,
	database: true,
	check: func(e environment) error {
		s, err := read[relaySettings](e)
		_, unread := s.Effects.calls(e)
		return errors.Join(err, s.Kafka.Check(), s.Database.config().Check(), s.Relay.Check(), s.Calls.Check(), unread)
	},
	start: func(ctx context.Context, p process) (daemon.Worker, error) {
		s, err := read[relaySettings](p.env)
		if err != nil {
			return nil, err
		}
		declared, err := s.Effects.calls(p.env)
		if err != nil {
			return nil, err
		}
		store, err := openStore(ctx, s.Database.config(), relayConns+callConns, p.log)
		if err != nil {
			return nil, err
		}
		// A wrong password or missing TLS shows here; the relay itself would only wait.
		err = daemon.Wait(ctx, p.log, "Kafka", func(ctx context.Context) error { return kafka.Reach(ctx, s.Kafka, p.log) })
		if err != nil {
			store.Close()
			return nil, err
		}
		// It decides on no order; but effects that nobody is told to call wait for ever.
		if _, err := s.Effects.declare(ctx, store, "relay", p.log); err != nil {
			store.Close()
			return nil, err
		}
		name := owner()
		r, err := relay.New(s.Relay, relay.Deps{Log: p.log, Registry: p.reg, Topics: []string{s.Kafka.Topic(kafka.Status), s.Kafka.Topic(kafka.Latest)},
			Owner: name, Store: store, Broker: relay.Kafka{Config: s.Kafka, Log: p.log}, Now: time.Now})
		if err != nil {
			store.Close()
			return nil, err
		}
		if len(declared.All()) == 0 {
			return closing{r, store.Close}, nil
		}
		d, err := calls.New(s.Calls, calls.Deps{Log: p.log, Registry: p.reg, Owner: name, Store: store, Effects: declared, Now: time.Now})
		if err != nil {
			store.Close()
			return nil, err
		}
		return closing{beside{r, d}, store.Close}, nil
	},
}

// beside are two workers of one role, neither of which waits for the other; the role
// ends with the first that does.
type beside [2]daemon.Worker

func (b beside) Ready() error { return errors.Join(b[0].Ready(), b[1].Ready()) }

func (b beside) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, w := range b {
		g.Go(func() error {
			if err := w.Run(ctx); err != nil || ctx.Err() != nil {
				return err
			}
			return errors.New("ended by itself")
		})
	}
	return g.Wait()
}

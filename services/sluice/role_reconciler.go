package main

import (
	"context"
	"errors"
	"os"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/endpoint"
	"sluice/pkg/kafka"
	"sluice/services/reconciler"
)

type reconcilerSettings struct {
	Deployment deployment
	Kafka      kafka.Config
	Database   database
	Reconciler reconciler.Config
}

// reconcilerConns: claims, answers and what is given back are short.
const reconcilerConns = 8

// accounts reads the endpoints file and resolves the credentials of its look-ups.
func (d deployment) accounts(e environment) (endpoint.Set, error) {
	return endpoint.LoadWithCredentials(d.Endpoints, d.Mode, e.lookup, os.ReadFile)
}

var reconcilerRole = role{
	name:     "reconciler",
	kafka:    true,
	database: true,
	check: func(e environment) error {
		s, err := read[reconcilerSettings](e)
		_, unread := s.Deployment.accounts(e)
		return errors.Join(err, s.Kafka.Check(), s.Database.config().Check(), s.Reconciler.Check(), s.Deployment.unsaid(unread))
	},
	start: func(ctx context.Context, p process) (daemon.Worker, error) {
		s, err := read[reconcilerSettings](p.env)
		if err != nil {
			return nil, err
		}
		endpoints, err := s.Deployment.accounts(p.env)
		if err != nil {
			return nil, err
		}
		store, err := openStore(ctx, s.Database.config(), reconcilerConns, p.log)
		if err != nil {
			return nil, err
		}
		var producer *kafka.Producer
		err = daemon.Wait(ctx, p.log, "Kafka and its raw topic", func(ctx context.Context) (err error) {
			producer, err = kafka.NewProducer(ctx, s.Kafka, "reconciler", s.Kafka.Topic(kafka.Raw), p.log, p.reg)
			return err
		})
		if err != nil {
			store.Close()
			return nil, err
		}
		closeAll := func() {
			flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Reconciler.DrainTimeout)
			defer cancel()
			if err := producer.Close(flush); err != nil {
				p.log.Warn("the producer is not closed in good order", "error", err)
			}
			store.Close()
		}
		r, err := reconciler.New(s.Reconciler, reconciler.Deps{Log: p.log, Registry: p.reg, Owner: owner(), Store: store,
			Producer: producer, Endpoints: endpoints, Now: time.Now})
		if err != nil {
			closeAll()
			return nil, err
		}
		return closing{r, closeAll}, nil
	},
}

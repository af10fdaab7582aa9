package main

import (
	"context"
	"errors"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/services/processor"
)

type processorSettings struct {
	Deployment deployment
	Kafka      kafka.Config
	Database   postgres.Config
	Processor  processor.Config
	Effects    effects
}

var processorRole = role{
	name:     "processor",
	alone:    processor.Tune,
	kafka:    true,
	database: true,
	check: func(e environment) error {
		s, err := read[processorSettings](e)
		_, unread := s.Deployment.readings()
		_, undeclared := s.Effects.rules()
		return errors.Join(err, s.Kafka.Check(), s.Database.Check(), s.Processor.Check(), s.Deployment.unsaid(unread), undeclared)
	},
	start: func(ctx context.Context, p process) (daemon.Worker, error) {
		s, err := read[processorSettings](p.env)
		if err != nil {
			return nil, err
		}
		endpoints, err := s.Deployment.readings()
		if err != nil {
			return nil, err
		}
		store, err := openStore(ctx, s.Database, s.Processor.Conns(), p.log)
		if err != nil {
			return nil, err
		}
		declared, err := s.Effects.declare(ctx, store, "processor", p.log)
		if err != nil {
			store.Close()
			return nil, err
		}
		r, err := processor.New(ctx, s.Processor, processor.Deps{Kafka: s.Kafka, Store: store, Endpoints: endpoints, Effects: declared,
			Mode: s.Deployment.Mode, Log: p.log, Reg: p.reg, Now: time.Now})
		if err != nil {
			store.Close()
			return nil, err
		}
		return closing{r, store.Close}, nil
	},
}

package main

import (
	"context"
	"errors"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/endpoint"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/pkg/webhook"
	"sluice/services/merchant"
)

type merchantSettings struct {
	Deployment deployment
	Database   postgres.Config
	Merchant   merchant.Config
	Effects    effects
}

// brokerSettings are read only where an endpoint is of a two-way provider.
type brokerSettings struct {
	Kafka kafka.Config
}

// merchantConns bounds the requests that are in the database at a time.
const merchantConns = 8

// answered are the endpoints file with the secrets of those that the merchant
// answers, and no others.
func (s merchantSettings) answered(e environment) (endpoint.Set, error) {
	return s.Deployment.loadFor(e, func(p webhook.Provider) bool { return p.Profile().TwoWay })
}

var merchantRole = role{
	name:     "merchant",
	database: true,
	kafkaFor: func(e environment) bool {
		s, _ := read[merchantSettings](e) // what is wrong with it, check says
		endpoints, err := s.Deployment.readings()
		return err == nil && merchant.TwoWay(endpoints)
	},
	check: func(e environment) error {
		s, err := read[merchantSettings](e)
		_, undeclared := s.Effects.rules()
		problems := []error{err, s.Database.Check(), s.Merchant.Check(), undeclared}
		endpoints, unread := s.answered(e)
		problems = append(problems, s.Deployment.unsaid(unread), s.Merchant.CheckEndpoints(endpoints))
		if merchant.TwoWay(endpoints) {
			b, err := read[brokerSettings](e)
			problems = append(problems, err, b.Kafka.Check())
		}
		return errors.Join(problems...)
	},
	start: func(ctx context.Context, p process) (daemon.Worker, error) {
		s, err := read[merchantSettings](p.env)
		if err = errors.Join(err, s.Merchant.Check()); err != nil {
			return nil, err
		}
		deps := merchant.Deps{Log: p.log, Reg: p.reg, Now: time.Now}
		if deps.Endpoints, err = s.answered(p.env); err != nil {
			return nil, err
		}
		if deps.Store, err = openStore(ctx, s.Database, merchantConns, p.log); err != nil {
			return nil, err
		}
		if _, err := s.Effects.declare(ctx, deps.Store, "merchant", p.log); err != nil {
			deps.Store.Close()
			return nil, err
		}
		closeAll := deps.Store.Close
		if merchant.TwoWay(deps.Endpoints) {
			b, err := read[brokerSettings](p.env)
			var producer *kafka.Producer
			if err == nil {
				topic := b.Kafka.Topic(kafka.Raw)
				err = daemon.Wait(ctx, p.log, "Kafka and its topic "+topic, func(ctx context.Context) (err error) {
					producer, err = kafka.NewProducer(ctx, b.Kafka, "merchant", topic, p.log, p.reg)
					return err
				})
			}
			if err != nil {
				closeAll()
				return nil, err
			}
			deps.Producer = producer
			closeAll = func() { closeProducer(ctx, producer); deps.Store.Close() }
		}
		m, err := merchant.New(s.Merchant, deps)
		if err != nil {
			closeAll()
			return nil, err
		}
		return closing{m, closeAll}, nil
	},
}

// closeProducer drops what Kafka has not acknowledged: it is in the outbox still.
func closeProducer(ctx context.Context, p *kafka.Producer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = p.Close(ctx)
}

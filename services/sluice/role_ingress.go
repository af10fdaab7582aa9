package main

import (
	"context"
	"errors"

	"sluice/pkg/daemon"
	"sluice/pkg/kafka"
	"sluice/pkg/webhook"
	"sluice/services/ingress"
)

type ingressSettings struct {
	Deployment deployment
	Kafka      kafka.Config
	Ingress    ingress.Config
}

// postsToIngress: two-way providers call the merchant, which has their secrets.
func postsToIngress(p webhook.Provider) bool { return !p.Profile().TwoWay }

var ingressRole = role{
	name:  "ingress",
	alone: ingress.Tune,
	kafka: true,
	check: func(e environment) error {
		s, err := read[ingressSettings](e)
		endpoints, unread := s.Deployment.loadFor(e, postsToIngress)
		if unread == nil {
			unread = ingress.CheckEndpoints(endpoints)
		}
		return errors.Join(err, s.Kafka.Check(), s.Ingress.Check(), s.Deployment.unsaid(unread))
	},
	start: func(ctx context.Context, p process) (daemon.Worker, error) {
		s, err := read[ingressSettings](p.env)
		if err != nil {
			return nil, err
		}
		endpoints, err := s.Deployment.loadFor(p.env, postsToIngress)
		if err != nil {
			return nil, err
		}
		return ingress.New(ctx, s.Ingress, s.Kafka, endpoints, p.log, p.reg)
	},
}

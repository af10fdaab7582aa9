package main

import (
	"context"
	"strings"
)

type ingressCmd struct{}

func (ingressCmd) Run(ctx context.Context, c *console) error {
	return serve(ctx, []string{"ingress"}, processEnvironment(), c)
}

func (ingressCmd) Help() string {
	return roleHelp[ingressSettings](`POST /webhooks/{endpoint} answers 2xx once all in-sync replicas of Kafka have the webhook.`,
		`KAFKA_BROKERS=kafka:9092 SLUICE_MODE=live SLUICE_ENDPOINTS=endpoints.yaml sluice ingress`)
}

type processorCmd struct{}

func (processorCmd) Run(ctx context.Context, c *console) error {
	return serve(ctx, []string{"processor"}, processEnvironment(), c)
}

func (processorCmd) Help() string {
	return roleHelp[processorSettings](`Takes batches from the raw topic, applies each in one transaction, then commits its offsets.`,
		`KAFKA_BROKERS=kafka:9092 DATABASE_URL=postgres://… SLUICE_MODE=live sluice processor`)
}

type relayCmd struct{}

func (relayCmd) Run(ctx context.Context, c *console) error {
	return serve(ctx, []string{"relay"}, processEnvironment(), c)
}

func (relayCmd) Help() string {
	return roleHelp[relaySettings](`Publishes every change of an order, in order, to the status topic, and calls whom the effects file names.`,
		`KAFKA_BROKERS=kafka:9092 DATABASE_URL=postgres://… sluice relay`)
}

type merchantCmd struct{}

func (merchantCmd) Run(ctx context.Context, c *console) error {
	return serve(ctx, []string{"merchant"}, processEnvironment(), c)
}

func (merchantCmd) Help() string {
	return roleHelp[merchantSettings](`PUT and GET /v1/orders/{id}, for the shop's own systems; and, on a listener of its own,
POST /webhooks/{endpoint} for providers that ask before they pay (Payme, Click). Only for
those it needs SLUICE_MERCHANT_PUBLIC_ADDRESS, their secrets, and Kafka (see sluice relay --help).`,
		`DATABASE_URL=postgres://… SLUICE_MODE=live sluice merchant`, "SLUICE_WINDOW")
}

type reconcilerCmd struct{}

func (reconcilerCmd) Run(ctx context.Context, c *console) error {
	return serve(ctx, []string{"reconciler"}, processEnvironment(), c)
}

func (reconcilerCmd) Help() string {
	return roleHelp[reconcilerSettings](`Asks providers' APIs what their webhooks only hint at, and writes the answers to the raw topic.`,
		`KAFKA_BROKERS=kafka:9092 DATABASE_URL=postgres://… SLUICE_MODE=live sluice reconciler`)
}

type runCmd struct {
	Roles []string `arg:"" help:"Roles, separated by spaces or commas."`
}

func (r runCmd) Run(ctx context.Context, c *console) error {
	return serve(ctx, strings.FieldsFunc(strings.Join(r.Roles, ","), func(r rune) bool { return r == ',' }), processEnvironment(), c)
}

func (runCmd) Help() string {
	return `One process, one admin address. One role that fails stops all.

Examples:
  sluice run processor relay
  sluice run ingress,processor,relay,merchant,reconciler`
}

package main

import (
	"context"
	"time"

	"sluice/pkg/daemon"
	"sluice/services/sluice/devbroker"
)

type brokerCmd struct {
	DataDir string `help:"Where records are kept." default:".sluice/broker" type:"path"`
	Port    int    `help:"Port on 127.0.0.1; 0 takes a free one." default:"9092"`
}

func (brokerCmd) Help() string {
	return `A small broker that speaks Kafka's protocol: one process, one copy, on loopback only. Topics are kept by
size (1 GiB a partition), never by time, and are never compacted. FOR DEVELOPMENT: what it acknowledged
survives a kill, not the loss of power.

Examples:
  sluice broker
  sluice broker --data-dir ./broker --port 19092
  kcat -b 127.0.0.1:9092 -L`
}

func (b brokerCmd) Run(ctx context.Context, c *console) error {
	cfg, err := read[daemon.LogConfig](processEnvironment())
	if err != nil {
		return err
	}
	log, err := daemon.NewLog(cfg, c.err)
	if err != nil {
		return err
	}
	ctx, stop := daemon.Notify(ctx, log)
	defer stop()
	opening, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	broker, err := devbroker.New(opening, devbroker.Config{DataDir: b.DataDir, Port: b.Port}, log)
	if err != nil {
		return err
	}
	log.Warn("development broker: one copy on one disk; use Apache Kafka in production", "address", broker.Addr(), "data", b.DataDir)
	return broker.Run(ctx)
}

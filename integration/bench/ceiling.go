package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/caarlos0/env/v11"
	"github.com/prometheus/client_golang/prometheus"

	"sluice/integration/harness"
	"sluice/pkg/daemon"
	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/services/ingress"
)

// ceilingVariable makes this program serve instead of measure.
const ceilingVariable = "SLUICE_BENCH_SERVE_CEILING"

// instant acknowledges every record at once and keeps none.
type instant struct{}

func (instant) Produce(context.Context, kafka.Record) error { return nil }
func (instant) Ready() error                                { return nil }
func (instant) Buffered() (records, bytes int64)            { return 0, 0 }
func (instant) Close(context.Context) error                 { return nil }

// serveCeiling is `sluice ingress` but for its producer: the same handler reads,
// verifies and encodes, and nothing waits for Kafka.
func serveCeiling() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ingress.Tune()
	cfg, err := env.ParseAs[ingress.Config]()
	if err != nil {
		return err
	}
	endpoints, err := endpoint.Load(os.Getenv("SLUICE_ENDPOINTS"), event.Live, os.LookupEnv, os.ReadFile)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	reg := prometheus.NewRegistry()
	return daemon.Run(ctx, daemon.Config{Admin: os.Getenv("SLUICE_ADMIN_ADDRESS")}, log, reg, daemon.Role{Name: "ingress",
		Start: func(ctx context.Context) (daemon.Worker, error) {
			return ingress.NewWith(ctx, cfg, endpoints, instant{}, log, reg)
		}})
}

// startCeiling starts this program as the ceiling.
func startCeiling(d *harness.Deployment) *harness.Process {
	self, err := os.Executable()
	if err != nil {
		d.T.Fatalf("find this program: %v", err)
	}
	return d.BeginProgram(self, "ingress", ceilingVariable+"=1").Ready()
}

// Package devbroker is a small Kafka broker for development: one process, one
// copy on one disk, on loopback only. It speaks Kafka's protocol, so kcat and
// Kafka's own tools work with it, and what was acknowledged survives the kill of
// the process, but not the loss of power. It is not for production.
package devbroker

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"sluice/services/sluice/lockfile"
)

// Config says where the broker keeps its records and where it listens.
type Config struct {
	// DataDir is created if missing. One broker at a time may use it.
	DataDir string
	// Port on 127.0.0.1; 0 takes a free one.
	Port int
}

// retentionEvery is how often topics are trimmed to their size. At the 33 MB/s
// that ingress reaches on two cores it lets a topic grow 2 GB past its limit.
const retentionEvery = time.Minute

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	guard   *guard
	lock    *os.File
}

// New opens the data directory and begins to serve. A consumer group whose
// committed offset lies beyond its partition's end (the machine lost power
// between the two) is set back to the end: it has seen every record left, and
// would otherwise miss those to come.
func New(ctx context.Context, cfg Config, log *slog.Logger) (*Broker, error) {
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the broker's data directory: %w", err)
	}
	lock, err := lockfile.Take(ctx, filepath.Join(cfg.DataDir, "broker.lock"))
	if err != nil {
		return nil, fmt.Errorf("use broker data directory %s: %w", cfg.DataDir, err)
	}
	b, err := open(cfg, log)
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	b.lock = lock
	if err := b.repair(ctx, log); err != nil {
		b.Close()
		return nil, fmt.Errorf("check consumer groups of the development broker: %w", err)
	}
	b.guard.open()
	return b, nil
}

func open(cfg Config, log *slog.Logger) (*Broker, error) {
	tcp, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(cfg.Port)))
	if err != nil {
		return nil, fmt.Errorf("listen for Kafka clients: %w", err)
	}
	g := newGuard(tcp)
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return g, nil }),
		kfake.DataDir(filepath.Join(cfg.DataDir, "log")),
		kfake.DefaultNumPartitions(6),
		kfake.BrokerConfigs(brokerConfig),
		kfake.MaxVersions(versions()),
		kfake.WithLogger(brokerLog{log}),
	)
	if err != nil {
		_ = g.Close()
		return nil, fmt.Errorf("open broker data directory %s: %w", cfg.DataDir, err)
	}
	enforce(cluster)
	answerUnknownGroups(cluster)
	return &Broker{cluster: cluster, guard: g}, nil
}

// Addr is where clients connect, host:port.
func (b *Broker) Addr() string { return b.guard.Addr().String() }

// Run keeps topics to their size until ctx ends, then closes the broker.
func (b *Broker) Run(ctx context.Context) error {
	defer b.Close()
	tick := time.NewTicker(retentionEvery)
	defer tick.Stop()
	for {
		b.cluster.ApplyRetention() // once at the start: a restart forgets the cleaner's timer
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Close writes everything out and stops. It may be called twice.
func (b *Broker) Close() {
	b.cluster.Close()
	_ = b.guard.Close()
	_ = b.lock.Close()
}

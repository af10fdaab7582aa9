// Package kafka is the broker: the only importer of franz-go. It knows the
// topics, and the three ways Sluice speaks to them: produce one record and wait
// (ingress), consume batches (processor), publish batches (relay).
package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"github.com/twmb/franz-go/plugin/kslog"
)

// Config says where the brokers are and how to sign in.
type Config struct {
	Brokers []string `env:"KAFKA_BROKERS,required"`
	// TopicPrefix is put before every topic and group name, so that several
	// deployments can share a cluster.
	TopicPrefix string `env:"KAFKA_TOPIC_PREFIX"`
	TLS         bool   `env:"KAFKA_TLS"`
	// CAFile is a PEM file of trusted roots; the system's if empty.
	CAFile string `env:"KAFKA_CA_FILE"`
	// SASL is "", PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
	SASL     string `env:"KAFKA_SASL"`
	User     string `env:"KAFKA_USER"`
	Password string `env:"KAFKA_PASSWORD" json:"-"`
}

// Topic is the full name of one of Sluice's topics.
func (c Config) Topic(name string) string { return c.TopicPrefix + name }

// options are what every client of one Config shares.
func (c Config) options(client string, log *slog.Logger) ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID("sluice-" + client),
		kgo.DialTimeout(2 * time.Second),
		// The defaults (250 ms..5 s back-off, 5 s between metadata refreshes) made
		// recovery take 4 s longer than the outage (measured 2026-11).
		kgo.RetryBackoffFn(func(n int) time.Duration { return min(100*time.Millisecond<<min(n, 4), time.Second) }),
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.DisableClientMetrics(),
		kgo.WithLogger(clientLog{kslog.New(log)}),
	}
	if c.TLS {
		conf := &tls.Config{MinVersion: tls.VersionTLS12}
		if c.CAFile != "" {
			pem, err := os.ReadFile(c.CAFile)
			if err != nil {
				return nil, fmt.Errorf("read KAFKA_CA_FILE: %w", err)
			}
			conf.RootCAs = x509.NewCertPool()
			if !conf.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("read KAFKA_CA_FILE: %s holds no PEM certificate", c.CAFile)
			}
		}
		opts = append(opts, kgo.DialTLSConfig(conf))
	}
	switch c.SASL {
	case "":
	case "PLAIN":
		opts = append(opts, kgo.SASL(plain.Auth{User: c.User, Pass: c.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		opts = append(opts, kgo.SASL(scram.Auth{User: c.User, Pass: c.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		opts = append(opts, kgo.SASL(scram.Auth{User: c.User, Pass: c.Password}.AsSha512Mechanism()))
	default:
		return nil, errors.New("KAFKA_SASL must be empty, PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
	}
	return opts, nil
}

// clientLog keeps the client to its errors, unless the log is at debug: during an
// outage it repeats its warnings several times a second, and what matters of them
// is said by whoever uses the client; at info it tells of every metadata update
// and heartbeat.
type clientLog struct{ kgo.Logger }

func (l clientLog) Level() kgo.LogLevel {
	if level := l.Logger.Level(); level >= kgo.LogLevelDebug {
		return level
	}
	return kgo.LogLevelError
}

// open makes a client and reaches a broker with it: a wrong password or missing
// TLS shows only here, a produce would just hang.
func (c Config) open(ctx context.Context, client string, log *slog.Logger, more ...kgo.Opt) (*kgo.Client, error) {
	opts, err := c.options(client, log)
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		return nil, fmt.Errorf("set up Kafka client: %w", err)
	}
	if err := cl.Ping(ctx); err != nil {
		cl.Close()
		return nil, fmt.Errorf("reach Kafka at %v: %w", c.Brokers, err)
	}
	return cl, nil
}

// Package kafka is the broker: the only importer of franz-go. It knows the
// topics, and the ways Sluice speaks to them: produce one record and wait
// (ingress), consume batches and publish dead letters (processor), publish a shard of
// the outbox with its cursor in one transaction (relay), and read ranges of a topic in
// no group (scan.go, read.go) for replays and for tools. assignment.go is where a
// consumer begins with each partition; replay.go is what the group is told while one is
// read again beside it.
package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"github.com/twmb/franz-go/plugin/kslog"
)

// Config says where the brokers are and how to sign in.
type Config struct {
	Brokers []string `env:"KAFKA_BROKERS,required,notEmpty" help:"where to find the cluster: host:port, several by commas"`
	// TopicPrefix is put before every topic and group name, so that several
	// deployments can share a cluster.
	TopicPrefix string `env:"KAFKA_TOPIC_PREFIX" help:"put before every topic and group name"`
	TLS         bool   `env:"KAFKA_TLS" help:"true: speak TLS to the brokers"`
	// CAFile is a PEM file of trusted roots; the system's if empty.
	CAFile string `env:"KAFKA_CA_FILE" help:"PEM file of trusted roots; the system's if none"`
	// SASL is "", PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
	SASL     string `env:"KAFKA_SASL" help:"PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"`
	User     string `env:"KAFKA_USER" help:"who signs in"`
	Password string `env:"KAFKA_PASSWORD" json:"-" help:"the user's password"`
}

var (
	mechanisms = []string{"", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}
	prefixForm = regexp.MustCompile(`^[a-zA-Z0-9._-]*$`)
)

// maxPrefix leaves room for the topics' own names in the 249 characters of Kafka.
const maxPrefix = 200

// Check says everything that is wrong with the settings, never the password.
func (c Config) Check() error {
	var problems []error
	for _, broker := range c.Brokers {
		host, port, err := net.SplitHostPort(broker)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil || host == "" {
			problems = append(problems, fmt.Errorf("KAFKA_BROKERS: %q is not host:port", broker))
		}
	}
	if !prefixForm.MatchString(c.TopicPrefix) || len(c.TopicPrefix) > maxPrefix {
		problems = append(problems, fmt.Errorf("KAFKA_TOPIC_PREFIX is %q; Kafka takes letters, digits, ., _ and - only, here at most %d", c.TopicPrefix, maxPrefix))
	}
	switch {
	case !slices.Contains(mechanisms, c.SASL):
		problems = append(problems, errors.New("KAFKA_SASL must be empty, PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"))
	case c.SASL != "" && c.User == "":
		problems = append(problems, fmt.Errorf("KAFKA_USER is empty; KAFKA_SASL=%s signs in with it", c.SASL))
	}
	if c.TLS {
		_, err := c.roots()
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// roots are the certificates that brokers are held to; nil: the system's.
func (c Config) roots() (*x509.CertPool, error) {
	if c.CAFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read KAFKA_CA_FILE: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read KAFKA_CA_FILE: %s holds no PEM certificate", c.CAFile)
	}
	return pool, nil
}

// Topic is the full name of one of Sluice's topics.
func (c Config) Topic(name string) string { return c.TopicPrefix + name }

// options are what every client of one Config shares.
func (c Config) options(client string, log *slog.Logger) ([]kgo.Opt, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
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
		roots, err := c.roots()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}))
	}
	switch c.SASL {
	case "PLAIN":
		opts = append(opts, kgo.SASL(plain.Auth{User: c.User, Pass: c.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		opts = append(opts, kgo.SASL(scram.Auth{User: c.User, Pass: c.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		opts = append(opts, kgo.SASL(scram.Auth{User: c.User, Pass: c.Password}.AsSha512Mechanism()))
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

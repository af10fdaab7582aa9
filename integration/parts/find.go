package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"sluice/integration/real"
)

// parts are the two servers, as settings for the command that uses them.
type parts struct {
	settings []string
	closers  []func() error
}

func (p *parts) add(name, value string) { p.settings = append(p.settings, name+"="+value) }

func (p *parts) close() {
	var all sync.WaitGroup
	for _, shut := range p.closers {
		all.Go(func() {
			if err := shut(); err != nil {
				fmt.Fprintf(os.Stderr, "parts: %v\n", err)
			}
		})
	}
	all.Wait()
}

// find starts both servers at once. The parts are to be closed also on an error.
func find(ctx context.Context) (*parts, error) {
	var kafka, postgres parts
	var kafkaErr, postgresErr error
	var both sync.WaitGroup
	both.Go(func() { kafkaErr = findKafka(ctx, &kafka) })
	both.Go(func() { postgresErr = findPostgres(ctx, &postgres) })
	both.Wait()
	found := &parts{
		settings: append(kafka.settings, postgres.settings...),
		closers:  append(kafka.closers, postgres.closers...),
	}
	// What the Docker client was told about this machine holds for the command too.
	for _, name := range []string{"TESTCONTAINERS_HOST_OVERRIDE", "TESTCONTAINERS_RYUK_DISABLED"} {
		if value := os.Getenv(name); value != "" {
			found.add(name, value)
		}
	}
	if err := errors.Join(kafkaErr, postgresErr); err != nil {
		return found, fmt.Errorf("%w\nWhat brings them: `make images` builds or fetches what this machine can use; "+
			"on Debian, `sudo .ci/install` installs it first; or set KAFKA_BROKERS and DATABASE_URL to servers that you have", err)
	}
	return found, nil
}

func findKafka(ctx context.Context, p *parts) error {
	if brokers := os.Getenv("KAFKA_BROKERS"); brokers != "" {
		if err := answersWithin(ctx, func(ctx context.Context) error { return real.PingKafka(ctx, brokers) }); err != nil {
			return fmt.Errorf("KAFKA_BROKERS=%s does not answer: %w; start it, or unset the variable", brokers, err)
		}
		report("Kafka", real.Environment, brokers, "KAFKA_BROKERS")
		p.add("KAFKA_BROKERS", brokers)
		p.add("SLUICE_TEST_KAFKA_PART", string(real.Environment))
		return nil
	}
	kafka, err := real.StartKafka(ctx, real.KafkaOptions{})
	if err != nil {
		return err
	}
	p.closers = append(p.closers, kafka.Close)
	report("Kafka", kafka.Kind(), kafka.Brokers(), kafka.Origin())
	p.add("KAFKA_BROKERS", kafka.Brokers())
	p.add("SLUICE_TEST_KAFKA_PART", string(kafka.Kind()))
	// Only some tests need the tools, and those say so.
	if tools, err := kafka.Tools(); err == nil {
		p.add("SLUICE_TEST_KAFKA_TOOLS", tools)
	}
	return nil
}

func findPostgres(ctx context.Context, p *parts) error {
	if url := os.Getenv("DATABASE_URL"); url != "" {
		if err := answersWithin(ctx, func(ctx context.Context) error { return real.PingPostgres(ctx, url) }); err != nil {
			return fmt.Errorf("DATABASE_URL does not answer: %w; start the server, or unset the variable", err)
		}
		report("PostgreSQL", real.Environment, "an address that is not shown", "DATABASE_URL")
		p.add("DATABASE_URL", url)
		p.add("SLUICE_TEST_POSTGRES_PART", string(real.Environment))
		return nil
	}
	server, err := real.StartPostgres(ctx, real.PostgresOptions{})
	if err != nil {
		return err
	}
	p.closers = append(p.closers, server.Close)
	report("PostgreSQL", server.Kind(), server.URL(), server.Origin())
	p.add("DATABASE_URL", server.URL())
	p.add("SLUICE_TEST_POSTGRES_PART", string(server.Kind()))
	return nil
}

func report(name string, kind real.Kind, address, origin string) {
	fmt.Fprintf(os.Stderr, "parts: %s from %s (%s) at %s\n", name, kind, origin, address)
}

func answersWithin(ctx context.Context, ping func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return ping(ctx)
}

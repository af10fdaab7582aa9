package dev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sluice/pkg/kafka"
	"sluice/services/sluice/child"
	"sluice/services/sluice/port"
)

// Broker is the development broker as a child process: a fault in it must not
// take the roles with it, and in one process with them it slowed ingress by a
// tenth (measured 2026-11).
type Broker struct {
	// Addr is where clients connect.
	Addr    string
	process *child.Child
	log     *os.File
}

// preferredBrokerPort is Kafka's own.
const preferredBrokerPort = 9092

// StartBroker runs `program broker` and returns when it answers.
func StartBroker(ctx context.Context, d *Dir, program string) (*Broker, error) {
	at, err := port.Choose(d.Path("broker.port"), preferredBrokerPort)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(d.Path("broker.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the broker's log: %w", err)
	}
	// Not bound to ctx: Stop ends it, after its clients.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, "broker", "--data-dir", d.Path("broker"), "--port", strconv.Itoa(at))
	cmd.Stdout, cmd.Stderr = log, log
	process, err := child.Start(cmd, syscall.SIGTERM)
	if err != nil {
		_ = log.Close()
		return nil, err
	}
	b := &Broker{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(at)), process: process, log: log}
	if err := b.wait(ctx); err != nil {
		_ = b.Stop()
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("%w\nits log says:\n%s", err, strings.TrimSpace(string(text)))
	}
	return b, nil
}

func (b *Broker) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	quiet := slog.New(slog.DiscardHandler)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := kafka.Reach(ctx, kafka.Config{Brokers: []string{b.Addr}}, quiet)
		if err == nil {
			return nil
		}
		select {
		case <-b.process.Done():
			return fmt.Errorf("the development broker ended: %w", errors.Join(b.process.Err(), err))
		case <-ctx.Done():
			return fmt.Errorf("the development broker does not answer: %w", err)
		case <-tick.C:
		}
	}
}

// Done is closed when the broker has ended, asked or not.
func (b *Broker) Done() <-chan struct{} { return b.process.Done() }

// Stop lets the broker write everything out and end.
func (b *Broker) Stop() error {
	defer func() { _ = b.log.Close() }()
	return b.process.Stop(30 * time.Second)
}

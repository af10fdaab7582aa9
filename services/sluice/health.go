package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"sluice/pkg/daemon"
)

type healthCmd struct {
	Timeout time.Duration `help:"How long to wait for the answer." default:"2s"`
}

func (healthCmd) Help() string {
	return `Asks the process at SLUICE_ADMIN_ADDRESS whether its roles are ready; exits with 1 if not. For health checks
of containers that have no other program.

Example:
  SLUICE_ADMIN_ADDRESS=:9090 sluice health`
}

func (h healthCmd) Run(ctx context.Context, c *console) error {
	cfg, err := read[daemon.Config](processEnvironment())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	report, ready, err := askReady(ctx, cfg.Admin)
	if err != nil {
		return err
	}
	if !ready {
		return fmt.Errorf("not ready: %s", strings.ReplaceAll(report, "\n", "; "))
	}
	_, err = fmt.Fprintln(c.out, report)
	return err
}

// askReady asks an admin address (host:port or :port) how its roles are.
func askReady(ctx context.Context, admin string) (report string, ready bool, err error) {
	host, number, err := net.SplitHostPort(admin)
	if err != nil {
		return "", false, fmt.Errorf("SLUICE_ADMIN_ADDRESS must be host:port or :port: %w", err)
	}
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, number)+"/readyz", nil)
	if err != nil {
		return "", false, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", false, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	return strings.TrimSpace(string(text)), resp.StatusCode == http.StatusOK, err
}

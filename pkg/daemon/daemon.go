// Package daemon is what every role needs around its work: start, wait for
// dependencies, say how it is, drain and stop.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config is the part of a process that all roles share.
type Config struct {
	// Admin is the address of /livez, /readyz, /metrics, /docs/ and /debug/pprof; keep
	// it away from the public. Empty: none.
	Admin string `env:"SLUICE_ADMIN_ADDRESS" envDefault:"127.0.0.1:9090" help:"health, metrics and profiles; keep it from the public; empty: none"`
	// Grace is how long the roles may drain after a stop was asked for.
	Grace time.Duration `env:"SLUICE_GRACE" envDefault:"25s" help:"how long the roles may drain at a stop"`
	Log   LogConfig
}

// Check says everything that is wrong with the settings.
func (c Config) Check() error {
	var problems []error
	if c.Admin != "" {
		problems = append(problems, CheckAddress("SLUICE_ADMIN_ADDRESS", c.Admin))
	}
	if c.Grace < 0 {
		problems = append(problems, errors.New("SLUICE_GRACE is negative"))
	}
	_, err := NewLog(c.Log, nil)
	return errors.Join(append(problems, err)...)
}

// CheckAddress says whether the setting of that name is an address to listen on.
func CheckAddress(name, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%s is %q; it must be host:port or :port", name, address)
	}
	return nil
}

// Worker is a started role.
type Worker interface {
	// Run works until ctx is cancelled, then drains; nil if the drain was clean.
	Run(ctx context.Context) error
	// Ready is nil while the role can do its work.
	Ready() error
}

// Role is one role of a process. Start makes its worker; it may wait for
// dependencies (see Wait), and the role is not ready until it returns.
type Role struct {
	Name  string
	Start func(ctx context.Context) (Worker, error)
}

// ErrGrace means that a role was still draining when the grace period ended.
var ErrGrace = errors.New("drain did not end within the grace period")

// Run starts all roles and works until ctx is cancelled (see Notify) or one of
// them fails, which stops the others. The admin address answers from before the
// first role starts until after the last one has drained. It returns nil only if
// every role drained cleanly within the grace period.
func Run(ctx context.Context, cfg Config, log *slog.Logger, reg *prometheus.Registry, roles ...Role) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	h := &health{roles: make([]roleHealth, len(roles))}
	for i, r := range roles {
		h.roles[i] = roleHealth{name: r.Name}
	}
	if cfg.Admin != "" {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Admin)
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("listen on SLUICE_ADMIN_ADDRESS: %w; give each process its own SLUICE_ADMIN_ADDRESS, or run several roles in one with `sluice run`", err)
		}
		if err != nil {
			return fmt.Errorf("listen on SLUICE_ADMIN_ADDRESS: %w", err)
		}
		srv := newAdmin(h, reg)
		go func() { _ = srv.Serve(l) }()
		defer func() { _ = srv.Close() }()
		log.Info("admin address open", "address", l.Addr().String())
	}

	var (
		mu       sync.Mutex
		failures []error
		running  = map[string]bool{}
		wg       sync.WaitGroup
	)
	for _, r := range roles {
		running[r.Name] = true
	}
	for i, r := range roles {
		wg.Go(func() {
			err := run(ctx, r, func(w Worker) { h.started(i, w) })
			mu.Lock()
			defer mu.Unlock()
			delete(running, r.Name)
			if err != nil {
				failures = append(failures, fmt.Errorf("%s: %w", r.Name, err))
			}
			stop()
		})
	}
	drained := make(chan struct{})
	go func() { wg.Wait(); close(drained) }()

	<-ctx.Done()
	h.stop()
	log.Info("stopping", "grace", cfg.Grace.String())
	select {
	case <-drained:
	case <-time.After(cfg.Grace):
	}
	mu.Lock()
	defer mu.Unlock()
	if len(running) > 0 {
		var names []string
		for name := range running {
			names = append(names, name)
		}
		failures = append(failures, fmt.Errorf("%w: %s", ErrGrace, strings.Join(names, ", ")))
	}
	return errors.Join(failures...)
}

// run takes one role from start to drained.
func run(ctx context.Context, r Role, started func(Worker)) error {
	w, err := r.Start(ctx)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil // stopped while it was starting: nothing to drain
		}
		return err
	}
	started(w)
	err = w.Run(ctx)
	if err == nil && ctx.Err() == nil {
		return errors.New("ended by itself")
	}
	return err
}

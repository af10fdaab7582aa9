package daemon

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// Notify returns a context that the first SIGTERM or SIGINT cancels. The second
// one ends the process at once with code 1. Call stop when the work is done.
func Notify(ctx context.Context, log *slog.Logger) (_ context.Context, stop context.CancelFunc) {
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, syscall.SIGTERM, syscall.SIGINT)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go watch(ch, ended, log, cancel, os.Exit)
	return ctx, func() {
		signal.Stop(ch)
		close(ended)
		cancel()
	}
}

func watch(ch <-chan os.Signal, ended <-chan struct{}, log *slog.Logger, cancel func(), exit func(int)) {
	for first := true; ; first = false {
		select {
		case s := <-ch:
			if !first {
				log.Error("second signal: leaving at once", "signal", s.String())
				exit(1)
				return
			}
			log.Info("signal: draining", "signal", s.String())
			cancel()
		case <-ended:
			return
		}
	}
}

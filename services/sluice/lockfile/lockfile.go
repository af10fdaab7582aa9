// Package lockfile keeps two programs out of one directory.
package lockfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// ErrTaken: another process holds the lock.
var ErrTaken = errors.New("already in use")

// Take locks path until the file it returns is closed or the process ends. It
// waits for another holder until ctx ends, then returns ErrTaken and the
// holder's process id.
func Take(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for !lock(f) {
		select {
		case <-ctx.Done():
			holder, _ := os.ReadFile(path)
			_ = f.Close()
			return nil, fmt.Errorf("%w by process %s", ErrTaken, strings.TrimSpace(string(holder)))
		case <-retry.C:
		}
	}
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintln(f, os.Getpid())
	}
	return f, nil
}

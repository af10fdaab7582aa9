// Package child runs the development parts as child processes: they stop when
// told to, and they never outlive their parent.
package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// Child is a running process.
type Child struct {
	cmd  *exec.Cmd
	stop os.Signal
	done chan struct{}
	err  error
}

// Start starts cmd in a process group of its own, so that the Ctrl-C of a
// terminal reaches only the parent, which stops its children last. stop is the
// signal that ends it cleanly; on Linux the child gets it also when the parent
// dies without a word.
func Start(cmd *exec.Cmd, stop os.Signal) (*Child, error) {
	c := &Child{cmd: cmd, stop: stop, done: make(chan struct{})}
	detach(cmd, stop)
	started := make(chan error)
	go func() {
		// The death signal is sent when the thread that started the child ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return c, nil
}

// Done is closed when the process has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err is how it ended; only valid after Done.
func (c *Child) Err() error { return c.err }

// Stop asks the process to end and waits for it; after grace it is killed.
func (c *Child) Stop(grace time.Duration) error {
	if err := c.cmd.Process.Signal(c.stop); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", c.cmd.Path, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		_ = c.cmd.Process.Kill()
		<-c.done
		return fmt.Errorf("stop %s: it took longer than %v and was killed", c.cmd.Path, grace)
	}
}

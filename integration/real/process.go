package real

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// process is a host that is a process of this machine with its children.
type process struct {
	command    []string
	env        []string
	folder     string // everything that remove deletes
	stopSignal syscall.Signal
	user       *syscall.Credential // nil: ours

	current *exec.Cmd
	exited  chan struct{}
}

func (p *process) logFile() string { return filepath.Join(p.folder, "log") }

func (p *process) start(ctx context.Context) error {
	// Append: the story before a kill is needed to understand the one after it.
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	// The server outlives the call, and so the context, that started it.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), p.command[0], p.command[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = p.env, p.folder, log, log
	cmd.SysProcAttr = attributes(p.user, p.stopSignal)
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	p.current, p.exited = cmd, exited
	go func() {
		_ = cmd.Wait() // Why it ended is in its log.
		close(exited)
	}()
	return nil
}

func (p *process) running(context.Context) bool {
	if p.exited == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

func (p *process) stop(ctx context.Context) error {
	if !p.running(ctx) {
		return nil
	}
	if err := p.current.Process.Signal(p.stopSignal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.awaitExit(ctx)
}

func (p *process) kill(ctx context.Context) error {
	if !p.running(ctx) {
		return nil
	}
	// The whole family, as when a machine dies: PostgreSQL's backends would
	// otherwise notice their postmaster's death and still do things.
	if err := signalFamily(p.current.Process.Pid, syscall.SIGSTOP); err != nil {
		return err
	}
	members := family(p.current.Process.Pid)
	if err := signalFamily(p.current.Process.Pid, syscall.SIGKILL); err != nil {
		return err
	}
	if err := p.awaitExit(ctx); err != nil {
		return err
	}
	return awaitEnd(ctx, members)
}

// awaitEnd waits until processes are no more. On a busy machine one that was killed
// takes a while to die, and a new PostgreSQL refuses the memory that it still holds.
func awaitEnd(ctx context.Context, members []int) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for slices.ContainsFunc(members, alive) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

func (p *process) pause(ctx context.Context) error {
	if !p.running(ctx) {
		return errors.New("it is not running")
	}
	return signalFamily(p.current.Process.Pid, syscall.SIGSTOP)
}

func (p *process) unpause(context.Context) error {
	return signalFamily(p.current.Process.Pid, syscall.SIGCONT)
}

func (p *process) remove(ctx context.Context) error {
	return errors.Join(p.kill(ctx), os.RemoveAll(p.folder))
}

func (p *process) awaitExit(ctx context.Context) error {
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Minute):
		return fmt.Errorf("process %d still runs one minute after the signal", p.current.Process.Pid)
	}
}

func (p *process) log(context.Context) string {
	text, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

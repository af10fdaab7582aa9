// Command parts gives a command the Apache Kafka and PostgreSQL that it needs:
//
//	go run ./integration/parts -- go test ./integration/...
//
// It takes them from the addresses in KAFKA_BROKERS and DATABASE_URL, else from
// Docker, else from programs of this machine, and says which. Without a command
// it stays up and prints what to export.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "parts: %v\n", err)
	}
	os.Exit(code)
}

func run(args []string) (int, error) {
	command, err := commandOf(args)
	if err != nil {
		return 2, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go endWithGoRun(stop)

	parts, err := find(ctx)
	defer parts.close()
	if err != nil {
		return 1, err
	}
	if len(command) == 0 {
		for _, setting := range parts.settings {
			name, value, _ := strings.Cut(setting, "=")
			fmt.Printf("export %s='%s'\n", name, value)
		}
		fmt.Fprintln(os.Stderr, "parts: they stay up until Ctrl-C")
		<-ctx.Done()
		return 0, nil
	}
	return execute(ctx, command, append(os.Environ(), parts.settings...))
}

// commandOf also takes a command without the dashes: `parts go test`.
func commandOf(args []string) ([]string, error) {
	if len(args) > 0 && args[0] == "--" {
		return args[1:], nil
	}
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		return nil, errors.New("it has no flags; usage: go run ./integration/parts [-- command argument...]")
	}
	return args, nil
}

// execute runs the command and returns its exit code.
func execute(ctx context.Context, command, env []string) (int, error) {
	// A cancelled context does not kill it: it gets a signal, and time to end, below.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, os.Stdout, os.Stderr
	// A group of its own: a terminal's Ctrl-C reaches us only, and we pass it on
	// once, to all of `go test` and the test binaries under it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return 127, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	interrupted := ctx.Done()
	var giveUp <-chan time.Time
	for {
		select {
		case err := <-ended:
			// What the command left running must not keep the servers' ports.
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // Mostly there is nothing left.
			return exitCode(cmd, err)
		case <-interrupted:
			interrupted, giveUp = nil, time.After(20*time.Second)
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // It may have ended just now.
		case <-giveUp:
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	}
}

func exitCode(cmd *exec.Cmd, err error) (int, error) {
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return 1, err
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signal() > 0 {
		return 128 + int(status.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// endWithGoRun ends us when `go run` is killed, which tells its program nothing:
// servers would stay behind.
func endWithGoRun(stop context.CancelFunc) {
	program, err := os.Executable()
	if err != nil || !strings.Contains(program, "go-build") {
		return
	}
	for parent := os.Getppid(); os.Getppid() == parent; {
		time.Sleep(time.Second)
	}
	stop()
}

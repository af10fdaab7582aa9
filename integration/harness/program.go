// Package harness drives the built program from outside, as its users do: HTTP
// in, topics and tables out, signals to its processes.
package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program builds ./services/sluice once for the test process.
var program = sync.OnceValues(func() (string, error) {
	if p := os.Getenv("SLUICE_TEST_PROGRAM"); p != "" {
		return p, nil
	}
	dir, err := os.MkdirTemp("", "sluice-program-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "sluice")
	build := exec.Command("go", "build", "-o", bin, "./services/sluice")
	build.Dir = Root()
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return bin, nil
})

// Program is the path of the built program.
func Program(t testing.TB) string {
	t.Helper()
	p, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Root is the top of the source tree.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Process is one running `sluice …`.
type Process struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	// Address is where its role listens, Admin its admin address; "" if none.
	Address, Admin string

	output *lockedBuffer
	done   chan struct{}
	err    error
}

// Start runs the program with args and env (NAME=value, after the process's own)
// and ends it, hard if need be, when t ends. Its output is shown if t fails.
func Start(t testing.TB, env []string, args ...string) *Process {
	t.Helper()
	return StartProgram(t, Program(t), env, args...)
}

// StartProgram is Start for the program at path.
func StartProgram(t testing.TB, path string, env []string, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, name: args[0], cmd: exec.Command(path, args...), output: &lockedBuffer{}, done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start sluice %v: %v", args, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("output of sluice %v:\n%s", args, tail(p.output.String(), 6000))
		}
	})
	return p
}

// Ready waits until the process says it is ready.
func (p *Process) Ready() *Process {
	p.t.Helper()
	Eventually(p.t, "sluice "+p.name+" is ready", 30*time.Second, func() error {
		select {
		case <-p.done:
			p.t.Fatalf("sluice %s ended before it was ready: %v\n%s", p.name, p.err, p.output)
		default:
		}
		return p.IsReady()
	})
	return p
}

// IsReady is nil if /readyz answers 200 now.
func (p *Process) IsReady() error {
	res, err := http.Get("http://" + p.Admin + "/readyz")
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %d", res.StatusCode)
	}
	return nil
}

// Kill ends it as a crash does: SIGKILL, and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Signal sends sig.
func (p *Process) Signal(sig os.Signal) { _ = p.cmd.Process.Signal(sig) }

// Pause stops it as a frozen machine does; Resume lets it go on.
func (p *Process) Pause()  { p.Signal(syscall.SIGSTOP) }
func (p *Process) Resume() { p.Signal(syscall.SIGCONT) }

// Stop asks it to drain (SIGTERM) and returns its exit code.
func (p *Process) Stop() int {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	return p.Wait(40 * time.Second)
}

// Wait waits for its end and returns the exit code.
func (p *Process) Wait(limit time.Duration) int {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	select {
	case <-p.done:
	case <-ctx.Done():
		p.t.Fatalf("sluice %s did not end within %s", p.name, limit)
	}
	var exit *exec.ExitError
	if errors.As(p.err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// PeakMemory is the most memory it ever had in RAM, in bytes (VmHWM); 0 where
// the system does not say.
func (p *Process) PeakMemory() int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0
	}
	var kib int64
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			break
		}
	}
	return kib << 10
}

// CPU is the processor time it has used, in all threads; 0 where the system does
// not say.
func (p *Process) CPU() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return 0
	}
	// The program's name, in brackets, may hold spaces; utime and stime are the
	// 12th and 13th field after it, in hundredths of a second.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	var user, system int64
	_, _ = fmt.Sscan(fields[11], &user)
	_, _ = fmt.Sscan(fields[12], &system)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// Output is all it wrote so far.
func (p *Process) Output() string { return p.output.String() }

// FreeAddress is a loopback address nobody listens on.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// Eventually calls try until it returns nil, and fails t after limit with its
// last answer.
func Eventually(t testing.TB, what string, limit time.Duration, try func() error) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within %s: %s: %v", limit, what, err)
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

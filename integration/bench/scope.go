package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"testing"
)

// scope is a testing.TB outside of `go test`, so that the benchmarks drive the
// program with the harness of the tests. What it does not define panics.
type scope struct {
	testing.TB
	name     string
	ctx      context.Context
	cleanups []func()
	failures []string
}

// stopped is what Fatal throws to leave the measure.
type stopped struct{}

// within runs do and then, newest first, what it asked to have cleaned up. The
// error says everything that failed.
func within(ctx context.Context, name string, do func(t *scope)) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &scope{name: name, ctx: ctx}
	s.guard(func() { do(s) })
	cancel()
	for _, clean := range slices.Backward(s.cleanups) {
		s.guard(clean)
	}
	if len(s.failures) > 0 {
		return fmt.Errorf("%s: %s", name, s.failures)
	}
	return nil
}

func (s *scope) guard(do func()) {
	defer func() {
		switch v := recover().(type) {
		case nil, stopped:
		default:
			s.failures = append(s.failures, fmt.Sprintf("panic: %v\n%s", v, debug.Stack()))
		}
	}()
	do()
}

func (s *scope) Name() string             { return s.name }
func (s *scope) Context() context.Context { return s.ctx }
func (s *scope) Helper()                  {}
func (s *scope) Failed() bool             { return len(s.failures) > 0 }
func (s *scope) Cleanup(do func())        { s.cleanups = append(s.cleanups, do) }

func (s *scope) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (s *scope) Error(args ...any) { s.failures = append(s.failures, fmt.Sprint(args...)) }
func (s *scope) Errorf(format string, args ...any) {
	s.failures = append(s.failures, fmt.Sprintf(format, args...))
}

func (s *scope) Fatal(args ...any) {
	s.Error(args...)
	panic(stopped{})
}

func (s *scope) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	panic(stopped{})
}

func (s *scope) TempDir() string {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		s.Fatalf("make a folder: %v", err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

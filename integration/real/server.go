package real

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// startLimit is generous: a JVM on a busy two-core machine needs 10 s.
const startLimit = 90 * time.Second

// host is what a server runs in: a container or a process.
type host interface {
	start(context.Context) error // again, after stop or kill
	stop(context.Context) error  // as an operator would
	kill(context.Context) error
	pause(context.Context) error
	unpause(context.Context) error
	remove(context.Context) error // with its data
	running(context.Context) bool
	log(context.Context) string
}

// Server is what Kafka and Postgres have in common. Its methods may be called
// from several goroutines, one after the other.
type Server struct {
	name, origin string
	kind         Kind
	host         host
	ready        func(context.Context) error

	mu     sync.Mutex
	paused bool
	// onClose removes what was made beside the server.
	onClose []func()
}

// Kind says what the server runs on.
func (s *Server) Kind() Kind { return s.kind }

// Origin names the image or the program that runs, for people.
func (s *Server) Origin() string { return s.origin }

// Log returns what the server has written so far.
func (s *Server) Log(ctx context.Context) string { return s.host.log(ctx) }

// Pause freezes the server: its connections stay open and nothing answers.
func (s *Server) Pause(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.host.pause(ctx); err != nil {
		return fmt.Errorf("pause %s: %w", s.name, err)
	}
	s.paused = true
	return nil
}

// Unpause lets a frozen server go on where it was.
func (s *Server) Unpause(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.thaw(ctx)
}

// Kill ends every process of the server with SIGKILL. Its data stays.
func (s *Server) Kill(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.thaw(ctx); err != nil {
		return err
	}
	if err := s.host.kill(ctx); err != nil {
		return fmt.Errorf("kill %s: %w", s.name, err)
	}
	return nil
}

// Stop ends the server as an operator would. Its data stays.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.halt(ctx)
}

// Restart starts the server again on the same port and data, after a Kill or a
// Stop, or stopping it first. It returns when the server answers.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.host.running(ctx) {
		if err := s.halt(ctx); err != nil {
			return err
		}
	}
	if err := s.host.start(ctx); err != nil {
		return fmt.Errorf("start %s again: %w", s.name, err)
	}
	return s.awaitReady(ctx)
}

// Close ends the server and removes its data.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Not the caller's context: cleaning up has to work when that is cancelled.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, remove := range s.onClose {
		remove()
	}
	if s.paused {
		_ = s.thaw(ctx) // A frozen container can not be removed everywhere.
	}
	if err := s.host.remove(ctx); err != nil {
		return fmt.Errorf("remove %s: %w", s.name, err)
	}
	return nil
}

func (s *Server) halt(ctx context.Context) error {
	if err := s.thaw(ctx); err != nil {
		return err
	}
	if err := s.host.stop(ctx); err != nil {
		return fmt.Errorf("stop %s: %w", s.name, err)
	}
	return nil
}

func (s *Server) thaw(ctx context.Context) error {
	if !s.paused {
		return nil
	}
	if err := s.host.unpause(ctx); err != nil {
		return fmt.Errorf("unpause %s: %w", s.name, err)
	}
	s.paused = false
	return nil
}

// awaitReady returns when the server answers, or with the end of its log when
// it exits or takes too long.
func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		try, stopTrying := context.WithTimeout(ctx, 5*time.Second)
		err := s.ready(try)
		stopTrying()
		if err == nil {
			return nil
		}
		if !s.host.running(ctx) && ctx.Err() == nil {
			return fmt.Errorf("%s exited while starting; the end of its log:\n%s", s.name, lastLines(s.host.log(ctx)))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer (%w); the end of its log:\n%s",
				s.name, err, lastLines(s.host.log(context.WithoutCancel(ctx))))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
